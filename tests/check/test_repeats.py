"""A backward that gives another gradient at each run is told from a wrong one, and from rounding; nothing is blamed."""

import itertools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from npformer.check import behaviour, gradcheck
from npformer.check.report import RIGHT, UNCLEAR, WRONG
from npformer.errors import ConfigError
from tests.check.functions import normal, square, tanh, verdicts

X = normal(5, 3)
IDS = np.array([0, 2, 1, 0, 2, 2, 1, 3])


LOST = "backward is not deterministic: two runs from fresh caches differ by "


def scatter(is_lost):
    """Rows of a table by their numbers. is_lost(run): whether the backward's run loses its last update."""
    runs = itertools.count()

    def backward(dy, shape):
        last = len(IDS) - is_lost(next(runs))
        dx = np.zeros(shape)
        np.add.at(dx, IDS[:last], dy[:last])
        return dx

    return (lambda table: (table[IDS], table.shape)), backward


@pytest.mark.parametrize("period", [2, 3, 7, 40])
def test_a_lost_update_is_neither_wrong_nor_blamed_on_anything(period):
    flagged = 0
    for offset in range(period):
        report = gradcheck(scatter(lambda run, at=offset: run % period == at), X)
        row = report.rows[0]
        assert not row.diagnosis
        assert all(problem.startswith(LOST) for problem in report.problems)
        assert row.verdict == (UNCLEAR if report.problems else RIGHT)
        flagged += not report.ok
    assert flagged == period or period == 40


def test_what_is_lost_rarely_is_found_if_runs_are_asked_for():
    """In every fiftieth run, twenty runs after the check's own."""
    report = gradcheck(scatter(lambda run: run % 50 == 30), X, repeat=150)
    (problem,) = report.problems
    assert problem.startswith(LOST)
    assert problem.endswith("; look for a lost update, memory that is never written, or what outlives a call")
    assert not report.ok


@pytest.mark.parametrize("lost", [(0, 1, 2), (1,)])
def test_a_wrong_gradient_is_confirmed_by_more_runs(lost):
    """The update is lost in the runs that are judged, or in one of them, and never again."""
    report = gradcheck(scatter(lambda run: run in lost), X)
    assert (verdicts(report), report.rows[0].note) == ({"table": UNCLEAR}, "another gradient at each run")
    assert report.problems
    steady = gradcheck(scatter(lambda run: True), X, explain=False)
    assert (verdicts(steady), steady.problems) == ({"table": WRONG}, ())


def test_only_the_gradient_that_changes_has_no_verdict():
    runs = itertools.count()
    pair = (
        lambda a, b: (a * b, (a, b)),
        lambda dy, cache: (2 * dy * cache[1], dy * cache[0] * (1 + 0.1 * (next(runs) % 2))),
    )
    report = gradcheck(pair, X, normal(5, 3, seed=1))
    assert verdicts(report) == {"a": WRONG, "b": UNCLEAR}
    assert not any(row.diagnosis for row in report.rows), "no cause is looked for"


def test_sums_in_another_order_are_a_note():
    runs = itertools.count()

    def backward(dy, x):
        step = -1 if next(runs) % 2 else 1
        return np.full(x.shape, np.cumsum(dy[::step])[-1])

    report = gradcheck((lambda x: (x + np.zeros(60), x), backward), np.array([0.7]))
    (note,) = report.notes
    assert report.ok
    assert note.startswith("backward: two runs from fresh caches differ by ")
    assert note.endswith(" of the largest entry of x, as sums in another order do")


def test_rounding_of_a_gradient_that_is_nearly_0_beside_another_is_no_fault():
    runs = itertools.count()
    pair = (lambda a, b: (a + 1e-8 * b, None), lambda dy, _: (dy, 1e-8 * dy * (1 + 1e-7 * (next(runs) % 2))))
    report = gradcheck(pair, X, normal(5, 3, seed=1))
    assert (report.ok, report.problems) == (True, ())


@pytest.mark.parametrize(("tolerance", "ok"), [(1e-10, False), (1e-5, True)])
@pytest.mark.parametrize("first", range(3))
def test_what_the_tolerance_allows_is_no_fault(first, tolerance, ok):
    runs = itertools.count(first)
    forward, backward = tanh()
    report = gradcheck(
        (forward, lambda dy, y: backward(dy, y) * (1 + 1e-7 * (next(runs) % 3 > 1))), X, tolerance=tolerance
    )
    assert (report.ok, not report.problems) == (ok, ok)


@pytest.mark.parametrize("shape", [(5, 3), (40, 50)])
def test_memory_that_was_never_written(shape):
    def backward(dy, x):
        dx = np.empty(x.shape)
        dx[1:] = 2 * dy[1:] * x[1:]
        return dx

    report = gradcheck((square, backward), normal(*shape))
    assert [problem[: len(LOST)] for problem in report.problems] == [LOST]
    assert verdicts(report) == {"x": UNCLEAR}


def test_a_gradient_that_is_not_a_number_now_and_then():
    runs = itertools.count()
    pair = (square, lambda dy, x: 2 * dy * x * (np.nan if next(runs) % 2 else 1))
    report = gradcheck(pair, X)
    assert (verdicts(report), report.problems[0][: len(LOST) + 3]) == ({"x": UNCLEAR}, f"{LOST}inf")


def test_a_forward_that_changes_leaves_no_verdict_and_no_cause():
    calls = itertools.count()
    pair = (lambda x: (x * x * (1 + next(calls) % 2), x), lambda dy, x: 2 * dy * x)
    report = gradcheck(pair, X)
    assert verdicts(report) == {"x": UNCLEAR}
    assert [problem[:28] for problem in report.problems] == ["forward is not deterministic"]
    assert not report.rows[0].diagnosis


def counted():
    runs = []
    forward, backward = tanh()
    return (forward, lambda dy, y: (runs.append(1), backward(dy, y))[1]), runs


def test_how_often_a_backward_runs(monkeypatch):
    """Runs beyond those of a check without any: as many as asked for, or a few for the number of elements."""

    def runs(x, **options):
        pair, made = counted()
        assert gradcheck(pair, x, **options).ok
        return len(made)

    least = runs(X, repeat=2)
    assert runs(X, repeat=150) == least + 148
    assert runs(X) == least
    assert runs(normal(20, 80)) == least + 1600 // behaviour.PLACES_FOR_A_RUN
    ticks = itertools.count()
    monkeypatch.setattr(behaviour, "since", lambda began: 0.5 * next(ticks))
    assert runs(X, repeat=150) == least + 4  # the clock says 2 s


def test_the_chance_of_a_fault_to_be_seen_is_told_if_runs_were_asked_for():
    pair, _ = counted()
    assert gradcheck(pair, X).notes == ()
    assert gradcheck(pair, X, repeat=150).notes == (
        "150 runs of backward agree; a fault in 2 % of runs would have been seen with 95 %",
    )


def test_too_few_runs_are_refused():
    with pytest.raises(ConfigError, match=r"^repeat: expected at least 2 runs of the backward, or None .*, got 1$"):
        gradcheck(tanh(), X, repeat=1)


class Kept(NamedTuple):
    x: object


CACHES = {
    "list": (lambda x: [[x]], lambda cache: cache[0][0]),
    "dict": (lambda x: {"x": x}, lambda cache: cache["x"]),
    "NamedTuple": (Kept, lambda cache: cache.x),
    "object": (lambda x: SimpleNamespace(x=x, n=3), lambda cache: cache.x),
}


@pytest.mark.parametrize("form", CACHES)
def test_a_cache_that_is_changed_is_named_in_every_form(form):
    kept, array = CACHES[form]

    def backward(dy, cache):
        x = array(cache)
        dx = 2 * dy * x
        x += 1
        return dx

    report = gradcheck((lambda x: (x * x, kept(x.copy())), backward), X)
    assert [problem.rpartition(": ")[2] for problem in report.problems] == ["backward changes its cache"]
    assert verdicts(report) == {"x": RIGHT}


def test_a_cache_that_is_not_seen_to_change_is_not_blamed():
    def backward(dy, cache):
        return 2 * dy * X * next(cache)

    report = gradcheck((lambda x: (x * x, (factor for factor in (1, 2))), backward), X)
    (problem,) = report.problems
    assert problem.startswith("a second backward with the same cache gives another gradient of x (")
    assert problem.endswith(" of its size away)")
