"""Every script in examples/ runs, and its table agrees with its text."""

import runpy
from pathlib import Path

import numpy as np

import npformer as npf
from npformer.cli.main import main as npformer
from tests.cli.conftest import TINY, assignments

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def output_of(script, capsys):
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_one_gradient_is_right_and_the_other_wrong(capsys):
    rows = [line for line in output_of("one_gradient.py", capsys) if line.startswith("x ")]
    assert ["right" in rows[0], "WRONG" in rows[1]] == [True, True]


def test_the_forgotten_path_makes_only_dx_wrong(capsys):
    rows = [line for line in output_of("own_layer.py", capsys) if "right" in line or "WRONG" in line]
    assert [line.split()[0] for line in rows if "WRONG" in line] == ["x"]
    assert len(rows) == 10


def test_a_run_is_drawn_for_a_word(tmp_path, monkeypatch, capsys):
    options = assignments(TINY | {"steps": 2, "kernels": "numpy"})
    assert npformer(["train", "reverse", "--out", str(tmp_path / "run"), *options]) == 0
    capsys.readouterr()
    picture = tmp_path / "word.svg"
    monkeypatch.setattr("sys.argv", ["word_attention.py", str(tmp_path / "run"), "backward", str(picture)])
    output_of("word_attention.py", capsys)
    assert picture.read_bytes().startswith(b"<svg ")


def test_a_layer_trained_by_hand_writes_words_backwards(capsys):
    (line,) = output_of("train_by_hand.py", capsys)
    assert float(line.partition("; ")[2].rpartition("; ")[2].partition("%")[0]) > 99


def test_the_gradients_written_by_hand_are_right():
    from examples import train_by_hand as page

    rng = np.random.default_rng(3)
    names, tokens = list(page.new_parameters(rng)), rng.integers(0, page.V, (2, page.T))
    values = [value + 0.1 * rng.normal(size=value.shape) for value in page.new_parameters(rng).values()]

    def forward(*values):
        return page.forward(dict(zip(names, values, strict=True)), tokens)

    def backward(dlogits, caches):
        g = page.backward(dlogits, caches)
        return tuple(g[name] for name in names)

    npf.gradcheck((forward, backward), *values, elementwise=False).raise_if_failed()
