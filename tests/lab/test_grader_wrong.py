"""Typical wrong answers: each must be refused, and the learner told what it is, and not before it is asked for."""

import sys
import types

import numpy as np
import pytest

from npformer.io.child.values import mapped
from npformer.lab.grader import find, grade, report
from npformer.lab.grader.grading import Result
from npformer.lab.grader.runner import LearnerRun
from npformer.lab.grader.templates import pair_source, parts_source
from tests.lab.learner import FILES, graded, said

WRONG = FILES["wrong"]


@pytest.fixture
def in_process(monkeypatch):
    """Grade without the other process (tests of their own run that): the same results, from plain calls."""

    def run(exercise, source, beside, cases, limits, oracle):
        parts = types.ModuleType("parts")
        exec(parts_source(exercise.available), parts.__dict__)
        monkeypatch.setitem(sys.modules, "parts", parts)
        names = {}
        exec(compile(source.text, str(source.path), "exec"), names)
        found = LearnerRun(signatures=[None, None])
        for case in cases:
            y, cache = names[f"{exercise.name}_forward"](*mapped(np.copy, case.arguments))
            found.results.append(result := Result(case))
            result.note_forward(exercise, (y, None), [])
            try:
                gradients = names[f"{exercise.name}_backward"](mapped(np.copy, case.upstream), cache)
                result.note_backward(exercise, gradients, [])
            except Exception as error:
                told = {"step": "backward", "line": 1, "message": str(error), "type": type(error).__name__}
                result.failure = told
        return found

    monkeypatch.setattr(grade, "run", run)


def answer(folder, name, body):
    """The grade of an exercise with this body of the backward."""
    return graded(folder, pair_source(find(name), body), name)


@pytest.mark.parametrize(
    ("name", "body", "about", "cause"),
    [pytest.param(name, *row, id=f"{name}-{row[2]}") for name, rows in WRONG.items() for row in rows],
)
def test_a_typical_mistake_is_seen_and_named(in_process, tmp_path, name, body, about, cause):
    found = answer(tmp_path, name, body)
    assert found.verdict == "WRONG"
    fault, *others = found.faults
    assert not others or cause == "ValueError", "what other cases say beside an exception"
    assert ("".join(fault.gradients[-1:]), fault.cause) == (about, cause)
    assert len(set(fault.hints)) == 3
    assert all(hint.strip() for hint in fault.hints)
    for level in (1, 2, 3):
        text = report.report(found, level, f"npformer grade {name}.py")
        assert max(map(len, text.splitlines())) <= 80
        others = [h for i, h in enumerate(fault.hints, 1) if i != level]
        assert not any(h in " ".join(text.split()) for h in others), "a hint that was not asked for"


def test_an_input_on_which_alone_it_fails_is_named(in_process, tmp_path):
    body = WRONG["embedding"][0][0]
    text = said(answer(tmp_path, "embedding", body))
    assert "wrong on “repeated tokens”, “one sequence with gaps”, “long rows”, right on “no token twice”" in text


def test_the_report_shows_expected_and_given_numbers(in_process, tmp_path):
    text = report.report(answer(tmp_path, "linear", "x, W = cache; return 2 * dy @ W.T, 0, 0"), 1, "")
    expected, yours = (
        [float(number) for number in line.split()[1:]]
        for line in text.splitlines()
        if line.split()[:1] in (["expected"], ["yours"])
    )
    assert yours == pytest.approx([2 * number for number in expected], rel=1e-3)


LINEAR = "x, W = cache; X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])\n"


def faults(found):
    return [(fault.gradients, fault.cause) for fault in found.faults]


def test_of_several_mistakes_each_gets_its_hint(in_process, tmp_path):
    found = answer(tmp_path, "linear", LINEAR + "    return 2 * dy @ W.T, X.T @ D / len(x), D.mean(0)")
    assert report.verdict(found) == "linear: not yet; dx, dweight and dbias are not right."
    assert faults(found) == [
        (("dbias",), "averaged over tokens"),
        (("dweight",), "averaged over the batch"),
        (("dx",), "scaled by 2"),
    ]
    text = said(found)
    assert all(f"Hint 1 of 3 on {name}" in text for name in ("dbias", "dweight", "dx"))
    assert text.count("More: npformer grade mine.py --hint 2") == 1
    assert [fault["gradients"] for fault in report.to_dict(found, 3)["faults"]] == [["dbias"], ["dweight"], ["dx"]]


def test_one_mistake_in_two_gradients_gets_one_hint(in_process, tmp_path):
    found = answer(tmp_path, "attention", WRONG["attention"][-1][0])
    assert faults(found) == [(("dq", "dk"), "scaled by 1/2")]
    assert "Hint 1 of 3 on dq and dk" in said(found)


@pytest.mark.parametrize("name", ["(ds,)", "ds,", "[ds]"])
def test_a_gradient_that_is_unpacked_as_a_tuple_is_told_so(tmp_path, name):
    """As npformer's own code has it, which `npformer explain attention` shows."""
    body = WRONG["attention"][0][0].replace("ds = softmax_backward(dw, w)", f"\n    {name} = softmax_backward(dw, w)")
    told = said(answer(tmp_path, "attention", body), 3)
    assert "ds = softmax_backward(…)" in told
    assert "in the order in which it was made" not in told


def test_a_mistake_and_numbers_that_nothing_explains(in_process, tmp_path):
    """linear has hints for each of its gradients, so both get theirs."""
    found = answer(tmp_path, "linear", LINEAR + "    return np.sin(dy @ W.T), X.T @ D, D.mean(0)")
    assert faults(found) == [(("dbias",), "averaged over tokens"), (("dx",), "unknown")]


def test_in_a_layer_what_follows_from_a_mistake_gets_no_hint_of_its_own(in_process, tmp_path):
    """A wrong gradient of the stream spoils everything that comes after it on the way back."""
    body = WRONG["encoder_layer_post"][-1][0].replace("backward(d, n1)", "backward(np.sin(d) + dff, n1)")
    found = answer(tmp_path, "encoder_layer_post", body)
    ((gradients, cause),) = faults(found)
    assert (gradients[-1], cause) == ("dparams.norm1.beta", "unknown")


@pytest.mark.parametrize(
    ("name", "returned", "words"),
    [
        ("linear", "X.T @ D, dy @ W.T, D.sum(0)",
         "these are right, in the order dweight, dx, dbias; return them in the order dx, dweight, dbias"),
        ("linear", "D.sum(0), dy @ W.T, X.T @ D",
         "these are right, in the order dbias, dx, dweight; return them in the order dx, dweight, dbias"),
        ("linear", "X.T @ D, dy @ W.T, D.mean(0)",
         "dweight and dx are right, in each other's places; the order is dx, dweight, dbias"),
    ],
)  # fmt: skip
def test_right_gradients_in_another_order_are_told_so(in_process, tmp_path, name, returned, words):
    found = answer(tmp_path, name, LINEAR + f"    return {returned}")
    assert "linear: not yet; its gradients are in another order" in report.verdict(found)
    assert words in said(found)
    assert "Hint 1 of 3 on the order" in said(found)
    assert "return dx, dweight, dbias" in said(found, 3)
    wrong = [finding.name for finding in found.findings if not finding.ok]
    assert wrong == ["order"] + ["dbias"] * ("mean" in returned)
    assert [cause for _, cause in faults(found)] == ["order"] + ["averaged over tokens"] * ("mean" in returned)


def test_gradients_of_another_structure_in_another_order(in_process, tmp_path):
    """A dict of parameters where an array belongs is no complaint about its keys."""
    body = WRONG["encoder_layer_post"][0][0].replace("return dx + a, ", "return ") + ", dx + a + b"
    found = answer(tmp_path, "encoder_layer_post", body)
    assert "these are right, in the order dparams, dx; return them in the order dx, dparams" in said(found)
    assert faults(found) == [((), "order")]


def test_one_gradient_twice_is_no_order(in_process, tmp_path):
    found = answer(tmp_path, "linear", LINEAR + "    return dy @ W.T, X.T @ D, dy @ W.T")
    assert [finding.name for finding in found.findings if not finding.ok] == ["dbias"]


def test_conduct_gets_a_hint(tmp_path):
    """In the other process, which watches for it."""
    found = answer(tmp_path, "relu", "dy *= 2 * cache; return dy")
    assert [cause for _, cause in faults(found)] == ["scaled by 2", "inputs"]
    assert "+=, *=, x[…] = … and out= write into the array itself" in said(found, 2)
