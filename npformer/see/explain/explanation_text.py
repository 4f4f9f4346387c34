"""An explanation as text, for a terminal of any width from 60 to 160 columns, without colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npformer.io.printable import shell_words, visible
from npformer.see.explain.explanation import Explanation, Group, Sums
from npformer.see.explain.paths import THROUGH, ResidualPath
from npformer.see.explain.text import fitting, number, share, wrapped
from npformer.see.explain.words import GRADIENT

MARGIN = 8
#: Lines of one sum before the rest is summed.
MOST_LINES = 6


def lines(explained: Explanation, width: int = 100, symbols: bool = True) -> Iterator[str]:
    """The sections, one after the other. symbols False: the bars are drawn in ASCII."""
    return _Page(explained, fitting(width), "█▒" if symbols else "#=").lines()


class _Page:
    """The lines of an explanation; bars: the letters of positive and negative ones."""

    def __init__(self, explained: Explanation, width: int, bars: str) -> None:
        self.explained, self.width, self.bars = explained, width, bars
        self.value = explained.value.analytic

    def lines(self) -> Iterator[str]:
        """All of them."""
        one = self.explained
        yield from self._title()
        yield from self._beside("what", one.what)
        yield from self._sums("terms", one.terms)
        if one.why is not None and not any(step.name == one.why.name for step in one.up):
            yield from self._sums("why", one.why)
        for step in one.up:
            yield from self._sums("up", step)
        yield from self._paths()
        yield from self._tokens()
        whole, half, _ = one.means
        yield from self._beside(
            "means",
            f"{whole.step:+.3g} here changes L by about {whole.predicted:+.4e} (measured {whole.measured:+.4e}); "
            f"half the step: {half.predicted:+.4e} (measured {half.measured:+.4e})",
        )
        yield from self._next()

    def _title(self) -> Iterator[str]:
        """The number, its witnesses and the verdict: cells side by side, as many on a line as fit."""
        one, value = self.explained, self.explained.value
        cells = [
            f"dL/dw = {number(value.analytic)}",
            f"complex step {number(value.by_complex)}",
            f"central difference {number(value.by_central)}",
            value.verdict + (f" ({value.note})" if value.note else ""),
            f"L = {one.loss:.6g}",
        ]
        yield from wrapped(f"w = {visible(one.at)}  in {visible(one.name)}", self.width)
        together = "   ".join(cell.replace(" ", "\0").replace("-", "\1") for cell in cells)
        yield from (line.replace("\0", " ").replace("\1", "-") for line in wrapped(together, self.width))

    def _beside(self, name: str, text: str, indent: int = 0) -> Iterator[str]:
        """A paragraph beside the name of its section; its further lines are set in."""
        first, more = " " * indent, " " * (indent + 4 if indent else 0)
        yield from wrapped(visible(text), self.width, f"{name:{MARGIN}}{first}", " " * MARGIN + more)

    def _sums(self, name: str, sums: Sums) -> Iterator[str]:
        """A number as a sum: its products, the largest first, and the rest."""
        yield from self._beside(name, f"{sums.name} = {number(sums.value)}, {_of_groups(sums)}")
        largest = max((abs(each.value) for group in sums.groups for each in group.products), default=0.0)
        for group in sums.groups:
            yield from self._group(group, largest)
        if len(sums.groups) > 1:
            parts = " ".join(number(group.value) for group in sums.groups)
            yield from self._beside("", f"together {parts} = {number(sums.value)}")

    def _group(self, group: Group, largest: float) -> Iterator[str]:
        """The line of code and its products, each with its bar; on two lines where it is long."""
        where = f"{group.line.file}:{group.line.number}" if group.line else "its backward, one entry at a time"
        yield from self._beside("", f"{group.call}  {where}")
        if group.line:
            yield from self._beside("", group.line.code, 4)
        shown = group.sorted[:MOST_LINES] if len(group.sorted) != MOST_LINES + 1 else group.sorted
        cells = [(each.place, each.text, " · ".join(f"{factor:.3g}" for factor in each.factors)) for each in shown]
        widths = [max((len(row[i]) for row in cells), default=0) for i in range(3)]
        room = self.width - MARGIN
        for product, (place, text, factors) in zip(shown, cells, strict=True):
            amount = f"= {number(product.value)}"
            first = f"{place:{widths[0]}}  {text:{widths[1]}}" if widths[0] else f"{text:{widths[1]}}"
            line = f"{first}  {factors:{widths[2]}} {amount}"
            if room - len(line) < 8:
                yield f"{'':{MARGIN}}{first}"[: self.width].rstrip()
                line = f"    {factors} {amount}"
            longest = max(0, min(room - len(line) - 2, 20))  # another letter if it is negative
            bar = self.bars[product.value <= 0] * (round(longest * abs(product.value) / largest) if largest else 0)
            yield f"{'':{MARGIN}}{line}  {bar}".rstrip()[: self.width]
        yield from self._beside("", _rest(group, len(shown)))

    def _paths(self) -> Iterator[str]:
        """The shares of the choices at each sum, and of the strongest ways."""
        paths, value = self.explained.paths, self.value
        if not paths.sums:
            yield from self._beside("paths", "no residual sum lies between this number and the loss")
            return
        yield from self._beside("paths", "at each residual sum the gradient goes through the sub-layer or past it:")
        for each in paths.sums:
            parts = [each.through, each.past, *([each.elsewhere] if each.elsewhere else [])]
            write = share if all(_is_part(part, value) for part in parts) else lambda part, _: number(part)
            through, past, *rest = (write(part, value) for part in parts)
            never = "".join(f", {part} never comes there" for part in rest)
            yield from self._beside("", f"{each.name}: through {through}, past {past}{never}", 4)
        ended = "ways in all, the strongest first" if paths.exact else "ways, the strongest that were found"
        yield from self._beside("", f"{len(paths.ways)} {ended}:")
        told = [(way.value, self._way(way)) for way in paths.ways[:3]]
        if len(paths.ways) > 3:
            told.append((sum(way.value for way in paths.ways[3:]), f"{len(paths.ways) - 3} more"))
        for part, text in [*told, *([] if paths.exact else [(paths.remainder, "not looked at")])]:
            amount = number(part) + (f" ({share(part, value)})" if _is_part(part, value) else "")
            yield from self._beside("", f"{amount}  {text}", 4)

    def _way(self, way: ResidualPath) -> str:
        sums = self.explained.paths.sums
        chosen = (f"{'through' if choice == THROUGH else 'past'} {sums[n].name}" for n, choice in way.choices)
        return ", ".join(chosen) or "by no sum"

    def _tokens(self) -> Iterator[str]:
        """The parts of the number by the token whose loss they come from."""
        parts = sorted(self.explained.tokens, key=lambda each: -abs(each.value))
        some = [each for each in parts if each.value != 0]
        text = ", ".join(f"{each.name} {number(each.value)}" for each in some[:8])
        if len(some) > 8:
            text += f", {len(some) - 8} more {number(sum(each.value for each in some[8:]))}"
        zeros = len(parts) - len(some)
        text += f"; {zeros} exactly 0" if zeros else ""
        yield from self._beside("tokens", f"from the loss at {text}" if some else "no token's loss reaches this number")

    def _next(self) -> Iterator[str]:
        """What to type next."""
        one = self.explained
        sums = one.up[-1] if one.up else one.why or one.terms
        products = sorted((each for group in sums.groups for each in group.sorted), key=lambda each: -abs(each.value))
        ups = [*one.asked, *(each.up for each in products[:1])]
        first = [" ".join(f"--up {shell_words(up)}" for up in ups)] if products and products[0].up else []
        yield from self._beside("next", "   ".join([*first, "--html page.html", "--json"]))


def _is_part(part: float, whole: float) -> bool:
    """Whether it has a share: where parts cancel, one may exceed the whole."""
    return whole != 0 and 0 <= part / whole <= 1


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
