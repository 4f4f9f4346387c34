"""The exercises, from the linear map to a decoder layer: the function to differentiate, hints, and inputs.

Each is one pair of ``parts``: the learner gets its forward and writes its backward. The list is in order: an exercise
may use the pairs that its own solution calls, which come before it. What an operation's file says of it (its title,
its formula) is taken from there, the rest from exercises.toml: what to think of, inputs, hints and typical mistakes.

The inputs on which a pair is tested, its cases, are random, of several shapes, some awkward. All sizes of a case differ
where possible, so that a confused axis is noticed. There are separate cases for length 1, batches of 1, gaps in memory,
padding, a fully masked row, repeated tokens and rows longer than nine, each with a name for the report.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.functional.derivation import for_page
from npformer.io.child.values import as_tuple
from npformer.lab.grader.parts import FUNCTIONS, TEXTS, TOLD
from npformer.typing import HostArray

#: Hints that fit several exercises, by name.
HINTS: dict[str, Any] = TOLD["hints"]


@dataclass(frozen=True, eq=False)
class Exercise:
    """One pair to write."""

    name: str
    title: str
    formula: str  # the forward, in symbols that match the names in the code
    docs: str  # the module of npformer whose docstring derives the gradient, or several with spaces between
    hint: str  # what to think of first
    known: str  # what one knows who has solved it, in a sentence
    cases: Sequence[tuple[str, str, dict[str, float]]]  # label, the forward's arguments, numbers that a factor may be
    forward: Callable[..., Any]  # the reference's, in plain NumPy
    backward: Callable[..., Any]
    functions: tuple[str, str]  # the names of the pair in a learner's file
    parts: tuple[str, ...]  # functions of earlier exercises that a solution may call: those that the reference calls
    available: frozenset[str]  # the parts, and the parts that these call in turn
    arguments: tuple[str, ...]  # the names of the forward's
    wrt: tuple[str, ...]  # the arguments that have a gradient, in the order in which backward returns them
    gradients: tuple[str, ...]  # the names of what backward returns: dx, dweight, …
    upstream: tuple[str, ...]  # the names of the upstream gradients that backward gets
    outputs: tuple[str, ...]  # the names of what they are the gradients of
    hints: Mapping[str, Any] = field(default_factory=dict)  # by gradient, "*" being any: three, or a name of HINTS
    mistakes: Sequence[dict[str, Any]] = ()  # typical ones: their cause, what shows, hints, and code that makes them
    code: str = ""  # of a pair that is no operation

    @property
    def read(self) -> str:
        """What to think of first, and what may be called."""
        names = dict.fromkeys(re.sub("_(for|back)ward$", "", part) for part in self.parts)
        return f"{self.hint} Your part{'s' * (len(names) > 1)}: {', '.join(names)}." if names else self.hint


BY_NAME: dict[str, Exercise] = {}


def _exercise(name: str, told: dict[str, Any]) -> Exercise:
    """An exercise; the operation's own file says what is not told."""
    functions = f"{name}_forward", f"{name}_backward"
    forward, backward = map(FUNCTIONS.__getitem__, functions)
    arguments, (dy, _) = (tuple(inspect.signature(function).parameters) for function in (forward, backward))
    returned = (inspect.getdoc(backward) or "").rpartition("Returns ")[2]
    wrt = tuple(argument for argument in arguments if re.search(rf"\bd{argument}\b", returned))
    several = re.search(rf"^ +(d\w+(?:, d\w+)+) = {dy}$", TEXTS[functions[1]], re.M)
    upstream = tuple(several[1].split(", ")) if several else (dy,)
    called = set(re.findall(r"\w+", "".join(TEXTS[function] for function in functions)))
    parts = tuple(part for part in TEXTS if part in called and part not in functions)
    earlier = [BY_NAME[part.removesuffix("_backward")].available for part in parts if part.endswith("_backward")]
    if name in OPERATIONS:
        module = OPERATIONS[name].forward.__module__
        shown = for_page(import_module(module).__doc__ or "", OPERATIONS[name])
        found = {"title": shown["title"].partition(": ")[0], "formula": "\n".join(shown["forward"]), "docs": module}
        told = found | told
    if isinstance(told["cases"], str):
        told = told | {"cases": TOLD["exercises"][told["cases"]]["cases"]}
    return Exercise(
        name=name, forward=forward, backward=backward, functions=functions, arguments=arguments, wrt=wrt,
        gradients=tuple(f"d{argument}" for argument in wrt), upstream=upstream,
        outputs=tuple(dy[1:] for dy in upstream), parts=parts, available=frozenset(parts).union(*earlier), **told,
    )  # fmt: skip


for _name, _told in TOLD["exercises"].items():
    BY_NAME[_name] = _exercise(_name, _told)
EXERCISES = tuple(BY_NAME.values())


def find(name: str) -> Exercise:
    """The exercise called name. Raises ConfigError, with all names, if there is none."""
    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"exercise: expected one of {', '.join(BY_NAME)}, got {name!r}; {hint}npformer grade --list shows them"
        )
    return BY_NAME[name]


class ExerciseCase(NamedTuple):
    """Arguments of a forward, upstream gradients of its outputs, and the reference's results."""

    label: str
    arguments: tuple[Any, ...]
    upstream: Any  # one array, or a tuple if there are several outputs
    outputs: Any
    gradients: Any
    cache: Any  # the reference forward's
    sizes: Mapping[str, float]  # named numbers that a wrong factor may equal
    gaps: bool  # whether the arrays have gaps between their elements


@cache
def cases_of(exercise: Exercise) -> tuple[ExerciseCase, ...]:
    """All cases of an exercise, with the same numbers at every call."""
    rng = np.random.default_rng(sum(map(ord, exercise.name)))
    return tuple(_case(exercise, rng, *told) for told in exercise.cases)


def _case(
    exercise: Exercise, rng: np.random.Generator, label: str, given: str, sizes: Mapping[str, float]
) -> ExerciseCase:
    arguments = eval(f"({given},)", _words(rng))
    defaults = [parameter.default for parameter in inspect.signature(exercise.forward).parameters.values()]
    arguments += tuple(defaults[len(arguments) :])
    outputs, kept = exercise.forward(*arguments)
    drawn = tuple(rng.normal(size=np.shape(part)) for part in as_tuple(outputs))
    upstream = drawn if isinstance(outputs, tuple) else np.asarray(drawn[0])
    tokens = {"B·T": sizes.get("B", 1) * sizes.get("T", 1)}
    gradients = exercise.backward(upstream, kept)
    return ExerciseCase(label, arguments, upstream, outputs, gradients, kept, {**sizes, **tokens}, "gaps" in label)


def _words(rng: np.random.Generator) -> dict[str, Any]:
    """What the arguments of a case are written with."""

    def normal(*shape: int) -> HostArray:
        return rng.normal(size=shape)

    def keep(*shape: int) -> HostArray:
        """Which entries dropout keeps, boolean; at least one is dropped and one kept."""
        kept = rng.random(shape) < 0.6
        kept.flat[0], kept.flat[-1] = True, False
        return kept

    def lengths(size: int, *visible: int) -> HostArray:
        """(len(visible), size) boolean: row b sees its first visible[b] entries."""
        return np.arange(size) < np.array(visible)[:, None]

    def weights(width: int, hidden: int) -> tuple[HostArray, ...]:
        """Of a feed-forward layer: w1, b1, w2, b2."""
        return normal(width, hidden), normal(hidden), normal(hidden, width), normal(width)

    def attention(width: int) -> dict[str, HostArray]:
        """Weights (C, C) and biases (C,) of multi-head attention."""
        drawn = {f"w{letter}": normal(width, width) / math.sqrt(width) for letter in "qkvo"}
        return drawn | {f"b{letter}": normal(width) for letter in "qkvo"}

    def layer(width: int, *attentions: str) -> dict[str, dict[str, HostArray]]:
        """Parameters of an encoder or decoder layer; F = C + 1."""
        params = {name: attention(width) for name in attentions}
        for i in range(len(attentions) + 1):
            params[f"norm{i + 1}"] = {"gamma": normal(width), "beta": normal(width)}
        return params | {"feed_forward": dict(zip(("w1", "b1", "w2", "b2"), weights(width, width + 1), strict=True))}

    return {"np": np, **locals()}
