"""npformer tolerance: lines to paste, a tolerance that is tried, and its exit codes."""

import pytest

FILE = """
import numpy as np
import npformer as npf

def pair():
    f = npf.functional
    x = np.random.default_rng(0).normal(size=(4, 16))
    return (f.layer_norm_forward, f.layer_norm_backward), (x, np.full(16, 1.1), np.full(16, 0.1))

def sampled():
    f = npf.functional
    options = {"sample": lambda rng: (rng.normal(size=(2, 3)),)}
    return (f.softmax_forward, f.softmax_backward), (np.ones((2, 3)),), options
"""


@pytest.fixture
def mine(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FILE, encoding="utf-8")


def test_the_lines(cli, mine):
    lines = cli("tolerance mine.py:pair --precision bfloat16").fine().lines
    assert lines[0].startswith("# layer_norm in bfloat16;")
    assert [line.partition("(")[2].partition(",")[0] for line in lines[1:9]] == 2 * ["y", "dx", "dgamma", "dbeta"]
    assert any(line.startswith("# dx: an error of") and "- along_one" in line for line in lines)


def test_a_tolerance_that_hides_a_term_or_is_too_tight_fails(cli, mine):
    document = cli("tolerance mine.py:pair --atol 2 --rtol 2 --json").document
    assert not document["ok"]
    assert "- along_one" in document["rows"][1]["hidden"]
    outcome = cli("tolerance mine.py:pair --rtol 1e-9")
    assert outcome.code == 1
    assert "TOO TIGHT" in outcome.out


def test_sample_of_the_file_is_used(cli, mine):
    assert cli("tolerance mine.py:sampled --json").fine().document["rows"][1]["variable"] == "dx"


def test_what_is_refused(cli, mine):
    cli("tolerance none.py").refused("there is no file 'none.py'")
    cli("tolerance mine.py:pair --atol -1").refused("atol, rtol: expected two finite numbers >= 0, got -1.0 and 0.0")
