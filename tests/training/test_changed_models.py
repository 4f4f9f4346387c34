"""Models that somebody has changed by hand train as they are, or are refused: nothing is left out silently."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from npformer.backend import Arena, Pair, get_backend
from npformer.check import gradcheck
from npformer.errors import ConfigError
from npformer.layers import INFERENCE, FeedForward, Layer, Linear, Local
from npformer.models import Decoder, DecoderConfig
from npformer.optim import Adam
from npformer.training import TrainStep
from tests.outputs import unchanged

IDS = np.random.default_rng(0).integers(1, 9, (6, 5))
SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.1}


@pytest.fixture
def backend(kernels):
    return get_backend("numpy", dtype="float64", kernels=kernels, threads=1 if kernels == "plain" else 2)


def decoder(on):
    return Decoder(DecoderConfig(9, num_layers=2, **SIZES), backend=on)


def packed(model):
    model.arena = Arena(model.owned_parameters(), model.backend)
    return model


def new_step(model, **options):
    return TrainStep(model, Adam(model.arena, lr=0.01), **options)


def test_a_replaced_layer_is_refused_until_it_is_packed(numpy64):
    model = decoder(numpy64)
    step = new_step(model)
    model.generator = Linear(8, 9, backend=numpy64, seed=5)
    with pytest.raises(ConfigError, match=r"^generator\.weight, generator\.bias: expected"):
        step(IDS, IDS)
    packed(model)
    with pytest.raises(ConfigError, match=r"optimizer: expected one over model\.arena"):
        step(IDS, IDS)
    before = model.generator.weight.data.copy()
    new_step(model)(IDS, IDS)
    assert np.all(model.generator.weight.data != before)


class Nested(Layer):
    """Two maps, one after the other, kept where a reader of attributes might not look; halved if there is a note."""

    def __init__(self, on, kind):
        super().__init__(on)
        first, second = (Linear(8, 8, backend=on, seed=seed) for seed in (1, 2))
        self.parts = {"dict": {"first": first, "second": second}, "lists": [[first], [second]]}[kind]
        self.notes = {}

    def maps(self):
        parts = self.parts.values() if isinstance(self.parts, dict) else self.parts
        return [part[0] if isinstance(part, tuple) else part for part in parts]

    def forward(self, x, *, context=INFERENCE):
        first, second = self.maps()
        h, kept = first.forward(x / 2 if self.notes else x)
        y, cache = second.forward(h)
        return y, (kept, cache)

    def backward(self, dy, cache):
        first, second = self.maps()
        dx = first.backward(second.backward(dy, cache[1]), cache[0])
        return dx / 2 if self.notes else dx


def nested_decoder(on, kind):
    model = decoder(on)
    if kind:
        model.decoder.layers[0].feed_forward = Nested(on, kind)
    return packed(model)


NAMES = {"dict": ("first", "second"), "lists": ("0.0", "1.0")}


@pytest.mark.parametrize("kind", NAMES)
def test_layers_in_containers_are_found_checked_and_trained(kind, backend):
    nested = Nested(backend, kind)
    expected = [f"parts.{name}.{part}" for name in NAMES[kind] for part in ("weight", "bias")]
    assert [name for name, _ in nested.named_parameters()] == expected
    report = gradcheck(nested, np.random.default_rng(1).normal(size=(2, 8)))
    assert report.ok
    assert all(name in str(report) for name in expected)
    values = []
    for threads in (1, 2):
        model = nested_decoder(get_backend("numpy", "float64", kernels=backend.kernels, threads=threads), kind)
        step, start = new_step(model), model.arena.values.copy()
        for _ in range(3):
            step(IDS, IDS)
        assert np.any(dict(model.named_parameters())[f"decoder.layers.0.feed_forward.{expected[0]}"].grad)
        values.append(model.arena.values - start)
    np.testing.assert_allclose(*values, rtol=0, atol=1e-9)


class Halved(FeedForward):
    """Its output is halved; its backward stays as it is."""

    def forward(self, x, *, context=INFERENCE):
        y, cache = super().forward(x, context=context)
        return y / 2, cache


def with_half_maps(on):
    def forward(*inputs):
        y, cache = on.ops.linear.forward(*inputs)
        return y / 2, cache

    return replace(on, ops=replace(on.ops, linear=Pair(forward, on.ops.linear.backward)))


def change(model, statement):
    """Run it; layer is the model's first one, inner its feed-forward."""
    layer = model.decoder.layers[0]
    known = (Halved, Linear, Local, replace, with_half_maps)
    places = {"np": np, "model": model, "layer": layer, "inner": layer.feed_forward}
    exec(statement, {each.__name__: each for each in known} | places)


#: What is done to a model between two steps, and in which container its first layer has maps of its own.
OBEYED = {
    "model.dropout.rate = 0.6": "",
    "inner.dropout = 0.0": "",
    "layer.norm1.eps = 0.5": "",
    "model.config = replace(model.config, pad_id=3)": "",
    "model.decoder.layers = model.decoder.layers[::-1]": "",
    "model.decoder.layers = (layer,)": "",
    "layer.self_attention.mechanism = Local(window=1)": "",
    "inner.__class__ = Halved": "",
    "for each in model.all_layers(): each.backend = with_half_maps(model.backend)": "",
    "inner.parts = inner.parts[::-1]": "lists",
    "inner.notes = {'new': True}": "dict",
}


def values_after(model, statement, anew=False):
    """Three steps, the change, and three more: of the step there is, or of one that is made anew."""
    step = new_step(model)
    for _ in range(3):
        step(IDS, IDS)
    change(model, statement)
    if anew:
        step = TrainStep(model, step.optimizer)
    for _ in range(3):
        step(IDS, IDS)
    return np.array(model.arena.values)


@pytest.mark.parametrize("statement", OBEYED)
def test_a_change_between_steps_is_obeyed(statement, backend):
    changed, anew, before = (
        values_after(nested_decoder(backend, OBEYED[statement]), *arguments)
        for arguments in ((statement,), (statement, True), ("",))
    )
    assert np.array_equal(changed, anew)
    assert not np.array_equal(changed, before)


#: What is done to a model, whose parameters are then not all in its arena, and what is said to that.
REFUSED = {
    "model.generator.weight.data = np.zeros((8, 9))": ("lists", r"^generator\.weight: expected data and grad in model"),
    "layer.extra = Linear(8, 8, backend=model.backend)": ("lists", r"0\.extra\.weight, .*: expected"),
    "inner.parts = [*inner.parts, [Linear(8, 8, backend=model.backend)]]": ("lists", r"2\.0\.weight, .*: expected"),
    "inner.notes = {'new': Linear(8, 8, backend=model.backend)}": ("lists", r"notes\.new\.weight, .*: expected"),
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_would_not_be_trained_is_refused_and_nothing_changes(statement, backend):
    kind, message = REFUSED[statement]
    model = nested_decoder(backend, kind)
    step = new_step(model)
    step(IDS, IDS)
    change(model, statement)
    for call in (lambda: step(IDS, IDS), lambda: new_step(model)):
        with unchanged(model.arena), pytest.raises(ConfigError, match=message):
            call()
    assert step.step_number == 1


def test_a_copied_step_goes_on_apart(backend):
    step = new_step(decoder(backend), seed=3, label_smoothing=0.1, clip_norm=0.5)
    for _ in range(3):
        step(IDS, IDS)
    other = deepcopy(step)
    assert (other.seed, other.label_smoothing, other.clip_norm, other.step_number) == (3, 0.1, 0.5, 3)
    with unchanged(step.model.arena):
        losses = [float(other(IDS, IDS)) for _ in range(3)]
    assert [float(step(IDS, IDS)) for _ in range(3)] == losses
    assert np.array_equal(step.model.arena.values, other.model.arena.values)


def test_without_a_bound_the_norm_is_measured_all_the_same(backend):
    runs = [new_step(decoder(backend), clip_norm=bound) for bound in (None, float("inf"))]
    for step in runs:
        for _ in range(2):
            step(IDS, IDS)
    assert np.array_equal(runs[0].model.arena.values, runs[1].model.arena.values)
    assert np.isfinite(runs[1].grad_norm)


@pytest.mark.parametrize("rate", [float("nan"), -1.0, float("inf"), "0.1"])
def test_a_schedule_that_says_no_rate_is_refused(rate, numpy64):
    model = decoder(numpy64)
    step = new_step(model, schedule=lambda number: rate)
    with unchanged(model.arena), pytest.raises(ConfigError, match="schedule: expected a finite rate >= 0 for step 1"):
        step(IDS, IDS)


def test_a_layer_that_knows_what_it_is_in_is_no_endless_tree():
    on = get_backend("numpy", dtype="float64", kernels="plain", threads=2)
    model = decoder(on)
    names = [name for name, _ in model.named_parameters()]
    layer = model.decoder.layers[0].feed_forward
    layer.around, layer.notes = (model,), {"me": [layer]}
    assert [name for name, _ in model.named_parameters()] == names
    assert len(list(model.all_layers())) == len(list(decoder(on).all_layers()))
    values = []
    for each in (model, decoder(on)):
        new_step(each)(IDS, IDS)
        values.append(each.arena.values)
    assert np.array_equal(*values)


def test_another_optimiser_and_its_rate_are_looked_at(numpy64):
    step = new_step(decoder(numpy64))
    step(IDS, IDS)
    step.optimizer.lr = float("nan")
    with pytest.raises(ConfigError, match=r"optimizer\.lr: expected a finite rate >= 0 for step 2, got nan"):
        step(IDS, IDS)
    step.optimizer = Adam(decoder(numpy64).arena)
    with pytest.raises(ConfigError, match=r"optimizer: expected one over model\.arena"):
        step(IDS, IDS)
