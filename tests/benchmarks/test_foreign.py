"""The foreign pairs of both lists: those called right are right, and those called wrong are wrong."""

import ast
import inspect
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.foreign import __main__ as command
from benchmarks.foreign import listed, score
from benchmarks.foreign.blind import BLIND_RIGHT, BLIND_THEMES, blind_wrong
from benchmarks.foreign.listed import RIGHT, THEMES, wrong_pairs
from benchmarks.foreign.pair import KINDS, Wrong, as_tuple, gradients, is_float, upstream
from npformer.check.diagnosis import patterns as diagnosis
from npformer.check.report import Report, Row

WRONG, BLIND_WRONG = wrong_pairs(), blind_wrong()
H = 1e-6
RESULTS = Path(command.__file__).resolve().parents[1] / "results"


def moved(pair, which, index, h):
    """The outputs with one element of an input moved by h; in a symmetric matrix, both entries are moved."""
    inputs = list(pair.inputs)
    inputs[which] = inputs[which].copy()
    places = {index, index[::-1]} if "structure" in pair.check else {index}
    for place in places:
        inputs[which][place] += h / len(places)
    return as_tuple(pair.forward(*inputs, **pair.options)[0])


def differences(pair, which):
    """Central differences of Σ dy·y, element by element."""
    dy = as_tuple(upstream(pair.forward(*pair.inputs, **pair.options)[0]))
    slopes = np.zeros(pair.inputs[which].shape)
    for index in np.ndindex(slopes.shape):
        above, below = (moved(pair, which, index, step) for step in (H, -H))
        slopes[index] = sum(np.sum(d * (a - b)) for d, a, b in zip(dy, above, below, strict=True)) / (2 * H)
    return slopes


def test_the_list_is_long_and_its_names_are_unique():
    names = [each.name for each in (*RIGHT, *WRONG, *BLIND_RIGHT, *BLIND_WRONG)]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    by_hand = sum(each.by_hand for each in WRONG)
    assert len(RIGHT) >= 80
    assert by_hand >= 80
    assert len(WRONG) - by_hand >= 80
    of_each = Counter(each.pair.name for each in WRONG)
    assert sum(of_each[pair.name] >= 2 for pair in RIGHT) > len(RIGHT) / 2


def test_the_blind_list_has_sixty_mistakes_of_all_kinds_and_a_third_are_tiny():
    assert len(BLIND_WRONG) == 60
    assert 20 <= len(BLIND_RIGHT) <= 25
    assert {kind for each in BLIND_WRONG for kind in each.kinds} == set(KINDS)
    assert {len(pair.edits) for pair in BLIND_RIGHT} == {2, 3, 4}
    tiny = [each.name for each in BLIND_WRONG if 1e-10 < error(each) < 1e-6]
    assert 15 <= len(tiny) <= 25


def test_every_blind_label_says_what_is_wrong_and_what_would_fix_it():
    parts = {edit.what: edit.what.split(" -> ") for pair in BLIND_RIGHT for edit in pair.edits}
    assert [what for what, halves in parts.items() if len(halves) != 2 or not all(halves)] == []


def test_the_stored_score_is_of_this_list():
    stored = json.loads((RESULTS / "foreign-last.json").read_text(encoding="utf-8"))["results"]
    origin = {pair.name: "right" for pair in RIGHT}
    origin |= {each.name: "by hand" if each.by_hand else "mutant" for each in WRONG}
    assert {each["name"]: each["origin"] for each in stored} == origin
    assert len(stored) == len(origin)


def test_the_files_are_short():
    folder = Path(command.__file__).parent
    assert [path.name for path in folder.glob("*.py") if path.read_text(encoding="utf-8").count("\n") > 300] == []
    for begins, themes in (("pairs", THEMES), ("blind", BLIND_THEMES)):
        names = sorted(theme.__name__.rpartition(".")[2] for theme in themes)
        assert sorted(path.stem for path in folder.glob(f"{begins}_*.py")) == names


@pytest.mark.parametrize("pair", [*RIGHT, *BLIND_RIGHT], ids=lambda pair: pair.name)
def test_a_right_pair_agrees_with_central_differences(pair):
    places = [i for i, x in enumerate(pair.inputs) if is_float(x)]
    claimed = gradients(pair, pair.backward)
    assert [g.shape for g in claimed] == [pair.inputs[i].shape for i in places]
    expected = [differences(pair, i) for i in places]
    size = max(np.max(np.abs(n)) for n in expected)
    assert [float(np.max(np.abs(a - n))) / size for a, n in zip(claimed, expected, strict=True)] == pytest.approx(
        [0.0] * len(places), abs=1e-6
    )


def test_pairs_keep_their_precision():
    """With float32 inputs, all outputs and gradients are float32."""
    wrong = {}
    for pair in RIGHT:
        y, _ = pair.forward(*pair.cast("float32"), **pair.options)
        dtypes = {str(part.dtype) for part in (*as_tuple(y), *gradients(pair, pair.backward, "float32"))}
        if dtypes != {"float32"}:
            wrong[pair.name] = dtypes
    assert wrong == {}


def error(wrong):
    """The largest difference from the right backward, over its tensor's largest entry; infinite if not finite."""
    right = gradients(wrong.pair, wrong.pair.backward)
    with np.errstate(all="ignore"):
        claimed = gradients(wrong.pair, wrong.backward)
    assert [g.shape for g in claimed] == [g.shape for g in right]
    sizes = [max(float(np.max(np.abs(n))), 1e-300) for n in right]
    errors = [float(np.max(np.abs(a - n)) / size) for a, n, size in zip(claimed, right, sizes, strict=True)]
    return max(error if np.isfinite(error) else np.inf for error in errors)


@pytest.mark.parametrize(
    ("wrong", "least"),
    [*((each, 1e-6) for each in WRONG), *((each, 1e-10) for each in BLIND_WRONG)],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_wrong_pair_differs(wrong, least):
    assert error(wrong) > least
    assert 1 <= len(wrong.kinds) <= 3
    assert wrong.kinds <= set(KINDS)


def labels():
    """Every cause in the source of the diagnosis, and every operator with a mutant in the list."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(diagnosis))) if isinstance(node, ast.Call)]
    made = [call.args[0] for call in calls if getattr(call.func, "id", "") == "Diagnosis"]
    operators = {row[1] for row in json.loads(listed.CHOSEN.read_text(encoding="utf-8"))}
    return operators | {str(text.value) for text in made if isinstance(text, ast.Constant)}


def test_every_label_has_a_family():
    assert {kind for families in score.FAMILIES.values() for kind in families} <= set(KINDS)
    assert set(listed.OF_OPERATOR) <= set(score.FAMILIES)
    assert {"drop a term", "return zero", "transposed", "unknown"} <= labels()
    assert labels() - {*score.FAMILIES, *KINDS} <= set(score.UNEXPLAINED)
    assert score.family("scaled by B = 4") == {"factor"}
    assert score.family("wrong at the last position") == {"wrong place"}
    with pytest.raises(ValueError, match=r"expected one of .*, got 'a new label'; name its family"):
        score.family("a new label")


def row(verdict, cause):
    return Row("x", (2,), 2, 0.0, 0.0, (0,), 1.0, 1.0, 1.0, verdict, cause=cause)


@pytest.mark.parametrize(
    ("rows", "verdict", "cause_is"),
    [
        ([("right", ""), ("WRONG", "sign")], "WRONG", "right"),
        ([("WRONG", "unknown"), ("WRONG", "sign")], "WRONG", "right"),
        ([("WRONG", "zero"), ("WRONG", "sign")], "WRONG", "false"),
        ([("WRONG", "unknown"), ("WRONG", "")], "WRONG", "unknown"),
        ([("right", ""), ("CANNOT TELL", "")], "CANNOT TELL", ""),
        ([("CANNOT TELL", ""), ("WRONG", "sign")], "WRONG", "right"),
        ([("right", "")], "right", ""),
    ],
)
def test_the_score_of_a_report(rows, verdict, cause_is, monkeypatch):
    made = Report("x", tuple(row(*each) for each in rows))
    monkeypatch.setattr(score, "check", lambda *_: made)
    wrong = Wrong("w", RIGHT[0], RIGHT[0].backward, True, frozenset({"sign"}))
    outcome = score.outcome(wrong)
    assert (outcome.verdict, outcome.cause_is) == (verdict, cause_is)
    assert outcome.is_failure == (cause_is != "right")


def test_a_report_that_is_not_ok_has_a_problem():
    problems = ("backward changes its input x",)
    assert score.verdict_of(Report("x", (row("right", ""),), problems)) == "problem"
    assert score.verdict_of(Report("x", (row("WRONG", ""),), problems)) == "WRONG"


def test_a_pairs_options_go_to_gradcheck(monkeypatch):
    seen = {}

    def gradcheck(target, *inputs, reference=None, structure=None, **options):
        seen.update(target=target, inputs=inputs, reference=reference, structure=structure)
        return Report("x", (row("right", ""),))

    pair = next(pair for pair in RIGHT if pair.check)
    wrong = next(wrong for wrong in WRONG if wrong.pair is pair)
    monkeypatch.setattr("npformer.gradcheck", gradcheck)
    score.outcome(wrong, "float32")
    assert seen["structure"] == "symmetric"
    assert seen["target"] == (pair.forward, wrong.backward)
    assert seen["reference"] == (pair.forward, pair.backward)
    assert {x.dtype for x in seen["inputs"]} == {np.dtype("float32")}
    score.outcome(wrong)
    assert seen["reference"] is None
    assert {x.dtype for x in seen["inputs"]} == {np.dtype("float64")}


def test_an_exception_is_a_result(monkeypatch):
    def fails(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(score, "check", fails)
    outcome = score.outcome(RIGHT[0])
    assert (outcome.verdict, outcome.message, outcome.is_failure) == ("raised", "RuntimeError: no", True)


def test_a_wrong_pair_is_told_apart_only_if_its_right_pair_is_right():
    told = score.Outcome("a: edit", "a", "by hand", "WRONG", "sign", "right")
    for verdict, count in (("right", 1), ("WRONG", 0)):
        summary = score.summary([score.Outcome("a", "a", "right", verdict), told])
        assert summary["by hand"].get("told apart", 0) == count


def test_the_first_score_adds_up():
    document = json.loads((RESULTS / "foreign-first.json").read_text(encoding="utf-8"))
    outcomes = [score.Outcome(**each) for each in document["results"]]
    assert document["summary"] == score.summary(outcomes)


def test_the_command(call, tmp_path):
    call(command.main, "--only 'RMS NORM' --save", tmp_path / "found.json").fine().says("pairs")
    document = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert {each["origin"] for each in document["results"]} == {"right", "by hand", "mutant"}
    assert document["summary"]["right"]["pairs"] == 1
    of_one = call(command.main, "--only 'power of the norm' --json").fine().document
    assert [each["origin"] for each in of_one["results"]] == ["right", "by hand"]
    assert of_one["summary"]["by hand"]["told apart"] == 1
    assert call(command.main, "--only 'no such pair'").code == 2
