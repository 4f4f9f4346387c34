"""A decoder continues prompts of unequal length, each as if it were alone; and what ends a row."""

import numpy as np
import pytest

from npformer.decoding import greedy
from tests.decoding.conftest import by_full_recomputation, whole

PROMPTS = np.array([[3, 5, 4, 6, 7, 1], [8, 6, 0, 0, 0, 0], [4, 0, 7, 0, 0, 0], [7, 0, 0, 0, 0, 0]])
KINDS = [
    {"positions": positions, "attention": attention, "window": 3 if attention == "local" else None}
    for positions in ("sinusoidal", "learned", "rotary", "relative", "none")
    for attention in ("full", "local", "linear")
    if positions != "relative" or attention == "full"
]
MOVABLE = [kind for kind in KINDS if (kind["positions"], kind["attention"]) != ("rotary", "linear")]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_each_row_goes_on_from_its_own_prompt(kind, decoder, numpy64):
    model = decoder(numpy64, **kind)
    model.generator.bias.data[0] -= 100  # pads are cut off below
    rows = greedy(model, PROMPTS, 12)
    assert rows.dtype == np.int64
    for row, prompt in zip(rows, PROMPTS, strict=True):
        expected = by_full_recomputation(model, prompt, 12)
        assert whole(row) == expected
        assert whole(greedy(model, [whole(prompt)], 12)[0]) == expected


@pytest.mark.parametrize("kind", MOVABLE, ids=str)
def test_logits_of_unequal_rows_are_those_of_each_alone(kind, decoder, any64):
    model = decoder(any64, **kind)
    prompts = [whole(prompt) for prompt in PROMPTS]
    begins = np.array([6 - len(prompt) for prompt in prompts])
    state = model.start(4, 9, begins)
    tokens = np.array([[0] * (6 - len(prompt)) + prompt for prompt in prompts])
    rng = np.random.default_rng(0)
    for turn in range(4):
        logits = any64.host(model.step(tokens, state))
        for row, prompt in enumerate(prompts):
            alone = any64.host(model([prompt]))[0, -1]
            assert np.max(np.abs((logits[row] if turn else logits[row, -1]) - alone)) < 1e-12
        if turn == 1:
            state, prompts = state.select([2, 0, 3]), [prompts[row] for row in (2, 0, 3)]
        tokens = rng.integers(1, 9, len(prompts))
        prompts = [[*prompt, int(token)] for prompt, token in zip(prompts, tokens, strict=True)]


def test_a_stop_function_ends_a_row(decoder, numpy64):
    model, seen = decoder(numpy64), []

    def stop(ids):
        seen.append(ids.tolist())
        ids[:] = 0  # what it is given is its own
        return len(seen[-1]) == 8

    model.generator.bias.data[[0, 2]] -= 100
    rows = greedy(model, PROMPTS[:2], 12, stop=stop)
    assert [len(whole(row)) for row in rows] == [8, 8]
    assert [text for text in seen if len(text) == 8] == rows.tolist()
    assert whole(greedy(model, PROMPTS[:2], 12)[0])[:8] == rows[0].tolist()
