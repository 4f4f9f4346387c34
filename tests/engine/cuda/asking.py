"""A device runtime that computes nothing: it records the largest number of threads asked for in a kernel's blocks."""

from functools import cache
from types import SimpleNamespace

import numpy as np

from npformer.backend.backend import PRECISIONS
from npformer.engine import recorded_decode
from npformer.engine.cuda import adam, cuda_ops
from npformer.functional import AttentionMask, Draw
from tests.engine.cuda.host_runtime import HostRuntime

DRAW = Draw(1, 2, 0, 3, 0.5)


class AskingRuntime(HostRuntime):
    """See the module's docstring. ``most`` is the number of threads, by kernel."""

    blas = SimpleNamespace(gemm=lambda *inputs, **options: None, gemm_with_bias=lambda *inputs: False)

    def __init__(self):
        self.most = {}

    def empty(self, shape, dtype):
        return np.zeros(shape, dtype)

    def launch(self, kernel, dtype, blocks, threads, *arguments):
        self.most[kernel] = max(threads, self.most.get(kernel, 0))


@cache
def most_threads(dtype, width):
    """The most threads that a block of each kernel is asked to have, in every precision, for rows of such a width."""
    runtime = AskingRuntime()
    for runtime.precision in PRECISIONS:
        _call_everything(runtime, dtype, width)
    return runtime.most


def _call_everything(runtime, dtype, width):
    """Every operation, forward and backward, on rows of so many numbers, few and many; and what is no operation."""
    ops, zeros = cuda_ops(runtime), lambda *shape: np.zeros(shape, dtype)
    vector, square = zeros(width), zeros(width, 64)
    for rows in (1, 1100):
        x, ids = zeros(1, rows, width), np.zeros((1, rows), np.int64)
        calls = [
            (ops.linear, (x, square, zeros(64))), (ops.relu, (x,)), (ops.gelu, (x,)),
            (ops.dropout, (x, DRAW)), (ops.residual, (x, x, DRAW)),
            (ops.embedding, (ids, zeros(5, width))), (ops.sinusoidal_positions, (x,)),
            (ops.learned_positions, (x, zeros(rows, width))), (ops.layer_norm, (x, vector, vector)),
            (ops.post_norm, (x, x, vector, vector, 1e-5, DRAW)), (ops.cross_entropy, (x, ids)),
            (ops.linear, (zeros(1, rows, 64), zeros(64, width), vector)),
            *((ops.feed_forward, (zeros(1, rows, 64), zeros(64, width), vector, square, zeros(64), name, DRAW))
              for name in ("relu", "gelu")),
        ]  # fmt: skip
        for pair, inputs in calls:
            y, cache = pair.forward(*inputs)
            pair.backward(y, cache)
        (total, normed), cache = ops.add_norm.forward(x, x, vector, vector, 1e-5, DRAW)
        ops.add_norm.backward((total, normed), cache)
    for length, window in ((8, None), (200, None), (600, 1)):  # in one block, by products, in tiles
        heads = np.swapaxes(zeros(2, length, 2, 64), 1, 2)
        out, cache = ops.attention.forward(heads, heads, heads, AttentionMask(causal=True, window=window), DRAW)
        ops.attention.backward(out, cache)
    table = adam.Runs(*adam.runs_table([]))
    adam.adam_update(runtime, *[zeros(width)] * 4, zeros(3), (0.9, 0.99), 1e-8, runs=table)
    adam.gradient_norm(runtime, zeros(width), table, 1.0)
    runtime.product(zeros(2048, 1024), square[:1024], zeros(2048, 64))
    ids, heads = np.zeros((4, 1), np.int64), zeros(1, 2, 1, width)
    recorded_decode.choose(runtime, zeros(1, 1, width), ids, ids, 2, 0)
    recorded_decode.Newest(SimpleNamespace(gpu=runtime, visible=ids), ids, heads, heads, 1, 0).write(0, heads, heads)
