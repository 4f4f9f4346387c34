"""The pytest plugin, in runs of pytest of its own: what passes, what fails and what a failure says."""

import configparser
from pathlib import Path

import numpy as np
import pytest

import npformer as npf

pytest_plugins = ["pytester"]

PAIR = """
    import numpy as np, pytest
    X = np.random.default_rng(0).normal(size=(3, 4))

    def pair(factor=1.0):
        return lambda x: (np.sin(x), x), lambda dy, x: factor * dy * np.cos(x)
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest with the plugin and no other on a file of tests, below PAIR."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # a run within this one takes with it what it imports first: all that a check needs has to be there before
    x = np.random.default_rng(0).normal(size=(3, 4))
    assert not npf.gradcheck((lambda x: (np.sin(x), x), lambda dy, x: dy), x).ok

    def outcome(tests, *words):
        pytester.makepyfile(PAIR + tests)
        plugins = "npformer.pytest_plugin", "no:cacheprovider", "no:faulthandler"
        return pytester.runpytest_inprocess(*(word for plugin in plugins for word in ("-p", plugin)), *words)

    return outcome


def test_the_plugin_is_an_entry_point():
    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[1] / "setup.cfg", encoding="utf-8")
    assert config["options.entry_points"]["pytest11"].split() == ["npformer", "=", "npformer.pytest_plugin"]


def test_a_right_gradient_passes_and_a_wrong_one_fails_with_the_table(run):
    result = run("""
    def test_right(gradcheck):
        assert gradcheck(pair(), X).ok

    def test_wrong(gradcheck):
        gradcheck(pair(1.5), X, name="sine", explain=False)
        raise SystemExit("not reached")
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["sine: a gradient is not right (seed 0)", "tensor *shape*verdict", "x *WRONG*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*test_wrong.py:*: Failed*")


def test_each_check_is_made_with_several_seeds(run):
    result = run(
        """
    def test_seeds(gradcheck, monkeypatch):
        import npformer.check
        seen, real = [], npformer.check.gradcheck
        monkeypatch.setattr(npformer.check, "gradcheck", lambda *a, seed, **k: seen.append(seed) or real(*a, **k))
        gradcheck(pair(), X)
        gradcheck(pair(), X, seed=7)
        assert seen == [0, 1, 2, 7, 8, 9]
    """,
        "--gradcheck-seeds",
        "3",
    )
    result.assert_outcomes(passed=1)


SIZED = """
    def test_size(gradcheck_size):
        assert isinstance(gradcheck_size, int)

    @pytest.mark.parametrize("gradcheck_size", [5])
    def test_own(gradcheck_size):
        assert gradcheck_size == 5

    @pytest.mark.parametrize(argnames="other, gradcheck_size", argvalues=[(1, 5)])
    def test_own_too(other, gradcheck_size):
        assert gradcheck_size == 5
"""


@pytest.mark.parametrize(
    ("words", "sizes"),
    [([], (2, 3, 7)), (["--gradcheck-sizes", "3, 127,128"], (3, 127, 128))],
    ids=["default", "given"],
)
def test_sizes(run, words, sizes):
    result = run(SIZED, "-v", *words)
    result.assert_outcomes(passed=len(sizes) + 2)
    result.stdout.fnmatch_lines([f"*::test_size?{size}? PASSED*" for size in sizes])


@pytest.mark.parametrize(
    ("word", "value"), [("--gradcheck-seeds", "0"), ("--gradcheck-sizes", "3,x"), ("--gradcheck-sizes", "")]
)
def test_what_is_no_number_is_refused(run, word, value):
    result = run(SIZED, f"{word}={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*argument {word}: expected a whole number >= 1, got *"])


def test_the_options_are_explained(run):
    result = run("", "--help")
    result.stdout.fnmatch_lines(["gradient checks (npformer):", "*--gradcheck-seeds=N*", "*--gradcheck-sizes=N,…*"])
    result = run("", "--fixtures")
    result.stdout.fnmatch_lines(["gradcheck *pytest_plugin.py:*"])


def test_regimes(run):
    result = run(
        """
    def bounded(dy, x):
        return np.where(x < -50, 0, dy * np.cos(x))

    def test_all(gradcheck):
        gradcheck((lambda x: (np.sin(x), x), bounded), X, explain=False, sizes=())

    def test_its_own(gradcheck):
        gradcheck((lambda x: (np.sin(x), x), bounded), X, regimes="ties", sizes=())
    """,
        "--gradcheck-regimes",
        "ties,saturated below",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["saturated below*WRONG*"])
