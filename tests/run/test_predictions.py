"""What was written beside what was expected."""

import pytest

from npformer.run.predictions import Piece, Predicted, aligned, confusions, predictions_on
from npformer.training.evaluation import evaluate_task
from tests.training.test_evaluation import TASKS, causal, masked, model_for


def spoken(pieces):
    """expected/actual, with - for nothing."""
    return " ".join(f"{piece.expected or '-'}{piece.got or '-'}" for piece in pieces)


@pytest.mark.parametrize(
    ("expected", "actual", "made"),
    [
        ("", "", ""),
        ("abc", "abc", "aa bb cc"),
        ("abc", "axc", "aa bx cc"),
        ("abc", "ac", "aa b- cc"),
        ("ac", "abc", "aa -b cc"),
        ("ab", "", "a- b-"),
        ("", "ab", "-a -b"),
        ("abcd", "bcde", "a- bb cc dd -e"),
        ("ab", "ba", "ab ba"),
    ],
)
def test_as_few_pieces_as_possible_differ(expected, actual, made):
    assert spoken(aligned(expected, actual)) == made


def test_confusions_count_only_what_was_asked():
    made = [
        Predicted("x", (Piece("a", "b"), Piece("c", "c"), Piece("d", "d", asked=False)), ""),
        Predicted("y", (Piece("a", "b"), Piece(None, "e")), ""),
    ]
    assert confusions(made) == {("a", "b"): 2, ("c", "c"): 1, (None, "e"): 1}
    assert [each.is_right for each in made] == [False, False]
    assert Predicted("z", (Piece("d", "d", asked=False),), "").is_right


@TASKS
def test_the_shares_of_right_pieces_are_those_of_the_evaluation(make, numpy64):
    task = make()
    model, examples = model_for(task, numpy64), task.held_out(5)
    evaluation = evaluate_task(model, task, 5)
    made = predictions_on(model, task, examples, evaluation)
    asked = [piece.is_right for each in made for piece in each.pieces if piece.asked]
    assert sum(asked) / len(asked) == pytest.approx(evaluation.token_accuracy)
    assert sum(each.is_right for each in made) / len(made) == pytest.approx(evaluation.exact_match)


def test_a_text_that_is_continued_comes_back_from_what_was_expected(numpy64):
    task = causal()
    examples = task.held_out(3)
    made = predictions_on(model_for(task, numpy64), task, examples, evaluate_task(model_for(task, numpy64), task, 3))
    assert ["".join(piece.expected for piece in each.pieces) for each in made] == [one.source for one in examples]


def test_only_hidden_tokens_are_asked_for(numpy64):
    task = masked()
    model, examples = model_for(task, numpy64), task.held_out(3)
    made = predictions_on(model, task, examples, evaluate_task(model, task, 3))
    for each, example in zip(made, examples, strict=True):
        targets = task.collate([example])[-1][0]
        assert [piece.asked for piece in each.pieces] == [bool(target) for target in targets]
        assert all(piece.is_right for piece in each.pieces if not piece.asked)
