"""Checkers side by side: what each is given, what counts as found, and what a file keeps."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks.checkers import __main__ as program
from benchmarks.checkers import checks
from benchmarks.checkers.listed import LISTS, Item, failing_inputs, items
from benchmarks.checkers.problem import Problem, of_kernel
from benchmarks.checkers.table import SAID, cells, checkers
from benchmarks.corpus.rounding import bfloat16
from npformer.functional import softmax_backward
from npformer.lab.museum.patch import patched
from tests.check.functions import square, square_backward

NEEDS = {"torch": "torch", "torch fast": "torch", "torch assert_close": "torch", "jax": "jax", "autograd": "autograd"}
OTHERS = [name for name in checks.CHECKERS if not name.startswith("npformer")]
X, W = np.random.default_rng(0).normal(size=(2, 3)), np.random.default_rng(1).normal(size=3)


def product(factor=1.0):
    """(x·w, Σ x·w) and its gradients, that of w times factor."""

    def pull_of(factor):
        def pull(arrays, dys):
            (x, w), (dy, total) = arrays, dys
            g = dy + total
            return [g * w, factor * (g * x).sum(axis=0)]

        return pull

    def call(arrays):
        x, w = arrays
        return x * w, np.sum(x * w)

    return Problem([X, W], call, pull_of(factor), pull_of(1.0))


def item(problem, is_right=True):
    return Item("foreign", "product", is_right, lambda: (one for one in [problem]), None)


@pytest.mark.parametrize("name", OTHERS)
def test_each_checker_sees_every_input_and_every_output(name):
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}")
    with np.errstate(all="ignore"):
        assert checks.judge(name, item(product())) == ("right", "")
        verdict, words = checks.judge(name, item(product(1.01)))
    assert verdict == "wrong", words


def test_another_error_is_no_verdict():
    def call(arrays):
        raise ZeroDivisionError("by hand")

    verdict, words = checks.judge("numpy assert_allclose", item(Problem([X], call, None, None)))
    assert (verdict, words) == ("raised", "ZeroDivisionError: by hand")


def test_a_kernel_in_few_digits_gets_its_own_numbers_and_is_compared_with_float64():
    seen = []

    def forward(x):
        seen.append(x)
        return square(x)

    inputs = (X.astype(np.float32),)
    problem = of_kernel((forward, square_backward), (square, square_backward), "bfloat16", inputs, {})
    moved = [np.array(inputs[0] + np.float32(1e-4))]
    (y,) = problem.call(moved)
    assert y.dtype == np.float32
    assert not np.any(seen[-1].view(np.uint32) & 0xFFFF), "numbers of bfloat16"
    (claimed,), (expected,) = problem.pull(moved, [y]), problem.truth(moved, [y])
    assert claimed.dtype == expected.dtype == np.float32
    assert problem.is_bfloat16
    exactly = 2 * bfloat16(y).astype(np.float64) * bfloat16(moved[0])
    np.testing.assert_array_equal(expected, exactly.astype(np.float32))


def test_a_bug_of_the_museum_is_in_force_while_it_is_checked():
    (bug,) = [one for one in items() if one.name == "softmax-diagonal"]
    code = softmax_backward.__code__
    problems = bug.problems()
    problem = next(problems)
    assert softmax_backward.__code__ is not code
    claimed, expected = next(checks.compared(problem))
    assert not np.allclose(claimed, expected)
    problems.close()
    assert softmax_backward.__code__ is code
    with patched(()):
        assert checks.judge("numpy assert_allclose", bug)[0] == "wrong"
    assert softmax_backward.__code__ is code


def test_the_lists_are_there_and_names_tell_items_apart():
    assert {one.list for one in items()} == set(LISTS) == set(SAID)
    keys = [(one.list, one.name, one.is_right) for one in items()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", failing_inputs())
def test_a_bug_shows_at_its_failing_input_and_its_twin_does_not(name):
    checks.quiet()
    for one in items():
        if one.list == "where it fails" and one.name == name:
            assert checks.judge("numpy assert_allclose", one)[0] == ("right" if one.is_right else "wrong")


def pair(name, is_right, **by):
    """A made-up pair, and verdicts on it."""
    kept = {checker.replace("_", " "): [verdict, 1.0] for checker, verdict in by.items()}
    return {"list": "foreign", "name": name, "is_right": is_right, "by": kept}


PAIRS = [
    pair("a", True, npformer="cannot tell", jax="raised"),
    pair("b", False, npformer="wrong", npformer_cause="right", jax="raised"),
    pair("c", False, npformer="right", npformer_cause="unknown", jax="wrong"),
]


def test_the_table_counts():
    assert cells(PAIRS, "npformer", "foreign") == ["`npf.gradcheck`", "1/2", "0/1", "1", "1/2", "3"]
    assert cells(PAIRS, "jax", "foreign")[1:] == ["2/2", "1/1", "0", "–", "3"]


def test_the_page_has_its_versions():
    document = {"benchmark": "checkers", "file": "c.json", "machine": {"processor": "P", "date": "D"}, "results": PAIRS}
    document["versions"] = {"torch": "torch 2", "torch fast": "torch 2", "jax": "jax 1"}
    text = checkers([document])
    assert "| `jax.test_util.check_grads` | 2/2 | 1/1 |" in text
    assert "gradcheck, and why" not in text
    assert "torch" not in text.partition("versions")[0]
    assert "- versions: torch 2, jax 1\n" in text


ASKED = ["--checkers", "numpy assert_allclose", "--lists", "museum", "--only", "softmax-diagonal"]


@pytest.mark.parametrize(("said", "verdict"), [(None, ["wrong"]), ([{"code": 7}], ["raised", 0.0])])
def test_the_command_asks_in_a_process_that_may_die(said, verdict, tmp_path, capsys, monkeypatch):
    if said is not None:
        monkeypatch.setattr(program, "answers", lambda *asked: said)
    file = tmp_path / "checkers.json"
    assert program.main([*ASKED, "--save", str(file)]) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["versions"] == {"numpy assert_allclose": f"numpy {np.__version__}"}
    (one,) = document["results"]
    assert (one["name"], one["by"]["numpy assert_allclose"][: len(verdict)]) == ("softmax-diagonal", verdict)
    assert "| `numpy.testing.assert_allclose` | 1/1 |" in capsys.readouterr().out


def test_what_is_asked_for_exists(refused):
    assert "--checkers: expected names from npformer" in refused(program.main, "--checkers tensorflow")
    assert "--only: expected a part of a pair's name" in refused(program.main, "--only none-such")
