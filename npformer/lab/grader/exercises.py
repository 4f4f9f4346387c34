"""The exercises, from the linear map to a decoder layer: the function to differentiate, and reading hints.

Each is one pair of ``parts``: the learner gets its forward and writes its backward. The list is in order: an exercise
may use the pairs that its own solution calls, which come before it. What an operation's file says of it (its title,
its formula) is taken from there, the rest from exercises.toml: what to think of, inputs, hints and typical mistakes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.functional.derivation import for_page
from npformer.lab.grader.parts import FUNCTIONS, TEXTS, TOLD

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
