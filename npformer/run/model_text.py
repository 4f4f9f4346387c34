"""The tokenizer and the classes of a model in its file: texts in the metadata, which its check sum covers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from npformer.data import Characters, MarkedWords, SpelledWords, Tokenizer, Vocabulary, WordPiece, Words
from npformer.errors import CheckpointError, ConfigError, NpformerError
from npformer.models.config import ModelConfig
from npformer.run.option_types import shown

TOKENIZERS: dict[str, type[Tokenizer]] = {
    kind.__name__: kind for kind in (Characters, MarkedWords, SpelledWords, WordPiece, Words)
}


def text_metadata(tokenizer: Tokenizer | None, classes: Sequence[str], config: ModelConfig) -> dict[str, str]:
    """The metadata of a tokenizer and of classes; none without a tokenizer. Raises CheckpointError if one is unfit."""
    if tokenizer is None:
        return {}
    kind = type(tokenizer).__name__
    if TOKENIZERS.get(kind) is not type(tokenizer):
        raise CheckpointError(
            f"tokenizer: expected one of {', '.join(TOKENIZERS)}, got {kind}; leave it out, and keep it yourself"
        )
    if problem := _misfit(tokenizer, classes, config):
        raise CheckpointError(problem)
    return {"tokenizer": json.dumps([kind, *tokenizer.vocabulary.pieces]), "classes": json.dumps(list(classes))}


def text_in(metadata: Mapping[str, str], config: ModelConfig, source: str) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """The tokenizer and the classes in the metadata; None and () if it has none. Raises CheckpointError."""
    if "tokenizer" not in metadata:
        return None, ()
    try:
        kind, *pieces = _texts(metadata["tokenizer"])
        classes = _texts(metadata.get("classes", "[]"))
        tokenizer = TOKENIZERS[kind](Vocabulary(tuple(pieces)))
        if problem := _misfit(tokenizer, classes, config):
            raise ConfigError(problem)
    except (NpformerError, LookupError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{source}: expected a tokenizer that fits the model, got: {error}") from error
    return tokenizer, tuple(classes)


def _texts(text: str) -> list[str]:
    found: Any = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"expected a list of texts, got {shown(found)}")
    return found


def _misfit(tokenizer: Tokenizer, classes: Sequence[str], config: ModelConfig) -> str:
    """What does not fit the sizes of the model; "" if all does."""
    sizes = {
        getattr(config, name) for name in ("vocab_size", "src_vocab_size", "tgt_vocab_size") if hasattr(config, name)
    }
    if sizes != {len(tokenizer.vocabulary)}:
        told = " and ".join(map(str, sorted(sizes)))
        return f"tokenizer: expected a vocabulary of {told} pieces, as the model has, got {len(tokenizer.vocabulary)}"
    count = 0 if getattr(config, "head", "masked") == "masked" else getattr(config, "num_classes", None) or 0
    if len(classes) != count:
        return f"classes: expected {count} names, [PAD] first, as the model has, got {len(classes)}"
    return ""
