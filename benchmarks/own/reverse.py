"""The reverse task, trained as ``npformer train reverse`` does it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.own.backend import about
from benchmarks.tasks import Contender
from npformer.training import RunDirectory, Trainer
from npformer.training.assemble import assemble, write_run


def reverse(device: str, precision: str, kernels: str = "auto", steps: int | None = None) -> Contender:
    """Task "train": {"seconds", "exact_match", "sequences"}.

    seconds are those of the whole training: the steps, its evaluations, its checkpoints; warming up and capturing
    are in it, importing and what is written before the first step are not. steps: fewer, for a quick look.
    """
    run = {"task": "reverse", "device": device, "kernels": kernels, "precision": precision}
    training = {} if steps is None else {"steps": steps, "warmup_steps": 1}
    assembled = assemble({"run": run, "data": {}, "model": {}, "training": training})

    def train() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            place = RunDirectory.create(Path(folder) / "run", Path(folder), "reverse")
            write_run(place, assembled)
            trainer = Trainer(place, assembled.task, assembled.step, assembled.options.training, assembled.identity)
            start = time.perf_counter()
            trainer.train()
            seconds = time.perf_counter() - start
            found = trainer.last_evaluation
        assert found is not None  # the last step is always evaluated
        return {"seconds": seconds, "exact_match": found.exact_match, "sequences": found.count}

    return Contender(about(assembled.step.model.backend), {"train": lambda: train})
