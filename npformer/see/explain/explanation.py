"""Where one number of a gradient comes from: all sections, as data, as JSON, and as text without colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.errors import ConfigError
from npformer.io.printable import shell_words, visible
from npformer.io.terminal import counted
from npformer.see.explain.entries import Spot
from npformer.see.explain.graph import Graph, Making
from npformer.see.explain.number import GradientAddress, Means, Witnessed, find, means_of, names_of_calls, value_of
from npformer.see.explain.paths import Gates, Paths, ResidualPath, paths
from npformer.see.explain.products import CodeLine, Term
from npformer.see.explain.text import Sheet, as_json, number, share
from npformer.see.explain.words import GRADIENT, axis_words, quoted, shown, what, why_zero
from npformer.see.record.calls import Call
from npformer.see.record.recording import Recording

MARGIN = 8
#: Lines of one sum before the rest is summed.
MOST_LINES = 6


def _largest_first(parts: Iterable[Any]) -> list[Any]:
    """The parts whose value is not exactly 0, the largest first."""
    return sorted((each for each in parts if each.value != 0), key=lambda each: -abs(each.value))


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
        return _largest_first(self.products)


@dataclass(frozen=True)
class ProductSums:
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
    """One number of a gradient, explained. ``to_dict`` is its JSON, ``lines`` its text."""

    name: str
    at: str
    what: str
    loss: float
    value: Witnessed
    terms: ProductSums
    why: ProductSums | None
    asked: tuple[str, ...]
    up: tuple[ProductSums, ...]  # the numbers that were asked for
    paths: Paths = field(repr=False)
    tokens: tuple[Share, ...]
    means: Means


def explanation(session: Recording, at: str, up: Sequence[str] = ()) -> Explanation:
    """Explain the number at a place. up: gradients to walk on to, as the terms name them. Raises ConfigError."""
    place, reader = find(session, at), _NumberReader(session)
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


class _NumberReader(Graph):
    """Turns what the graph finds into groups of products with names."""

    def __init__(self, session: Recording) -> None:
        super().__init__(session)
        self._names = {id(call): name for name, call in names_of_calls(session).items()}

    def terms(self, place: GradientAddress, value: float) -> ProductSums:
        """The products of the place's own gradient; what a layer's own code adds is one, whose parts are not seen."""
        sums = self._sums("the number", value, map(self.made, self.arrivals(place)), value != 0)
        own = []
        for name, part in ((self._names[id(call)], part) for call, part in self.outside(place) if part):
            own.append(Group(name, "", None, (Product("", f"{name}: its own code", (part,), part, "", ""),), part))
        return replace(sums, groups=(*sums.groups, *own), begins=sums.begins and not own)

    def why(self, sums: ProductSums) -> ProductSums | None:
        """The products of the largest product's gradient; of a sum of zeros, those of a gradient that is 0."""
        products = [each for group in sums.groups for each in group.products if each.up]
        products = [each for each in products if each.value != 0 or each.zero == GRADIENT]
        largest = max(products, key=lambda product: abs(product.value), default=None)
        return None if largest is None else self.above(largest.up, [sums])

    def walk(self, terms: ProductSums, up: Sequence[str]) -> Iterator[ProductSums]:
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

    def above(self, name: str, steps: Sequence[ProductSums]) -> ProductSums:
        """The products of a gradient that the products of these steps name. Raises ConfigError for another name."""
        for step in steps:
            if name in step.spots:
                call, spot = step.spots[name]
                return self._sums(name, spot.value(), self.follow(call, spot))
        known = ", ".join(list(dict.fromkeys(each for step in steps for each in step.spots))[:6])
        raise ConfigError(
            f"--up: expected a gradient that the last step names, such as {known or 'none'}, got {name!r}"
        )

    def _sums(self, name: str, value: float, made: Iterable[Making], may_begin: bool = True) -> ProductSums:
        spots: dict[str, tuple[Call, Spot]] = {}
        groups = []
        for call, line, terms, coefficient in made:
            products = tuple(self._product(call, term, coefficient, spots) for term in terms)
            shown_as, total = self._names.get(id(call), call.name), sum(each.value for each in products)
            groups.append(Group(shown_as, call.operation, line, products, total))
        return ProductSums(name, value, tuple(groups), may_begin and not groups, spots)

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
    ways = [
        {
            "choices": [{"at": paths.sums[number].name, "goes": choice} for number, choice in way.choices],
            "value": way.value,
        }
        for way in paths.ways
    ]
    sums = [{name: x for name, x in each._asdict().items() if name != "call"} for each in paths.sums]
    told["paths"] = {"exact": paths.exact, "remainder": paths.remainder, "sums": sums, "ways": ways}
    return {"format": "npformer-explanation", "version": 1} | told


def lines(explained: Explanation, width: int = 100) -> list[str]:
    """The sections, one after the other."""
    page = _ExplanationPage(explained, width)
    page.write()
    return page.lines


class _ExplanationPage(Sheet):
    """The lines of an explanation."""

    def __init__(self, explained: Explanation, width: int) -> None:
        super().__init__(width)
        self.explained, self.value = explained, explained.value.analytic

    def write(self) -> None:
        """All of them."""
        one, (whole, half, _) = self.explained, self.explained.means
        self._title()
        self._beside("what", one.what)
        self._sums("terms", one.terms)
        if one.why is not None and not any(step.name == one.why.name for step in one.up):
            self._sums("why", one.why)
        for step in one.up:
            self._sums("up", step)
        self._paths()
        self._tokens()
        self._beside(
            "means",
            f"{whole.step:+.3g} here changes L by about {whole.predicted:+.4e} (measured {whole.measured:+.4e}); "
            f"half the step: {half.predicted:+.4e} (measured {half.measured:+.4e})",
        )
        self._next()

    def _title(self) -> None:
        """The number, its witnesses and the verdict: cells side by side, as many on a line as fit."""
        one, value = self.explained, self.explained.value
        cells = [
            f"dL/dw = {number(value.analytic)}",
            f"complex step {number(value.by_complex)}",
            f"central difference {number(value.by_central)}",
            value.verdict + (f" ({value.note})" if value.note else ""),
            f"L = {one.loss:.6g}",
        ]
        self.wrapped(f"w = {visible(one.at)}  in {visible(one.name)}")
        begin = len(self.lines)
        self.wrapped("   ".join(cell.replace(" ", "\0").replace("-", "\1") for cell in cells))
        self.lines[begin:] = [line.replace("\0", " ").replace("\1", "-") for line in self.lines[begin:]]

    def _beside(self, name: str, text: str, indent: int = 0) -> None:
        """A paragraph beside the name of its section; its further lines are set in."""
        self.wrapped(visible(text), f"{name:{MARGIN + indent}}", " " * (MARGIN + (indent and indent + 4)))

    def _sums(self, name: str, sums: ProductSums) -> None:
        """A number as a sum: its products, the largest first, and the rest."""
        self._beside(name, f"{sums.name} = {number(sums.value)}, {_of_groups(sums)}")
        largest = max((abs(each.value) for group in sums.groups for each in group.products), default=0.0)
        for group in sums.groups:
            self._group(group, largest)
        if len(sums.groups) > 1:
            parts = " ".join(number(group.value) for group in sums.groups)
            self._beside("", f"together {parts} = {number(sums.value)}")

    def _group(self, group: Group, largest: float) -> None:
        """The line of code and its products, each with its bar; on two lines where it is long."""
        where = f"{group.line.file}:{group.line.number}" if group.line else "its backward, one entry at a time"
        self._beside("", f"{group.call}  {where}")
        if group.line:
            self._beside("", group.line.code, 4)
        shown = group.sorted[:MOST_LINES] if len(group.sorted) != MOST_LINES + 1 else group.sorted
        cells = [(each.place, each.text, " · ".join(f"{factor:.3g}" for factor in each.factors)) for each in shown]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        room = self.width - MARGIN
        for product, (place, text, factors) in zip(shown, cells, strict=True):
            amount = f"= {number(product.value)}"
            first = f"{place:{widths[0]}}  {text:{widths[1]}}" if widths[0] else f"{text:{widths[1]}}"
            line = f"{first}  {factors:{widths[2]}} {amount}"
            if room - len(line) < 8:
                self.lines.append(f"{'':{MARGIN}}{first}"[: self.width].rstrip())
                line = f"    {factors} {amount}"
            longest = max(0, min(room - len(line) - 2, 20))  # another letter if it is negative
            bar = "█▒"[product.value <= 0] * (round(longest * abs(product.value) / largest) if largest else 0)
            self.lines.append(f"{'':{MARGIN}}{line}  {bar}".rstrip()[: self.width])
        self._beside("", _rest(group, len(shown)))

    def _paths(self) -> None:
        """The shares of the choices at each sum, and of the strongest ways."""
        paths, value = self.explained.paths, self.value
        if not paths.sums:
            self._beside("paths", "no residual sum lies between this number and the loss")
            return
        self._beside("paths", "at each residual sum the gradient goes through the sub-layer or past it:")
        for each in paths.sums:
            parts = [each.through, each.past, *([each.elsewhere] if each.elsewhere else [])]
            write = share if all(_is_part(part, value) for part in parts) else lambda part, _: number(part)
            through, past, *rest = (write(part, value) for part in parts)
            never = "".join(f", {part} never comes there" for part in rest)
            self._beside("", f"{each.name}: through {through}, past {past}{never}", 4)
        ended = "ways in all, the strongest first" if paths.exact else "ways, the strongest that were found"
        self._beside("", f"{len(paths.ways)} {ended}:")
        told = [(way.value, self._way(way)) for way in paths.ways[:3]]
        if len(paths.ways) > 3:
            told.append((sum(way.value for way in paths.ways[3:]), f"{len(paths.ways) - 3} more"))
        for part, text in [*told, *([] if paths.exact else [(paths.remainder, "not looked at")])]:
            amount = number(part) + (f" ({share(part, value)})" if _is_part(part, value) else "")
            self._beside("", f"{amount}  {text}", 4)

    def _way(self, way: ResidualPath) -> str:
        sums = self.explained.paths.sums
        chosen = (f"{choice} {sums[n].name}" for n, choice in way.choices)
        return ", ".join(chosen) or "by no sum"

    def _tokens(self) -> None:
        """The parts of the number by the token whose loss they come from."""
        some = _largest_first(self.explained.tokens)
        text = ", ".join(f"{each.name} {number(each.value)}" for each in some[:8])
        if len(some) > 8:
            text += f", {len(some) - 8} more {number(sum(each.value for each in some[8:]))}"
        zeros = len(self.explained.tokens) - len(some)
        text += f"; {zeros} exactly 0" if zeros else ""
        self._beside("tokens", f"from the loss at {text}" if some else "no token's loss reaches this number")

    def _next(self) -> None:
        """What to type next."""
        one = self.explained
        sums = one.up[-1] if one.up else one.why or one.terms
        products = _largest_first(each for group in sums.groups for each in group.products)
        ups = [*one.asked, *(each.up for each in products[:1])]
        first = [" ".join(f"--up {shell_words(up)}" for up in ups)] if products and products[0].up else []
        self._beside("next", "   ".join([*first, "--html page.html", "--json"]))


def _is_part(part: float, whole: float) -> bool:
    """Whether it has a share: where parts cancel, one may exceed the whole."""
    return whole != 0 and 0 <= part / whole <= 1


def _of_groups(sums: ProductSums) -> str:
    if not sums.groups:
        return "with which backward begins" if sums.begins else "since no gradient comes here"
    products = counted(sum(len(group.products) for group in sums.groups), "product")
    return f"a sum of {products}" + (f" in {len(sums.groups)} places" if len(sums.groups) > 1 else "")


def _rest(group: Group, shown: int) -> str:
    """The products that are not shown: their sum, and how many are exactly 0, and why."""
    left = group.sorted[shown:]
    parts = [f"{len(left)} more {number(sum(each.value for each in left))}"] if left else []
    zeros = Counter(each.zero for each in group.products if each.value == 0)
    up = next((each.up for each in group.products if each.zero == GRADIENT), "")
    hints = {GRADIENT: f"; --up {shell_words(up)} shows why"}
    parts += [f"{count} exactly 0 ({why}{hints.get(why, '')})" for why, count in zeros.items()]
    parts.append(f"sum {number(group.value)}")
    return "; ".join(parts)
