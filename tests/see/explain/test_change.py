"""The change of a step's loss: its parts add up, and each is what it says."""

import math

import numpy as np
import pytest

import npformer as npf
from npformer.errors import DivergedError
from npformer.see.explain import change as change_module
from npformer.see.explain.change import POINTS, REMAINDER, change_of
from npformer.see.explain.step import replay_step
from npformer.see.record.models import showcase_model

OPTIONS = [
    {},
    {"clip_norm": 0.1},
    {"label_smoothing": 0.2, "accumulate": 2},
    {"accumulate": 2, "clip_norm": 1.0},
]  # fmt: skip
MODELS = [
    {},
    {"norm_order": "pre"},
    {"dropout": 0.3},
    {"tie_embeddings": True, "activation": "gelu"},
    {"norm": "batch"},
]


def training(model=0, options=0, rate=0.01, kind=npf.AdamW, **more):
    """A training step of a small model, in float32, and its batch."""
    of_model, inputs, targets, _ = showcase_model(**MODELS[model])
    twin = type(of_model)(of_model.config, backend=npf.get_backend("numpy", kernels="numpy", threads=1), seed=0)
    step = npf.TrainStep(twin, kind(twin.arena, rate), seed=3, **OPTIONS[options] | more)
    return step, (*inputs, targets)


@pytest.mark.parametrize("number", range(20))
def test_the_parts_add_up(number):
    rng = np.random.default_rng(number)
    step, batch = training(number % 5, number % 4, rate=float(rng.choice([1e-3, 1e-2, 0.1])))
    for _ in range(number % 7):
        step(*batch)
    change = change_of(replay_step(step, batch))
    for parts in (change.by_token, change.by_parameter.values(), change.by_part.values()):
        assert math.fsum(parts) == pytest.approx(change.change, rel=1e-12, abs=0)
    assert change.change == pytest.approx(change.after.loss - change.before.loss, rel=1e-9)
    assert change.by_part[REMAINDER] == pytest.approx(change.by_parameter[REMAINDER], abs=1e-12)
    assert set(change.by_parameter) == {name for name, _ in step.model.named_parameters()} | {REMAINDER}


@pytest.mark.parametrize("options", range(4))
def test_on_a_smooth_way_nothing_remains(options):
    """GELU has no kinks, so a wrong gradient, or a parameter that is left out, would be seen in the remainder."""
    step, batch = training(3, options, rate=3e-3)
    change = change_of(replay_step(step, batch))
    assert abs(change.by_parameter[REMAINDER]) < 1e-8 * abs(change.change)
    assert change.before.loss == pytest.approx(change.made.gradient(change.made.before)[0], rel=1e-13)


@pytest.mark.parametrize(
    ("remainders", "tried", "kept"),
    [
        ((0.5, 0.25, 0.125, 0.0625), (6, 12, 24, 48), 0.0625),
        ((0.5, 0.25, 0.3, 0.0), (6, 12, 24), 0.25),
        ((0.5, 0.5, 0.0, 0.0), (6, 12), 0.5),
        ((0.5, 0.0005, 0.0, 0.0), (6, 12), 0.0005),
    ],
)
def test_it_is_refined_while_that_helps(monkeypatch, remainders, tried, kept):
    """The change is 1; a quadrature whose mean gradient times step is 1 − r leaves r."""
    left, asked = dict(zip(POINTS, remainders, strict=True)), []

    def integral(made, step, points):
        asked.append(points)
        return np.array([1 - left[points]]), [(0.5, float(points))]

    monkeypatch.setattr(change_module, "_integral", integral)
    mean, line = change_module._refined(None, np.ones(1), 1.0)
    assert tuple(asked) == tried
    assert 1 - mean[0] == pytest.approx(kept)
    assert left[int(line[0][1])] == kept


def test_the_step_is_the_runs_own():
    step, batch = training(2, 3)
    step(*batch)
    alone, _ = training(2, 3)
    alone(*batch)
    loss = float(alone(*batch))
    one = replay_step(step, batch)
    assert np.array_equal(alone.model.arena.values, step.model.arena.values)
    assert one.look(one.before).loss == pytest.approx(loss, rel=1e-5)  # the same masks, in float32 and in float64
    sure = np.abs(one.update.gradient) > 1e-5  # a gradient that is 0 is rounding in float32, and Adam divides by it
    assert sure.sum() > 300
    np.testing.assert_allclose((one.update.before + one.update.change)[sure], one.after[sure], rtol=0, atol=1e-5)
    assert one.number == 2


def test_a_step_that_breaks_the_model_is_refused():
    step, batch = training(rate=1e38)
    with np.errstate(all="ignore"):
        step(*batch)
        with pytest.raises(DivergedError, match="step 2: expected finite parameters after it"):
            replay_step(step, batch)


def test_frozen_parts_do_not_move():
    step, batch = training()
    step.model.arena.configure("encoder", trainable=False)
    change = change_of(replay_step(step, batch))
    assert all(part == 0 for name, part in change.by_parameter.items() if name.startswith("encoder."))
    assert change.by_parameter["generator.weight"] < 0


def test_a_token_is_counted_where_it_stands():
    step, batch = training(0, 3)
    tokens = change_of(replay_step(step, batch)).before.tokens
    targets = np.asarray(batch[-1])
    assert [(t.row, t.place) for t in tokens] == [tuple(place) for place in np.argwhere(targets != 0).tolist()]
    assert [t.target for t in tokens] == targets[targets != 0].tolist()


def test_a_step_whose_way_is_not_finite_is_told(monkeypatch):
    one = replay_step(*training())
    monkeypatch.setattr(change_module, "_integral", lambda made, step, points: (step + np.inf, []))
    with pytest.raises(DivergedError, match=r"update 1: expected finite .* at the rate 0\.01: look at the rate first"):
        change_of(one)
