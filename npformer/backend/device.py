"""The interface of a device: copying arrays to and from it, zeros, and synchronisation."""

from __future__ import annotations

from typing import Any, Protocol

from npformer.typing import Array, HostArray


class Device(Protocol):
    """Where arrays live. ``NumpyDevice`` and ``CupyDevice`` implement it; another device needs only these methods."""

    name: str

    def array(self, host: HostArray, dtype: str) -> Array:
        """A copy of host on this device, as dtype."""

    def host(self, x: Array) -> HostArray:
        """x as a NumPy array on the host (waits for the device)."""

    def owns(self, x: Any) -> bool:
        """Whether x is an array of this device already."""

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Zeros, starting on a 64-byte boundary."""

    def synchronize(self) -> None:
        """Wait until all work of this device is done."""
