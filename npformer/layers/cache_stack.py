"""What a layer's forward keeps for its backward: by name, or on a stack.

A ``LayerCache`` holds named fields, of a layer that is written out step by step. A ``CacheStack`` holds one entry for
each part of a chain: it is filled going up and emptied coming down, since backward is the forward read bottom-up and
what was kept last is needed first.

Both let go of what they hand out, so activations are freed while backward runs; a second backward through
the same cache finds it empty and says so, instead of using what is left of a first one.

A stack that recomputes keeps a layer's inputs instead of its cache, and runs the forward again when
backward asks: less memory for more time. A random key names its numbers, so the second forward is
the first one to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from npformer.errors import CacheUsedError

Fields = TypeVar("Fields", bound=tuple[Any, ...])


def _used(owner: str) -> CacheUsedError:
    return CacheUsedError(
        f"{owner}.backward: expected a fresh cache, got one that went through backward already; "
        "call forward again (its activations were freed as backward ran)"
    )


class LayerCache(Generic[Fields]):
    """The cache of a layer, a NamedTuple of fields, to be opened once; owner is named in the error of a second use."""

    __slots__ = ("__weakref__", "_fields", "_owner")

    def __init__(self, owner: object, fields: Fields) -> None:
        self._owner = type(owner).__name__
        self._fields: Fields | None = fields

    def open(self) -> Fields:
        """The fields, of which nothing is kept. Raises CacheUsedError if they were handed out before."""
        fields, self._fields = self._fields, None
        if fields is None:
            raise _used(self._owner)
        return fields

    def __iter__(self) -> Iterator[Any]:
        """The fields in order, caches of parts among them; none once it was opened."""
        return iter(self._fields or ())


class _Again(NamedTuple):
    """A forward to be run again."""

    layer: Any
    inputs: tuple[Any, ...]
    options: dict[str, Any]

    def cache(self) -> Any:
        return self.layer.forward(*self.inputs, **self.options)[1]


class CacheStack:
    """The cache of a layer or model; owner is named in the error of a second use.

    recompute: keep no cache of the layers that are ``run``, but what it takes to make it again.
    """

    def __init__(self, owner: object, *, recompute: bool = False) -> None:
        self._owner = type(owner).__name__
        self._entries: list[Any] = []
        self._recompute = recompute

    def keep(self, output_and_cache: tuple[Any, Any]) -> Any:
        """Put a part's cache on the stack and hand on its output."""
        output, cache = output_and_cache
        self._entries.append(cache)
        return output

    def run(self, layer: Any, *inputs: Any, **options: Any) -> Any:
        """Run a layer's forward and keep its cache; in inference, its inference spelling, which keeps none."""
        if self._recompute:
            self._entries.append(_Again(layer, inputs, options))
            return layer(*inputs, **options)
        return self.keep(layer.forward(*inputs, **options))

    def pop(self) -> Any:
        """Take the cache that was kept last. Raises CacheUsedError if none is left."""
        if not self._entries:
            raise _used(self._owner)
        entry = self._entries.pop()
        return entry.cache() if type(entry) is _Again else entry

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        """What is on the stack, kept first comes first; caches of parts among it."""
        return iter(self._entries)


class NoCache(CacheStack):
    """For inference: hands outputs on and keeps nothing."""

    def keep(self, output_and_cache: tuple[Any, Any]) -> Any:
        return output_and_cache[0]

    def run(self, layer: Any, *inputs: Any, **options: Any) -> Any:
        return layer(*inputs, **options)
