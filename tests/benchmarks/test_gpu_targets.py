"""Which targets hold, for made-up measurements just within and just beyond each limit."""

import pytest

from benchmarks.gpu.targets import MILLISECONDS, RATIOS, SIZES, best, targets, times_as_fast
from tests.benchmarks.rows import gradient, results, row, training


def judged(measured):
    """Targets by description; all descriptions differ."""
    all_of_them = targets(measured)
    by_name = {target.what: target for target in all_of_them}
    assert len(by_name) == len(all_of_them)
    return by_name


def test_where_everything_is_reached_all_hold():
    judgements = targets(results())
    assert len(judgements) == 1 + 4 + 12 + 1 + 8 + 1 + 2
    assert [target.what for target in judgements if not target.holds] == []


def test_what_was_not_measured_neither_holds_nor_fails():
    judgements = targets({})
    assert len(judgements) == len(targets(results()))
    assert {(target.found, target.holds) for target in judgements} == {(None, None)}


@pytest.mark.parametrize(("size", "most"), list(zip(SIZES, MILLISECONDS, strict=True)))
def test_milliseconds_of_a_step(size, most):
    for factor, holds in ((0.999, True), (1.001, False)):
        made = training(size, "tf32", npformer_cuda=most * 1e-3 * factor)
        assert judged(results() | {f"train tf32 {size}": made})[f"{size}, tf32"].holds is holds


@pytest.mark.parametrize(("precision", "peer", "wanted"), RATIOS)
def test_ratios(precision, peer, wanted):
    for size, least in zip(SIZES, wanted, strict=True):
        for factor, holds in ((1.001, True), (0.999, False)):
            seconds = {
                "npformer_cuda": 0.001,
                peer.replace("-", "_"): 0.001 * least * factor,
            }
            judgements = judged(results() | {f"against {precision} {size}": training(size, precision, **seconds)})
            target = judgements[f"{size}, {precision}: times as fast as {peer}"]
            assert (target.holds, target.wanted) == (holds, f"≥ {least:g}")


def test_a_peer_that_was_left_out_is_not_measured():
    table = training("tiny", "tf32")
    table["contenders"] = [each for each in table["contenders"] if each["name"] != "torch-reduce-overhead"]
    judgements = judged(results() | {"against tf32 tiny": table})
    assert judgements["tiny, tf32: times as fast as torch-reduce-overhead"].holds is None
    assert judgements["tiny, tf32: times as fast as torch-fast"].holds


def test_the_fastest_captured_row_counts_round_by_round():
    assert best(training("tiny", "tf32")["contenders"])["name"] == "npformer-cuda", "eager ones are no candidates"
    ours, theirs = row("npformer-cuda", 1.0), row("torch-fast", 1.0)
    ours["round_medians"], theirs["round_medians"] = [1.0, 10.0, 1.0], [2.0, 20.0, 3.0]
    assert times_as_fast(ours, theirs) == 2.0


@pytest.mark.parametrize(
    ("part", "change", "what"),
    [
        ("tests", {"code": 1}, "tests marked gpu"),
        ("tests", {"code": None}, "tests marked gpu"),
        ("tests", {"passed": 0}, "tests marked gpu"),
        ("reverse", {"exact_match": 0.994}, "train reverse"),
        ("reverse", {"seconds": 3.01}, "train reverse"),
        ("gradients", {"rows": [gradient("x", False)], "wrong": 1}, "gradients in float32"),
        ("gradients", {"rows": []}, "gradients in float32"),
    ],
)
def test_each_of_the_others_can_fail(part, change, what):
    measured = results()
    failed = [name for name, target in judged(measured | {part: measured[part] | change}).items() if not target.holds]
    assert failed == [what]


@pytest.mark.parametrize(("change", "what"), [
    ({"replayed": 439}, "numbers: steps that are replays"),
    ({"seconds": 0.00151}, "numbers: a step of all shapes"),
])  # fmt: skip
def test_real_batches_can_fail(change, what):
    measured = results()
    measured["batches"]["numbers"] |= change
    assert [name for name, target in judged(measured).items() if not target.holds] == [what]


def test_another_computation_fails_whatever_its_speed():
    for part in ("train tf32 mid", "against tf32 mid"):
        measured = results()
        measured[part]["same"]["holds"] = False
        assert [name for name, target in judged(measured).items() if not target.holds] == [
            "tf32: losses of all contenders"
        ]
