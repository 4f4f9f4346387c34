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

from operator import index
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A name here, by the words for it in PyTorch, Keras, Hugging Face's and other programs.
_TABLE = (
    "learning_rate: lr alpha rate base_lr max_lr peak_lr step_size",
    "steps: epochs epoch num_epochs n_epochs num_train_epochs max_epochs iters max_iters iterations num_iters "
    "num_steps max_steps n_steps total_steps train_steps",
    "batch_size: batch bs batchsize train_batch_size per_device_train_batch_size micro_batch_size",
    "num_layers, num_encoder_layers, num_decoder_layers: layers layer depth n_layer n_layers "
    "num_hidden_layers num_blocks n_blocks num_layer num_layers",
    "num_heads: heads head n_head n_heads nhead num_head num_attention_heads",
    "d_model: n_embd hidden_size hidden hidden_dim embed_dim embedding_dim embedding_size emb_size dim width",
    "d_ff: intermediate_size dim_feedforward ffn_dim ff_dim d_ffn mlp_dim ffn_hidden_size n_inner",
    "max_length: block_size context context_length context_size seq_len seq_length sequence_length n_ctx",
    "clip_norm: grad_clip clip max_grad_norm gradient_clip gradient_clip_val clip_grad clip_grad_norm clipnorm",
    "warmup_steps: warmup warmup_iters num_warmup_steps n_warmup warm_up",
    "weight_decay: wd decay l2",
    "dropout: p drop drop_rate dropout_rate dropout_p",
    "accumulate: gradient_accumulation_steps grad_accum accumulation_steps accumulate_grad_batches",
    "schedule: scheduler lr_scheduler lr_schedule lr_scheduler_type decay_lr",
    "eps: epsilon adam_epsilon",
    "beta1: betas momentum adam_beta1",
    "beta2: betas adam_beta2",
    "eval_every: eval_interval eval_steps val_every val_check_interval",
    "log_every: log_interval logging_steps print_every",
    "save_every: save_steps save_interval checkpoint_every",
    "keep_last: save_total_limit",
    "patience: early_stopping early_stopping_patience",
    "held_out_fraction: val_split validation_split val_fraction val_size test_size test_split",
    "positions: pos_encoding position_encoding positional_encoding position_embedding pos_emb pe",
    "data: dataset corpus text_file train_file data_path data_dir input_file",
    "out: output output_dir outdir out_dir save_dir run_name",
    "seed: random_seed random_state",
    "resume: checkpoint ckpt resume_from resume_from_checkpoint",
    "from: pretrained finetune load init_from",
    "log_to: logger report_to wandb tensorboard",
    "beam: num_beams beams beam_size beam_width",
    "max_len: max_new_tokens max_tokens max_length length num_tokens",
    "temperature: temp t",
    "top_p: p nucleus",
    "numpy: cpu",
    "cupy: gpu cuda cuda:0",
    "float32: fp32 f32 single",
    "float64: fp64 f64 double",
    "rotary: rope",
    "relative: t5",
    "warmup_cosine: cosine cos",
    "words: bpe",
    "lm: gpt",
    "mlm: bert",
    "pairs: translation seq2seq",
    "train __resume: resume continue",
    "train: fit learn",
    "decode: generate predict infer inference translate sample evaluate eval",
)  # fmt: skip
WORDS = {name: line.split(": ")[1].split() for line in _TABLE for name in line.split(": ")[0].split(", ")}


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are meant by one that is not known: by WORDS, else the nearest spelling, best first.

    Neither case counts, nor what stands before a point, nor the dashes of an option.
    """
    from difflib import get_close_matches  # only for a message

    def bare(text: str) -> str:
        return text.rpartition(".")[2].strip("-").replace("-", "_").lower()

    ends, wanted = {bare(full): full for full in known}, bare(name)
    found = [wanted] if wanted in ends else [end for end in ends if wanted in WORDS.get(end, ())]
    if not found:
        found = get_close_matches(wanted, ends, n=3)
        found += [end for end in ends if end not in found and len(wanted) > 2 and wanted in end]
    return [ends[end] for end in found[:4]]


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: "; did you mean 'x' or 'y'?", or "" if no known one is near."""
    *others, last = [repr(each) for each in nearest(name, known)] or [""]
    return f"; did you mean {', '.join(others)}{' or ' * bool(others)}{last}?" if last else ""


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


def whole_number(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int, or raise ConfigError with the option, its bounds and the value."""
    bounds = f">= {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    try:
        if isinstance(value, bool):  # True would pass for 1, and is a sign of mixed-up arguments
            raise TypeError
        number = index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        raise ConfigError(f"{name}: expected an integer {bounds}, got {value!r}") from None
    if number < at_least or (at_most is not None and number > at_most):
        raise ConfigError(f"{name}: expected an integer {bounds}, got {number}")
    return number
