"""Beam search against greedy decoding: both decode the same texts; runs that do not translate are refused."""

import json

import numpy as np
import pytest

import npformer as npf
from benchmarks import beam
from npformer.cli.main import main as npformer
from tests.cli.conftest import TINY, assignments


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two small runs: one model translates, the other classifies languages."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPFORMER_CACHE", str(root / "cache"))
        for task, more in (("copy", {"max_length": 4}), ("language", {"count": 20})):
            words = assignments(TINY | more)
            assert npformer(["train", task, "--out", str(root / task), *words]) == 0
        yield root


def test_both_ways_decode_every_text_in_each_round(monkeypatch):
    seen = []
    monkeypatch.setattr(npf, "greedy", lambda model, part, max_len: seen.append(("greedy", len(part))))
    monkeypatch.setattr(npf, "beam_search", lambda model, part, max_len, beam: seen.append((f"beam {beam}", len(part))))
    result = beam.compared(None, np.ones((5, 3)), 2, 3, beam=4, max_len=7)  # type: ignore[arg-type]
    once = [("greedy", 2), ("greedy", 2), ("greedy", 1), ("beam 4", 2), ("beam 4", 2), ("beam 4", 1)]
    assert seen == once * 4, "one round to warm up, and three"
    assert 0 < result["ratio"]["low"] <= result["ratio"]["median"] <= result["ratio"]["high"]


def test_a_run_is_measured(runs, call):
    line = f"{runs}/copy --texts 6 --batch 2,6 --rounds 2 --max-len 5"
    assert [row.split()[0] for row in call(beam.main, line).fine().lines[-2:]] == ["2", "6"]
    document = call(beam.main, f"{line} --json --save {runs}/beam.json").fine().document
    assert document == json.loads((runs / "beam.json").read_text())
    assert document["run"] == "copy"
    assert [row["batch"] for row in document["results"]] == [2, 6]
    assert all(row["beam"] > 0 < row["greedy"] for row in document["results"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("language", "expected a run whose model translates, such as numbers, got Encoder"),
        ("copy --rounds 0", "--rounds: expected an integer >= 1, got 0"),
        ("copy --batch 0", "--batch: expected 1 <= number < 4097, got 0"),
        ("nowhere", "nowhere"),
        ("copy --save nowhere/x.json", "--save: expected a .json file in an existing folder"),
    ],
)
def test_what_cannot_be_measured_is_refused(line, message, runs, refused):
    assert message in refused(beam.main, f"{runs}/{line}")
