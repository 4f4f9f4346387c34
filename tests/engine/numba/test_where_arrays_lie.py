"""What a kernel computes depends on numbers alone, not on how near to each other its arrays lie in memory."""

import ctypes
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.decoding import beam_search, greedy
from npformer.engine import host_decode
from npformer.engine.numba import add_and_compare, compiling, decoding, work_sharing
from npformer.engine.numba.arguments import flat
from npformer.engine.numba.compiling import Kernel
from npformer.engine.numba.recording import NotRecordable, here
from npformer.engine.numba.replay import HostDriver
from npformer.layers import RandomKey
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam

#: It is handed the addresses of arrays, which stay where they are.
HANDED_ADDRESSES = {"help_with_rows"}
LINE = 64  # bytes
GAPS_AND_SEEDS = [(0, 0), (0, 1), (16, 2)]


def root_of(x):
    """The array whose memory x is in."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def moved(arrays, gap, seed):
    """Arrays with these numbers elsewhere: those that share memory still do; else in any order, gap bytes between."""
    roots = list({id(root): root for root in map(root_of, arrays) if root.size}.values())
    np.random.default_rng(seed).shuffle(roots)
    bounds = [np.lib.array_utils.byte_bounds(root) for root in roots]
    memory = np.zeros(sum(high - low + 16 + gap for low, high in bounds) + LINE, np.uint8)
    start, shifts = -memory.ctypes.data % LINE, {}
    for root, (low, high) in zip(roots, bounds, strict=True):
        memory[start:][: high - low] = np.frombuffer(ctypes.string_at(low, high - low), np.uint8)
        shifts[id(root)] = start - low
        start += -(-(high - low) // 16) * 16 + gap
    places = [(x, shifts[id(root_of(x))] + x.ctypes.data if x.size else 0) for x in arrays]
    return [np.ndarray(x.shape, x.dtype, memory.data, place, x.strides) for x, place in places]


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
        arguments = with_arrays(arguments, (np.asarray(x) for x in flat(arguments) if isinstance(x, np.ndarray)))
        arrays = [x for x in flat(arguments) if isinstance(x, np.ndarray)]
        again = [] if kernel.__name__ in HANDED_ADDRESSES else [moved(arrays, *given) for given in GAPS_AND_SEEDS]
        kernel.dispatcher(*arguments)
        for others in again:
            kernel.dispatcher(*with_arrays(arguments, iter(others)))
            same = all(x.tobytes() == y.tobytes() for x, y in zip(arrays, others, strict=True))
            assert same, f"{kernel.__name__}: other bits where arrays lie elsewhere"
            seen.add(kernel.__name__)

    def record(driver, work):
        """Instead of the record of a decoding step, what makes its calls anew."""
        if driver.few is None:
            raise NotRecordable

        def run(times=1, stops=0):
            with monkeypatch.context() as patch:
                patch.setattr(here, "tape", SimpleNamespace(few=driver.few))
                for _ in range(times):
                    outputs = work()
            return outputs

        return SimpleNamespace(run=run, give=lambda arrays: None), run()

    monkeypatch.setattr(Kernel, "__call__", call)
    monkeypatch.setattr(HostDriver, "record", record)
    monkeypatch.setattr(work_sharing.helper, "invite", lambda job, shared: None)
    monkeypatch.setattr(host_decode, "WORTH_SHARING", 0)
    monkeypatch.setattr(decoding, "LARGE_WEIGHT", 1000)
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
    backend = get_backend("numpy", dtype=dtype, kernels="numba", threads=2)
    rng = np.random.default_rng(0)
    for width in (8, 24):
        a, b = rng.normal(size=(2, 3, width)).astype(dtype)
        backend.ops.linear.forward(a[:1], np.resize(b, (width, width)), b[0])
        backend.ops.linear.forward(a, np.resize(b, (width, width)), b[0])
        add_and_compare.add(a.ravel(), b[0], np.empty_like(a).ravel())
        add_and_compare.compare(np.arange(width), 3, np.empty(width, np.bool_))
        for options, tokens in product(({}, {"norm_order": "pre", "activation": "gelu"}), (3, 9)):
            model = train(backend, width, tokens, **options)
    for search in (greedy, partial(beam_search, beam=2)):
        search(model, np.array([[3, 4, 5, 2]]), 4, eos_id=None)
    assert moving == {kernel.__name__ for kernel in compiling._kernels} - HANDED_ADDRESSES
