"""The notebook: it is its script, it runs from top to bottom, and what a notebook's file keeps of it is little.

It needs the extra ``notebook``; elsewhere its tests are skipped, visibly.
"""

import sys
from importlib.util import find_spec

import pytest

from tests.examples.test_examples import EXAMPLES

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("ipykernel", "jupytext", "nbclient"))),
    reason="the kernel of a notebook is missing: pip install -e '.[notebook]'",
)
MOST = 20_000  # characters of an output; a page in a frame may have more


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs cells in a kernel of their own, in an empty folder."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))

    def runs(notebook):
        from nbclient import NotebookClient

        where = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
        return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]

    return runs


def of_cells(*sources):
    """A notebook of these cells."""
    from nbformat import v4

    return v4.new_notebook(cells=list(map(v4.new_code_cell, sources)))


def streams(outputs):
    """What was printed."""
    return "".join(output.get("text", "") for output in outputs)


def test_the_notebook_is_what_its_script_makes():
    import jupytext
    import nbformat

    made = jupytext.read(EXAMPLES / "study.py")
    kept = nbformat.read(EXAMPLES / "study.ipynb", as_version=4)
    told = [[(cell.cell_type, cell.source) for cell in notebook.cells] for notebook in (made, kept)]
    assert told[0] == told[1], "jupytext --to notebook --update --set-kernel python3 examples/study.py"
    assert not any(cell.get("outputs") for cell in kept.cells), "its numbers are those of whoever runs it"


def test_it_runs_from_top_to_bottom_and_each_output_is_small(run):
    import nbformat

    backend, right, wrong, model, claims, trace, training, report = [
        outputs for outputs in run(nbformat.read(EXAMPLES / "study.ipynb", as_version=4)) if outputs
    ]
    ((shown,), (checked,), (found,), (tree,), (claimed,)) = [
        [output.data for output in outputs] for outputs in (backend, right, wrong, model, claims)
    ]
    assert shown["text/plain"].startswith("<Backend numpy")
    assert checked["text/plain"].endswith("right")
    assert found["text/plain"].splitlines()[1].endswith("WRONG")
    assert "missing factor: line 3 of its cell, in forgetful_backward" in found["text/plain"]
    assert "2 × EncoderLayer" in tree["text/plain"]
    assert claimed["text/plain"].splitlines()[-1] == "  13 hold, 0 do not hold, 1 do not apply"
    for one in (shown, checked, found, tree, claimed):
        assert sum(map(len, one.values())) <= MOST
    for (framed,) in (trace, report):
        assert framed.data["text/html"].startswith("<iframe ")
        assert framed.data["text/plain"].count("\n") == 0
    assert "step 300/300  held-out: loss" in streams(training)
    assert len(streams(training)) <= MOST


def test_a_command_in_a_cell_draws_no_bar_though_it_has_a_terminal(run):
    steps = "--set=steps=3 --set=d_model=8 --set=num_heads=2 --set=kernels=numpy --set=final_examples=70"
    terminal, training = map(streams, run(of_cells(
        "import sys\n!{sys.executable} -c 'import sys; print(sys.stderr.isatty())'",
        f"!{{sys.executable}} -m npformer train reverse {steps}",
    )))  # fmt: skip
    assert terminal.strip() == str(sys.platform != "win32")
    assert "step 3/3  held-out: loss" in training
    assert "\r" not in training.replace("\r\n", "\n")
