"""The cache that a layer's forward keeps for its backward: a stack with one entry for each step.

Forward pushes, backward pops, since backward is the forward read bottom-up and needs the last entry first. A stack
drops what it hands out, so activations are freed while backward runs. A second backward through the same cache finds
it empty and raises an error, instead of computing with leftovers of the first.

A stack with recompute (gradient checkpointing) keeps a layer's inputs instead of its cache, and runs the forward
again during backward: less memory for more time. A random key determines its numbers, so the second forward equals
the first one to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from npformer.errors import CacheUsedError


class _Again(NamedTuple):
    """A forward to run again in backward."""

    layer: Any
    inputs: tuple[Any, ...]
    options: dict[str, Any]

    def cache(self) -> Any:
        return self.layer.forward(*self.inputs, **self.options)[1]


class CacheStack:
    """The cache of a layer or model; the error of a second use names owner.

    recompute: for each layer that is ``run``, keep its inputs instead of its cache.
    inference: return outputs and keep nothing.
    """

    def __init__(self, owner: object, *, recompute: bool = False, inference: bool = False) -> None:
        self._owner = type(owner).__name__
        self._entries: list[Any] = []
        self._recompute = recompute
        self._inference = inference

    def keep(self, output_and_cache: tuple[Any, Any]) -> Any:
        """Push a part's cache and return its output."""
        output, cache = output_and_cache
        if not self._inference:
            self._entries.append(cache)
        return output

    def run(self, layer: Any, *inputs: Any, **options: Any) -> Any:
        """Run a layer's forward and keep its cache. For inference the layer is called instead, which keeps none."""
        if self._inference:
            return layer(*inputs, **options)
        if self._recompute:
            self._entries.append(_Again(layer, inputs, options))
            return layer(*inputs, **options)
        return self.keep(layer.forward(*inputs, **options))

    def pop(self) -> Any:
        """Pop the last cache. Raises CacheUsedError if none is left."""
        if not self._entries:
            raise CacheUsedError(
                f"{self._owner}.backward: expected a fresh cache, got one that went through backward already; "
                "call forward again (its activations were freed as backward ran)"
            )
        entry = self._entries.pop()
        return entry.cache() if type(entry) is _Again else entry

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        """The entries of the stack, oldest first, including the caches of parts."""
        return iter(self._entries)
