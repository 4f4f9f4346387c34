"""The formulas on which tolerances are scored: right references, right kernels, and what came of them."""

import json

import numpy as np
import pytest

import npformer as npf
from benchmarks import page_tables
from benchmarks.measured import RESULTS
from benchmarks.tolerance import __main__ as command
from benchmarks.tolerance.formulas import ADD_UP_LOW, FORMULAS, NOT_RIGHT, PRECISIONS, torch
from benchmarks.tolerance.score import CASES, share, smallest_factor, summary, tolerances, tried

BY_NAME = {formula.name: formula for formula in FORMULAS}
ROUNDINGS = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11, "tf32": 2.0**-11}


def test_the_list():
    assert len(BY_NAME) == 20
    assert len(CASES) == 20 * len(PRECISIONS)


def test_the_command_tries_ten_thousand_seeds():
    assert command.SEEDS * len(CASES) >= 10_000


@pytest.mark.parametrize("name", BY_NAME)
def test_a_reference_is_right(name):
    formula = BY_NAME[name]
    assert npf.gradcheck(formula.reference, *formula.inputs(0, "float32"), explain=False).ok


def claims(name, precision):
    """What the kernels return at seed 5, and the exact values."""
    formula = BY_NAME[name]
    inputs = formula.inputs(5, precision)
    dy = formula.upstream(formula.reference[0](*inputs)[0], 5, precision)
    kernels = formula.kernels(precision)
    return {kernel: run(inputs, dy) for kernel, run in kernels.items()}, formula.exact(inputs, dy)


@pytest.mark.parametrize("precision", ROUNDINGS)
@pytest.mark.parametrize("name", BY_NAME)
def test_a_kernel_is_right(name, precision):
    """Off by some roundings of the largest entry, no more."""
    found, exact = claims(name, precision)
    for values in found.values():
        for a, n in zip(values, exact, strict=True):
            assert np.max(np.abs(a - n)) <= 20 * ROUNDINGS[precision] * np.max(np.abs(n))


@pytest.mark.skipif(torch is None, reason="needs PyTorch")
@pytest.mark.parametrize(("name", "kernel", "precision"), NOT_RIGHT)
def test_a_kernel_that_is_no_right_one_is_found(name, kernel, precision):
    found, exact = claims(name, precision)
    allowed = tolerances(BY_NAME[name], precision, sample=BY_NAME[name].draw)
    assert share(found[kernel][0], exact[0], allowed["the output"]) > 1


@pytest.mark.skipif(torch is None, reason="needs PyTorch")
@pytest.mark.parametrize(("name", "kernel"), sorted(ADD_UP_LOW))
def test_a_kernel_that_adds_up_in_bfloat16_is_found_unless_that_is_declared(name, kernel):
    found, exact = claims(name, "bfloat16")
    strict, declared = (tolerances(BY_NAME[name], "bfloat16", accumulate=a) for a in (None, "bfloat16"))
    worst = [
        max(share(a, n, row) for a, n, row in zip(found[kernel], exact, allowed.rows, strict=True))
        for allowed in (strict, declared)
    ]
    assert worst[0] > 1 > worst[1]


def test_the_smallest_factor_is_that_of_the_test():
    row = npf.tolerance(BY_NAME["tanh"].reference, np.array([[1.0, 0.5]])).check(0.03, 0.01).rows[0]
    assert smallest_factor(np.array([1.0, 2.0]), np.array([1.0, 2.0]), row) == pytest.approx(0.025, rel=2e-3)
    assert smallest_factor(np.array([1.2]), np.array([1.0]), row) == 0


def test_what_is_stored():
    document = json.loads((RESULTS / "tolerance.json").read_text(encoding="utf-8"))
    assert {(row["formula"], row["precision"]) for row in document["results"]} == set(CASES)
    found = document["summary"]
    assert found == summary(document["results"])
    assert found["seeds"] >= 10_000
    assert found["failures"] <= 2  # of 82,164 tests, at a margin of one in a million by the law: its tail is too light
    assert found["widest"] <= 4
    assert found["prediction_off"] <= 2


def test_rows_and_the_command(tmp_path, capsys):
    assert {row["tensor"] for row in tried((CASES.index(("tanh", "bfloat16")), 2))} == {"y", "dx"}
    saved = tmp_path / "tolerance.json"
    assert command.main(["--only", "squared", "--seeds", "1", "--save", str(saved)]) == 0
    assert "failures: 0" in capsys.readouterr().out
    document = json.loads(saved.read_text())
    assert "| float32 | 3 |" in page_tables.tolerance([document | {"file": "tolerance.json"}])
    assert command.main(["--only", "no such"]) == 2
