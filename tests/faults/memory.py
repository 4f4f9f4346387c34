"""Memory after batches of many random shapes: after the first hundred, and after two thousand.

Each row is measured in its own process. Resident memory is the system's figure: it includes memory of freed arrays
that the C library has not returned yet. ``in use`` is its growth after glibc was asked, at both ends, to return that
memory. ``kept`` is the size of the calling thread's workspace, which ``backend/workspace.py`` bounds. Texts have up to
64 tokens, batches up to 32 texts.
"""

import ctypes
import gc
import itertools

import numpy as np

import npformer as npf
from benchmarks.harness import memory_figure
from benchmarks.survivors import answers
from npformer.backend import workspace

WORK = ("train", "decode")
FIRST = 100  # shapes until the memory to be kept is allocated
MOST_TEXTS, MOST_TOKENS, VOCABULARY = 32, 64, 16


def measure(kernels, work, shapes):
    """Run batches of so many random shapes in this process. Returns a row."""
    config = npf.TransformerConfig(
        src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY, d_model=32, num_heads=4, num_encoder_layers=1,
        num_decoder_layers=1, d_ff=64, max_seq_len=MOST_TOKENS, dropout=0.1,
    )  # fmt: skip
    model = npf.Transformer(config, backend=npf.get_backend("numpy", kernels=kernels), seed=0)
    step = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4), seed=0)
    rng, after = np.random.default_rng(0), []
    for number in range(1, shapes + 1):
        texts, source, target = (int(rng.integers(1, most + 1)) for most in (MOST_TEXTS, MOST_TOKENS, MOST_TOKENS))
        src = rng.integers(1, VOCABULARY, (texts, source))
        if work == "train":
            ids = rng.integers(1, VOCABULARY, (texts, target))
            step(src, ids, ids)
        else:
            npf.greedy(model, src, max_len=min(target, 16))
        if number in (min(FIRST, shapes), shapes):
            gc.collect()
            resident = memory_figure("VmRSS")
            getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # if the C library is glibc
            after.append((resident, memory_figure("VmRSS")))
    (first, first_in_use), (last, last_in_use) = after[0], after[-1]
    return {
        "kernels": kernels, "work": work, "first_bytes": first, "last_bytes": last,
        "growth_in_use": last_in_use - first_in_use, "kept": workspace.kept_bytes(),
    }  # fmt: skip


def injected(shapes, kernels):
    """The table, in MB of 10⁶ bytes."""
    asked = [[*pair, shapes] for pair in itertools.product(kernels, WORK)]
    lines = []
    for row in answers("tests.faults.memory:measure", asked, 3600, 1):
        first, last = row["first_bytes"], row["last_bytes"]
        sizes = (f"{size / 1e6:.1f} MB" for size in (first, last, last - first, row["growth_in_use"], row["kept"]))
        lines.append([row["kernels"], row["work"], shapes, *sizes])
    return ("kernels", "work", "shapes", f"after {FIRST}", "at last", "growth", "in use", "kept"), lines, False
