"""Several steps of a beam search in one call against as many calls, alone and with a helper."""

from functools import cache

import numpy as np
import pytest

from npformer import beam_search
from npformer.decoding import beams
from npformer.engine import fused_decode
from npformer.engine.engine import FastEngine
from npformer.engine.numba import work_sharing
from tests.engine.numba.small_models import SOURCES, small_model

SRC = SOURCES[:5]
MAX_LEN = 30


def model(kernels, dtype="float64", **changes):
    """The same numbers for all kernels; so loud that hypotheses differ, and end at different steps."""
    made = small_model(kernels, dtype, decoders=2, **changes)
    made.generator.weight.data[...] *= 2
    made.generator.bias.data[2] -= 2
    return made


def one_by_one(of, src, **options):
    return beam_search(of, src, MAX_LEN, stop=lambda text: False, **options)


def same(actual, expected, atol=1e-11):
    for ones, others in zip(actual, expected, strict=True):
        assert [one.tokens.tolist() for one in ones] == [other.tokens.tolist() for other in others]
        for place in (1, 2):  # the score, and log P
            scores, due = ([each[place] for each in each_of] for each_of in (ones, others))
            np.testing.assert_allclose(scores, due, rtol=0, atol=atol)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    """A search takes several calls."""
    monkeypatch.setattr(beams, "AT_ONCE", 1)


@cache
def expected_of(eos_id, sources, beam):
    return one_by_one(model("plain"), SRC[:sources], beam=beam, eos_id=eos_id)


@pytest.mark.parametrize("beam", [1, 2, 4, 7])
@pytest.mark.parametrize("sources", [1, len(SRC)])
@pytest.mark.parametrize("eos_id", [2, 5, 7, 99])
@pytest.mark.usefixtures("threads")
def test_the_hypotheses_are_those_of_step_by_step(eos_id, sources, beam):
    expected = expected_of(eos_id, sources, beam)
    same(beam_search(model("numba"), SRC[:sources], MAX_LEN, beam=beam, eos_id=eos_id), expected)


@pytest.mark.parametrize("length_penalty", [0.0, 2.0])
def test_sources_are_done_at_different_steps(length_penalty):
    """Where short texts are the best, hypotheses under way are given up, between ends too."""
    src = np.random.default_rng(3).integers(3, 9, (12, 5))
    same(
        beam_search(model("numba"), src, MAX_LEN, length_penalty=length_penalty),
        one_by_one(model("plain"), src, length_penalty=length_penalty),
    )


@pytest.mark.parametrize("changes", [{"norm_order": "pre"}, {"positions": "learned"}, {"tie_embeddings": True}])
def test_in_other_forms_and_in_float32(changes):
    """Of one kernel, since in float32 rounding may decide who goes on."""
    fast = model("numba", "float32", **changes)
    same(beam_search(fast, SRC, MAX_LEN), one_by_one(fast, SRC), 1e-4)


def test_it_is_taken(monkeypatch):
    """But for the first step, after which there are more rows than before."""
    fast, steps = model("numba"), []
    expected, step = one_by_one(fast, SRC), fused_decode.step
    monkeypatch.setattr(FastEngine, "step", staticmethod(lambda *args: steps.append(1) or step(*args)))
    same(beam_search(fast, SRC, MAX_LEN), expected)
    assert len(steps) == 1
    assert max(one.tokens.size for arrays in expected for one in arrays) > 8


def test_rows_have_moved_when_it_is_over():
    """What is kept is that of the rows that the last step computed, so that the state can go on from there."""
    fast, plain = model("numba"), model("plain")
    fast.generator.bias.data[2] = plain.generator.bias.data[2] = -100
    first, log_p = np.array([1, 3, 4, 5]), np.log(np.array([[0.4, 0.3, 0.2, 0.1]]))
    states = [of.start(SRC[:1], MAX_LEN).select([0] * 4) for of in (fast, plain)]
    beam_state = (log_p, np.array([0]), np.array([4]), np.array([-np.inf]), np.array([1.0]))
    choice = fused_decode.search(fast, first, states[0], beam_state, 7, 99)
    rows, tokens = choice
    assert rows.shape == tokens.shape == (7, 4)
    assert np.any(rows != np.arange(4))
    for fed, onward in zip((first, *tokens[:-1]), (None, *rows[:-1]), strict=True):
        if onward is not None:
            states[1].reorder(onward)
        plain.step(fed, states[1])
    assert states[0].length == states[1].length == 7
    assert np.array_equal(states[0].visible[:, :7], states[1].visible[:, :7])
    for state in states:
        state.reorder(rows[-1])
    logits, expected = (
        fused_decode.step(of, tokens[-1], state) for of, state in zip((fast, plain), states, strict=True)
    )
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-12)


def test_a_search_that_outgrows_its_slots_is_refused():
    fast, one = model("numba"), np.array([0.0])
    state, beam_state = fast.start(SRC[:1], MAX_LEN), (one[None], np.array([0]), np.array([2]), one, one)
    assert fused_decode.search(fast, np.array([1]), state, beam_state, 3, 2) is None
    assert state.length == 0


@pytest.mark.parametrize("at_once", [8, 200])
@pytest.mark.parametrize("phase", [1, 20, 40])
def test_a_helper_that_falls_asleep_on_the_way_costs_no_step(phase, at_once, a_helper_falls_asleep, monkeypatch):
    """What it writes when it wakes up meets rows that have not been moved since."""
    monkeypatch.setattr(beams, "AT_ONCE", at_once)
    places, expected = a_helper_falls_asleep(phase), one_by_one(model("plain"), SRC[:2], eos_id=99)
    same(beam_search(model("numba"), SRC[:2], MAX_LEN, eos_id=99), expected)
    assert any(place[work_sharing.LOST] for place in places)
    assert not any(place[work_sharing.PRESENT] for place in places if place[work_sharing.LOST])
