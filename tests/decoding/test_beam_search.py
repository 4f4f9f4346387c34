"""Beam search against greedy decoding, against all possible texts, and against scores of whole texts."""

from functools import cache

import numpy as np
import pytest

from npformer.decoding import beam_search, greedy
from npformer.decoding.beams import Beams
from npformer.decoding.opening import Opening
from npformer.errors import ConfigError
from npformer.models import Encoder, EncoderConfig, Transformer, TransformerConfig
from tests.decoding.conftest import SRC, rows_of_steps


def penalty(length, alpha=0.6):
    return float(((5 + length) / 6) ** alpha)


def cut(row, eos_id=2):
    """A row as greedy returns it, up to its end."""
    tokens = [int(t) for t in row]
    return tokens[: tokens.index(eos_id) + 1] if eos_id in tokens else tokens


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_is_greedy_decoding(seed, transformer, any64):
    model = transformer(any64, seed)
    for one, row in zip(beam_search(model, SRC, 9, beam=1), greedy(model, SRC, 9), strict=True):
        assert len(one) == 1
        assert one[0].tokens.tolist() == cut(row)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("beam", [2, 7])
def test_scores_are_those_of_whole_texts(beam, alpha, transformer, log_probability, any64):
    model = transformer(any64, 2)
    model.generator.bias.data[2] += 3  # texts of many lengths
    lengths = set()
    for src, hypotheses in zip(SRC, beam_search(model, SRC, 8, beam=beam, length_penalty=alpha), strict=True):
        assert 1 <= len(hypotheses) <= beam
        assert [one.score for one in hypotheses] == sorted([one.score for one in hypotheses], reverse=True)
        assert len({tuple(one.tokens.tolist()) for one in hypotheses}) == len(hypotheses)
        for one in hypotheses:
            log_p = log_probability(model, src, one.tokens)
            assert abs(one.log_probability - log_p) < 1e-10
            assert abs(one.score - log_p / penalty(len(one.tokens), alpha)) < 1e-10
            lengths.add(len(one.tokens))
    assert len(lengths) > 1


def by_lists(model, log_probability, src, max_len, beam):
    """The rule of the search in plain words, each text scored anew; texts that ended, best first."""
    under_way, ended, path = [()], [], ()  # the last is the greedy one

    @cache
    def score(text):
        return log_probability(model, src, text)

    while under_way:
        texts = [(*text, token) for text in under_way for token in range(9)]
        texts.sort(key=lambda text: -score(text))
        if path is not None:
            options = [text for text in texts if text[:-1] == path]
            path = options[0]
            texts = [path, *(text for text in texts if text != path)]
        under_way = texts[: beam - len(ended)]
        for text in list(under_way):
            if text[-1] == 2 or len(text) == max_len:
                under_way.remove(text)
                ended.append((score(text) / penalty(len(text)), text))
                path = None if text == path else path
        best = max((s for s, _ in ended), default=-np.inf)
        if all(score(text) / penalty(max_len) <= best for text in under_way):
            break
    return [list(text) for _, text in sorted(ended, key=lambda one: -one[0])]


@pytest.mark.parametrize(("seed", "beam"), [(0, 3), (2, 4), (3, 2)])
def test_all_sources_together_are_searched_as_each_by_lists(seed, beam, transformer, log_probability, numpy64):
    model = transformer(numpy64, seed)
    model.generator.bias.data[2] += 0.5
    for src, hypotheses in zip(SRC, beam_search(model, SRC, 5, beam=beam), strict=True):
        assert [one.tokens.tolist() for one in hypotheses] == by_lists(model, log_probability, src, 5, beam)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_score_is_at_least_the_score_of_greedy_decoding(seed, transformer, log_probability, numpy64):
    model = transformer(numpy64, seed)
    model.generator.weight.data[...] *= 3  # sharper, so that paths are lost
    src = np.random.default_rng(seed).integers(3, 9, (20, 5))
    better = 0
    for row, source, hypotheses in zip(greedy(model, src, 10), src, beam_search(model, src, 10, beam=2), strict=True):
        text = cut(row)
        score = log_probability(model, source, text) / penalty(len(text))
        assert hypotheses[0].score >= score - 1e-12
        better += hypotheses[0].score > score + 1e-9
    assert better


def test_rows_are_computed_no_longer_than_they_matter(transformer, numpy64, monkeypatch):
    model = transformer(numpy64, 2)
    model.generator.bias.data[2] += 3
    sizes = rows_of_steps(model, monkeypatch)
    beam_search(model, SRC, 30, beam=4)
    assert sizes[0] == 5
    assert max(sizes) <= 20
    assert len(sizes) < 30


def test_a_stop_function_ends_texts(transformer, numpy64):
    model = transformer(numpy64, 1)
    model.generator.bias.data[2] -= 100
    for hypotheses in beam_search(model, SRC, 9, stop=lambda ids: len(ids) >= 3 and ids[-1] == ids[-2]):
        for one in hypotheses:
            tokens = one.tokens.tolist()
            ends = [i for i in range(2, len(tokens)) if tokens[i] == tokens[i - 1]]
            assert ends == [len(tokens) - 1] if ends else len(tokens) == 9


@pytest.mark.parametrize("changes", [{}, {"positions": "rotary", "attention": "linear"}, {"positions": "relative"}])
def test_prompts_of_unequal_length_are_continued(changes, decoder, log_probability, numpy64):
    model, prompts = decoder(numpy64, **changes), SRC.copy()
    prompts[prompts == 2] = 5
    for prompt, together in zip(prompts, beam_search(model, prompts, 9), strict=True):
        prompt = [t for t in prompt.tolist() if t]
        (alone,) = beam_search(model, [prompt], 9)
        assert [one.tokens.tolist() for one in together] == [one.tokens.tolist() for one in alone]
        for one in together:
            assert one.tokens[: len(prompt)].tolist() == prompt
            log_p = log_probability(model, prompt, one.tokens)
            assert abs(one.score - log_p / penalty(len(one.tokens) - len(prompt))) < 1e-10


def new_beams(sources, beam):
    """The beams of so many texts, of six tokens at most, without a length penalty."""
    texts, lengths = np.zeros((sources, 6)), np.zeros(sources, dtype=np.int64)
    return Beams(Opening(None, np.ones(sources), texts, lengths, [], np.arange(sources)), beam, 0.0, 0)


def test_hypotheses_stay_where_they_are_when_a_source_leaves(numpy64):
    beams = new_beams(2, 3)
    logits = np.full((2, 109), -50.0)
    logits[:, [3, 4, 5]] = [-0.1, -0.2, -0.3]
    beams.go_on(logits, numpy64, 2, None)
    assert beams.tokens.tolist() == [3, 4, 5, 3, 4, 5]
    logits = np.full((6, 109), -50.0)
    logits[np.arange(6), [2, 6, 7, 2, 2, 2]] = 0.0
    logits[0, 9:] = -4.0  # many share what its best one would have
    beams.go_on(logits, numpy64, 2, None)  # one hypothesis of the first source ends, all of the second
    assert beams.rows.tolist() == [0, 1, 2]
    assert beams.tokens.tolist() == [0, 6, 7]
    assert [[text[0].tolist() for text in texts] for texts in beams.hypotheses()] == [
        [[3, 2]],
        [[3, 2], [4, 2], [5, 2]],
    ]


def test_the_greedy_hypothesis_that_has_ended_is_no_other(numpy64):
    """Also once the beam is narrower: the likeliest token of the first of those left is not chosen first."""
    beams = new_beams(1, 4)
    for step in ([{3: 0.4, 4: 0.3, 5: 0.2, 6: 0.1}], [{2: 0.35}, {2: 0.4}, {5: 1.0}, {6: 1.0}]):
        p = np.zeros((beams.rows.size, 9))
        for row, shares in enumerate(step):
            p[row] = max(1 - sum(shares.values()), 1e-9) / 9
            p[row, list(shares)] = list(shares.values())
        beams.go_on(np.log(p), numpy64, 2, None)
    assert beams.tokens.tolist() == [5, 6]
    assert beams.greedy.tolist() == [-1]


def test_a_later_hypothesis_that_is_worse_does_not_lower_the_best(numpy64):
    """Of one source: [2] ends with −1, then [3, 2] with −1.37, and [3, 4], at −1.1, cannot exceed −1 any more."""
    beams = new_beams(1, 3)
    for step in ({3: -0.5, 2: -1.0}, {4: -0.6, 2: -0.867}):
        p = np.full((beams.rows.size, 9), 1e-9)
        p[:, list(step)] = np.exp(list(step.values()))
        p[:, 8] += 1 - p.sum(axis=1)
        beams.go_on(np.log(p), numpy64, 2, None)
        assert beams.best == pytest.approx([-1.0] * beams.best.size, abs=1e-6)
    assert not beams.rows.size
    assert [hypothesis[0].tolist() for hypothesis in beams.hypotheses()[0]] == [[2], [3, 2]]


def test_a_pad_id_of_few_bits_cuts_no_token(numpy64):
    hypotheses = []
    for pad_id in (0, np.int8(0)):
        config = TransformerConfig(9, 300, d_model=8, num_heads=2, d_ff=8, max_seq_len=8, pad_id=pad_id)
        model = Transformer(config, backend=numpy64)
        model.generator.bias.data[128:] = 9.0
        hypotheses.append(beam_search(model, SRC[:2] % 9, 5, beam=3))
    for one, other in zip(*hypotheses, strict=True):
        assert [each.tokens.tolist() for each in one] == [each.tokens.tolist() for each in other]
        assert max(max(each.tokens.tolist()) for each in one) > 127


def test_an_encoder_has_nothing_to_decode(numpy64):
    model = Encoder(EncoderConfig(9, d_model=8, num_heads=2, num_layers=1, d_ff=12), backend=numpy64)
    with pytest.raises(
        ConfigError, match=r"^model: expected a Transformer or a Decoder, got Encoder; an Encoder reads"
    ):
        beam_search(model, SRC)
