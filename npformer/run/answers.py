"""The outputs of a trained model for texts, for each kind of task.

translate   the text that it writes
classify    the name of a class, and its probability
tag         a class for each token
masked      the text with each [MASK] filled in
causal      the text, continued
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from npformer.data import BOS_ID, EOS_ID, Example, Tokenizer, collate
from npformer.data.batches import padded
from npformer.decoding import beam_search, greedy, sample
from npformer.decoding.beams import LENGTH_PENALTY, penalty
from npformer.functional.softmax import softmax_forward
from npformer.models import Decoder, Encoder, Transformer
from npformer.run.text_example import text_example
from npformer.run.trained import Trained
from npformer.training.evaluation import likeliest
from npformer.typing import HostArray

#: A text, and its score if it was found by a search.
Written: TypeAlias = tuple[str, float | None]

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

    @property
    def samples(self) -> bool:
        """Whether tokens are sampled."""
        return (self.temperature, self.top_k, self.top_p) != (None, None, None)

    @property
    def is_greedy(self) -> bool:
        """Whether no option was given."""
        return self.beam is None and not self.samples


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
    if isinstance(model, Decoder):
        texts_and_scores = _continued(model, trained.tokenizer, texts, max_len, way)
    else:
        src = collate([Example(text, "") for text in texts], trained.tokenizer).src
        texts_and_scores = [(trained.tokenizer.decode(row), score) for row, score in _rows(model, src, max_len, way)]
    return [{"output": text} | ({} if score is None else {"score": score}) for text, score in texts_and_scores]


def _rows(
    model: Transformer | Decoder, src: HostArray, max_len: int, way: Sampling
) -> list[tuple[HostArray, float | None]]:
    if way.beam is not None:
        best = [hypotheses[0] for hypotheses in beam_search(model, src, max_len, beam=way.beam)]
        return [(hypothesis.tokens, hypothesis.score) for hypothesis in best]
    if not way.samples:
        return [(row, None) for row in greedy(model, src, max_len)]
    temperature = 1.0 if way.temperature is None else way.temperature
    rows = sample(model, src, max_len, temperature=temperature, top_k=way.top_k, top_p=way.top_p, seed=way.seed)
    return [(row, None) for row in rows]


def _continued(model: Decoder, tokenizer: Tokenizer, texts: list[str], max_len: int, way: Sampling) -> list[Written]:
    """Each text continued by up to max_len tokens."""
    window, ids = model.config.max_seq_len, [tokenizer.encode(text) for text in texts]
    if way.beam is not None:
        return [_searched(model, tokenizer, row, max_len, way.beam) for row in ids]
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
    return [(tokenizer.decode(row), None) for row in ids]


def _searched(model: Decoder, tokenizer: Tokenizer, text: list[int], max_len: int, beam: int) -> Written:
    """A text continued by up to max_len tokens, in a sequence of searches, each within the model's window."""
    window, ids, log_p = model.config.max_seq_len, text, 0.0
    while len(ids) < len(text) + max_len and EOS_ID not in ids:
        prompt = [BOS_ID, *_context(ids, window - 1)]
        room = min(window, len(prompt) + len(text) + max_len - len(ids))
        best = beam_search(model, [prompt], room, beam=beam)[0][0]
        ids, log_p = [*ids, *best.tokens[len(prompt) :].tolist()], log_p + best.log_probability
    return tokenizer.decode(ids), log_p / penalty(len(ids) - len(text), LENGTH_PENALTY)


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
