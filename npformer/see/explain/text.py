"""An explanation as text, for a terminal of any width from 60 to 160 columns, without colours."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from npformer.io.percent import percent
from npformer.io.printable import shell_words, visible
from npformer.see.explain.explanation import Explanation, Group, Product, Sums
from npformer.see.explain.paths import THROUGH, Paths, ResidualPath
from npformer.see.explain.words import GRADIENT

NARROWEST, WIDEST = 60, 160
MARGIN = 8
#: Lines of one sum before the rest is summed.
MOST_LINES = 6
_FULL, _EMPTY = "█", "▒"


def lines(explained: Explanation, width: int = 100, symbols: bool = True) -> Iterator[str]:
    """The sections, one after the other. symbols False: the bars are drawn in ASCII."""
    page = _Page(max(NARROWEST, min(width, WIDEST)), symbols)
    yield from page.title(explained)
    yield from page.wrapped("what", explained.what)
    yield from page.sums("terms", explained.terms)
    if explained.why is not None and not any(step.name == explained.why.name for step in explained.up):
        yield from page.sums("why", explained.why)
    for step in explained.up:
        yield from page.sums("up", step)
    yield from page.paths(explained.paths, explained.value.analytic)
    yield from page.tokens(explained)
    yield from page.means(explained)
    yield from page.following(explained)


class _Page:
    """Lines of one width."""

    def __init__(self, width: int, symbols: bool) -> None:
        self.width = width
        self.bars = (_FULL, _EMPTY) if symbols else ("#", "=")

    def title(self, explained: Explanation) -> Iterator[str]:
        """The number, its witnesses and the verdict."""
        value = explained.value
        cells = [
            f"dL/dw = {number(value.analytic)}",
            f"complex step {number(value.by_complex)}",
            f"central difference {number(value.by_central)}",
            value.verdict + (f" ({value.note})" if value.note else ""),
            f"L = {explained.loss:.6g}",
        ]
        yield from textwrap.wrap(f"w = {visible(explained.at)}  in {visible(explained.name)}", self.width)
        yield from _flowing(cells, self.width)

    def wrapped(self, name: str, text: str, indent: int = 0) -> Iterator[str]:
        """A paragraph beside the name of its section; its further lines are set in."""
        room, first, more = self.width - MARGIN, " " * indent, " " * (indent + 4 if indent else 0)
        for i, line in enumerate(textwrap.wrap(visible(text), room, initial_indent=first, subsequent_indent=more)):
            yield f"{name if i == 0 else '':{MARGIN}}{line}"

    def sums(self, name: str, sums: Sums) -> Iterator[str]:
        """A number as a sum: its products, the largest first, and the rest."""
        yield from self.wrapped(name, f"{sums.name} = {number(sums.value)}, {_of_groups(sums)}")
        largest = max((abs(each.value) for group in sums.groups for each in group.products), default=0.0)
        for group in sums.groups:
            yield from self.group(group, largest)
        if len(sums.groups) > 1:
            parts = " ".join(number(group.value) for group in sums.groups)
            yield from self.wrapped("", f"together {parts} = {number(sums.value)}")

    def group(self, group: Group, largest: float) -> Iterator[str]:
        """The line of code and its products."""
        where = f"{group.line.file}:{group.line.number}" if group.line else "its backward, one entry at a time"
        yield from self.wrapped("", f"{group.call}  {where}")
        if group.line:
            yield from self.wrapped("", group.line.code, 4)
        shown = group.sorted[:MOST_LINES] if len(group.sorted) != MOST_LINES + 1 else group.sorted
        cells = [(each.place, " · ".join(f"{factor:.3g}" for factor in each.factors), each.text) for each in shown]
        widths = [max((len(row[i]) for row in cells), default=0) for i in range(3)]
        for product, row in zip(shown, cells, strict=True):
            yield from self.product(product, row, widths, largest)
        yield from self.wrapped("", _rest(group, len(shown)))

    def product(self, product: Product, row: tuple[str, str, str], widths: list[int], largest: float) -> Iterator[str]:
        """One product with its bar; on two lines where it is long."""
        place, factors, text = row
        amount = f"= {number(product.value)}"
        first = f"{place:{widths[0]}}  {text:{widths[2]}}" if widths[0] else f"{text:{widths[2]}}"
        line = f"{first}  {factors:{widths[1]}} {amount}"
        if self.width - MARGIN - len(line) < 8:
            yield f"{'':{MARGIN}}{first}"[: self.width].rstrip()
            line = f"    {factors} {amount}"
        room = self.width - MARGIN - len(line) - 2
        yield f"{'':{MARGIN}}{line}  {self.bar(product.value, largest, min(room, 20))}".rstrip()[: self.width]

    def bar(self, value: float, largest: float, room: int) -> str:
        """As long as the value is large; of another grey if it is negative."""
        count = round(max(0, room) * abs(value) / largest) if largest else 0
        return (self.bars[0] if value > 0 else self.bars[1]) * count

    def paths(self, paths: Paths, value: float) -> Iterator[str]:
        """The shares of the choices at each sum, and of the strongest ways."""
        if not paths.sums:
            yield from self.wrapped("paths", "no residual sum lies between this number and the loss")
            return
        yield from self.wrapped("paths", "at each residual sum the gradient goes through the sub-layer or past it:")
        for each in paths.sums:
            parts = [each.through, each.past, *([each.elsewhere] if each.elsewhere else [])]
            write = share if all(_is_part(part, value) for part in parts) else lambda part, _: number(part)
            through, past, *rest = (write(part, value) for part in parts)
            never = "".join(f", {part} never comes there" for part in rest)
            yield from self.wrapped("", f"{each.name}: through {through}, past {past}{never}", 4)
        ended = "ways in all, the strongest first" if paths.exact else "ways, the strongest that were found"
        yield from self.wrapped("", f"{len(paths.ways)} {ended}:")
        for way in paths.ways[:3]:
            yield from self.wrapped("", f"{_amount(way.value, value)}  {_way(paths, way)}", 4)
        left = sum(way.value for way in paths.ways[3:])
        if len(paths.ways) > 3:
            yield from self.wrapped("", f"{_amount(left, value)}  {len(paths.ways) - 3} more", 4)
        if not paths.exact:
            yield from self.wrapped("", f"{_amount(paths.remainder, value)}  not looked at", 4)

    def tokens(self, explained: Explanation) -> Iterator[str]:
        """The parts of the number by the token whose loss they come from."""
        parts = sorted(explained.tokens, key=lambda each: -abs(each.value))
        shown = [each for each in parts if each.value != 0][:8]
        text = ", ".join(f"{each.name} {number(each.value)}" for each in shown)
        left = [each for each in parts if each.value != 0][8:]
        if left:
            text += f", {len(left)} more {number(sum(each.value for each in left))}"
        zeros = sum(each.value == 0 for each in parts)
        text += f"; {zeros} exactly 0" if zeros else ""
        yield from self.wrapped(
            "tokens", f"from the loss at {text}" if shown else "no token's loss reaches this number"
        )

    def means(self, explained: Explanation) -> Iterator[str]:
        """What the number predicts, and what happens."""
        whole, half, _ = explained.means
        yield from self.wrapped(
            "means",
            f"{whole.step:+.3g} here changes L by about {whole.predicted:+.4e} (measured {whole.measured:+.4e}); "
            f"half the step: {half.predicted:+.4e} (measured {half.measured:+.4e})",
        )

    def following(self, explained: Explanation) -> Iterator[str]:
        """What to type next."""
        sums = explained.up[-1] if explained.up else explained.why or explained.terms
        products = sorted((each for group in sums.groups for each in group.sorted), key=lambda each: -abs(each.value))
        ups = [*explained.asked, *(each.up for each in products[:1])]
        first = [" ".join(f"--up {shell_words(up)}" for up in ups)] if products and products[0].up else []
        yield from self.wrapped("next", "   ".join([*first, "--html page.html", "--json"]))


def number(x: float) -> str:
    """A number with its sign, in four digits."""
    return f"{x:+.3e}" if x else "0"


def share(part: float, whole: float) -> str:
    """A share in percent."""
    return percent(part / whole, 0)


def _is_part(part: float, whole: float) -> bool:
    """Whether it has a share: where parts cancel, one may exceed the whole."""
    return whole != 0 and 0 <= part / whole <= 1


def _amount(part: float, whole: float) -> str:
    return number(part) + (f" ({share(part, whole)})" if _is_part(part, whole) else "")


def _of_groups(sums: Sums) -> str:
    count = len(sums.groups)
    if sums.begins:
        return "with which backward begins"
    if not count:
        return "since no gradient comes here"
    total = sum(len(group.products) for group in sums.groups)
    return f"a sum of {total} product{'s' if total != 1 else ''}" + (f" in {count} places" if count > 1 else "")


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


def _way(paths: Paths, way: ResidualPath) -> str:
    if not way.choices:
        return "by no sum"
    return ", ".join(f"{'through' if c == THROUGH else 'past'} {paths.sums[n].name}" for n, c in way.choices)


def _flowing(cells: Sequence[str], width: int) -> Iterator[str]:
    """Cells side by side, as many on a line as fit."""
    line = ""
    for cell in cells:
        if line and len(line) + 3 + len(cell) > width:
            yield line
            line = ""
        while len(cell) > width:
            yield cell[:width]
            cell = cell[width:]
        line = f"{line}   {cell}" if line else cell
    yield line
