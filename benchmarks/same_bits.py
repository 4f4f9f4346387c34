"""Whole runs of ``npformer train`` in 1, 2, 4 and 8 processes of MPI, compared to the bit.

For each task and each table of kernels one process trains a run with eight slots: rows of uneven lengths, batches of 9
rows in two micro-batches, so that slots stay empty, clipped gradients, dropout 0.1. The same run in more processes,
with whole moments and with those that processes share out, must have the same losses, norms, gradients' norms and
evaluations in metrics.jsonl, and the same weights and moments in its last checkpoint. So must a run that goes from 4
processes to 1, to 2 and to the most, at every quarter. More processes than cores take turns.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import machine, report
from benchmarks.options import UsageError, add_save, at_least_1, bare_parser, listed
from npformer.run.checkpoint import latest_checkpoint, load_checkpoint

EXAMPLES = """examples:
  python -m benchmarks.same_bits
  python -m benchmarks.same_bits --task reverse --kernels numpy --processes 1,2 --steps 20
  python -m benchmarks.same_bits --save benchmarks/results/same-bits.json

exit code: 0 all the same, 1 something differs or a run failed, 2 it cannot run"""

TASKS, KERNELS, PROCESSES = ("reverse", "dates"), ("numba", "numpy"), ("1", "2", "4", "8")
OPTIONS = {
    "slots": 8, "batch_size": 9, "accumulate": 2, "clip_norm": 0.5, "dropout": 0.1, "d_model": 48, "d_ff": 96,
    "num_heads": 4, "num_encoder_layers": 1, "num_decoder_layers": 1, "schedule": "noam",
    "learning_rate": 0.5, "log_every": 1, "eval_examples": 40, "final_examples": 40,
}  # fmt: skip
TIMES = ("time", "elapsed", "tokens_per_second")  # what clocks say
COLUMNS = ("task", "kernels", "processes", "moments", "steps", "compared", "differs?")


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("same_bits", "Compare runs in several processes with that of one, to the bit.", EXAMPLES)
    parser.add_argument("--task", default=",".join(TASKS), help=f"of {', '.join(TASKS)} (default: all)")
    parser.add_argument("--kernels", default=",".join(KERNELS), help=f"of {', '.join(KERNELS)} (default: all)")
    parser.add_argument("--processes", default=",".join(PROCESSES), help=f"of {', '.join(PROCESSES)} (default: all)")
    parser.add_argument("--steps", type=at_least_1, default=200, help="of each run, of four quarters (default: 200)")
    add_save(parser)
    args = parser.parse_args()
    try:
        tasks, kernels = listed("--task", args.task, TASKS), listed("--kernels", args.kernels, KERNELS)
        counts = [int(count) for count in listed("--processes", args.processes, PROCESSES)]
        if args.steps % 4:
            raise UsageError(f"--steps: expected a multiple of 4, got {args.steps}")
    except UsageError as error:
        parser.error(str(error))
    about = machine.describe([], True, "numpy", ["float32"])
    results = []
    for task in tasks:
        for table in kernels:
            results += compared(task, table, [count for count in counts if count > 1], args.steps)
    document = {"benchmark": "same_bits", "machine": about, "settings": OPTIONS, "results": results}
    report.keep(document, args.save)
    print(json.dumps(document) if args.json else f"{report.head(about)}\n\n{shown(results)}")
    return 0 if results and all(not result["differs"] for result in results) else 1


def compared(task, kernels, counts, steps):
    """A row for each run that was compared with that of one process."""
    quarter, most = steps // 4, max(counts, default=1)
    rows = []
    with tempfile.TemporaryDirectory(prefix="same-bits-") as folder:
        alone = Path(folder) / "alone"
        train(new(task, kernels, quarter), 1, steps, alone)
        expected = content(alone)
        runs = [(f"{count}", shared, [(count, shared)]) for count in counts for shared in (False, True)]
        between = [min(4, most), 1, min(2, most), most]
        runs.append((" → ".join(map(str, between)), True, [(count, True) for count in between]))
        for name, shared, legs in runs:
            report.progress(f"{task}, {kernels}: {name} processes …")
            place = Path(folder) / f"run-{len(rows)}"
            for i, (count, is_shared) in enumerate(legs, start=1):
                words = new(task, kernels, quarter) if i == 1 else ["--resume", str(place)]
                train(words, count, steps * i // len(legs), place if i == 1 else None, is_shared)
            found = content(place)
            differs = [what for what in expected if found.get(what) != expected[what]]
            rows.append({
                "task": task, "kernels": kernels, "processes": name, "shared_moments": shared, "steps": steps,
                "compared": len(expected), "differs": differs, "sha256": digest(found),
            })  # fmt: skip
            report.progress("")
    return rows


def new(task, kernels, every):
    """The words of a new run."""
    options = OPTIONS | {"kernels": kernels, "warmup_steps": every, "eval_every": every, "save_every": every}
    options |= {"count": 1_000} if task == "dates" else {}
    return [task, "--device", "numpy", *(f"--set={name}={value}" for name, value in options.items())]


def train(words, count, steps, out=None, shared=False):
    """Let a run train to this step in so many processes. Raises RuntimeError with its words if it fails."""
    argv = [sys.executable, "-m", "npformer", "train", *words, "--processes", str(count), f"--set=steps={steps}"]
    argv += ["--shard-optimizer"] * shared + (["--out", str(out)] if out else [])
    environment = os.environ | {"PYTHONPATH": str(machine.ROOT)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
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
    arrays = {name: hashlib.sha256(x.tobytes()).hexdigest() for name, x in saved.arrays.items()}
    return told | arrays | {"the last step": saved.step}


def digest(found):
    """One number for all of it."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def shown(results):
    """The table."""
    rows = [
        [
            row["task"], row["kernels"], row["processes"], "shared out" if row["shared_moments"] else "whole",
            str(row["steps"]), str(row["compared"]), ", ".join(row["differs"][:3]) or "no",
        ]
        for row in results
    ]  # fmt: skip
    return report.table(COLUMNS, rows)


if __name__ == "__main__":
    raise SystemExit(main())
