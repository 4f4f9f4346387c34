"""Where one number of a gradient comes from: all sections, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.errors import ConfigError
from npformer.see.explain.entries import Spot
from npformer.see.explain.graph import Graph, Making
from npformer.see.explain.number import GradientAddress, Means, Witnessed, find, means_of, names_of_calls, value_of
from npformer.see.explain.paths import THROUGH, Gates, Paths, paths
from npformer.see.explain.products import CodeLine, Term
from npformer.see.explain.text import as_json
from npformer.see.explain.words import GRADIENT, axis_words, quoted, shown, what, why_zero
from npformer.see.record.calls import Call
from npformer.see.record.recording import Recording


class Product(NamedTuple):
    """One product of a sum. place: b0 t2, where its gradient is; up: the gradient in it, by which --up goes on."""

    place: str
    text: str
    factors: tuple[float, ...]
    value: float
    up: str
    zero: str  # why it is exactly 0; "" if it is not


class Group(NamedTuple):
    """The products that one line of one operation adds up."""

    call: str
    operation: str
    line: CodeLine | None
    products: tuple[Product, ...]
    value: float

    @property
    def sorted(self) -> list[Product]:
        """The products that are not exactly 0, the largest first."""
        return sorted((each for each in self.products if each.value != 0), key=lambda each: -abs(each.value))


@dataclass(frozen=True)
class Sums:
    """A number as a sum: its name, and a group of products for each line that gives a part of it.

    begins: backward begins with this number, so nothing is above it. spots: the gradients that its products name.
    """

    name: str
    value: float
    groups: tuple[Group, ...]
    begins: bool = False
    spots: dict[str, tuple[Call, Spot]] = field(default_factory=dict, repr=False)


class Share(NamedTuple):
    """The part of the number that comes from one token's loss."""

    name: str
    value: float


@dataclass(frozen=True)
class Explanation:
    """One number of a gradient, explained. ``to_dict`` is its JSON, ``text.lines`` its text."""

    name: str
    at: str
    what: str
    loss: float
    value: Witnessed
    terms: Sums
    why: Sums | None
    asked: tuple[str, ...]
    up: tuple[Sums, ...]  # the numbers that were asked for
    paths: Paths = field(repr=False)
    tokens: tuple[Share, ...]
    means: Means


def explanation(session: Recording, at: str, up: Sequence[str] = ()) -> Explanation:
    """Explain the number at a place. up: gradients to walk on to, as the terms name them. Raises ConfigError."""
    place = find(session, at)
    graph = Graph(session)
    value = value_of(session, place)
    reader = _Reader(session, graph)
    terms = reader.terms(place, value.analytic)
    return Explanation(
        session.setting.name,
        place.text,
        what(session, place),
        session.loss,
        value,
        terms,
        reader.why(terms),
        tuple(up),
        tuple(reader.walk(terms, up)),
        paths(session, place, value.analytic),
        tokens(session, place),
        means_of(session, place, value.analytic),
    )


def tokens(session: Recording, place: GradientAddress) -> tuple[Share, ...]:
    """The part of the number from each token's loss: backward with one token's gradient of the output at a time."""
    shares, whole = [], session.seen[0].upstream
    for part, dy in enumerate(as_tuple(whole)):
        for index in np.ndindex(np.shape(dy)[:-1]):
            only = [np.zeros_like(each) for each in as_tuple(whole)]
            only[part][index] = dy[index]
            value = place.gradient(session, Gates({}, {0: like(whole, only)}))
            shares.append(Share(_predicted(session, index), value))
    return tuple(shares)


def _predicted(session: Recording, index: tuple[int, ...]) -> str:
    """The token that is predicted at a place."""
    where = " ".join(f"{letter}{i}" for letter, i in zip("bt", index, strict=False))
    targets = session.setting.targets
    if targets is None:
        return where
    rows = session.setting.labels.get("target_out")
    if rows is None:
        return f"{int(targets[index])} at {where}"
    return f"{quoted(rows[index[0]][index[1] if len(index) > 1 else 0])} at {where}"


class _Reader:
    """Turns what the graph finds into groups of products with names."""

    def __init__(self, session: Recording, graph: Graph) -> None:
        self.session, self.graph = session, graph
        self._names = {id(call): name for name, call in names_of_calls(session).items()}

    def terms(self, place: GradientAddress, value: float) -> Sums:
        """The products of the place's own gradient."""
        own_groups = [self._own_code(call, part) for call, part in self.graph.outside(place) if part]
        return self._sums("the number", value, map(self.graph.made, self.graph.arrivals(place)), own_groups, value != 0)

    def _own_code(self, call: Call, part: float) -> Group:
        """What a layer's own code adds to a parameter, without an operation: one product, whose parts are not seen."""
        name = self._names[id(call)]
        return Group(name, "", None, (Product("", f"{name}: its own code", (part,), part, "", ""),), part)

    def why(self, sums: Sums) -> Sums | None:
        """The products of the largest product's gradient; of a sum of zeros, those of a gradient that is 0."""
        products = [each for group in sums.groups for each in group.products if each.up]
        products = [each for each in products if each.value != 0 or each.zero == GRADIENT]
        largest = max(products, key=lambda product: abs(product.value), default=None)
        return None if largest is None else self.above(largest.up, [sums])

    def walk(self, terms: Sums, up: Sequence[str]) -> Iterator[Sums]:
        """The numbers asked for, one after the other; a number of steps goes on along the largest products."""
        here = terms
        for asked in up:
            for _ in range(int(asked) if asked.isdecimal() else 1):
                above = self.why(here)
                following = above if asked.isdecimal() else self.above(asked, [here, *([above] if above else [])])
                if following is None:
                    return
                yield following
                here = following

    def above(self, name: str, steps: Sequence[Sums]) -> Sums:
        """The products of a gradient that the products of these steps name. Raises ConfigError for another name."""
        for step in steps:
            if name in step.spots:
                call, spot = step.spots[name]
                return self._sums(name, spot.value(), self.graph.follow(call, spot))
        known = ", ".join(list(dict.fromkeys(each for step in steps for each in step.spots))[:6])
        raise ConfigError(
            f"--up: expected a gradient that the last step names, such as {known or 'none'}, got {name!r}"
        )

    def _sums(
        self, name: str, value: float, made: Iterable[Making], own_groups: Sequence[Group] = (), may_begin: bool = True
    ) -> Sums:
        spots: dict[str, tuple[Call, Spot]] = {}
        groups = (*(self._group(each, spots) for each in made), *own_groups)
        return Sums(name, value, groups, may_begin and not groups, spots)

    def _group(self, made: Making, spots: dict[str, tuple[Call, Spot]]) -> Group:
        products = tuple(self._product(made.call, term, made.coefficient, spots) for term in made.terms)
        name = self._names.get(id(made.call), made.call.name)
        return Group(name, made.call.operation, made.line, products, sum(each.value for each in products))

    def _product(self, call: Call, term: Term, coefficient: float, spots: dict[str, tuple[Call, Spot]]) -> Product:
        up, place = "", ""
        texts = []
        for factor in term.factors:
            text = shown(self.session, call, factor.spot, factor.text)
            texts.append(text)
            if factor.spot is not None:
                up = text
                spots[text] = (call, factor.spot)
                place = axis_words(self.session, call, factor.shape, factor.at)
        value = coefficient * term.value
        factors = tuple(factor.value for factor in term.factors)
        zero = why_zero(self.session, call, term) if value == 0 else ""
        sign = "−" if coefficient * term.sign < 0 else ""
        return Product(place, sign + "·".join(texts), factors, value, up, zero)


def to_dict(explained: Explanation) -> dict[str, Any]:
    """For JSON: every section, with all products, ways and tokens."""
    told: dict[str, Any] = as_json(explained)
    return {"format": "npformer-explanation", "version": 1} | told | {"paths": _paths(explained.paths)}


def _paths(paths: Paths) -> dict[str, Any]:
    sums = [{"name": s.name, "through": s.through, "past": s.past, "elsewhere": s.elsewhere} for s in paths.sums]
    return {
        "exact": paths.exact,
        "remainder": paths.remainder,
        "sums": sums,
        "ways": [
            {
                "choices": [
                    {"at": paths.sums[number].name, "goes": "through" if choice == THROUGH else "past"}
                    for number, choice in way.choices
                ],
                "value": way.value,
            }
            for way in paths.ways
        ],
    }
