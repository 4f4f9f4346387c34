"""Products of row-major arrays and their views by cuBLAS, which is column-major; no operand is transposed in memory.

A row-major (M, N) matrix whose rows are `lead` numbers apart is, read column-major, its transpose: an
(N, M) matrix whose columns are `lead` apart. So instead of out = a b we compute the transposes,

    outᵀ = bᵀ aᵀ        column-major: (N, M) = (N, K) (K, M)

with b first: the memory of row-major b is column-major bᵀ already. A transposed view (its
columns are contiguous, not its rows) is column-major the matrix itself, and cuBLAS is told
to transpose it. A transposed out is computed as its own transpose, row-major outᵀ = bᵀ aᵀ.

    a matrix (M, N) with strides        column-major      for cuBLAS
    (lead, 1), lead ≥ N                 (N, M)            not transposed
    (1, lead), lead ≥ M                 (M, N)            transposed
    others                              an operand is copied first, an out is computed in a new array

The stride of an axis of length 1 does not matter.

Batches. Axes with a common stride in all three arrays count as one axis, and one call computes all
its products. The heads of one token are D numbers apart, the same heads of two sequences T·3C: no
common stride, so a kernel writes a list of all matrix addresses (the same each time, so
graphs can capture it). That takes two launches instead of B or H, one for each sequence or head. Products
of the same arrays share ``Lists``, which one kernel writes.
Where cuBLAS rounds operands, listed matrices must start at multiples of 16 bytes. If one does not,
there is one call for each index of the first axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from npformer.engine.cuda.device_runtime import DeviceRuntime, by_value, whole_blocks
from npformer.engine.cupy.blas import Blas, Lines, Matrix, Sizes
from npformer.errors import ShapeError
from npformer.typing import Array

ALIGNED = 16
#: The lists that one kernel writes, as in products.cu.
MOST_LISTS = 9


class BlasRuntime(DeviceRuntime, Protocol):
    """A device runtime whose products are computed by cuBLAS or a substitute."""

    @property
    def blas(self) -> Blas:
        """The cuBLAS handle, on the stream of the kernels."""


class Axis(NamedTuple):
    """An axis over which products are repeated: how many, and the bytes from one to the next in a, b and out."""

    times: int
    apart: tuple[int, int, int]


class Lists:
    """The addresses of the matrices of some arrays (n0, n1, ·, ·), all written when a product first asks for one."""

    def __init__(self, gpu: BlasRuntime, arrays: Sequence[Array] = ()) -> None:
        self._gpu, self._arrays = gpu, arrays
        self._known: dict[Any, Array] = {}  # (n0, n1, start, its two strides) -> list (n0·n1,)

    def of(self, starts: Sequence[int], outer: Axis, inner: Axis) -> list[Array]:
        """A list for each of the three arrays of a product that is repeated along two axes."""
        times = outer.times, inner.times
        wanted = [(*times, *place) for place in zip(starts, outer.apart, inner.apart, strict=True)]
        if not all(each in self._known for each in wanted):
            others = [x for x in self._arrays if x.shape[:-2] == times]
            self._write(*times, [*wanted, *((*times, self._gpu.address(x), *x.strides[:2]) for x in others)])
        return [self._known[each] for each in wanted]

    def _write(self, n0: int, n1: int, wanted: Sequence[Any]) -> None:
        new = [each for each in dict.fromkeys(wanted) if each not in self._known][:MOST_LISTS]
        addresses = self._gpu.empty((len(new), n0 * n1), "uint64")
        places = by_value([number for each in new for number in each[2:]], 3 * MOST_LISTS)
        blocks = whole_blocks(addresses.size)
        self._gpu.launch("products.matrix_addresses", "float32", blocks, 256, addresses, places, len(new), n0, n1)
        self._known |= {each: addresses[i] for i, each in enumerate(new)}


def product(
    gpu: BlasRuntime, a: Array, b: Array, out: Array, add: bool = False, scale: float = 1.0, lists: Lists | None = None
) -> Array:
    """Implements DeviceRuntime.product. Raises ShapeError if the shapes do not meet."""
    expect_product(a, b, out)
    if out.size == 0:
        return out
    if a.shape[-1] == 0:
        if not add:
            out.fill(0)
        return out
    lies = lines(out)
    if lies is None:
        made = product(gpu, a, b, gpu.empty(out.shape, out.dtype), scale=scale)
        out[...] = out + made if add else made
        return out
    a, b = (x if lines(x) else gpu.contiguous(x) for x in (a, b))
    if lies.turned:
        a, b, out_of = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
    else:
        out_of = out
    _run(gpu, a, b, out_of, add, scale, lists or Lists(gpu))
    return out


def biased_product(gpu: BlasRuntime, a: Array, b: Array, bias: Array, out: Array) -> bool:
    """Implements DeviceRuntime.biased_product."""
    expect_product(a, b, out)
    a, b = (x if lines(x) else gpu.contiguous(x) for x in (a, b))
    lies = [layout for x in (a, b, out) if (layout := lines(x))]
    if 0 in (out.size, a.size) or len(lies) < 3 or lies[2].turned or not bias.flags.c_contiguous:
        return False
    sizes = Sizes(out.shape[-1], out.shape[-2], a.shape[-1])
    first, second, total = (Matrix(gpu.address(x), lie, 0) for x, lie in zip((a, b, out), lies, strict=True))
    return gpu.blas.gemm_with_bias(a.dtype.char, gpu.precision, sizes, second, first, gpu.address(bias), total)


def _run(gpu: BlasRuntime, a: Array, b: Array, out: Array, add: bool, scale: float, lists: Lists) -> None:
    """All products, for a, b and out with a contiguous axis each; out's rows are contiguous."""
    kind, lies = a.dtype.char, [layout for x in (a, b, out) if (layout := lines(x))]
    rounds = kind == "f" and gpu.precision != "float32"
    starts = [gpu.address(x) for x in (a, b, out)]
    sizes = Sizes(out.shape[-1], out.shape[-2], a.shape[-1])
    repeated = axes(a, b, out)

    def call(starts: Sequence[int], apart: Sequence[int], count: int, listed: bool = False) -> None:
        first, second, total = (Matrix(*args) for args in zip(starts, lies, apart, strict=True))
        gpu.blas.gemm(kind, gpu.precision, sizes, scale, second, first, add, total, count, listed=listed)

    if len(repeated) == 2 and (not rounds or _are_aligned(starts, repeated)):
        addresses = lists.of(starts, *repeated)
        call([gpu.address(each) for each in addresses], (0, 0, 0), addresses[0].size, listed=True)
        return
    *outer, last = repeated or [Axis(1, (0, 0, 0))]
    apart = [step // x.dtype.itemsize for step, x in zip(last.apart, (a, b, out), strict=True)]
    for index in itertools.product(*(range(axis.times) for axis in outer)):
        moved = (sum(i * axis.apart[k] for i, axis in zip(index, outer, strict=True)) for k in range(3))
        call([at + far for at, far in zip(starts, moved, strict=True)], apart, last.times)


def _are_aligned(starts: list[int], repeated: list[Axis]) -> bool:
    """Whether every matrix starts at an address from which cuBLAS may load several numbers at once."""
    return all(at % ALIGNED == 0 for at in itertools.chain(starts, *(axis.apart for axis in repeated)))


def lines(x: Array) -> Lines | None:
    """The memory layout of the matrices of x (..., M, N), or None if neither rows nor columns are contiguous."""
    (rows, columns), unit = x.shape[-2:], x.dtype.itemsize
    down, along = x.strides[-2] // unit, x.strides[-1] // unit
    if (along == 1 or columns == 1) and (rows == 1 or down >= columns):
        return Lines(False, columns if rows == 1 else down)
    if (down == 1 or rows == 1) and (columns == 1 or along >= rows):
        return Lines(True, rows if columns == 1 else along)
    return None


def axes(a: Array, b: Array, out: Array) -> list[Axis]:
    """The batch axes of the products: axes with a common stride are merged, axes of length 1 are dropped."""
    merged: list[Axis] = []
    for i in range(out.ndim - 2):
        times = out.shape[i]
        apart = (_step(a, i - out.ndim), _step(b, i - out.ndim), out.strides[i])
        if times == 1:
            continue
        if merged and merged[-1].apart == tuple(times * step for step in apart):
            merged[-1] = Axis(merged[-1].times * times, apart)
        else:
            merged.append(Axis(times, apart))
    return merged


def _step(x: Array, axis: int) -> Any:
    """The stride in bytes of an axis counted from the end; 0 if x lacks the axis, or broadcasts it."""
    return 0 if -axis > x.ndim or x.shape[axis] == 1 else x.strides[axis]


def expect_product(a: Array, b: Array, out: Array) -> None:
    """Raise ShapeError unless a (…, M, K), b (…, K, N) and out (…, M, N) meet. a and b have out's … or none."""
    for name, x, rows, columns in (("a", a, "M", "K"), ("b", b, "K", "N")):
        shape = (out.shape[-2], b.shape[-2]) if name == "a" else (a.shape[-1], out.shape[-1])
        batch = x.shape[:-2]
        repeats = all(n in (1, m) for n, m in zip(reversed(batch), reversed(out.shape[:-2]), strict=False))
        if x.shape[-2:] != shape or not repeats or len(batch) > out.ndim - 2:
            raise ShapeError(
                f"{name}: expected (…, {rows}, {columns}) = {(*out.shape[:-2], *shape)}, got {tuple(x.shape)}"
            )
