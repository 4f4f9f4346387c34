"""What a wrong gradient leaves out, or takes with another factor: a way of the forward, named by its line.

The loss L = Σ r·y depends on x through every expression of the forward. With one expression held at its value, as a
constant, L no longer depends on x through it:

    share = ∂L/∂x − ∂L/∂x with the expression held

A backward that forgets the expression gives ∂L/∂x − share; one that takes it c times gives ∂L/∂x + (c − 1)·share. So
along several directions the error of every tensor, right ones too, has to be one and the same multiple of the shares.
Both derivatives are central differences of the user's own forward, so that this holds for code of any library.

A gradient may also be that of each entry's own output alone, dy_i·∂y_i/∂x_i: the diagonal of a Jacobian that has more.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from npformer.check.causes.nodes import Site, is_real, sites
from npformer.check.causes.patterns import Diagnosis, name_of
from npformer.check.causes.search import OpenSource, SearchTarget
from npformer.check.causes.source import Source
from npformer.check.causes.trial import sources_run
from npformer.check.checkable import as_numpy
from npformer.check.look import random_directions
from npformer.check.measures import max_abs, rms
from npformer.check.oracles import Oracle
from npformer.check.subject import Subject, Upstream
from npformer.io.seconds import now
from npformer.typing import HostArray, Tensors, Values

#: Directions of each tensor, and their seed; of the root mean square of its numbers, the step of a difference.
DIRECTIONS, SEED, STEP = 4, 11, 1e-5
#: Relative: slopes this near are the same. An error below ten times that is none of a share.
ALIKE = 1e-5
#: Of each function, the most expressions that are held; for all, so many seconds. The most entries that are moved.
MOST_PLACES, SECONDS, MOST_ENTRIES = 60, 3.0, 1000


class Way(NamedTuple):
    """An expression of the forward, and its share along each direction of all tensors."""

    source: Source
    node: Any
    share: HostArray


def left_out(
    point: SearchTarget, wrong: Sequence[str], claimed: Tensors, sizes: Mapping[str, float]
) -> dict[str, Diagnosis]:
    """What the wrong gradients leave out, by tensor: one way or two for all of them, or else for each.

    claimed: the gradients for the first upstream gradient. sizes: named numbers, which a factor may equal.
    """
    slopes = Slopes(point.subject, point.upstreams[0])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = slopes.measured()
        if whole is None:
            return {}
        error = slopes.along(claimed) - whole
        places = {tensor: [name == tensor for name, _ in slopes.directions] for tensor in wrong}
        far = [t for t, here in places.items() if max_abs(error[here]) > 10 * ALIKE * max_abs(whole[here])]
        found = {t: OWN_SHARE for t in far if _is_own_share(point, t, claimed[t])}
        ways = [] if found else list(_ways(slopes, whole))
    if not ways:
        return found
    if told := _explained(error, ways, sizes):
        return dict.fromkeys(wrong, told)
    for tensor, here in places.items():
        inside = [way._replace(share=way.share[here]) for way in ways]
        inside = [way for way in inside if np.any(way.share) and _factor(whole[here], way.share) is None]
        if told := _explained(error[here], inside, sizes):
            found[tensor] = told
    return found


def _explained(error: HostArray, ways: Sequence[Way], sizes: Mapping[str, float]) -> Diagnosis | None:
    fits = [(way, c) for way in ways if (c := _factor(error, way.share)) is not None]
    if fits:
        way, c = min(fits, key=lambda fit: _plainness(fit[0]))
        return _told(way, name_of(c, sizes))
    for first, second in combinations(ways, 2):
        if _factor(error, first.share + second.share) == 0:
            through = f"{_through(first)}, and through {_through(second)}"
            return Diagnosis("missing way", f"it leaves out what goes through {through}")
    return None


OWN_SHARE = Diagnosis(
    "missing term",
    "it takes only each entry's own share: an entry changes other outputs, too, and the sum over these is missing",
)


def _is_own_share(point: SearchTarget, tensor: str, claimed: HostArray) -> bool:
    """Whether a gradient is that of each entry's own output alone: of the Jacobian the diagonal, as of a softmax."""
    subject, (dy, *others) = point.subject, point.upstreams[0]
    x = subject.tensors[tensor]
    if others or dy.shape != x.shape or not 1 < x.size <= MOST_ENTRIES:
        return False
    h, wanted = STEP * (rms(x) or 1.0), np.empty(x.shape)
    for at in np.ndindex(x.shape):
        moved = np.zeros(x.shape)
        moved[at] = h
        above, below = (subject.outputs({tensor: end})[0][at] for end in (x + moved, x - moved))
        wanted[at] = dy[at] * (above - below) / (2 * h)
    return max_abs(claimed - wanted) <= ALIKE * max_abs(wanted)


def _told(way: Way, factor: str) -> Diagnosis:
    if factor == "0":
        return Diagnosis("missing way", f"it leaves out what goes through {_through(way)}")
    times = "with the opposite sign" if factor == "−1" else f"{factor} times"
    return Diagnosis("wrong factor of a way", f"it takes what goes through {_through(way)} {times}")


def _through(way: Way) -> str:
    return f"`{ast.unparse(way.node)}` ({way.source.place(way.node.lineno)})"


def _plainness(way: Way) -> tuple[int, bool, bool, int]:
    """The first line, where it is made; there what stands once, a name, or the shortest text."""
    line, text = way.node.lineno, ast.unparse(way.node)
    alike = [n for n in ast.walk(way.source.definition) if isinstance(n, ast.expr) and n.lineno == line]
    return line, sum(ast.unparse(n) == text for n in alike) > 1, not isinstance(way.node, ast.Name), len(text)


def _factor(error: HostArray, share: HostArray) -> float | None:
    """c, if the error is (c − 1)·share; None if it is no multiple."""
    ratio = float(error @ share) / float(share @ share)
    return round(1 + ratio, 9) if max_abs(error - ratio * share) <= ALIKE * max_abs(error) else None


def _ways(slopes: Slopes, whole: HostArray) -> Iterator[Way]:
    """The expressions on some but not all ways to the loss, each with its share."""
    began = now()
    for source in sources_run(slopes.subject):
        opened = OpenSource(source)
        for site in [site for site in sites(source.definition) if opened.is_open(site)][:MOST_PLACES]:
            with suppress(Exception):
                is_tried = not isinstance(site.get(), ast.Constant) and now() - began <= SECONDS
                if is_tried and (share := _share(slopes, opened, site, whole)) is not None:
                    yield Way(source, site.get(), share)


def _share(slopes: Slopes, opened: OpenSource, site: Site, whole: HostArray) -> HostArray | None:
    """The share of one expression; None if it has none, or all of L goes through it."""
    code = compile(ast.Expression(site.get()), "<a value>", "eval")
    scope: Any = opened.source.function.__globals__
    values, at = list[Any](), 0

    def note(variables: Values) -> Any:
        values.append(eval(code, scope, variables))
        return values[-1]

    def held(variables: Values) -> Any:
        nonlocal at
        at += 1
        return values[(at - 1) % len(values)]

    with opened.source.running(opened.opened(site, note)):
        slopes.subject.outputs({})
    if not values or not all(is_real(as_numpy(value)) for value in values):
        return None
    with opened.source.running(opened.opened(site, held)):
        rest = slopes.measured()
    if rest is None or at % len(values):
        return None
    share, least = whole - rest, ALIKE * max_abs(whole)
    return share if max_abs(share) > least and max_abs(rest) > least else None


class Slopes:
    """The slopes of L along a few directions of each tensor."""

    def __init__(self, subject: Subject, upstream: Upstream) -> None:
        self.subject, self._oracle = subject, Oracle(subject, [upstream], use_complex=False)
        every = random_directions(subject, SEED, DIRECTIONS)
        self.directions = [(name, d) for name, directions in every.items() for d in directions]

    def along(self, gradients: Tensors) -> HostArray:
        """The gradients along each direction."""
        return np.array([np.sum(gradients[name] * d) for name, d in self.directions])

    def measured(self) -> HostArray | None:
        """The slope along each direction; None if one is not finite."""
        steps = {name: STEP * (rms(x) or 1.0) for name, x in self.subject.tensors.items()}
        found = [self._oracle.difference(name, d, steps[name], {}, noise_too=False)[0] for name, d in self.directions]
        slopes = np.concatenate(found)
        return slopes if np.isfinite(slopes).all() else None
