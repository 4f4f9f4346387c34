"""Memory with guard zones on both sides: a kernel that writes outside is caught, one that reads outside gets NaN."""

from __future__ import annotations

import ctypes
import math
from contextlib import contextmanager

import numpy as np

ZONE = 1024  # bytes on either side
GARBAGE = 255  # every byte of fresh memory: NaN in real numbers, −1 in whole ones


class Owner(np.ndarray):
    """Memory that has zones."""

    inside: slice  # what is between them


def guarded(shape, dtype):
    """An array whose memory, and the zones around it, hold garbage; it begins on a boundary of 256 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    owner = np.ndarray.__new__(Owner, (ZONE + 256 + size + ZONE,), np.uint8)
    owner.fill(GARBAGE)
    start = ZONE + -(owner.ctypes.data + ZONE) % 256
    owner.inside = slice(start, start + size)
    return owner[owner.inside].view(np.ndarray).view(dtype).reshape(shape)


def owner_of(x):
    """The array to which the memory of x belongs."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def expect_clean(owner, kernel):
    """Fail if a zone holds something else than garbage."""
    for side, zone in (("before", owner[: owner.inside.start]), ("behind", owner[owner.inside.stop :])):
        assert (zone == GARBAGE).all(), (
            f"{kernel}: wrote {side} an array of {owner.inside.stop - owner.inside.start} bytes"
        )


@contextmanager
def in_guarded_memory(arrays, kernel):
    """Addresses of arrays for a kernel. Memory without zones is lent a copy that has them, and gets back what changed.

    Raises AssertionError where something was written outside an array, or into a read-only one.
    """
    lent = {}  # owner's id: the guarded copy of its bytes
    addresses = []
    for x in arrays:
        owner, address = owner_of(x), x.ctypes.data
        if not isinstance(owner, Owner):
            own = bytes_of(owner)
            if id(owner) not in lent:
                lent[id(owner)] = guarded(own.shape, np.uint8)
                lent[id(owner)][...] = own
            address += lent[id(owner)].ctypes.data - own.ctypes.data
        addresses.append(address)
    yield addresses
    for x in arrays:
        owner = owner_of(x)
        copy = lent.get(id(owner))
        expect_clean(owner if copy is None else owner_of(copy), kernel)
        if copy is not None and not np.array_equal(bytes_of(owner), copy):
            assert x.flags.writeable, f"{kernel}: wrote into a read-only array of shape {x.shape}"
            bytes_of(owner)[...] = copy


def bytes_of(owner):
    """All bytes of an array that lives as long as they are used, those between its numbers too."""
    low, high = np.lib.array_utils.byte_bounds(owner)
    return np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8)
