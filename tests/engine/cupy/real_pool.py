"""CuPy's own memory pool, without a GPU: a script that does what it reads from stdin, as JSON, and prints what came.

CuPy's modules find each other's functions in tables when they are imported. There, before they are, this puts an
answer to the question which device is the current one, the only one that a pool has for the driver.
"""

import ctypes
import json
import sys
from types import SimpleNamespace

PREPARED = ("getDevice", 0), ("getDeviceCount", 1)
FULL = 2  # cudaErrorMemoryAllocation


def outcomes(pool, operations, **others):
    """What became of each operation (its name, a number): [whether memory was full, bytes of the pool, used ones].

    malloc (bytes), free (the n-th that was asked for), limit (bytes), free all; others by their names.
    """
    found, taken = [], []
    ways = {
        "malloc": lambda size: taken.__setitem__(-1, pool.malloc(size)),
        "free": lambda n: taken.__setitem__(n, None),
        "limit": lambda size: pool.set_limit(size=size),
        "free all": lambda _: pool.free_all_blocks(),
        **others,
    }
    for name, number in operations:
        taken += [None] * (name == "malloc")
        try:
            ways[name](number)
            full = False
        except MemoryError:
            full = True
        found.append([full, pool.total_bytes(), pool.used_bytes()])
    return found


class Device:
    """Memory that has addresses, and nothing in it; ``room`` is how many bytes there are, ``asked`` what was given."""

    def __init__(self, cupy):
        self.room, self.taken, self.asked, self._next = 1 << 60, 0, [], 1 << 30
        self.cuda = SimpleNamespace(
            Memory=lambda size: Piece(self, cupy, size).memory(), MemoryPointer=cupy.cuda.MemoryPointer,
            MemoryPool=cupy.cuda.MemoryPool, runtime=cupy.cuda.runtime,
        )  # fmt: skip

    def address(self, size):
        self._next += size
        return self._next - size


class Piece:
    """A piece of it, given back when CuPy drops it."""

    def __init__(self, device, cupy, size):
        if device.taken + size > device.room:
            raise cupy.cuda.runtime.CUDARuntimeError(FULL)
        self.device, self.cupy, self.size = device, cupy, size
        device.taken += size
        device.asked.append(size)

    def memory(self):
        return self.cupy.cuda.UnownedMemory(self.device.address(self.size), self.size, self, 0)

    def __del__(self):
        if hasattr(self, "size"):
            self.device.taken -= self.size


def prepared_cupy():
    """CuPy, which believes that there is one device."""
    from cupy_backends.cuda.api import runtime

    capsule, name_of = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetName
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    kept = []
    for name, number in PREPARED:
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda skip, number=number: number)
        kept += [function, signature := name_of(runtime.__pyx_capi__[name])]
        assert signature == b"int (int __pyx_skip_dispatch)", signature
        runtime.__pyx_capi__[name] = capsule(ctypes.cast(function, ctypes.c_void_p), signature, None)
    import cupy

    return cupy, kept


def main():
    """{"pool": "CuPy's" or "of graphs", "operations": [[name, number] …]} to {"outcomes": …, "asked": …}."""
    from npformer.engine.cupy.graph_driver import CupyDriver, GraphPool

    asked, (cupy, kept) = json.load(sys.stdin), prepared_cupy()
    device = Device(cupy)
    others = {"room": lambda size: setattr(device, "room", size)}
    if asked["pool"] == "of graphs":
        other = device.cuda.MemoryPool()
        device.get_default_memory_pool = lambda: other
        graphs = GraphPool(device, "device")
        pool, others["bound"] = graphs.blocks, lambda _: CupyDriver.bound(None, graphs)
    else:
        cuda = device.cuda
        pool = cuda.MemoryPool(lambda size: cuda.MemoryPointer(cuda.Memory(size), 0))
    print(json.dumps({"outcomes": outcomes(pool, asked["operations"], **others), "asked": device.asked}))
    return kept and 0


if __name__ == "__main__":
    raise SystemExit(main())
