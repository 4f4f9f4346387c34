"""The outputs of a trained model for texts, for each kind of task.

translate   the text that it writes
classify    the name of a class, and its probability
tag         a class for each token
masked      the text with each [MASK] filled in
causal      the text, continued
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from npformer.data import BOS_ID, EOS_ID, Characters
from npformer.data.batches import padded
from npformer.decoding import beam_search, greedy, sample
from npformer.decoding.beams import LENGTH_PENALTY, penalty
from npformer.decoding.opening import expect_count
from npformer.errors import ConfigError, DataError, TokenError
from npformer.functional.softmax import softmax_forward
from npformer.models import Decoder, DecoderConfig, Encoder, Model, Transformer
from npformer.models.config import ModelConfig
from npformer.run.model_file import load_trained, trained_of
from npformer.run.text_example import MASK, encode, text_example
from npformer.run.trained import Trained
from npformer.training.evaluation import likeliest
from npformer.typing import HostArray

#: The ids of a text, and its score if it was found by a search.
Written: TypeAlias = tuple[Any, float | None]

#: The default temperature for continuing a text: greedy decoding soon repeats itself.
TEMPERATURE = 0.7


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: by a search of so many hypotheses, by sampling, or greedily."""

    beam: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.beam is not None and self.samples:
            raise ConfigError("beam: expected no temperature, top-k or top-p beside it; choose one way")

    @property
    def samples(self) -> bool:
        """Whether tokens are sampled."""
        return (self.temperature, self.top_k, self.top_p) != (None, None, None)

    @property
    def is_greedy(self) -> bool:
        """Whether no option was given."""
        return self.beam is None and not self.samples


def decode(
    model: Model | str | PathLike[str], texts: Any, max_len: int | None = None, *, beam: int | None = None,
    temperature: float | None = None, top_k: int | None = None, top_p: float | None = None, seed: int = 0,
) -> Any:  # fmt: skip
    """What a trained model says to texts, as ``npformer decode`` does it.

    model: a run's folder, a file of ``npf.save``, or what ``npf.load`` gave. texts: one or several, or rows of ids as
    the tokenizer's ``encode`` gives them, without [BOS] and [EOS]. A translation is greedy, a text is continued by
    sampling at temperature 0.7, unless told otherwise: beam, a number of hypotheses; temperature, 0 for greedy; top_k,
    top_p and seed, of sampling. max_len: the most tokens of an output; None: the longest in training.

    Returns a text for each one, or for rows of ids one of ids, without [EOS] and what follows. Raises ConfigError for
    other options, and DataError or TokenError for what the model cannot read.
    """
    if not isinstance(model, str | PathLike | Model):
        raise ConfigError(f"model: expected a run's folder, a file or a model of npf.load, got {type(model).__name__}")
    net: Any = load_trained(Path(model)).model if isinstance(model, str | PathLike) else model
    if not isinstance(texts, Iterable):
        raise DataError(f"texts: expected a text, several, or rows of ids, got {type(texts).__name__}")
    given, way = [texts] if isinstance(texts, str) else list(texts), Sampling(beam, temperature, top_k, top_p, seed)
    most = expect_way(net, max_len, way)
    if all(isinstance(text, str) for text in given):
        trained = trained_of(net)
        for number, text in enumerate(given, 1):
            expect_text(text, f"text {number}", trained)
        outputs = [found["output"] for found in answer(trained, given, most, way)] if given else []
        return outputs[0] if isinstance(texts, str) else outputs
    rows = _written(net, [[int(number) for number in row] for row in given], most, way)
    return [[int(number) for number in takewhile(lambda number: number != EOS_ID, row)] for row, _ in rows]


def expect_way(model: Model, max_len: int | None, way: Sampling) -> int:
    """The most tokens of an output. Raises ConfigError for options that the model does not have."""
    if isinstance(model, Encoder) and not way.is_greedy:
        raise ConfigError("model: expected no generation option, since this model writes no text")
    longest = _longest(model.config)
    most = model.config.max_seq_len if max_len is None else expect_count("max_len", max_len)
    if longest is not None and most > longest:
        raise ConfigError(f"max_len: expected at most {longest}, the model's learned positions, got {most}")
    return most


def _longest(config: ModelConfig) -> int | None:
    """The longest possible sequence; None: no limit. Only learned positions set one, except when continuing a text."""
    return config.max_seq_len if config.positions == "learned" and not isinstance(config, DecoderConfig) else None


def expect_text(text: str, place: str, trained: Trained) -> str:
    """Raise DataError or TokenError for a text that the model cannot read. Returns a note on one that is too long."""
    if not text:
        raise DataError(f"{place}: expected at least one character, got an empty text; leave it out")
    if trained.kind == "masked" and MASK not in text:
        raise DataError(f"{place}: expected a {MASK} in place of each hidden token, got none in {text[:60]!r}")
    config, longest = trained.model.config, _longest(trained.model.config)
    try:
        length = len(encode(trained, text))
    except TokenError as error:
        raise TokenError(f"{place}: {error}") from error
    if length == 0:
        raise DataError(f"{place}: expected at least one token, got {text!r}; leave it out")
    unit = "characters" if isinstance(trained.tokenizer, Characters) else "tokens"
    if longest is not None and length >= longest:  # one position is for [EOS]
        raise DataError(
            f"{place}: expected at most {longest - 1} {unit}, since the model has learned {longest} positions, "
            f"got {length}; shorten it, or train with longer texts or sinusoidal positions"
        )
    if length < config.max_seq_len or isinstance(config, DecoderConfig):
        return ""
    return (
        f"note: {place}: {length} {unit} are more than any text in training had ({config.max_seq_len - 1}); expect "
        "poor output, and raise --max-len if it is cut short"
    )


def answer(trained: Trained, texts: list[str], max_len: int, way: Sampling) -> list[dict[str, Any]]:
    """The model's output for each text: "output", and a score or probability where there is one.

    max_len: the most tokens of an output.
    """
    model = trained.model
    if isinstance(model, Encoder):
        if trained.kind == "classify":
            return _classes(model, trained, texts)
        tokens = [{"tokens": trained.tokenizer.tokenize(text)} if trained.kind == "tag" else {} for text in texts]
        answers = text_example(trained, texts).answers
        return [{"output": text} | more for text, more in zip(answers, tokens, strict=True)]
    tokenizer = trained.tokenizer
    written = _written(model, [tokenizer.encode(text) for text in texts], max_len, way)
    return [{"output": tokenizer.decode(row)} | ({} if score is None else {"score": score}) for row, score in written]


def _written(model: Transformer | Decoder, rows: list[list[int]], max_len: int, way: Sampling) -> list[Written]:
    """The ids that follow from those of each text, and of a text that is continued its own before them."""
    if isinstance(model, Decoder):
        return _continued(model, rows, max_len, way)
    return _rows(model, padded([[*row, EOS_ID] for row in rows]), max_len, way)


def _rows(model: Transformer | Decoder, src: HostArray, max_len: int, way: Sampling) -> list[Written]:
    if way.beam is not None:
        best = [hypotheses[0] for hypotheses in beam_search(model, src, max_len, beam=way.beam)]
        return [(hypothesis.tokens, hypothesis.score) for hypothesis in best]
    if not way.samples or way.temperature == 0:  # the limit
        return [(row, None) for row in greedy(model, src, max_len)]
    temperature = 1.0 if way.temperature is None else way.temperature
    rows = sample(model, src, max_len, temperature=temperature, top_k=way.top_k, top_p=way.top_p, seed=way.seed)
    return [(row, None) for row in rows]


def _continued(model: Decoder, ids: list[list[int]], max_len: int, way: Sampling) -> list[Written]:
    """Each text continued by up to max_len tokens."""
    window, ids = model.config.max_seq_len, [*ids]
    if way.beam is not None:
        return [_searched(model, row, max_len, way.beam) for row in ids]
    if way.is_greedy:
        way = Sampling(temperature=TEMPERATURE, seed=way.seed)
    full = [len(row) + max_len for row in ids]
    while going := [i for i, row in enumerate(ids) if len(row) < full[i] and EOS_ID not in row]:
        prompts = [[BOS_ID, *_context(ids[i], window - 1)] for i in going]
        longest = max(len(prompt) + full[i] - len(ids[i]) for i, prompt in zip(going, prompts, strict=True))
        for i, prompt, (row, _) in zip(
            going, prompts, _rows(model, padded(prompts), min(window, longest), way), strict=True
        ):
            ids[i] = [*ids[i], *row[len(prompt) :].tolist()][: full[i]]
        way = replace(way, seed=way.seed + 1)
    return [(row, None) for row in ids]


def _searched(model: Decoder, text: list[int], max_len: int, beam: int) -> Written:
    """A text continued by up to max_len tokens, in a sequence of searches, each within the model's window."""
    window, ids, log_p = model.config.max_seq_len, text, 0.0
    while len(ids) < len(text) + max_len and EOS_ID not in ids:
        prompt = [BOS_ID, *_context(ids, window - 1)]
        room = min(window, len(prompt) + len(text) + max_len - len(ids))
        best = beam_search(model, [prompt], room, beam=beam)[0][0]
        ids, log_p = [*ids, *best.tokens[len(prompt) :].tolist()], log_p + best.log_probability
    return ids, log_p / penalty(len(ids) - len(text), LENGTH_PENALTY)


def _context(ids: list[int], room: int) -> list[int]:
    """The part of a text that the model reads: all of it, or the end of a text longer than those in training."""
    return ids if len(ids) < room else ids[len(ids) - room // 2 :]


def _classes(model: Encoder, trained: Trained, texts: list[str]) -> list[dict[str, Any]]:
    first = trained.tokenizer.vocabulary.id_of("[CLS]")
    logits = model.backend.host(model(padded([[first, *trained.tokenizer.encode(text)] for text in texts])))
    p, _ = softmax_forward(logits)
    return [
        {"output": trained.classes[chosen], "probability": float(row[chosen])}
        for chosen, row in zip(likeliest(logits).tolist(), p, strict=True)
    ]
