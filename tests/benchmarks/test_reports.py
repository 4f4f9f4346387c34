"""Complete benchmark runs, as short as possible, and their reports."""

import os
from pathlib import Path

import pytest

from benchmarks import compare, contender, decode, ops, train_step
from benchmarks.turns import Child, Measured
from tests.benchmarks.rows import slowed


@pytest.fixture(scope="module")
def alone(run, tmp_path_factory):
    """One round of training steps of plain kernels, no peer; also with layers that recompute."""
    options = "--size tiny --dropout 0 --kernels plain --against none --rounds 1"
    kept = tmp_path_factory.mktemp("results") / "train_step.json"
    ended = run(f"train_step {options} --recompute --json --save", kept).fine()
    assert kept.read_text() == ended.out, "the saved document equals the printed one"
    return ended.document


def test_train_step_alone(alone):
    assert alone["benchmark"] == "train_step"
    assert alone["machine"]["precision"] == "float32"
    assert alone["machine"]["command"].startswith("python -m benchmarks.train_step --size tiny --dropout 0 ")
    (result,) = alone["results"]
    row = result["contenders"][0]
    assert (result["size"], result["dropout"], result["shape"]["d_model"]) == ("tiny", 0, 64)
    assert (row["name"], row["rounds"], row["times_as_fast"]) == ("npformer-plain", 1, None)
    assert 0 < row["best"] <= row["median"]
    assert 1e6 < row["peak_bytes"] < 1e9
    assert 1e7 < row["imports_bytes"] < 1e9
    assert result["bound"]["gflop"] == pytest.approx(1.104, abs=1e-3)
    assert row["of_bound"] == pytest.approx(result["bound"]["seconds"] / row["median"])
    assert 0 < row["of_bound"] < 1
    assert 2 < result["same"]["losses"]["npformer-plain"] < 10
    lines = train_step.describe(slowed(result)).splitlines()
    assert lines[0].startswith("tiny, float32, dropout 0: V 16, d_model 64")
    assert max(map(len, lines)) <= 100


def test_train_step_with_layers_that_recompute(alone):
    """Recomputing layers get their own row and compute the same, bit for bit."""
    (result,) = alone["results"]
    assert [row["name"] for row in result["contenders"]] == ["npformer-plain", "npformer-plain-recompute"]
    assert result["same"]["difference"] == 0
    assert result["same"]["compared"] > 1
    once, again = (row["peak_bytes"] for row in result["contenders"])
    assert again < once


def test_ops_alone(run):
    """Two operations, two kernels."""
    lines = run("ops --size tiny --op relu,layer_norm --kernels numpy,plain --against none --rounds 1").fine().lines
    title = next(i for i, line in enumerate(lines) if line.split() == ["numpy", "plain", "MB", "GB/s"])
    rows = [line.split() for line in lines[title + 1 : title + 5]]
    assert [row[:2] for row in rows] == [[op, way] for op in ("relu", "layer_norm") for way in ("forward", "backward")]
    assert all(float(cell.replace(",", "")) > 0 for row in rows for cell in row[2:])
    assert float(rows[0][4]) == pytest.approx(2 * 64 * 12 * 256 * 4 / 1e6, abs=0.05)  # x read, y written


def test_decode_alone(run):
    """Two kernel tables decode the same tokens."""
    ended = run("decode --size tiny --tokens 5 --batch 2 --kernels numpy,plain --against none --rounds 1 --json")
    (result,) = ended.fine().document["results"]
    assert result["agreement"] == 1
    for row in result["contenders"]:
        assert row["tokens_per_second"] == pytest.approx(2 * 5 / row["median"])
    assert max(map(len, decode.describe(slowed(result)).splitlines())) <= 100


def child(name, loss):
    """As far as comparing losses goes."""
    made = object.__new__(Child)
    made.name, made.facts = name, {"loss": loss}
    return made


def test_a_peer_that_computes_something_else_is_no_peer():
    children = [child("npformer-plain", 3.0), child("torch-fast", 3.000001)]
    curves = {
        "npformer-plain": Measured([[1.0]], [3.0, 2.9], [0.0]),
        "torch-fast": Measured([[1.0]], [3.0, 2.9], [0.0]),
    }
    assert train_step.same(children, curves, 0.1)["holds"]
    assert train_step.same(children, curves, 0.0)["compared"] == 3
    curves["torch-fast"].values[1] = 2.95  # another second step: another gradient, or another update
    assert train_step.same(children, curves, 0.1)["holds"], "with dropout the steps differ anyway"
    problem = train_step.same(children, curves, 0.0)
    assert not problem["holds"]
    assert problem["difference"] == pytest.approx(0.05)
    children[1] = child("torch-fast", 3.1)
    assert not train_step.same(children, curves, 0.1)["holds"]


def test_agreement_counts_tokens_that_all_contenders_chose():
    tokens_of = {name: Measured([], [[[5, 6], [7, last]]], []) for name, last in (("a", 8), ("b", 9), ("c", 8))}
    assert decode.agreement(tokens_of) == 0.75


def test_the_core_time_of_other_processes_is_counted(tmp_path, monkeypatch):
    """The system's ticks: user, nice, system, idle, waiting for a disk, interrupts, soft interrupts, stolen."""
    stat, tick = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(contender, "open", lambda path, **how: stat.open(**how), raising=False)
    core_seconds = iter([10.0, 11.0])
    monkeypatch.setattr(contender.time, "process_time", lambda: next(core_seconds))
    usage = []
    for seconds in ((1, 1, 1, 1, 1, 1, 1, 1), (3, 2, 1, 5, 2, 1, 1, 2)):
        stat.write_text(" ".join(["cpu", *(str(each * tick) for each in seconds), "0", "0"]) + "\n")
        usage.append(contender.Usage() if not usage else usage[0].of_others())
    assert usage[1] == (3.0, 9.0), "busy for four seconds of nine, and one of them is its own"
    stat.unlink()
    assert contender.Usage().of_others() == (0.0, 0.0), "this system does not tell"


def test_a_benchmark_warns_of_busy_processes(monkeypatch, call):
    line = "--size tiny --op linear --kernels plain --against none --rounds 1"
    for share, warns in ((0.6, True), (0.0, False)):
        monkeypatch.setattr(compare, "others_share", lambda measured, share=share: share)
        assert ("DISTURBED: other processes used 60 % of the cores" in call(ops.main, line).fine().out) == warns


def test_the_share_of_others_covers_all_rounds():
    assert compare.others_share(Measured([], [], [(0.1, 1.0), (-0.01, 1.0), (0.6, 4.0)])) == pytest.approx(0.115)
    assert compare.others_share(Measured([], [], [(0.0, 0.0)])) is None


def test_the_report_says_when_it_cannot_be_trusted():
    rows = [{"name": "torch", "others_share": 0.3}, {"name": "npformer-plain", "others_share": None}]
    (line,) = compare.others(rows)
    assert line.startswith("DISTURBED: other processes used 30 % of the cores while torch worked.")
    assert compare.others([{"name": "torch", "others_share": 0.02}]) == []


def test_help_has_examples(run):
    for name in ("train_step", "decode", "ops", "gpu"):
        run(f"{name} --help").fine().says(f"python -m benchmarks.{name} --")


def test_only_the_peers_import_torch():
    root = Path(train_step.__file__).parent
    users = [path.relative_to(root) for path in root.rglob("*.py") if "import torch" in path.read_text("utf-8")]
    judged = {"precision", "tolerance", "sources", "operators", "verdicts"}  # whose own kernels are judged, where it is
    assert {path.parts[0] for path in users} == {"peers", "checkers"} | judged
