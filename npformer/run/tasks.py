"""The tasks by name: their kinds, their tokenizers, and their default options.

Models are small, and the numbers of steps suit two CPU cores: minutes, and under a quarter of an hour for each task on
real data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from npformer.data import SEQUENCE, Characters, Kind, MarkedWords, Tokenizer, WordPiece, Words
from npformer.data.own_text import TOKENIZERS
from npformer.models import DecoderConfig, EncoderConfig, TransformerConfig
from npformer.models.config import ModelConfig

Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class TaskKind:
    """The properties of a kind of task."""

    config: type[ModelConfig]
    head: str | None  # of an encoder
    special: tuple[str, ...]  # pieces that its vocabulary must have


ANSWERS: dict[Kind, TaskKind] = {
    "translate": TaskKind(TransformerConfig, None, SEQUENCE),
    "classify": TaskKind(EncoderConfig, "sequence", ("[CLS]",)),
    "tag": TaskKind(EncoderConfig, "tokens", ()),
    "masked": TaskKind(EncoderConfig, "masked", ("[MASK]",)),
    "causal": TaskKind(DecoderConfig, None, ("[BOS]",)),
}

#: A model that two CPU cores train in a minute; the configurations' own defaults are the paper's.
SMALL_MODEL = {"d_model": 64, "num_heads": 4, "d_ff": 256, "dropout": 0.0}
_LAYERS = {
    TransformerConfig: {"num_encoder_layers": 2, "num_decoder_layers": 2},
    EncoderConfig: {"num_layers": 2},
    DecoderConfig: {"num_layers": 2},
}

_WIDER = {"d_model": 128, "num_heads": 4, "d_ff": 512, "dropout": 0.1, "norm_order": "pre"}


@dataclass(frozen=True)
class TaskEntry:
    """A task. defaults: section -> option -> value, without options whose own default is None; data: its options."""

    kind: Kind = "translate"
    tokenizer: type[Tokenizer] = Characters
    defaults: Sections = field(default_factory=dict)
    data: tuple[str, ...] = ()


def _trained(steps: int, learning_rate: float, **training: Any) -> dict[str, Any]:
    return {"steps": steps, "learning_rate": learning_rate, "warmup_steps": 400} | training


#: Enough to reverse or copy words: at least 99.8 % of held-out words, with each of six seeds.
_SHORT: Sections = {
    "model": {"norm_order": "pre", "num_decoder_layers": 1},
    "training": {"steps": 400, "batch_size": 96, "learning_rate": 6e-3, "warmup_steps": 30},
}
#: Sorting takes longer: at least 99.9 %, with each of three seeds.
_LONGER: Sections = {
    "model": {"norm_order": "pre"},
    "training": {"steps": 800, "batch_size": 96, "learning_rate": 5e-3},
}

#: Options of generated words, and of a file.
_WORDS = ("symbols", "min_length", "max_length")
_FILE = ("file", "held_out_fraction")

TASKS: dict[str, TaskEntry] = {
    "copy": TaskEntry(defaults=_SHORT, data=_WORDS),
    "reverse": TaskEntry(defaults=_SHORT, data=_WORDS),
    "sort": TaskEntry(defaults=_LONGER, data=_WORDS),
    "pairs": TaskEntry(data=_FILE),
    "dates": TaskEntry(defaults={"model": _WIDER, "training": _trained(6_000, 1e-3)}, data=("count",)),
    "numbers": TaskEntry(
        tokenizer=MarkedWords, defaults={"model": _WIDER, "training": _trained(5_000, 1e-3)}, data=("count",)
    ),
    "scan": TaskEntry(
        tokenizer=Words,
        defaults={"model": _WIDER | {"positions": "rotary"}, "training": _trained(5_000, 1e-3)},
        data=("split",),
    ),
    "language": TaskEntry("classify", defaults={"model": _WIDER, "training": _trained(5_000, 1e-3)}, data=("count",)),
    "tags": TaskEntry("tag", MarkedWords, {"model": _WIDER, "training": _trained(2_000, 1e-3)}, ("count",)),
    "mlm": TaskEntry(
        "masked",
        WordPiece,
        {
            "data": {"max_length": 64},
            "model": _WIDER | {"num_layers": 4, "tie_embeddings": True},
            "training": _trained(4_000, 1e-3, batch_size=32),
        },
        ("max_length",),
    ),
    "lm": TaskEntry(
        "causal",
        defaults={
            "data": {"max_length": 128},
            "model": _WIDER | {"num_layers": 4, "positions": "rotary"},
            "training": _trained(3_000, 2e-3, batch_size=32, optimizer="adamw"),
        },
        data=(*_FILE, "tokenizer", "max_pieces", "max_length"),
    ),
}


def tokenizer_of(task: str, data: Mapping[str, Any]) -> type[Tokenizer]:
    """The class of a task's tokenizer; data: the options of [data] that a run was given."""
    chosen = "tokenizer" in TASKS[task].data and data.get("tokenizer")
    return TOKENIZERS[chosen] if chosen else TASKS[task].tokenizer


def with_defaults(sections: Sections) -> dict[str, dict[str, Any]]:
    """The given options, by section and key, over the defaults of the task and of a small model."""
    entry = TASKS[sections["run"].get("task", "reverse")]
    below: dict[str, dict[str, Any]] = {section: dict(entry.defaults.get(section, {})) for section in sections}
    below["model"] = SMALL_MODEL | _LAYERS[ANSWERS[entry.kind].config] | below["model"]
    return {section: below[section] | dict(sections[section]) for section in sections}
