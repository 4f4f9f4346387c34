"""npformer bench: how long a training step takes on this machine, and where its time goes."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.backend.numpy.blas import blas_threads, can_set_blas_threads
from npformer.cli.common import add_device, add_kernels, add_precision, expect_at_least_1, finished
from npformer.errors import ConfigError
from npformer.io.percent import percent
from npformer.io.terminal import folded
from npformer.models.presets import PRESETS, Preset
from npformer.training.bench import Profile, Repetitions, StepTimes, profile_step, time_steps

SECONDS = 5.0
NAMES = 10  # columns of the names in the summary
TABLE = "{:<24} {:<8} {:>5} {:>10} {:>8}"
PYTHON = "layers, in Python: all between the operations, such as copies of views and setting gradients to 0."

SUMMARY = "Time training steps and show where their time goes."
EXAMPLES = """examples:
  npformer bench                           a small model, about 5 seconds
  npformer bench --size base --steps 3     the base model of the paper: minutes on a CPU
  npformer bench --kernels plain           run npformer.functional itself, to compare
  npformer bench --profile                 time by operation
  npformer bench --device cupy --size base --precision tf32
  npformer bench --json | jq .median_ms

A step is forward, loss, backward and Adam on random tokens. It uses all threads, as training does. --profile
uses one thread with one BLAS thread, so that the times of the parts add up. Training records a step and replays it,
which saves Python's time between the operations. --profile does not record, so its table includes that time. On a
GPU the profile waits for the device around every operation, so operations take longer than in training.

sizes:
""" + "\n".join(f"  {name:<6} {preset}" for name, preset in PRESETS.items())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("--size", choices=PRESETS, default="tiny", help="the model and its batch (default: tiny)")
    add("--dropout", metavar="P", type=float, default=0.1, help="the model's dropout rate (default: 0.1)")
    add_device(parser)
    add("--dtype", choices=("float32", "float64"), default="float32", help="the dtype of all arrays")
    add_precision(parser)
    add_kernels(parser)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", metavar="N", type=int, help="how many steps to time")
    length.add_argument("--seconds", metavar="S", type=float, help="seconds to measure (default: 5, at least 3 steps)")
    add("--profile", action="store_true", help="time every operation, forward and backward")


def run(args: argparse.Namespace) -> int:
    """Exit 0 once it is measured."""
    expect_at_least_1(args, "steps")
    if args.seconds is not None and not 0 < args.seconds < float("inf"):
        raise ConfigError(f"--seconds: expected a number > 0, got {args.seconds}")
    budget, preset = Repetitions(args.steps, SECONDS if args.seconds is None else args.seconds), PRESETS[args.size]
    preset.config(args.dropout)  # refused before anything is printed
    threads = 1 if args.profile else None
    backend = get_backend(args.device, args.dtype, kernels=args.kernels, threads=threads, precision=args.precision)
    if not args.json:
        what = "the parts of a training step" if args.profile else "training steps"
        print(folded(f"{what} of size {args.size} with {backend}", sys.stdout), flush=True)
    if args.profile:
        profile = profile_step(preset, backend, args.dropout, budget)
        rows, told = [row._asdict() for row in profile.rows], _profile_text(profile)
        numbers = {"steps": profile.steps, "step_seconds": profile.seconds, "rows": rows}
    else:
        times = time_steps(preset, backend, args.dropout, budget)
        numbers, told = _times(times, preset), _text(times, preset)
    size = f"{'size':<{NAMES}}{preset}, dropout {args.dropout:g}"
    text = folded(f"{told}\n{size}\n{'threads':<{NAMES}}{_threads(backend, preset)}", sys.stdout, " " * NAMES)
    return finished(args, _about(args, backend) | numbers, text)


def _threads(backend: Backend, preset: Preset) -> int:
    """How many threads share a batch of this size."""
    return 1 if backend.engine is None else backend.engine.parts_of(preset.batch * preset.length * preset.d_model)


def _about(args: argparse.Namespace, backend: Backend) -> dict[str, Any]:
    threads = _threads(backend, PRESETS[args.size])
    alone = args.profile or threads > 1  # each thread then computes its products alone
    return {
        "size": args.size,
        "preset": asdict(PRESETS[args.size]),
        "dropout": args.dropout,
        "backend": backend.name,
        "device": backend.device.name,
        "dtype": backend.dtype,
        "precision": backend.precision,
        "kernels": backend.kernels,
        "threads": threads,
        "blas_threads": 1 if alone and can_set_blas_threads() else blas_threads(),
    }


def _times(times: StepTimes, preset: Preset) -> dict[str, Any]:
    median = float(np.median(times.seconds))
    return {
        "steps": len(times.seconds),
        "median_ms": 1e3 * median,
        "best_ms": 1e3 * min(times.seconds),
        "first_ms": 1e3 * times.first,
        "all_ms": [1e3 * seconds for seconds in times.seconds],
        "tokens_per_second": preset.batch * preset.length / median,
        "first_loss": times.first_loss,
        "last_loss": times.last_loss,
    }


def _text(times: StepTimes, preset: Preset) -> str:
    tokens, seconds = preset.batch * preset.length, np.asarray(times.seconds)
    low, middle, high = (_ms(float(value)) for value in np.quantile(seconds, (0.25, 0.5, 0.75)))
    told = {
        "median": f"{middle} a step",
        "spread": f"best {_ms(min(seconds))}, middle half {low} to {high}, worst {_ms(max(seconds))}; the first step, "
        f"not counted, {_ms(times.first)}",
        "steps": f"{len(seconds)} in {seconds.sum():.1f} s",
        "tokens/s": f"{tokens / float(np.median(seconds)):,.0f} target tokens ({tokens:,} a step)",
        "loss": f"{times.first_loss:.4f} at first, {times.last_loss:.4f} at last",
    }
    return "\n".join(f"{name:<{NAMES}}{text}" for name, text in told.items())


def _profile_text(profile: Profile) -> str:
    """All rows, their sum, and what the columns mean."""
    rows = [(row.op, row.direction, row.calls, f"{1e3 * row.seconds:.3f}", percent(row.share)) for row in profile.rows]
    head = TABLE.format("operation", "pass", "calls", "ms", "share")
    total = TABLE.format("the step", "", "", f"{1e3 * profile.seconds:.3f}", "100.0 %")
    lines = [TABLE.format(*row) for row in rows]
    return "\n".join([head, *lines, "-" * len(head), total, "", f"ms, share: all calls in one step. {PYTHON}", ""])


def _ms(seconds: float) -> str:
    """Milliseconds with three digits, or all before the point."""
    value = 1e3 * seconds
    digits = f"{value:.3g}" if value < 1 else f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
    return f"{digits} ms"
