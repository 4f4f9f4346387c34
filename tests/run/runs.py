"""What small runs are made of."""

import errno
import os
import signal

import numpy as np

from npformer.models import build_model
from npformer.models.presets import Preset
from npformer.run.assemble import assemble
from npformer.run.checkpoint import list_checkpoints, save_checkpoint
from npformer.run.directory import RunDirectory
from npformer.run.progress import RunProgress
from npformer.run.tasks import ANSWERS

#: A step that is measured in a moment.
PRESET = Preset(vocab_size=7, d_model=16, num_heads=2, num_layers=2, d_ff=32, length=5, batch=4)
#: A model that is trained in a moment.
LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 1}
SMALL = {"d_model": 8, "d_ff": 8, "num_heads": 2} | LAYERS


def model_of(kind, size, classes, backend, **options):
    """A model for a kind of task, untrained, with one layer in each stack."""
    answer = ANSWERS[kind]
    sizes, layers = ([size, size], LAYERS) if kind == "translate" else ([size], {"num_layers": 1})
    head = {} if answer.head is None else {"head": answer.head, "num_classes": classes or None}
    return build_model(answer.config(*sizes, **layers, **head, **options), backend=backend, seed=3)


class Told(RunProgress):
    """Keeps what it is told; `at` is called with the number of each step."""

    def __init__(self, at=lambda step: None):
        super().__init__(0)
        self.steps, self.said, self.closed, self.at = 0, [], False, at

    def advance(self):
        self.steps += 1
        self.at(self.steps)

    def say(self, line):
        self.said.append(line)

    def close(self):
        self.closed = True


def stop_at(number):
    """A progress that sends a signal in the step of that number (of this session)."""
    return Told(lambda step: signal.raise_signal(signal.SIGTERM) if step == number else None)


def small_sections(**sections):
    """The options of a small run, as they are read from a file."""
    return {"run": {"device": "numpy"}, "data": {}, "model": SMALL, "training": {"steps": 10}} | sections


def trainer_in(folder, usual, told=None, **training):
    """The trainer of a small run in a folder, with the usual options of training and these."""
    return assemble(small_sections(training=usual | training)).trainer(RunDirectory(folder), told or Told())


def timeless(record):
    """A line of metrics without what clocks say."""
    return {key: value for key, value in record.items() if key not in ("tokens_per_second", "time", "elapsed")}


#: The arrays of a checkpoint.
ARRAYS = {"w": np.arange(3, dtype=np.float32)}


def save(folder, step=1, arrays=ARRAYS, state=None, score=None):
    """Save a checkpoint."""
    return save_checkpoint(folder, step, arrays, state or {}, score)


def names(folder):
    """The names of its checkpoints."""
    return [path.name for path in list_checkpoints(folder)]


def failing(code=errno.ENOSPC):
    """A call of the system that fails."""

    def fail(*args, **options):
        raise OSError(code, os.strerror(code))

    return fail
