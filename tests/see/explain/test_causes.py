"""Causes that a step shows, planted in a small model; benchmarks/causes plants them in trained ones."""

import pytest

import npformer as npf
from npformer.optim import WarmupCosine
from npformer.see.explain.change import causes, change_lines, change_of
from npformer.see.explain.step import replay_step
from npformer.see.record.models import PIECES
from tests.see.explain.test_change import training


def gains(step):
    dict(step.model.named_parameters())["encoder.layers.0.norm2.gamma"].data[...] *= 20


def queries(step):
    dict(step.model.named_parameters())["decoder.layers.0.cross_attention.query.weight"].data[...] *= 30


def moments(step):
    step.optimizer.m[...] = step.optimizer.v[...] = 0


def decay(step):
    step.optimizer.weight_decay = 0.3 / step.optimizer.lr


def clipping(step):
    step.clip_norm = 1e-3


def nothing(step):
    pass


@pytest.mark.parametrize(
    ("plant", "first"),
    [(gains, "norm"), (queries, "attention"), (moments, "moments"), (decay, "decay"), (clipping, "clipping"),
     (nothing, None)],
)  # fmt: skip
def test_what_is_planted_is_named_first(plant, first):
    step, batch = training(rate=1e-3)
    for _ in range(10):
        step(*batch)
    plant(step)
    named = causes(change_of(replay_step(step, batch)))
    assert (named[0].name if named else None) == first


@pytest.mark.parametrize(("made_before", "name"), [(1, "warm-up"), (30, "rate")])
def test_a_step_that_is_too_long(made_before, name):
    step, batch = training(rate=1e-3, kind=npf.Adam)
    for _ in range(made_before):
        step(*batch)
    step.optimizer.lr = 3.0
    assert [cause.name for cause in causes(change_of(replay_step(step, batch)))] == [name]


def test_a_step_within_its_warm_up_is_not_said_to_have_none():
    step, batch = training(rate=1e-3, kind=npf.Adam)
    step(*batch)
    step.schedule = WarmupCosine(4.0, 3, 1000)  # rates 1.33, 2.67: the second has more than half of the highest
    assert [cause.name for cause in causes(change_of(replay_step(step, batch)))] == ["rate"]


@pytest.mark.parametrize(("change", "is_said"), [(0.5, True), (0.0, False), (-0.5, False)])
def test_chance_is_said_of_a_loss_that_rose(change, is_said):
    found = change_of(replay_step(*training(rate=1e-3)))
    text = " ".join(change_lines(found._replace(change=change), "a run", PIECES, 1000))
    assert "no sign of any known cause" in text
    assert ("may rise by chance" in text) == is_said
