"""Memory after batches of many random shapes: after the first hundred, and after two thousand.

    python -m benchmarks.faults.memory                         each table of kernels, training and decoding
    python -m benchmarks.faults.memory --kernels numpy --shapes 500 --json

Each row is measured in its own process. Resident memory is the system's figure: it includes memory of freed arrays
that the C library has not returned yet. ``in use`` is its growth after glibc was asked, at both ends, to return that
memory. ``kept`` is the size of the calling thread's workspace, which ``backend/workspace.py`` bounds. Texts have up to
64 tokens, batches up to 32 texts.
"""

import argparse
import ctypes
import gc
import json
import subprocess
import sys

import numpy as np

import npformer as npf
from benchmarks import report
from benchmarks.contender import memory_figure
from benchmarks.options import at_least_1, bare_parser
from npformer.backend import workspace

KERNELS = ("plain", "numpy", "numba")
WORK = ("train", "decode")
FIRST = 100  # shapes until the memory to be kept is allocated
MOST_TEXTS, MOST_TOKENS, VOCABULARY = 32, 64, 16


def give_back():
    """Ask the C library, if it is glibc, to return freed memory."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def measure(kernels, work, shapes):
    """Run batches of so many random shapes in this process. Returns a row."""
    config = npf.TransformerConfig(
        src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY, d_model=32, num_heads=4, num_encoder_layers=1,
        num_decoder_layers=1, d_ff=64, max_seq_len=MOST_TOKENS, dropout=0.1,
    )  # fmt: skip
    model = npf.Transformer(config, backend=npf.get_backend("numpy", kernels=kernels), seed=0)
    step = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4), seed=0)
    rng, after = np.random.default_rng(0), {}
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
            give_back()
            after[number] = resident, memory_figure("VmRSS")
    (first, first_in_use), (last, last_in_use) = after[min(FIRST, shapes)], after[shapes]
    return {
        "kernels": kernels, "work": work, "shapes": shapes, "first_bytes": first, "last_bytes": last,
        "growth_in_use": last_in_use - first_in_use, "kept": workspace.kept_bytes(),
    }  # fmt: skip


def in_a_process_of_its_own(kernels, work, shapes):
    """The same in a new process."""
    command = [sys.executable, "-m", "benchmarks.faults.memory", "--one", kernels, work, "--shapes", str(shapes)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def table(rows):
    """Rows as text, in MB of 10⁶ bytes."""
    lines = []
    for row in rows:
        first, last = row["first_bytes"], row["last_bytes"]
        sizes = (f"{size / 1e6:.1f} MB" for size in (first, last, last - first, row["growth_in_use"], row["kept"]))
        lines.append([*(str(row[name]) for name in ("kernels", "work", "shapes")), *sizes])
    return report.table(("kernels", "work", "shapes", f"after {FIRST}", "at last", "growth", "in use", "kept"), lines)


def main():
    """Exit 0 once everything is measured."""
    parser = bare_parser("faults.memory", __doc__.splitlines()[0])
    parser.add_argument("--kernels", choices=KERNELS, action="append", help="one kernel table only; may be repeated")
    parser.add_argument("--shapes", type=at_least_1, default=2000, help="how many random shapes (default: 2000)")
    parser.add_argument("--one", nargs=2, metavar=("KERNELS", "WORK"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one, args.shapes)))
        return 0
    pairs = [(kernels, work) for kernels in args.kernels or KERNELS for work in WORK]
    rows = [in_a_process_of_its_own(kernels, work, args.shapes) for kernels, work in pairs]
    print(json.dumps(rows) if args.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
