"""Everything npformer raises on purpose. Each message says what was expected, what was given and how to fix it.

NpformerError
├── ShapeError          (ValueError)    an array has the wrong rank or size
├── DTypeError          (ValueError)    an array has the wrong kind of numbers
├── TokenError          (ValueError)    a token id or a character outside the vocabulary
├── ConfigError         (ValueError)    an option is unknown or its value makes no sense
├── DataError           (ValueError)    an input file is empty, malformed or not UTF-8
├── CacheUsedError      (RuntimeError)  a layer's cache went through backward before
├── DeviceError         (RuntimeError)  the device asked for is not there
├── DeviceMemoryError   (MemoryError)   the device's memory is too small for what was asked
├── CheckpointError     (RuntimeError)  a checkpoint cannot be read, or not be written
├── OutputError         (RuntimeError)  a place to write to is taken or not writable
├── ProcessError        (RuntimeError)  another program died, hangs, or gave no answer that can be read
├── DivergedError       (RuntimeError)  the training loss, a parameter or a moment is no longer finite
├── RankLostError       (RuntimeError)  another rank of the run has failed or ended
├── GradientError       (AssertionError) a gradient check failed
└── Interrupted                         training stopped at a signal, after saving
"""

from __future__ import annotations


class NpformerError(Exception):
    """The base class: catch it to catch all of npformer's errors."""

    exit_code = 2  # of a command that it ends
    raised_on_every_rank = False  # whether every rank of a run raises it, so that none has to end the others


class ShapeError(NpformerError, ValueError):
    """An array has the wrong rank or size."""


class DTypeError(NpformerError, ValueError):
    """An array has the wrong kind of numbers (say, floats where token ids belong)."""


class TokenError(NpformerError, ValueError):
    """A token id outside the vocabulary, or a character that the vocabulary lacks."""


class ConfigError(NpformerError, ValueError):
    """An option is unknown, or its value makes no sense."""


class DataError(NpformerError, ValueError):
    """An input file is empty, malformed or not UTF-8; the message names the line."""


class CacheUsedError(NpformerError, RuntimeError):
    """A layer's cache went through backward before: call forward again."""


class DeviceError(NpformerError, RuntimeError):
    """The device asked for is not there; the message says what is missing."""


class DeviceMemoryError(NpformerError, MemoryError):
    """The device's memory is too small for what was asked; the message says what would fit.

    has_begun: a model's update was begun and perhaps not finished, so what is in memory belongs to no step.
    """

    exit_code = 1

    def __init__(self, message: str, has_begun: bool = False) -> None:
        super().__init__(message)
        self.has_begun = has_begun


class CheckpointError(NpformerError, RuntimeError):
    """A checkpoint is corrupt, truncated or of another model, or could not be written."""


class OutputError(NpformerError, RuntimeError):
    """A place to write to is taken (nothing is ever overwritten) or not writable."""


class ProcessError(NpformerError, RuntimeError):
    """Another program died, hangs, or gave no answer that can be read."""


class DivergedError(NpformerError, RuntimeError):
    """The training loss, a parameter or a moment is no longer finite; the checkpoints from before are kept."""

    raised_on_every_rank = True


class RankLostError(NpformerError, RuntimeError):
    """Another rank of the run has failed or ended, so no exchange with it will end."""

    exit_code = 1


class GradientError(NpformerError, AssertionError):
    """A gradient check failed; the message holds the table."""


class Interrupted(NpformerError):  # not an Error: nothing is wrong
    """Training stopped at a signal, after saving. ``exit_code`` is 128 + the signal's number."""

    raised_on_every_rank = True

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number
