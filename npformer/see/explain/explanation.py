"""Where one number of a gradient comes from: all sections, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.errors import ConfigError
from npformer.see.explain.entries import Spot
from npformer.see.explain.graph import Graph, Making
from npformer.see.explain.number import GradientAddress, Means, Witnessed, find, means_of, names_of_calls, value_of
from npformer.see.explain.paths import PAST, THROUGH, Gates, Paths, paths
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
    place, reader = find(session, at), _Reader(session)
    value = value_of(session, place)
    terms = reader.terms(place, value.analytic)
    return Explanation(
        session.setting.name, place.text, what(session, place), session.loss, value, terms, reader.why(terms),
        tuple(up), tuple(reader.walk(terms, up)), paths(session, place, value.analytic), tokens(session, place),
        means_of(session, place, value.analytic),
    )  # fmt: skip


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
    targets, rows = session.setting.targets, session.setting.labels.get("target_out")
    if targets is None:
        return where
    told = int(targets[index]) if rows is None else quoted(rows[index[0]][index[1] if len(index) > 1 else 0])
    return f"{told} at {where}"


class _Reader(Graph):
    """Turns what the graph finds into groups of products with names."""

    def __init__(self, session: Recording) -> None:
        super().__init__(session)
        self._names = {id(call): name for name, call in names_of_calls(session).items()}

    def terms(self, place: GradientAddress, value: float) -> Sums:
        """The products of the place's own gradient; what a layer's own code adds is one, whose parts are not seen."""
        sums = self._sums("the number", value, map(self.made, self.arrivals(place)), value != 0)
        named = [(self._names[id(call)], part) for call, part in self.outside(place) if part]
        own = [(name, (Product("", f"{name}: its own code", (part,), part, "", ""),), part) for name, part in named]
        groups = (*sums.groups, *(Group(name, "", None, products, part) for name, products, part in own))
        return replace(sums, groups=groups, begins=sums.begins and not own)

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
                return self._sums(name, spot.value(), self.follow(call, spot))
        known = ", ".join(list(dict.fromkeys(each for step in steps for each in step.spots))[:6])
        raise ConfigError(
            f"--up: expected a gradient that the last step names, such as {known or 'none'}, got {name!r}"
        )

    def _sums(self, name: str, value: float, made: Iterable[Making], may_begin: bool = True) -> Sums:
        spots: dict[str, tuple[Call, Spot]] = {}
        groups = []
        for call, line, terms, coefficient in made:
            products = tuple(self._product(call, term, coefficient, spots) for term in terms)
            shown_as, total = self._names.get(id(call), call.name), sum(each.value for each in products)
            groups.append(Group(shown_as, call.operation, line, products, total))
        return Sums(name, value, tuple(groups), may_begin and not groups, spots)

    def _product(self, call: Call, term: Term, coefficient: float, spots: dict[str, tuple[Call, Spot]]) -> Product:
        texts = [shown(self.session, call, factor.spot, factor.text) for factor in term.factors]
        up, place, value = "", "", coefficient * term.value
        for text, factor in zip(texts, term.factors, strict=True):
            if factor.spot is not None:
                up, spots[text] = text, (call, factor.spot)
                place = axis_words(self.session, call, factor.shape, factor.at)
        zero = why_zero(self.session, call, term) if value == 0 else ""
        sign = "−" if coefficient * term.sign < 0 else ""
        return Product(place, sign + "·".join(texts), tuple(each.value for each in term.factors), value, up, zero)


def to_dict(explained: Explanation) -> dict[str, Any]:
    """For JSON: every section, with all products, ways and tokens."""
    told: dict[str, Any] = as_json(explained)
    paths = explained.paths
    goes = {THROUGH: "through", PAST: "past"}
    ways = [
        {
            "choices": [{"at": paths.sums[number].name, "goes": goes[choice]} for number, choice in way.choices],
            "value": way.value,
        }
        for way in paths.ways
    ]
    sums = [{name: x for name, x in each._asdict().items() if name != "call"} for each in paths.sums]
    told["paths"] = {"exact": paths.exact, "remainder": paths.remainder, "sums": sums, "ways": ways}
    return {"format": "npformer-explanation", "version": 1} | told
