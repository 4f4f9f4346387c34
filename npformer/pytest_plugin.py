"""The pytest plugin: a fixture that checks gradients, and a parameter that runs a test at several sizes.

    def test_softmax(gradcheck, gradcheck_size):
        gradcheck((softmax_forward, softmax_backward), np.random.default_rng(0).normal(size=(3, gradcheck_size)))

    python -m pytest --gradcheck-seeds 3 --gradcheck-sizes 3,31,32,33,127,128,129

pytest loads this file in every run where npformer is installed, so it imports the rest only once a test uses it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from npformer.check import Report

SIZE = "gradcheck_size"
SIZES = (2, 3, 7)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradcheck", "gradient checks (npformer)")
    group.addoption(
        "--gradcheck-seeds",
        type=_at_least_one,
        default=1,
        metavar="N",
        help="each check is made with so many upstream gradients (default: 1)",
    )
    group.addoption(
        "--gradcheck-regimes",
        type=_words,
        default=None,
        metavar="all|NAME,…",
        help="each check is made again in these regimes: npf.gradcheck(…, regimes=…)",
    )
    group.addoption(
        "--gradcheck-sizes",
        type=_sizes,
        default=SIZES,
        metavar="N,…",
        help=f"what a test that takes {SIZE} is run with (default: {','.join(map(str, SIZES))})",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes gradcheck_size once for each size, unless the test parametrises it itself."""
    marks = metafunc.definition.iter_markers("parametrize")
    names = [mark.kwargs.get("argnames", mark.args[0] if mark.args else "") for mark in marks]
    its_own = {word.strip() for one in names for word in (one.split(",") if isinstance(one, str) else one)}
    if SIZE in metafunc.fixturenames and SIZE not in its_own:
        metafunc.parametrize(SIZE, metafunc.config.getoption("gradcheck_sizes"))


@pytest.fixture
def gradcheck(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """``npf.gradcheck`` with each of ``--gradcheck-seeds`` seeds. A wrong gradient fails the test and shows the table.

    It takes the arguments of npf.gradcheck. ``seed`` is the first of the seeds; ``regimes`` are those of
    ``--gradcheck-regimes`` if the test names none. Returns the last report.
    """
    seeds = request.config.getoption("gradcheck_seeds")

    def check(target: Any, *inputs: Any, seed: int = 0, **options: Any) -> Report:
        from npformer.check import gradcheck

        __tracebackhide__ = True
        options = {"regimes": request.config.getoption("gradcheck_regimes"), **options}
        for each in range(seed, seed + seeds):
            report = gradcheck(target, *inputs, seed=each, **options)
            if not report.ok:
                pytest.fail(f"{report.name}: a gradient is not right (seed {each})\n{report}", pytrace=False)
        return report

    return check


def _at_least_one(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number >= 1, got {text!r}")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    """Words, separated by commas."""
    return tuple(part.strip() for part in text.split(","))


def _sizes(text: str) -> tuple[int, ...]:
    """Whole numbers from 1, separated by commas."""
    return tuple(_at_least_one(part.strip()) for part in text.split(","))
