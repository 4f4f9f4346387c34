"""What a training step keeps in memory with compiled kernels is what theory counts, and little is temporary."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import npformer as npf
from npformer.layers import RandomKey
from npformer.models.presets import Preset


def kept_bytes(size, recompute):
    """Bytes that layers keep for a backward, in float32. Layers that recompute keep their input, and one is whole.

    encoder layer   B·T·(8C + F + H·T)       q, k, v, heads; x̂ and y of two norms; the hidden F; attention weights
    decoder layer   B·T·(14C + F + 2H·T)     one attention and one norm more
    both ends       B·T·(2C + 2V)            embedded source and target; logits and their gradient
    """
    c, f, weights = size.d_model, size.d_ff, size.num_heads * size.length
    encoder_layer, decoder_layer = 8 * c + f + weights, 14 * c + f + 2 * weights
    layers = size.num_layers * (encoder_layer + decoder_layer)
    if recompute:
        layers = 2 * size.num_layers * c + decoder_layer
    return 4 * size.batch * size.length * (layers + 2 * c + 2 * size.vocab_size)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(
    "size",
    [Preset(8, 64, 2, 6, 64, 32, 32), Preset(8, 32, 8, 3, 64, 128, 4), Preset(900, 32, 2, 1, 32, 32, 32)],
    ids=str,
)
def test_a_step_keeps_what_is_counted(size, recompute):
    """Forward with dropout and backward, in a new thread, which has a workspace of its own."""
    pytest.importorskip("numba", reason="the count is that of compiled kernels")
    backend = npf.get_backend("numpy", kernels="numba", threads=1)
    model = npf.Transformer(replace(size.config(0.1), recompute=recompute), backend=backend)
    src, tgt_in, tgt_out = size.example_batch()

    def step():
        logits, cache = model.forward(src, tgt_in, key=RandomKey(0, 1))
        _, loss_cache = model.ops.cross_entropy.forward(logits, tgt_out, 0, 0.0)
        model.backward(model.ops.cross_entropy.backward(1.0, loss_cache), cache)
        return tracemalloc.get_traced_memory()[1]

    step()  # loads and caches everything that is set up once
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(1) as thread:
            kept = thread.submit(step).result()
    finally:
        tracemalloc.stop()
    most = 1.45 if recompute else 1.35  # the rest is temporary memory of operations
    assert 1 < kept / kept_bytes(size, recompute) < most
