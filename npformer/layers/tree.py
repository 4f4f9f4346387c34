"""A layer as text: its parts, the shapes of their parameters, and how many numbers they train."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from npformer.layers.owner import Owner
from npformer.layers.parameter import Buffer, Parameter, ParameterView

HEADER = ("part", "class", "parameters", "arrays")


class TreePart(NamedTuple):
    """A layer within another, and what is in it. Equal neighbours in a list are one part."""

    name: str  # as the attribute around it calls it: "layers.0", or "layers.0–5" for six equal ones
    kind: str  # its class
    trained: int  # numbers; a tied parameter counts once, where it comes first
    arrays: tuple[tuple[str, str], ...]  # name and shape of each of its own parameters and buffers
    inside: tuple[TreePart, ...]
    times: int = 1

    def rows(self, depth: int = 0) -> Iterator[tuple[str, ...]]:
        """The cells of HEADER for this part and all in it, names indented."""
        several = f"{self.times} × " if self.times > 1 else ""
        count = f"{several}{self.trained:,}" if self.trained else ""
        by_shape = groupby(self.arrays, key=lambda array: array[1])
        arrays = "; ".join(f"{', '.join(name for name, _ in group)} {shape}" for shape, group in by_shape)
        yield "  " * depth + (self.name or self.kind), several + self.kind if self.name else "", count, arrays
        for part in self.inside:
            yield from part.rows(depth + 1)


def tree_of(layer: Any) -> TreePart:
    """A layer or model with all its parts."""
    return _part("", layer, "", {}, ())


def tree_text(layer: Any) -> str:
    """The tree as lines of text, in columns as wide as their contents."""
    rows = [HEADER, *tree_of(layer).rows()]
    name, kind, count, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(f"{n:<{name}}  {k:<{kind}}  {c:>{count}}  {a}".rstrip() for n, k, c, a in rows)


def _part(name: str, layer: Any, path: str, first: dict[tuple[int, str], str], around: tuple[Any, ...]) -> TreePart:
    """first: block of memory and part of it -> the dotted name under which it was met first; it is added to."""
    count, arrays, inside = 0, list[tuple[str, str]](), list[TreePart]()
    for key, thing in layer._members():
        if not isinstance(thing, Owner) or any(thing is each for each in (*around, layer)):
            continue
        if hasattr(thing, "_members"):
            inside.append(_part(key, thing, f"{path}{key}.", first, (*around, layer)))
        for kept in _kept(thing):
            shape = "×".join(map(str, kept.data.shape)) or "scalar"
            known = _known(kept, f"{path}{kept.name}", first)
            arrays.append((kept.name, shape + known))
            count += 0 if known else int(kept.data.size)
    count += sum(part.trained for part in inside)
    return TreePart(name, type(layer).__name__, count, tuple(arrays), tuple(_joined(inside)))


def _kept(thing: Any) -> Iterable[Any]:
    """The arrays of a parameter, which may have several names for its columns, or of a buffer."""
    if isinstance(thing, Parameter):
        return thing.views()
    return (thing,) if isinstance(thing, ParameterView | Buffer) else ()


def _known(kept: Any, name: str, first: dict[tuple[int, str], str]) -> str:
    """Why these numbers do not count: they are a buffer, or have counted under another name. "" if they do."""
    if isinstance(kept, Buffer):
        return " (buffer)"
    part = id(kept.owner), kept.name if kept.owner.columns else ""
    if part in first:
        return f" = {first[part]}"
    first[part] = name
    return ""


def _joined(parts: Iterable[TreePart]) -> Iterator[TreePart]:
    """The parts, with neighbours in a list that are equal but for their numbers as one."""
    for _, group in groupby(parts, key=lambda part: (part.name.rpartition(".")[0] or part.name, part[1:])):
        one, *others = group
        last = others[-1].name.rpartition(".")[2] if others else ""
        yield one._replace(name=f"{one.name}–{last}", times=1 + len(others)) if others else one
