"""What a lesson asks before it shows something: the answers, by hand, and what is said to other ones."""

import math

import pytest

from npformer.errors import ConfigError
from npformer.lab.lessons import LESSONS
from npformer.lab.museum.stored import ABOVE, BELOW
from npformer.lab.mutation_testing import CRASHED
from npformer.see.explain.questions import QUESTIONS, Question, judged, questions

#: By hand, in the lessons' order. Sizes of the samples: 1 text, 3 tokens, 3 features in and 2 out, one head of width 2.
ANSWERS = [
    [(3, 2), {"dbias"}],
    [1.0, 0.0, 1.0, {ABOVE}],  # with dy = 1 everywhere y·dy is y, whose rows add up to 1
    [(1, 3, 1), {"dx"}, (3,), 0.0],
    [(1, 1, 3, 3), math.sqrt(2), 0.0, 0.0],  # 1/√D is missing
    [1.0, {ABOVE}, 17.0],  # a row for x, and 2 for each of 4 + 2 maps and 2 norms
    [(1, 3, 4), {ABOVE}, {BELOW}],  # p − 1 for the right token
    [{BELOW}, {CRASHED}],  # it copies what it is to predict; (out, in) times (tokens, out) does not fit
    [{"x"}, {"dx", "df"}],  # dx is the last to be computed, from all that came before
]


def all_of(one):
    return [question for before in questions(one).values() for question in before]


@pytest.mark.parametrize("one", LESSONS, ids=[one.title for one in LESSONS])
def test_the_answers_are_those_of_a_derivation_by_hand(one):
    asked, answers = all_of(one), ANSWERS[one.number - 1]
    assert [question.answer for question in asked] == [pytest.approx(a) if isinstance(a, float) else a for a in answers]
    for question in asked:
        assert "{" not in question.asked
        assert judged(question, question.told) == (True, ""), question


def test_each_operation_and_bug_is_asked_about_before_it_is_shown():
    shown = {c for one in LESSONS for c in one.commands if c.startswith(("npformer museum show", "npformer explain"))}
    walks = {command for command in shown if "--at" in command}
    assert shown - walks <= QUESTIONS.keys()
    assert {command for one in LESSONS for command in one.commands} >= QUESTIONS.keys()


SHAPE = Question("What shape?", (2, 3, 4))
NUMBER = Question("How much?", -0.5)
NAMES = Question("Which?", frozenset({"dx", "df"}), ("dx", "df", "dgamma"))


@pytest.mark.parametrize(
    ("question", "typed", "said"),
    [
        (SHAPE, "(2, 3, 4)", ""),
        (SHAPE, "2x3×4", ""),
        (SHAPE, "3, 2, 4", "The sizes are right, their order is not."),
        (SHAPE, "(2, 3)", "It has 3 axes, not 2."),
        (SHAPE, "(2, 5, 4)", "2 of 3 sizes are right."),
        (NUMBER, "-0.5", ""),
        (NUMBER, "−0.495", ""),
        (NUMBER, "0.5", "The size is right, the sign is not."),
        (NUMBER, "-1.5", "Too large by a factor of 3."),
        (NUMBER, "-0.25", "Too small by a factor of 2."),
        (NUMBER, "0.7", "The sign is not right."),
        (NUMBER, "-0.45", "Too near 0."),
        (Question("How much?", 0.5), "0.7", "Too large."),
        (Question("How much?", 0.5), "0.45", "Too small."),
        (NAMES, "df, dx", ""),
        (NAMES, "DX AND Df", ""),
        (Question("Where?", frozenset({ABOVE}), (ABOVE, BELOW)), "Above", ""),
        (NAMES, "dx", "Not all: there is 1 more."),
        (NAMES, "dx df dgamma", "Too many."),
        (NAMES, "dgamma", "No."),
        (NAMES, "dgamma dx", "Not each of them is right."),
        (Question("How many?", 0.0), "0", ""),
        (Question("How many?", 0.0), "-0.5", "Too far below 0."),
        (Question("How many?", 0.0), "0.0009", ""),
        (Question("How many?", 0.0), "0.0011", "Too large."),
    ],
)
def test_what_is_said_to_an_answer(question, typed, said):
    assert judged(question, typed) == (not said, said)


@pytest.mark.parametrize(
    ("question", "typed", "expected"),
    [
        (SHAPE, "B, T, C", r"--predict: expected a shape such as \(2, 3\), got 'B, T, C'"),
        (SHAPE, "", "expected a shape"),
        (SHAPE, "1" * 5000, f"expected a shape such as .*, got '{'1' * 39}…'$"),
        (SHAPE, "(2, 3, 1234567890)", "expected a shape"),
        (NUMBER, "1" * 5000, f"expected a number such as -0.5, got '{'1' * 39}…'$"),
        (NUMBER, "much", "--predict: expected a number such as -0.5, got 'much'"),
        (NUMBER, "nan", "expected a number"),
        (NAMES, "dy", "--predict: expected one or more of dx, df, dgamma, got 'dy'"),
    ],
)
def test_what_is_no_answer(question, typed, expected):
    with pytest.raises(ConfigError, match=expected):
        judged(question, typed)
