"""npformer, possibly with a bug in it, and the results of its checks so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

from npformer.backend import Backend

Value = TypeVar("Value")


class _Held(NamedTuple):
    value: Any
    ran: frozenset[str]  # the targets that ran to compute it


class Program:
    """The subject of a check: a backend, and a cache of earlier results.

    changed: the targets that a bug changes. right: the program without the bug; its results are valid here too
    if no changed target ran to compute them. ran: a set that collects the targets that run, if they are recorded.
    """

    def __init__(
        self,
        backend: Backend,
        changed: frozenset[str] = frozenset(),
        right: Program | None = None,
        ran: set[str] | None = None,
    ) -> None:
        self.backend, self._changed, self._right, self._ran = backend, changed, right, ran
        self._held: dict[Hashable, _Held] = {}

    def shared(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """make(), called once for all checks of this program. All its callers count as having run its targets."""
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = self._noted(make)
        if self._ran is not None:
            self._ran |= held.ran
        value: Value = held.value
        return value

    def known(self, key: Hashable, find: Callable[[], Iterable[Value]]) -> Iterable[Value]:
        """The numbers of find(), which must not be changed; or the right program's, if they are valid here."""
        held = None if self._right is None else self._right._held.get(key)
        if held is not None and not held.ran & self._changed:
            known: tuple[Value, ...] = held.value
            return known
        return find() if self._ran is None else self.shared(key, lambda: tuple(find()))

    def _noted(self, make: Callable[[], Any]) -> _Held:
        if self._ran is None:
            return _Held(make(), frozenset())
        before = frozenset(self._ran)
        self._ran.clear()
        value = make()
        held = _Held(value, frozenset(self._ran))
        self._ran |= before
        return held
