"""Each question is asked as briefly as possible, and its document and table tell what came out."""

import json
import os
from types import SimpleNamespace

import pytest

from benchmarks import beam, decode, gradcheck_time, page_tables, processes, train_step
from benchmarks.harness import Budget, Child, Measured, contenders
from npformer.cli.main import main as npformer
from tests.cli.conftest import TINY, assignments


def test_train_step_alone(run, tmp_path):
    kept = tmp_path / "train_step.json"
    ended = run("train_step --size tiny --dropout 0 --kernels numpy --against none --rounds 1 --save", kept).fine()
    document = json.loads(kept.read_text())
    assert ended.out.strip() == page_tables.training([{"file": "train_step.json", **document}]).strip()
    assert document["machine"]["command"].startswith("python -m benchmarks.train_step --size tiny --dropout 0 ")
    (result,) = document["results"]
    (row,) = result["contenders"]
    assert (result["size"], result["dropout"], result["precision"]) == ("tiny", 0, "float32")
    assert (row["name"], row["rounds"], row["times_as_fast"]) == ("npformer-numpy", 1, None)
    assert 0 < row["best"] <= row["median"]
    assert 1e6 < row["peak_bytes"] < 1e9
    assert result["bound"]["gflop"] == pytest.approx(1.104, abs=1e-3)
    assert 0 < row["of_bound"] == pytest.approx(result["bound"]["seconds"] / row["median"])
    assert 2 < result["same"]["losses"]["npformer-numpy"] < 10


def test_decode_alone(run):
    """Two kernel tables decode the same tokens."""
    ended = run("decode --size tiny --tokens 5 --batch 2 --kernels numpy,plain --against none --rounds 1 --json")
    (result,) = ended.fine().document["results"]
    assert result["agreement"] == 1
    for row in result["contenders"]:
        assert row["tokens_per_second"] == pytest.approx(2 * 5 / row["median"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two small runs: one model translates, the other classifies languages."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPFORMER_CACHE", str(root / "cache"))
        for task, more in (("copy", {"max_length": 4}), ("language", {"count": 20})):
            assert npformer(["train", task, "--out", str(root / task), *assignments(TINY | more)]) == 0
        yield root


def test_both_searches_of_a_run_are_measured(runs, call):
    document = call(beam.main, f"{runs}/copy --texts 4 --batch 2,4 --rounds 1 --max-len 5 --json").fine().document
    assert document["run"] == "copy"
    assert [row["batch"] for row in document["results"]] == [2, 4]
    assert all(0 < row["ratio"]["low"] <= row["ratio"]["median"] for row in document["results"])
    shown = page_tables.beam([{"file": "x.json", **document}])
    assert shown.count("| copy | 4 |") == 2
    ended = call(beam.main, f"{runs}/language --rounds 1")
    assert ended.code == 2
    assert "expected a run whose model translates, such as numbers, got Encoder" in ended.err


def child(name, loss):
    """As far as comparing losses goes."""
    made = object.__new__(Child)
    made.name, made.facts = name, {"loss": loss}
    return made


def test_a_peer_that_computes_something_else_is_no_peer():
    children = [child("npformer-plain", 3.0), child("torch-fast", 3.000001)]
    turns = {name: Measured([[1.0]], [3.0, 2.9], [(0.0, 0.0)]) for name in ("npformer-plain", "torch-fast")}

    def same(rate, precision="float32"):
        return train_step.same(children, turns, rate, train_step.SAME[precision])

    assert same(0.1)["holds"]
    assert same(0.0)["compared"] == 3
    turns["torch-fast"].values[1] = 2.95  # another second step: another gradient, or another update
    assert same(0.1)["holds"], "with dropout the steps differ anyway"
    assert not same(0.0)["holds"]
    assert same(0.0)["difference"] == pytest.approx(0.05)
    for apart, holds in ((2.9e-3, (False, True)), (3.1e-3, (False, False))):
        children[1] = child("torch-fast", 3.0 + apart)
        assert (same(0.1)["holds"], same(0.1, "tf32")["holds"]) == holds


def test_agreement_counts_tokens_that_all_contenders_chose_and_is_judged_only_in_float32():
    tokens_of = {name: Measured([], [[[5, 6], [7, last]]], []) for name, last in (("a", 8), ("b", 9), ("c", 8))}
    assert decode.agreement(tokens_of) == 0.75
    assert decode.agrees({"agreement": 0.99, "precision": "float32"})
    assert not decode.agrees({"agreement": 0.5, "precision": "float32"})
    assert decode.agrees({"agreement": 0.5, "precision": "tf32"})


def test_slots_in_one_process_compute_the_same(monkeypatch):
    monkeypatch.setattr(processes, "starting", lambda count: [])
    started = processes.entries(
        SimpleNamespace(kernels=["numpy"], torch=False), {"size": "tiny", "dropout": 0.0, "device": "numpy"}, {}
    )
    assert [entry.processes for entry in started] == [1, 1, 2, 2, 2]
    with contenders(started[:2], os.environ) as children:
        result = train_step.measured(children, "tiny", 0.0, "float32", Budget(1.0, 1, 0.01))
    assert result["same"]["holds"]
    assert [row["name"] for row in result["contenders"]] == ["npformer-numpy, alone", "npformer-numpy, alone, 8 slots"]


@pytest.mark.parametrize(("case", "target"), [("first", "sine"), ("ordinary", "layer_norm")])
def test_a_check_is_timed_in_a_process_of_its_own(case, target):
    result = gradcheck_time.measured(case, target, 1)
    assert result["as_expected"], result["report"]
    assert len(result["seconds"]) == 1
    about = {"processor": "P", "date": "D"}
    document = {"benchmark": "gradcheck_time", "file": "x.json", "machine": about, "results": [result]}
    assert f"| {case} | {target} |" in page_tables.checks([document])


@pytest.mark.parametrize(
    ("module", "line", "words"),
    [
        (train_step, "--size huge", "expected names from tiny, small, mid, base, separated by commas, got 'huge'"),
        (train_step, "--dropout 0.1,1", "expected 0 <= number < 1, got 1"),
        (train_step, "--dropout much", "expected numbers separated by commas, got 'much'"),
        (train_step, "--rounds 0", "expected an integer >= 1, got 0"),
        (decode, "--save decode.txt", "expected a .json file in an existing folder, got"),
        (decode, "--kernels cuda", "expected names from numba, numpy, plain"),
    ],
)
def test_bad_options_are_refused(module, line, words, refused):
    assert f"{line.split()[0]}: {words}" in refused(module.main, line)


@pytest.mark.parametrize("module", [train_step, decode, processes])
def test_without_torch_an_error_says_what_to_install(module, refused, monkeypatch):
    monkeypatch.setattr("benchmarks.options.installed", lambda name: name != "torch")
    assert "--against torch: expected PyTorch: pip install -e '.[bench]'" in refused(module.main)
