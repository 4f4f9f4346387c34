"""The gradient check under mutation testing: no mutant that changes a gradient survives, and most are named."""

from dataclasses import replace

import numpy as np
import pytest

from npformer import functional
from npformer.check.causes.mutants import mutants
from npformer.check.verdict import Judge
from npformer.lab import mutation_testing as module
from npformer.lab.mutation_testing import (
    CRASHED,
    EQUIVALENT,
    KILLED,
    SURVIVED,
    MutantCase,
    MutantResult,
    judge,
    mutant_cases,
    mutation_test,
    summary,
)
from npformer.layers import EncoderLayer
from tests.check.functions import scaled


@pytest.fixture(scope="module")
def results():
    return mutation_test(sample=36, seed=0)


def test_no_mutant_of_a_sample_survives(results):
    assert len(results) == 36
    assert [result for result in results if result.outcome == SURVIVED] == []
    assert {result.outcome for result in results} <= {KILLED, CRASHED, EQUIVALENT}
    assert all(result.case for result in results if result.outcome in (KILLED, CRASHED))


def test_most_of_the_killed_are_named(results):
    summed = summary(results)
    judged, killed = summed["diagnosis"], summed[KILLED]
    assert sum(judged.values()) == killed > 20
    assert judged["right"] + judged["same effect"] >= 0.8 * killed
    assert judged["wrong"] <= 0.05 * killed


def test_a_sample_is_drawn_by_its_seed(monkeypatch):
    monkeypatch.setattr(module, "judge", lambda mutant_case, backend: mutant_case.mutant.describe())
    first, again, other = mutation_test(5, seed=3), mutation_test(5, seed=3), mutation_test(5, seed=4)
    assert first == again != other
    assert len(set(map(str, mutation_test()))) > 300
    assert len(mutation_test(10**6)) == len(mutation_test())


def of(op, operator, word=""):
    return next(
        d for d in mutant_cases() if d.op == op and d.mutant.operator == operator and word in d.mutant.describe()
    )


def test_inherited_methods_are_changed_too():
    of_layer = {d.mutant.function for d in mutant_cases() if d.owner is EncoderLayer}
    assert of_layer == {"backward", "branch_backward", "enter_backward", "join_backward"}


def test_one_mutant(numpy64):
    result = judge(of("layer_norm", "drop a term", "`g - along_one` became `g`"), numpy64)
    assert (result.outcome, result.case, result.cause) == (KILLED, "layer_norm", "missing term")
    assert "`g` should be `g - along_one`" in result.diagnosis
    assert result.judgement == "right"
    result = judge(of("linear", "swap outputs"), numpy64)
    assert result.outcome == KILLED


def test_a_mutant_of_a_layer_leaves_the_class_alone(numpy64):
    before = dict(vars(EncoderLayer))
    mutant_case = next(d for d in mutant_cases() if d.owner is EncoderLayer and d.mutant.operator == "change a sign")
    assert judge(mutant_case, numpy64).judgement in ("right", "same effect")
    assert dict(vars(EncoderLayer)) == before
    case = mutant_case.cases[0]
    assert type(case.build(numpy64)) is EncoderLayer
    assert isinstance(mutant_case.put_into(case).build(numpy64), EncoderLayer)


def with_backward(build):
    """A mutant of softmax with this backward."""
    mutant = replace(next(iter(mutants(functional.softmax_backward))), build=build)
    return MutantCase(mutant, "softmax", None, of("softmax", "scale by 2").cases)


@pytest.mark.parametrize(
    ("build", "outcome"),
    [
        (functional.softmax_backward, EQUIVALENT),
        (scaled("softmax", 1 + 1e-13), EQUIVALENT),
        (scaled("softmax", 1.01), KILLED),
        (lambda dy, cache: (dy * np.nan,), KILLED),
    ],
    ids=["right", "rounding", "one per cent", "NaN"],
)
def test_what_changes_a_gradient_is_killed_and_nothing_else(build, outcome, numpy64):
    assert judge(with_backward(build), numpy64).outcome == outcome


def test_a_blind_check_lets_mutants_survive_and_it_is_said_what_they_change(monkeypatch, numpy64):
    judge_row = Judge.row
    monkeypatch.setattr(Judge, "row", lambda *args: replace(judge_row(*args), verdict="right"))
    result = judge(of("layer_norm", "scale by 2", "(layer_norm_backward"), numpy64)
    assert (result.outcome, result.case) == (SURVIVED, "layer_norm")
    assert result.diagnosis.startswith("the gradient of ")
    assert "changes by" in result.diagnosis
    assert result.diagnosis.endswith("of its size, and passed as right")
    assert summary([result])[SURVIVED] == 1


@pytest.mark.parametrize(
    ("operator", "cause", "diagnosis", "judgement"),
    [
        ("drop a term", "missing term", "missing term: line 1 of f: `a` should be `a + b`", "right"),
        ("drop a factor", "extra factor", "extra factor: line 1 of f: `a` should be `b`", "same effect"),
        ("change a sign", "sign", "it has the opposite sign everywhere", "right"),
        ("drop a term", "sign", "it has the opposite sign everywhere", "wrong"),
        ("drop a term", "unknown", "no known pattern fits", "unknown"),
    ],
)
def test_judgement_of_a_diagnosis(operator, cause, diagnosis, judgement):
    assert MutantResult("…", operator, KILLED, "softmax", cause, diagnosis).judgement == judgement
