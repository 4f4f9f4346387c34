"""What a lesson asks before it shows something: a shape, a sign, a sum. The answer is read off what is shown then.

A question belongs to the first command of its lesson that shows the answer. A number is right within 2 %, near 0
within 0.001. A trace's page knows the array that a number stands in, and has its own rule in
``see/page/web/predict.js``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from npformer.backend import get_backend
from npformer.check import gradcheck
from npformer.check.cases.catalogue import catalogue
from npformer.check.subject import Subject
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.lab.lessons.broken import FAULT, LAST_FAULT, broken_case
from npformer.lab.lessons.lessons import BROKEN_FILE, Lesson
from npformer.lab.museum.bugs import bug
from npformer.lab.museum.patch import changed_functions
from npformer.lab.museum.stored import ABOVE, BELOW, PLACES, stored
from npformer.lab.mutation_testing import CRASHED, EQUIVALENT, KILLED, judge, mutant_cases
from npformer.see.explain.operation import FunctionStory, LineStory, OperationStory, explained_operation

Answer: TypeAlias = "tuple[int, ...] | float | frozenset[str]"
NEAR = 0.02  # right means: within 2 %
NEAR_ZERO = 1e-3  # or within this
MOST_DIGITS = 9  # of a size; int() refuses thousands of them
FACTORS = (2, 3, 4, 5, 8, 10)


class Question(NamedTuple):
    """A question and its answer: a shape, a number, or names among the choices."""

    text: str
    answer: Answer
    choices: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The answer in words."""
        if isinstance(self.answer, frozenset):
            return ", ".join(name for name in self.choices if name in self.answer)
        return f"{self.answer:.4g}" if isinstance(self.answer, float) else str(self.answer)

    @property
    def asked(self) -> str:
        """The question, and what an answer to it looks like."""
        if self.choices:
            return f"{self.text} Of: {', '.join(self.choices)}."
        return self.text if isinstance(self.answer, float) else f"{self.text} As (5, 7)."


def questions(lesson: Lesson) -> dict[str, tuple[Question, ...]]:
    """Command -> the questions before it, in the lesson's order."""
    commands = dict.fromkeys(lesson.commands)
    return {command: tuple(make() for make in QUESTIONS[command]) for command in commands if command in QUESTIONS}


def judged(question: Question, typed: str) -> tuple[bool, str]:
    """Whether an answer is right, and what is said to a wrong one. Raises ConfigError for what is no answer."""
    answer = question.answer
    if isinstance(answer, frozenset):
        return _names(answer, question.choices, typed)
    return _shape(answer, typed) if isinstance(answer, tuple) else _number(answer, typed)


def _no_answer(expected: str, typed: str) -> ConfigError:
    """The error for an answer of the wrong kind; of a long one it shows the beginning."""
    return ConfigError(f"--predict: expected {expected}, got {typed if len(typed) <= 40 else typed[:39] + '…'!r}")


def _names(answer: frozenset[str], choices: tuple[str, ...], typed: str) -> tuple[bool, str]:
    given = frozenset(re.split(r"[,\s]+|\band\b", typed.lower())) - {""}
    if not given or given - set(choices):
        raise _no_answer(f"one or more of {', '.join(choices)}", typed)
    if given < answer:
        return False, f"Not all: there {'is' if len(answer - given) == 1 else 'are'} {len(answer - given)} more."
    wrong = "Too many." if given > answer else "Not each of them is right." if given & answer else "No."
    return given == answer, "" if given == answer else wrong


def _shape(answer: tuple[int, ...], typed: str) -> tuple[bool, str]:
    sizes = re.findall(r"\d+", typed)
    if not sizes or re.search(r"[^\d\s,()\[\]×x]", typed) or max(map(len, sizes)) > MOST_DIGITS:
        raise _no_answer("a shape such as (2, 3)", typed)
    given = tuple(map(int, sizes))
    if len(given) != len(answer):
        return False, f"It has {len(answer)} {'axis' if len(answer) == 1 else 'axes'}, not {len(given)}."
    if sorted(given) == sorted(answer):
        return given == answer, "" if given == answer else "The sizes are right, their order is not."
    return False, f"{sum(a == b for a, b in zip(given, answer, strict=True))} of {len(answer)} sizes are right."


def _number(answer: float, typed: str) -> tuple[bool, str]:
    try:
        given = float(typed.replace("−", "-"))
    except ValueError:
        given = math.nan
    if not math.isfinite(given):
        raise _no_answer("a number such as -0.5", typed)
    near = max(NEAR * abs(answer), NEAR_ZERO)
    if abs(given - answer) <= near:
        return True, ""
    if abs(given + answer) <= near:
        return False, "The size is right, the sign is not."
    for factor in FACTORS if answer else ():
        for ratio, size in ((given / answer, "large"), (answer / (given or math.inf), "small")):
            if abs(ratio - factor) <= NEAR * factor:
                return False, f"Too {size} by a factor of {factor}."
    if given * answer < 0:
        return False, "The sign is not right."
    if abs(given) > abs(answer):
        return False, "Too large." if given > 0 else "Too far below 0."
    return False, "Too small." if given > 0 else "Too near 0."


def _made(story: OperationStory) -> dict[str, Any]:
    """All numbers that an explained operation shows, by name; of two with one name the last."""
    made = {name: x for line in _lines([story.forward, story.backward]) for name, x in line.values.items()}
    return made | {story.upstream_name: story.upstream} | story.inputs | story.gradients


def _lines(functions: Iterable[FunctionStory]) -> Iterator[LineStory]:
    for line in (line for function in functions for line in function.lines):
        yield from (line, *_lines(line.inside))


def _of(operation: str, text: str, answer: Callable[[Mapping[str, Any]], Any], *choices: str) -> Question:
    """About what ``npformer explain OPERATION`` shows; {x} in the text is the shape of x."""
    made = _made(explained_operation(operation))
    got = answer(made)
    shapes = {name: np.shape(x) for name, x in made.items()}
    return Question(text.format_map(shapes), got if isinstance(got, tuple | frozenset) else _plain(got), choices)


def _with_bug(name: str, operation: str, text: str, answer: Callable[..., Any]) -> Question:
    """About a bug, on the numbers of ``explain``; answer gets both backwards, dy and the cache."""
    row, story = OPERATIONS[operation], explained_operation(operation)
    cache = row.forward(*story.inputs.values())[1]
    (wrong,) = changed_functions(bug(name).edits)
    shapes = {name: np.shape(x) for name, x in story.inputs.items()}
    return Question(text.format_map(shapes), _plain(answer(row.backward, wrong, story.upstream, cache)))


def _spoilt(name: str, what: str, *gradients: str) -> Question:
    """About the gradients that a bug spoils, as the museum's diagnosis names them."""
    spoilt = stored(bug(name)).diagnosis.partition(":")[0].split(", ")
    return Question(f"{what} Which gradients are wrong?", frozenset(f"d{each}" for each in spoilt), gradients)


def _ends(name: str, what: str) -> Question:
    """About the training loss of runs with a bug."""
    text = f"Where does the training loss end {what}, seen from runs without the bug?"
    return Question(text, frozenset({getattr(stored(bug(name)).comparison, "place", "")}), PLACES)


def _mutant() -> Question:
    chosen = next(each for each in mutant_cases() if each.op == "linear" and each.mutant.operator == "swap operands")
    outcome = judge(chosen, get_backend("numpy", dtype="float64", kernels="plain", threads=1)).outcome
    text = f"{chosen.mutant.describe()}, and the weight is no square. What does the check make of it?"
    return Question(text, frozenset({outcome}), (KILLED, CRASHED, EQUIVALENT))


def _rows() -> Question:
    case, backend = next(case for case in catalogue() if case.name == "EncoderLayer: post, relu"), get_backend("numpy")
    tensors = Subject(case.build(backend), case.inputs, case.options, backend.device).tensors
    text = "Attention has four linear maps, the feed-forward two, and there are two norms. How many rows are there?"
    return Question(text, float(len(tensors)))


def _parts_after_every_fault() -> Question:
    """About the file of lesson 8, without saying what its fault is: the parts that any fault spoils."""
    parts, spoilt = ("x", "attention", "feed_forward", "norm1", "norm2"), []
    for pair, inputs in (broken_case(*fault) for fault in (FAULT, LAST_FAULT)):
        wrong = [row.tensor for row in gradcheck(pair, *inputs, explain=False).rows if not row.ok]
        spoilt.append({part for part in parts if any(part == name or f"'{part}'" in name for name in wrong)})
    text = (
        "The fault is in one line of the layer's backward, and spoils all that is computed from it. Which part has "
        "wrong rows, whichever line it is?"
    )
    return Question(text, frozenset(set.intersection(*spoilt)), parts)


def _plain(number: Any) -> float:
    """Without the rounding of a sum that is 0."""
    return round(float(number), 12) + 0.0


def _sign(number: float) -> frozenset[str]:
    return frozenset({ABOVE if number > 0 else BELOW})


_ROW = "Add one number to a whole row of x, and no y changes. What does each row of dx add up to?"

#: The command that shows the answer, and what makes the question; in a lesson's order.
_ASKED: tuple[tuple[Any, ...], ...] = (
    ("explain linear", _of, "linear", "x is {x}, weight {weight}, bias {bias}. What shape has dweight?",
     lambda made: made["dweight"].shape),
    ("museum show linear-bias-mean", _spoilt, "linear-bias-mean",
     "The bug takes a mean over the tokens where a sum belongs.", "dx", "dweight", "dbias"),
    ("explain softmax --forward", _of, "softmax", "What does each row of y add up to?",
     lambda made: made["y"].sum(-1).flat[0]),
    ("museum show softmax-no-shared", _of, "softmax", _ROW, lambda made: made["dx"].sum(-1).flat[0]),
    ("museum show softmax-no-shared", _with_bug, "softmax-no-shared", "softmax",
     "Let dy be 1 everywhere. What does a row of the wrong dx, y·dy, add up to?",
     lambda right, wrong, dy, cache: wrong(np.ones_like(dy), cache)[0].sum(-1).flat[0]),
    ("explain softmax", _of, "softmax", "The last dy of a row is its largest. Seen from 0, where is the last dx?",
     lambda made: _sign(made["dx"].flat[-1]), ABOVE, BELOW),
    ("explain layer_norm --forward", _of, "layer_norm", "x is {x}. What shape has r = 1/σ?",
     lambda made: made["r"].shape),
    ("museum show layer-norm-no-variance", _spoilt, "layer-norm-no-variance",
     "The bug takes the variance for a constant.", "dx", "dgamma", "dbeta"),
    ("explain layer_norm", _of, "layer_norm", "x is {x}, gamma {gamma}. What shape has dgamma?",
     lambda made: made["dgamma"].shape),
    ("explain layer_norm", _of, "layer_norm", _ROW, lambda made: made["dx"].sum(-1).flat[0]),
    ("explain attention --forward", _of, "attention", "q, k and v are {q}. What shape have the scores?",
     lambda made: made["scores"].shape),
    ("museum show attention-no-scale", _with_bug, "attention-no-scale", "attention",
     "q, k and v are {q}. If the backward forgets 1/√D, by which factor is dq too large?",
     lambda right, wrong, dy, cache: wrong(dy, cache)[0].flat[-1] / right(dy, cache)[0].flat[-1]),
    ("explain attention", _of, "attention", "What does each row of dscores add up to?",
     lambda made: made["dscores"].sum(-1).flat[0]),
    ("explain attention", _of, "attention",
     "Padding hides the last key from every query. What is each entry of its dk?",
     lambda made: np.abs(made["dk"][..., -1, :]).max()),
    ("explain post_norm", _of, "post_norm",
     "Without dropout the norm sees x + f. What is an entry of dx, divided by that of df?",
     lambda made: made["dx"].flat[0] / made["df"].flat[0]),
    ("museum show residual-omitted", _ends, "residual-omitted", "if backward omits the short way"),
    ('gradcheck --only "EncoderLayer: post, relu"', _rows),
    ("explain cross_entropy --forward", _of, "cross_entropy",
     "logits are {logits}, targets {targets}. What shape has q, the distribution that is aimed at?",
     lambda made: made["q"].shape),
    ("museum show gradients-not-zeroed", _ends, "gradients-not-zeroed", "if gradients are never zeroed"),
    ("explain cross_entropy", _of, "cross_entropy",
     "Seen from 0, where is dlogits in the column of the right token?",
     lambda made: _sign(np.take_along_axis(made["dlogits"], made["targets"][..., None], -1).flat[0]), ABOVE, BELOW),
    ("museum show causal-off", _ends, "causal-off", "if the decoder sees what it is to predict"),
    ("museum mutants --sample 20", _mutant),
    (f"grade {BROKEN_FILE}", _parts_after_every_fault),
    ("museum show pre-norm-stream-dropped", _spoilt, "pre-norm-stream-dropped",
     "dtotal + through_norm has lost dtotal.", "dx", "df", "dgamma", "dbeta"),
)  # fmt: skip

#: Command -> makes the questions before it.
QUESTIONS: Mapping[str, tuple[Callable[[], Question], ...]] = {
    f"npformer {command}": tuple(partial(make, *asked) for shown, make, *asked in _ASKED if shown == command)
    for command, *_ in _ASKED
}
