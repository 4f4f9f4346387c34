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
from npformer.lab.grader.parts import FUNCTIONS, TEXTS, TOLD
from npformer.lab.grader.tree import as_tuple
from npformer.typing import HostArray

#: Hints that fit several exercises, by name.
HINTS: dict[str, Any] = TOLD["hints"]


@dataclass(frozen=True, eq=False)
class Exercise:
    """One pair to write. Names of functions and files follow from ``name``."""

    name: str
    title: str
    formula: str  # the forward, in symbols that match the names in the code
    docs: str  # the module of npformer whose docstring derives the gradient, or several with spaces between
    hint: str  # what to think of first
    known: str  # what one knows who has solved it, in a sentence
    cases: Sequence[tuple[str, str, dict[str, float]]]  # label, the forward's arguments, numbers that a factor may be
    hints: Mapping[str, Any] = field(default_factory=dict)  # by gradient, "*" being any: three, or a name of HINTS
    mistakes: Sequence[dict[str, Any]] = ()  # typical ones: their cause, what shows, hints, and code that makes them
    code: str = ""  # of a pair that is no operation

    @property
    def forward(self) -> Callable[..., Any]:
        """The reference forward, in plain NumPy."""
        return FUNCTIONS[f"{self.name}_forward"]

    @property
    def backward(self) -> Callable[..., Any]:
        """The reference backward, in plain NumPy."""
        return FUNCTIONS[f"{self.name}_backward"]

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the pair in a learner's file."""
        return f"{self.name}_forward", f"{self.name}_backward"

    @property
    def read(self) -> str:
        """What to think of first, and what may be called."""
        names = dict.fromkeys(re.sub("_(for|back)ward$", "", part) for part in self.parts)
        return f"{self.hint} Your part{'s' * (len(names) > 1)}: {', '.join(names)}." if names else self.hint

    @property
    def parts(self) -> tuple[str, ...]:
        """The functions of earlier exercises that a solution may call: those that the reference calls."""
        called = set(re.findall(r"\w+", "".join(TEXTS[name] for name in self.functions)))
        return tuple(name for name in TEXTS if name in called and name not in self.functions)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the forward's arguments."""
        return tuple(inspect.signature(self.forward).parameters)

    @property
    def wrt(self) -> tuple[str, ...]:
        """The arguments that have a gradient, in the order in which backward returns them."""
        returned = (inspect.getdoc(self.backward) or "").rpartition("Returns ")[2]
        return tuple(name for name in self.arguments if re.search(rf"\bd{name}\b", returned))

    @property
    def gradients(self) -> tuple[str, ...]:
        """The names of the gradients that backward returns: dx, dweight, …"""
        return tuple(f"d{name}" for name in self.wrt)

    @property
    def upstream(self) -> tuple[str, ...]:
        """The names of the upstream gradients that backward gets."""
        dy = next(iter(inspect.signature(self.backward).parameters))
        several = re.search(rf"^ +(d\w+(?:, d\w+)+) = {dy}$", TEXTS[f"{self.name}_backward"], re.M)
        return tuple(several[1].split(", ")) if several else (dy,)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what they are the gradients of."""
        return tuple(name[1:] for name in self.upstream)

    @property
    def available(self) -> frozenset[str]:
        """The parts, and the parts that these call in turn."""
        earlier = [BY_NAME[name.removesuffix("_backward")] for name in self.parts if name.endswith("_backward")]
        return frozenset(self.parts).union(*(exercise.available for exercise in earlier))


def _exercise(name: str, told: dict[str, Any]) -> Exercise:
    """An exercise; the operation's own file says what is not told."""
    if name in OPERATIONS:
        module = OPERATIONS[name].forward.__module__
        shown = for_page(import_module(module).__doc__ or "", OPERATIONS[name])
        found = {"title": shown["title"].partition(": ")[0], "formula": "\n".join(shown["forward"]), "docs": module}
        told = found | told
    if isinstance(told["cases"], str):
        told = told | {"cases": TOLD["exercises"][told["cases"]]["cases"]}
    return Exercise(name, **told)


EXERCISES = tuple(_exercise(name, told) for name, told in TOLD["exercises"].items())
BY_NAME = {exercise.name: exercise for exercise in EXERCISES}


def find(name: str) -> Exercise:
    """The exercise called name. Raises ConfigError, with all names, if there is none."""
    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"exercise: expected one of {', '.join(BY_NAME)}, got {name!r}; {hint}npformer grade --list shows them"
        )
    return BY_NAME[name]


class Case(NamedTuple):
    """Arguments of a forward, upstream gradients of its outputs, and the reference's results."""

    label: str
    arguments: tuple[Any, ...]
    upstream: Any  # one array, or a tuple if there are several outputs
    outputs: Any
    gradients: Any
    cache: Any  # the reference forward's
    sizes: Mapping[str, float]  # named numbers that a wrong factor may equal

    @property
    def gaps(self) -> bool:
        """Whether the arrays have gaps between their elements."""
        return "gaps" in self.label


@cache
def cases_of(exercise: Exercise) -> tuple[Case, ...]:
    """All cases of an exercise, with the same numbers at every call."""
    rng = np.random.default_rng(sum(map(ord, exercise.name)))
    return tuple(_case(exercise, rng, *told) for told in exercise.cases)


def _case(exercise: Exercise, rng: np.random.Generator, label: str, given: str, sizes: Mapping[str, float]) -> Case:
    arguments = eval(f"({given},)", _words(rng))
    defaults = [parameter.default for parameter in inspect.signature(exercise.forward).parameters.values()]
    arguments += tuple(defaults[len(arguments) :])
    outputs, kept = exercise.forward(*arguments)
    drawn = tuple(rng.normal(size=np.shape(part)) for part in as_tuple(outputs))
    upstream = drawn if isinstance(outputs, tuple) else np.asarray(drawn[0])
    tokens = {"B·T": sizes.get("B", 1) * sizes.get("T", 1)}
    return Case(label, arguments, upstream, outputs, exercise.backward(upstream, kept), kept, {**sizes, **tokens})


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
