"""Which call read which number: the edges of the drawn graph, and the uses whose gradients add up to a gradient.

Layers move numbers between operations (they split heads, put blocks side by side, hand one array to two parts) and
usually compute nothing themselves. So a number that an operation reads is, to the last bit, a number that an earlier
operation made, and the latest one that made it is where it comes from. The gradient of a number is the sum over all
its uses: ``fan_in`` lists them for every upstream gradient, and for every gradient that a layer returns. Each list is
checked: only if its sum is the recorded gradient, to 1e-12 of the largest, does the page show it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from npformer.see.record.document import CallOf
from npformer.typing import HostArray

Call: TypeAlias = CallOf
Kind: TypeAlias = Literal["inputs", "outputs", "upstream", "gradients"]
#: A number: (id of a call, its output or input by index, its flat index in that array).
Spot = tuple[int, int, int]
#: (id of the consumer, name of its gradient, for each of its entries the flat index of the number that it read, or −1)
Use = tuple[int, str, HostArray]
CLOSE = 1e-12
#: The bits of 0 and of −0.
_ZEROS = (0, -(1 << 63))


class Flows:
    """Who reads whose numbers in a trace's calls: they are followed through the forward, then the uses are listed."""

    def __init__(self, calls: Sequence[Call], arrays: Mapping[str, HostArray]) -> None:
        self.calls = {call["id"]: call for call in calls}
        self.arrays = arrays
        parents = {call["parent"] for call in calls}
        self.leaves = {call["id"]: call for call in calls if call["id"] not in parents}
        self.made: dict[int, list[Spot]] = {}  # bits of a number -> where the latest call made it
        self.uses: dict[Spot, list[Spot]] = defaultdict(list)  # number -> the inputs of operations that read it
        self.source: dict[tuple[int, int], list[Spot | None]] = {}  # (call, input) -> where each number comes from
        self.edges: list[tuple[int, int, int]] = []  # producer, consumer, the consumer's input
        #: (call, "upstream" | "gradients", name) -> the uses that add up to it
        self.fan_in: dict[tuple[int, str, str], list[Use]] = {}
        ends = sorted(self.calls.values(), key=lambda call: call["forward"]["end"])
        for call in ends:
            if call["id"] in self.leaves:
                self._read_leaf(call)
            else:
                self._note_layer(call)
        sources = ((call, i, spots) for (call, i), spots in self.source.items() if i >= 0)
        self.edges = sorted({(spot[0], call, i) for call, i, spots in sources for spot in spots if spot})
        for call in ends:
            self._list_upstream(call)
            if call["id"] not in self.leaves:
                self._list_layer_gradients(call)

    def _floats(self, call: Call, what: Kind) -> Iterator[tuple[int, str, HostArray]]:
        """(index, name, array) of a call's float arrays."""
        for i, entry in enumerate(call[what]):
            array = self.arrays.get(entry["value"]) if isinstance(entry["value"], str) else None
            if array is not None and array.dtype == np.float64:
                yield i, entry["name"], array

    def _read_leaf(self, call: Call) -> None:
        for i, name, array in self._floats(call, "inputs"):
            if name not in call["params"]:
                self.source[call["id"], i] = spots = self._origin(array)
                for k, spot in enumerate(spots):
                    if spot is not None:
                        self.uses[spot].append((call["id"], i, k))
        fresh: dict[int, list[Spot]] = defaultdict(list)
        for i, _, array in self._floats(call, "outputs"):
            for k, bits in enumerate(_bits(array)):
                fresh[bits].append((call["id"], i, k))
        self.made |= fresh

    def _note_layer(self, call: Call) -> None:
        """Where a layer's outputs come from; it makes none of them itself."""
        for i, _, array in self._floats(call, "outputs"):
            self.source[call["id"], -1 - i] = self._origin(array)

    def _origin(self, array: HostArray) -> list[Spot | None]:
        """Where each number of an array was made; None for 0, which may come from anywhere.

        One that was made in several places (a token that stands in two sequences) comes from the same place in the
        array, or else the first is the first, the second the second, since layers keep the order of tokens.
        """
        spots: list[Spot | None] = []
        before: Counter[int] = Counter()
        for k, bits in enumerate(_bits(array)):
            places = [] if bits in _ZEROS else self.made.get(bits, [])
            in_turn = places[before[bits] % len(places)] if places else None
            spots.append(next((spot for spot in places if spot[2] == k), in_turn))
            before[bits] += 1
        return spots

    def _list_upstream(self, call: Call) -> None:
        """The uses of each number that a call made."""
        outputs = {i: array for i, _, array in self._floats(call, "outputs")}
        for i, name, total in self._floats(call, "upstream"):
            if i in outputs and outputs[i].shape == total.shape:
                made: list[Spot | None] = [(call["id"], i, k) for k in range(total.size)]
                made = self.source.get((call["id"], -1 - i), made)
                self._keep((call["id"], "upstream", name), made, total)

    def _list_layer_gradients(self, call: Call) -> None:
        """The uses, inside a layer, of each number that it read."""
        inputs = {name: array for _, name, array in self._floats(call, "inputs")}
        for _, name, total in self._floats(call, "gradients"):
            inside = inputs.get(next(entry["of"] for entry in call["gradients"] if entry["name"] == name))
            if inside is not None and inside.shape == total.shape:
                self._keep_inside((call["id"], "gradients", name), inside, total)

    def _keep_inside(self, key: tuple[int, str, str], inside: HostArray, total: HostArray) -> None:
        bits_inside = _bits(inside)
        places = {bits: k for k, bits in reversed(list(enumerate(bits_inside)))}
        within = {call for call in self.calls if self._is_in(call, key[0])}
        uses = []
        for leaf in (each for each in self.leaves if each in within):
            for i, name, array in self._floats(self.leaves[leaf], "inputs"):
                origin = self.source.get((leaf, i))
                if origin is None:
                    continue
                where = np.full(array.size, -1)
                for k, (bits, spot) in enumerate(zip(_bits(array), origin, strict=True)):
                    if spot is None or spot[0] not in within:
                        where[k] = k if k < inside.size and bits_inside[k] == bits else places.get(bits, -1)
                uses.append((leaf, name, where))
        self._keep_if_exact(key, uses, total)

    def _keep(self, key: tuple[int, str, str], made: list[Spot | None], total: HostArray) -> None:
        maps: dict[tuple[int, int], HostArray] = {}
        for target, spot in enumerate(made):
            for user, i, k in self.uses[spot] if spot is not None else ():
                if not self._is_in(user, key[0]):
                    size = self.arrays[str(self.calls[user]["inputs"][i]["value"])].size
                    maps.setdefault((user, i), np.full(size, -1))[k] = target
        uses = [(user, self.calls[user]["inputs"][i]["name"], where) for (user, i), where in maps.items()]
        self._keep_if_exact(key, uses, total)

    def _keep_if_exact(self, key: tuple[int, str, str], read: list[Use], total: HostArray) -> None:
        """Keep what was read by the names of its gradients, where there are any, if these add up to the total."""
        added, uses = np.zeros(total.size), []
        for user, name, where in read:
            gradient = next((g for g in self.calls[user]["gradients"] if g["of"] == name), None)
            if gradient is not None and np.any(where >= 0):
                uses.append((user, gradient["name"], where))
                np.add.at(added, where[where >= 0], self.arrays[str(gradient["value"])].reshape(-1)[where >= 0])
        worst = np.max(np.abs(added - total.reshape(-1)), initial=0.0)
        if uses and worst <= CLOSE * max(float(np.max(np.abs(total), initial=0.0)), CLOSE):
            self.fan_in[key] = uses

    def _is_in(self, inner: int, outer: int) -> bool:
        """Whether a call is outer, or inside it."""
        at: int | None = inner
        while at is not None and at != outer:
            at = self.calls[at]["parent"]
        return at is not None


def _bits(array: HostArray) -> list[int]:
    """The 64 bits of each number, as an integer."""
    bits: list[int] = np.ascontiguousarray(array).reshape(-1).view(np.int64).tolist()
    return bits
