"""The reverse task, trained as ``npformer train reverse`` does it."""

import tempfile
import time
from pathlib import Path

from benchmarks.own.model import about
from benchmarks.tasks import Contender
from npformer.training import RunDirectory, Trainer
from npformer.training.assemble import assemble, write_run

#: Steps of a first training, in which CuPy compiles every function at its first call: argmax and others.
COMPILING = 3


def reverse(device, precision, kernels="auto", steps=None):
    """Task "train": {"seconds", "exact_match", "sequences"}.

    seconds cover the whole training: steps, evaluations, checkpoints and graph capture. They exclude imports, files
    written before the first step, and compilation, for which a training of COMPILING steps and its evaluation comes
    first. steps: a smaller number for a quick look.
    """
    run = {"task": "reverse", "device": device, "kernels": kernels, "precision": precision}

    def assembled(steps):
        training = {} if steps is None else {"steps": steps, "warmup_steps": 1}
        return assemble({"run": run, "data": {}, "model": {}, "training": training})

    trained(assembled(COMPILING))
    whole = assembled(steps)
    return Contender(about(whole.step.model.backend), {"train": lambda: lambda: trained(whole)})


def trained(assembled):
    """Run one training. Returns the task's value."""
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
