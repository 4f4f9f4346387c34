"""What a kernel computes depends on numbers alone, not on how near to each other its arrays lie in memory."""

import ctypes
from itertools import product

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.decoding import beam_search
from npformer.engine.numba import add_and_compare, compiling
from npformer.engine.numba.arguments import flat
from npformer.engine.numba.compiling import Kernel
from npformer.layers import RandomKey
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam

#: They are handed the addresses of weights, which stay where they are.
HANDED_ADDRESSES = {"steps_of_tokens", "encode_texts"}
LINE = 64  # bytes


class Area:
    """A stretch of memory that arrays lie in; they may overlap."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def read(self):
        return ctypes.string_at(self.low, self.high - self.low)


def areas(arrays):
    """The memory that they lie in, in the order of addresses."""
    areas_seen = []
    for low, high in sorted(np.lib.array_utils.byte_bounds(x) for x in arrays if x.size):
        if areas_seen and low < areas_seen[-1].high:
            areas_seen[-1].high = max(areas_seen[-1].high, high)
        else:
            areas_seen.append(Area(low, high))
    return areas_seen


def moved(arrays, areas, held, gap, seed):
    """(arrays with these numbers in memory of their own, areas in any order, gap bytes between; a reader of that)."""
    order = [int(i) for i in np.random.default_rng(seed).permutation(len(areas))]
    starts, end = {}, 0
    for i in order:
        starts[i] = end
        end += -(-len(held[i]) // 16) * 16 + gap
    memory = np.zeros(end + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    for i in order:
        memory[first + starts[i] :][: len(held[i])] = np.frombuffer(held[i], np.uint8)

    def one(x):
        low = np.lib.array_utils.byte_bounds(x)[0] if x.size else 0
        for i, area in enumerate(areas):
            if area.low <= low < area.high:
                offset = first + starts[i] + low - area.low
                return np.ndarray(x.shape, x.dtype, memory.data, offset, x.strides)
        return x

    def read():
        return [memory[first + starts[i] :][: len(held[i])].tobytes() for i in range(len(areas))]

    return [one(x) for x in arrays], read


def with_arrays(x, others):
    """x with the next of others in place of each array."""
    if isinstance(x, tuple):
        parts = [with_arrays(part, others) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return next(others) if isinstance(x, np.ndarray) else x


@pytest.fixture
def moving(monkeypatch):
    """Every call of a kernel is made again with its arrays elsewhere; the names of those that were."""
    seen = set()

    def call(kernel, *arguments):
        if kernel.__name__ in HANDED_ADDRESSES:
            kernel.dispatcher(*arguments)
            return
        arrays = [x for x in flat(arguments) if isinstance(x, np.ndarray)]
        held_areas = areas(arrays)
        held = [area.read() for area in held_areas]
        again = [moved(arrays, held_areas, held, gap, seed) for seed, gap in enumerate([0, 0, 16])]
        kernel.dispatcher(*arguments)
        expected = [area.read() for area in held_areas]
        for others, read in again:
            kernel.dispatcher(*with_arrays(arguments, iter(others)))
            assert read() == expected, f"{kernel.__name__}: other bits where arrays lie elsewhere"
        seen.add(kernel.__name__)

    monkeypatch.setattr(Kernel, "__call__", call)
    return seen


def train(backend, width, tokens, **options):
    """A step of training with so few tokens that whole arrays are no longer than a vector or two."""
    config = TransformerConfig(
        9, 9, d_model=width, num_heads=2, d_ff=2 * width, num_encoder_layers=1, num_decoder_layers=1, dropout=0.2,
        positions="learned", **options,
    )  # fmt: skip
    model = Transformer(config, backend=backend, seed=1)
    src, tgt = np.arange(tokens)[None] % 6 + 3, np.arange(tokens, 0, -1)[None] % 6
    logits, cache = model.forward(src, tgt, key=RandomKey(seed=0, step=1))
    _, losses = backend.ops.cross_entropy.forward(logits, np.roll(tgt, -1, axis=1), 0, 0.1)
    model.backward(backend.ops.cross_entropy.backward(1.0, losses), cache)
    Adam(model.arena).step()
    return model


def test_its_bits_do_not_depend_on_memory_addresses(dtype, moving):
    backend = get_backend("numpy", dtype=dtype, kernels="numba", threads=1)
    rng = np.random.default_rng(0)
    for width in (8, 24):
        a, b = rng.normal(size=(2, 3, width)).astype(dtype)
        backend.ops.linear.forward(a[:1], np.resize(b, (width, width)), b[0])
        backend.ops.linear.forward(a, np.resize(b, (width, width)), b[0])
        add_and_compare.add(a.ravel(), b[0], np.empty_like(a).ravel())
        add_and_compare.compare(np.arange(width), 3, np.empty(width, np.bool_))
        for options, tokens in product(({}, {"norm_order": "pre", "activation": "gelu"}), (3, 9)):
            model = train(backend, width, tokens, **options)
    beam_search(model, np.array([[3, 4, 5, 2]]), 4, beam=2)
    assert moving == {kernel.__name__ for kernel in compiling._kernels} - HANDED_ADDRESSES
