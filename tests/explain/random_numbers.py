"""Explains random numbers of small models of all kinds, and checks that every split adds up to the number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as counting
from typing import Any

import numpy as np

from npformer.check.cases.catalogue import catalogue
from npformer.check.cases.random_cases import random_model_case
from npformer.check.inputs import as_tuple
from npformer.check.report import RIGHT
from npformer.explain.explanation import Explanation, Sums, explanation
from npformer.explain.models import NAMES, case_setting, model_setting
from npformer.explain.place import find, names_of_calls
from npformer.explain.session import Session, Setting, session

#: Relative to the largest term: a sum that is further from the number is wrong.
EXACT = 1e-12
#: Far more than anybody draws: a draw that is not used is replaced by the one after so many.
DRAWS = 1_000_000


@dataclass(frozen=True)
class Checked:
    """One random number: where, what was found, and what does not hold."""

    name: str
    place: str
    value: float
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.problems


def random_checks(count: int, seed: int = 0) -> Iterator[Checked]:
    """Explain count random numbers: named models, random ones, and the catalogue's models and layers in turn."""
    models, layers = ([case for case in catalogue() if case.group == group] for group in ("model", "layer"))
    for number in range(count):
        rng = np.random.default_rng([seed, 22, number])
        kind = number % 4
        if kind == 0:
            setting = model_setting(NAMES[number // 4 % len(NAMES)])
        elif kind == 1:
            setting = _wide_setting(seed, number)
        else:
            cases = models if kind == 2 else layers
            setting = case_setting(cases[int(rng.integers(len(cases)))])
        with session(setting) as opened:
            at = _random_place(opened, rng)
            explained = explanation(opened, at)
        yield Checked(setting.name, at, explained.value.analytic, tuple(problems(explained)))


def _wide_setting(seed: int, number: int) -> Setting:
    """A random model of at least three features: of two, a norm leaves only signs, and all gradients are rounding."""
    drawn = (case_setting(random_model_case(seed, number + DRAWS * i)) for i in counting())
    return next(setting for setting in drawn if setting.target.config.d_model > 2)


def problems(explained: Explanation) -> Iterator[str]:
    """What does not hold of an explanation.

    The largest term is that of the number's own sum: a token's or a way's part is itself a sum of such terms, and
    rounded like them.
    """
    value = explained.value.analytic
    if explained.value.verdict != RIGHT:
        yield f"gradcheck's verdict is {explained.value.verdict}"
    for name, sums in (("terms", explained.terms), ("why", explained.why), *(("up", step) for step in explained.up)):
        if sums is not None and not sums.begins:
            yield from _apart(f"{name}: {sums.name}", sums.value, _products(sums))
    largest = max(map(abs, _products(explained.terms)), default=0.0)
    yield from _apart("tokens", value, [each.value for each in explained.tokens], largest)
    yield from _apart(
        "paths", value, [*(way.value for way in explained.paths.ways), explained.paths.remainder], largest
    )
    for each in explained.paths.sums:
        yield from _apart(f"the sum of {each.name}", value, [each.through, each.past, each.elsewhere], largest)
    if not explained.means.falls_fourfold:
        yield f"the error of the prediction does not fall fourfold: {explained.means}"


def _products(sums: Sums) -> list[float]:
    return [product.value for group in sums.groups for product in group.products]


def _apart(name: str, value: float, parts: list[float], largest: float = 0.0) -> Iterator[str]:
    """A sentence if the parts do not add up to the value."""
    largest = max([largest, abs(value), *map(abs, parts)])
    if not abs(sum(parts) - value) <= EXACT * largest:
        yield f"{name}: the parts add up to {sum(parts)!r}, not to {value!r}"


def _random_place(opened: Session, rng: np.random.Generator) -> str:
    """A place with its index: three times in four a parameter's or an input's, else an activation's."""
    tensors = opened.checked.tensors
    if tensors and rng.integers(4):
        name = list(tensors)[int(rng.integers(len(tensors)))]
        shape: Any = tensors[name].shape
    else:
        calls = {
            f"{each}@output": call
            for each, call in names_of_calls(opened).items()
            if call.backward_time is not None and not isinstance(call.output, tuple) and np.ndim(call.output)
        }
        name = list(calls)[int(rng.integers(len(calls)))]
        shape = np.shape(as_tuple(calls[name].output)[0])
    index = ",".join(str(int(rng.integers(size))) for size in shape)
    return find(opened, f"{name}[{index}]" if shape else name).text
