"""Every block of docs/check_your_own_kernel.md runs, and its tables name what there is."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npformer as npf
import npformer.check
from npformer.check import report as reports
from npformer.check.regimes import KINDS, REGIMES
from npformer.cli.gradcheck import EXAMPLES
from tests.check.functions import square
from tests.markdown import ROOT, blocks, text_of

PAGE = "docs/check_your_own_kernel.md"
TEXT = text_of(PAGE)
FIRST, *BLOCKS = blocks("python", TEXT)
#: Packages without which a block is skipped.
OPTIONAL = ("jax", "torch")


def title(block):
    """The heading under which a block stands, and its number."""
    before = TEXT[: TEXT.index(block)]
    heading = re.findall(r"^##+ (.*)$", before, re.M)[-1]
    return f"{heading}, block {before.count('```python')}"


def is_a_test_file(block):
    return "def test_" in block


PLAIN_BLOCK = pytest.mark.parametrize("block", [each for each in BLOCKS if not is_a_test_file(each)], ids=title)


def skip_unless_installed(block):
    for package in OPTIONAL:
        if re.search(rf"^(?:import|from) {package}\b", block, re.M):
            pytest.importorskip(package)


def run(block):
    """The names that are there after the first block and this one."""
    names = {"__name__": "page"}
    for each in (FIRST, block):
        exec(compile(each, PAGE, "exec"), names)
    return names


@PLAIN_BLOCK
def test_a_block_runs(block, monkeypatch):
    monkeypatch.chdir(ROOT)
    skip_unless_installed(block)
    run(block)


def test_a_file_of_tests_passes(tmp_path):
    (block,) = filter(is_a_test_file, BLOCKS)
    (tmp_path / "test_block.py").write_text(block, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "npformer.pytest_plugin", "-p", "no:cacheprovider"]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def with_one_wrong(dy, x, factor=2.0):
    """Gradient of square, of which entry 7 is this many times too large."""
    return 2 * dy * x * np.where(np.arange(x.size) == 7, factor, 1.0)


def beside(largest, size):
    x = np.random.default_rng(0).normal(size=size)
    x[0] = largest
    return x


@pytest.mark.parametrize(("ratio", "verdict"), [(1e12, "WRONG"), (1e15, "right")])
def test_an_entry_is_hidden_beyond_a_ratio_and_counted(ratio, verdict):
    weights = beside(ratio, 100)
    wrong = weights * np.where(np.arange(100) == 7, 2.0, 1.0)
    (row,) = npf.gradcheck((lambda x: (x * weights, None), lambda dy, _: dy * wrong), beside(1.0, 100)).rows
    assert row.verdict == verdict
    assert (row.unjudged > 0) is (verdict == "right")


@pytest.mark.parametrize(
    ("ratio", "elementwise", "verdict"), [(1e9, None, "WRONG"), (1e11, None, "right"), (1e11, True, "WRONG")]
)
def test_an_entry_is_hidden_in_a_large_check(ratio, elementwise, verdict):
    def forward(a, b):
        return (a * a, b * b), (a, b)

    def backward(dy, cache):
        return with_one_wrong(dy[0], cache[0]), 2 * dy[1] * cache[1]

    inputs = beside(ratio, 1000), beside(1.0, 1500)
    report = npf.gradcheck((forward, backward), *inputs, elementwise=elementwise, explain=False)
    assert [row.verdict for row in report.rows] == [verdict, "right"]


@pytest.mark.parametrize(("share", "verdict"), [(3e-9, "WRONG"), (1e-11, "right")])
def test_one_entry_of_a_large_tensor_shows_from_a_share_of_itself_on(share, verdict):
    def backward(dy, x):
        return with_one_wrong(dy, x, 1 + share * x.size)

    (row,) = npf.gradcheck((square, backward), beside(1e9, 3000), explain=False).rows
    assert row.verdict == verdict


@pytest.mark.parametrize(("slope_at_0", "verdict"), [(0.0, "right"), (0.5, "KINK HERE")])
def test_the_middle_of_a_kink_is_called_right(slope_at_0, verdict):
    def backward(dy, x):
        return dy * np.where(x == 0, slope_at_0, np.sign(x))

    (row,) = npf.gradcheck((lambda x: (np.abs(x), x), backward), np.array([0.0, 1.0, -2.0])).rows
    assert row.verdict == verdict


def test_the_page_and_the_help_name_every_regime():
    section = TEXT.partition("## Regimes and sizes")[2]
    for kind, regimes in KINDS.items():
        (row,) = (line for line in section.splitlines() if line.startswith("|") and f'`"{kind}"`' in line)
        assert row.split("|")[2].strip() == ", ".join(regimes)
    assert ", ".join(REGIMES) in " ".join(EXAMPLES.split())


def test_the_shown_table_is_the_one_that_is_printed(capsys):
    """By its names and verdicts: last digits depend on the processor."""
    block = next(block for block in BLOCKS if "print(npf.gradcheck" in block)
    run(block)
    printed = capsys.readouterr().out.splitlines()
    shown = next(text for text in blocks("text", TEXT) if "WRONG" in text).splitlines()
    assert shown[0] == printed[0]
    kept = [(line.split()[0], line.split()[-1]) for line in printed[1 : len(shown)]]
    assert [(line.split()[0], line.split()[-1]) for line in shown[1:]] == kept
    assert shown[1] == printed[1], "the row that is wrong"


def rows_of(heading):
    """What stands between backticks in the first cell of each row of the table under a heading."""
    section = re.split(r"^##+ ", TEXT.partition(f"### {heading}\n")[2], flags=re.M)[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")][2:]
    return [re.findall(r"`([^`]+)`", cell) for cell in cells]


def test_every_verdict_is_explained():
    known = {reports.RIGHT, reports.WRONG, reports.KINK, reports.UNCLEAR, reports.NOTHING}
    assert {word for row in rows_of("Verdicts") for word in row} == known


@pytest.mark.parametrize("heading", ["Problems", "Notes"])
def test_what_is_explained_is_said_somewhere(heading):
    folder = Path(npformer.check.__file__).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    texts = [
        n.value for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    rows = rows_of(heading)
    assert len(rows) >= 7
    assert all(rows), "a row without a phrase"
    missing = [phrase for row in rows for phrase in row if not any(phrase in text for text in texts)]
    assert missing == []
