"""Compare whole runs of ``npformer train`` in 1, 2, 4 and 8 processes of MPI, to the bit.

For each task and each table of kernels one process trains a run with eight slots: rows of uneven lengths, batches of 9
rows in two micro-batches, so that slots stay empty, clipped gradients, dropout 0.1. The same run in more processes,
with whole moments and with those that processes share out, must have the same losses, norms, gradients' norms and
evaluations in metrics.jsonl, and the same weights and moments in its last checkpoint. So must a run that goes from 4
processes to 1, to 2 and to the most, at every quarter. More processes than cores take turns.

  python -m benchmarks.same_bits --task reverse --kernels numpy --processes 1,2 --steps 20

exit code: 0 all the same, 1 something differs or a run failed, 2 it cannot run
"""

import hashlib
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import machine, page_tables, report
from benchmarks.options import add_save, at_least_1, bare_parser, numbers, some_of
from npformer.run.checkpoint import latest_checkpoint, load_checkpoint

TASKS, KERNELS = ("reverse", "dates"), ("numba", "numpy")
OPTIONS = {
    "slots": 8, "batch_size": 9, "accumulate": 2, "clip_norm": 0.5, "dropout": 0.1, "d_model": 48, "d_ff": 96,
    "num_heads": 4, "num_encoder_layers": 1, "num_decoder_layers": 1, "schedule": "noam",
    "learning_rate": 0.5, "log_every": 1, "eval_examples": 40, "final_examples": 40,
}  # fmt: skip
TIMES = ("time", "elapsed", "tokens_per_second")  # what clocks say


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("same_bits", __doc__)
    add = parser.add_argument
    add("--task", type=some_of(TASKS), default=",".join(TASKS), help=f"of {', '.join(TASKS)} (default: all)")
    add("--kernels", type=some_of(KERNELS), default=",".join(KERNELS), help=f"of {', '.join(KERNELS)} (default: all)")
    add("--processes", type=numbers(1, 65, int), default="2,4,8", help="beside one (default: 2,4,8)")
    add("--steps", type=at_least_1, default=200, help="of each run, of four quarters (default: 200)")
    add_save(parser)
    args = parser.parse_args()
    if args.steps % 4:
        parser.error(f"--steps: expected a multiple of 4, got {args.steps}")
    about = machine.describe([], "numpy", ["float32"])
    results = [
        row
        for task, kernels in itertools.product(args.task, args.kernels)
        for row in compared(task, kernels, args.processes, args.steps)
    ]
    document = {"benchmark": "same_bits", "machine": about, "settings": OPTIONS, "results": results}
    report.finish(document, args, page_tables.same_bits)
    return int(any(result["differs"] for result in results))


def compared(task, kernels, counts, steps):
    """A row for each run that is compared with that of one process."""
    most = max(counts)
    between = [min(4, most), 1, min(2, most), most]
    runs = [(str(count), shared, [count]) for count in counts for shared in (False, True)]
    runs += [(" → ".join(map(str, between)), True, between)]
    with tempfile.TemporaryDirectory(prefix="same-bits-") as folder:
        expected = content(trained(Path(folder) / "alone", task, kernels, steps, [1], False))
        for number, (name, shared, legs) in enumerate(runs):
            report.progress(f"{task}, {kernels}: {name} processes …")
            found = content(trained(Path(folder) / str(number), task, kernels, steps, legs, shared))
            yield {
                "task": task, "kernels": kernels, "processes": name, "shared_moments": shared, "steps": steps,
                "compared": len(expected), "differs": [what for what in expected if found.get(what) != expected[what]],
                "sha256": digest(json.dumps(found, sort_keys=True).encode()),
            }  # fmt: skip
    report.progress("")


def trained(place, task, kernels, steps, legs, shared):
    """The folder of a run whose legs, of equal lengths, have so many processes."""
    every = steps // 4
    options = OPTIONS | {"kernels": kernels, "warmup_steps": every, "eval_every": every, "save_every": every}
    options |= {"count": 1_000} if task == "dates" else {}
    words = [task, "--device", "numpy", "--out", str(place), *(f"--set={name}={x}" for name, x in options.items())]
    for i, count in enumerate(legs, start=1):
        train([*words, f"--set=steps={steps * i // len(legs)}", *["--shard-optimizer"] * shared], count)
        words = ["--resume", str(place)]
    return place


def train(words, count):
    """Let a run train in so many processes. Raises RuntimeError with its words if it fails."""
    argv = [sys.executable, "-m", "npformer", "train", *words, "--processes", str(count)]
    done = subprocess.run(argv, cwd=machine.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: expected exit code 0, got {done.returncode}: {done.stderr[-2000:]}")


def content(path):
    """Name -> what a run's files say, to the bit: each line of its metrics, and each array of its last checkpoint."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    told = {
        f"step {line['step']}, {line['kind']}": {name: x for name, x in line.items() if name not in TIMES}
        for line in lines
        if line["kind"] in ("train", "gradient", "eval")
    }
    saved = load_checkpoint(latest_checkpoint(path / "checkpoints"))
    return told | {name: digest(x.tobytes()) for name, x in saved.arrays.items()} | {"the last step": saved.step}


def digest(data):
    """One number for all of it."""
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
