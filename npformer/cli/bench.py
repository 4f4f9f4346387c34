"""npformer bench: how long a training step takes on this machine, and where its time goes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.backend.numpy.blas_threads import blas_threads, can_set_blas_threads
from npformer.cli.common import add_device, add_kernels, add_precision, expect_at_least_1
from npformer.errors import ConfigError
from npformer.io.percent import percent
from npformer.io.terminal import fill, folded
from npformer.models.presets import PRESETS, Preset
from npformer.training.bench import Budget, Profile, Row, StepTimes, profile_step, time_steps

SECONDS = 5.0
NAMES = 10  # columns of the names in the summary
COLUMNS = ("operation", "pass", "calls", "ms", "share")
WORDS = ("operation", "pass")  # aligned to the left, numbers to the right
PYTHON = "layers, in Python: everything between the operations, such as copies of views and setting gradients to 0."

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
    budget = _budget(args)
    preset = PRESETS[args.size]
    preset.config(args.dropout)  # refused before anything is printed
    threads = 1 if args.profile else None
    backend = get_backend(args.device, args.dtype, kernels=args.kernels, threads=threads, precision=args.precision)
    if args.profile:
        return _profile(args, preset, backend, budget)
    if not args.json:
        print(folded(f"training steps of size {args.size} with {backend}", sys.stdout), flush=True)
    times = time_steps(preset, backend, args.dropout, budget)
    if args.json:
        print(json.dumps(_about(args, backend) | _times(times, preset)))
    else:
        facts = {"size": f"{preset}, dropout {args.dropout:g}", "threads": _threads(backend, preset)}
        told = summary(times, preset.batch * preset.length) | facts
        print(folded(told_lines(told), sys.stdout, " " * NAMES))
    return 0


def _budget(args: argparse.Namespace) -> Budget:
    expect_at_least_1(args, "steps")
    if args.seconds is not None and not 0 < args.seconds < float("inf"):
        raise ConfigError(f"--seconds: expected a number > 0, got {args.seconds}")
    return Budget(args.steps, SECONDS if args.seconds is None else args.seconds)


def _profile(args: argparse.Namespace, preset: Preset, backend: Backend, budget: Budget) -> int:
    if not args.json:
        print(folded(f"the parts of a training step of size {args.size} with {backend}", sys.stdout), flush=True)
    profile = profile_step(preset, backend, args.dropout, budget)
    if args.json:
        print(json.dumps(_about(args, backend) | _numbers(profile)))
    else:
        facts = "\n".join((_title(args, preset), _one_thread(backend)))
        print(folded(facts, sys.stdout), profile_table(profile), sep="\n\n")
    return 0


def _title(args: argparse.Namespace, preset: Preset) -> str:
    return f"size {args.size}: {preset}, dropout {args.dropout:g}"


def _parts(backend: Backend, preset: Preset) -> int:
    """How many threads share a batch of this size."""
    return 1 if backend.engine is None else backend.engine.parts_of(preset.batch * preset.length * preset.d_model)


def _threads(backend: Backend, preset: Preset) -> str:
    """How many threads share the batch, and how many a matrix product uses, in words."""
    parts = _parts(backend, preset)
    few = ", for a batch this small" if parts < backend.threads else ""
    if backend.name == "cupy":
        return "1; products by cuBLAS"
    if not can_set_blas_threads():
        return f"{parts}{few}; BLAS threads unknown"
    return f"{parts}, with one BLAS thread each" if parts > 1 else f"1{few}; BLAS threads: {blas_threads()}"


def _one_thread(backend: Backend) -> str:
    if backend.name == "cupy":
        return "the profile waits for the GPU around every operation, so nothing overlaps"
    if not can_set_blas_threads():
        return "one thread; this BLAS keeps its own threads"
    return "one thread, one BLAS thread: the parts add up"


def _about(args: argparse.Namespace, backend: Backend) -> dict[str, Any]:
    parts = _parts(backend, PRESETS[args.size])
    alone = args.profile or parts > 1  # each thread then computes its products alone
    return {
        "size": args.size,
        "preset": asdict(PRESETS[args.size]),
        "dropout": args.dropout,
        "backend": backend.name,
        "device": backend.device.name,
        "dtype": backend.dtype,
        "precision": backend.precision,
        "kernels": backend.kernels,
        "threads": parts,
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


def _numbers(profile: Profile) -> dict[str, Any]:
    return {
        "steps": profile.steps,
        "step_seconds": profile.seconds,
        "unclocked_step_seconds": profile.unclocked,
        "rows": [asdict(row) for row in profile.rows],
    }


def summary(measured: StepTimes, tokens: int) -> dict[str, str]:
    """The summary of timed steps with so many target tokens each: names and texts."""
    seconds = np.asarray(measured.seconds)
    low, middle, high = (_ms(float(value)) for value in np.quantile(seconds, (0.25, 0.5, 0.75)))
    return {
        "median": f"{middle} a step",
        "spread": f"best {_ms(min(seconds))}, middle half {low} to {high}, worst {_ms(max(seconds))}; the first step, "
        f"not counted, {_ms(measured.first)}",
        "steps": f"{len(seconds)} in {seconds.sum():.1f} s",
        "tokens/s": f"{tokens / float(np.median(seconds)):,.0f} target tokens ({tokens:,} a step)",
        "loss": f"{measured.first_loss:.4f} at first, {measured.last_loss:.4f} at last",
    }


def told_lines(told: Mapping[str, str]) -> str:
    """Names and texts, one a line."""
    return "\n".join(f"{name:<{NAMES}}{text}" for name, text in told.items())


def profile_table(profile: Profile) -> str:
    """All rows, their sum, what the columns mean, and what the profile cost."""
    total = {"operation": "the step", "ms": f"{1e3 * profile.seconds:.3f}", "share": "100.0 %"}
    rows = [*map(_cells, profile.rows), total]
    widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows)) for name in COLUMNS}
    lines = [_table_line(row, widths) for row in ({name: name for name in COLUMNS}, *rows)]
    cost = percent(profile.seconds / profile.unclocked - 1)
    meaning = (
        f"ms, share: all calls in one step. {PYTHON} Without profiling a step took {_ms(profile.unclocked)}: profiling "
        f"adds {cost}, noise included."
    )
    return "\n".join([*lines[:-1], "-" * max(map(len, lines)), lines[-1], "", fill(meaning)])


def _cells(row: Row) -> dict[str, str]:
    """The row's cells by column."""
    return {
        "operation": row.op,
        "pass": row.direction,
        "calls": str(row.calls),
        "ms": f"{1e3 * row.seconds:.3f}",
        "share": percent(row.share),
    }


def _table_line(row: dict[str, str], widths: dict[str, int]) -> str:
    cells = (row.get(name, "") for name in widths)
    return " ".join(
        f"{cell:<{width}}" if name in WORDS else f"{cell:>{width}}"
        for cell, (name, width) in zip(cells, widths.items(), strict=True)
    ).rstrip()


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    if value < 1:
        return f"{value:.3g}"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _ms(seconds: float) -> str:
    return f"{_number(1e3 * seconds)} ms"
