"""From a wrong model down to the first wrong part, and everything as it was afterwards."""

import sys

import numpy as np
import pytest

import npformer as npf
from npformer.check import gradcheck
from npformer.check.cases.case import KEY
from npformer.errors import ConfigError
from npformer.layers import CacheStack, EncoderLayer, FeedForward, Layer, LayerNorm
from npformer.layers.linear import Linear
from npformer.see.record.bisect import bisect
from npformer.see.record.calls import listening
from tests.check.own_code import spoil
from tests.check.small_models import SRC, TGT, NoSkip, X
from tests.check.small_models import model as small_model


@pytest.fixture
def model():
    return small_model(num_encoder_layers=2, num_decoder_layers=1, dropout=0.1)


def names(bisection):
    return [call.name for call, _ in bisection.path]


def test_nothing_to_look_for(numpy64):
    bisection = bisect(EncoderLayer(4, 2, 6, backend=numpy64), X)
    assert bisection.ok
    assert bisection.path == ()
    assert str(bisection) == "every gradient is right: there is nothing to look for"


def test_a_wrong_operation_in_one_layer_of_a_model(model, monkeypatch):
    spoil(model.encoder.layers[1].self_attention, "attention")
    checked = []

    def noting(*args, **named):
        checked.append(named["name"])
        return gradcheck(*args, **named)

    monkeypatch.setattr(sys.modules[bisect.__module__], "gradcheck", noting)
    model.encoder.layers[0].feed_forward.forward = model.encoder.layers[0].feed_forward.forward
    before = state(model)
    bisection = bisect(model, SRC, TGT, key=KEY)
    assert state(model) == before
    assert "forward" in vars(model.encoder.layers[0].feed_forward)
    assert "forward" not in vars(model.encoder.layers[1].feed_forward)
    assert len(checked) == 15  # what is right is not looked into, and what comes before the culprit not looked at
    assert not any(name.startswith(("Transformer.decoder.", "Transformer.encoder.layers.0")) for name in checked)
    inside = "Transformer.encoder.layers.1"
    assert names(bisection) == ["Transformer", "Transformer.encoder", inside, f"{inside}.self_attention",
                            f"{inside}.self_attention.attention"]  # fmt: skip
    text = str(bisection)
    assert "first wrong part is Transformer.encoder.layers.1.self_attention.attention:" in text
    assert "puts them together wrongly" not in text
    _, report = bisection.path[-1]
    assert [row.verdict for row in report.rows] == ["WRONG", "right", "right"]
    assert not report.rows[0].by_direction  # the culprit is looked at element by element


def test_a_layer_that_puts_right_parts_together_wrongly(model):
    model.encoder.layers[0].__class__ = NoSkip
    bisection = bisect(model, SRC, TGT, key=KEY)
    assert names(bisection) == ["Transformer", "Transformer.encoder", "Transformer.encoder.layers.0"]
    text = str(bisection)
    assert "all of its parts are right: it puts them together wrongly" in text
    rest = " ".join(text.partition("it puts them together wrongly\n")[2].split())
    assert rest.startswith("the gradient that it passes to NoSkip.norm1.post_norm is wrong: ")
    assert "missing term: small_models.py, line " in " ".join(text.split())
    assert text.splitlines()[0].startswith("one cause of ")
    assert text.splitlines()[1].startswith("Transformer: ")
    assert text.splitlines()[2].startswith("  Transformer.encoder: ")


def test_of_two_wrong_places_the_one_that_backward_meets_first(model):
    spoil(model.encoder.layers[0].feed_forward, "feed_forward")
    spoil(model.decoder.layers[0].feed_forward, "feed_forward")
    bisection = bisect(model, SRC, TGT, key=KEY)
    assert names(bisection)[-1] == "Transformer.decoder.layers.0.feed_forward.feed_forward"
    narrow = bisection.lines(60)
    assert all(len(line) <= 60 or len(line.split()) == 1 for line in narrow), "a long name stands alone"
    layer = EncoderLayer(4, 2, 6, backend=model.backend)
    spoil(layer.self_attention, "attention")
    spoil(layer.norm1, "post_norm")
    bisection = bisect(layer, X)
    assert names(bisection) == ["EncoderLayer", "EncoderLayer.norm1.post_norm"]
    assert max(map(len, bisection.lines(60))) <= 60 < max(map(len, bisection.lines(100)))
    assert "\n".join(bisection.lines()) == str(bisection)


class Twice(Layer):
    """One layer used twice, its backward right or not."""

    def __init__(self, backend, times=1.0):
        super().__init__(backend)
        self.part = self.same = FeedForward(4, 6, backend=backend)
        self.times = times

    def forward(self, x):
        cache = CacheStack(self)
        return cache.keep(self.same.forward(cache.keep(self.part.forward(x)))), cache

    def backward(self, dy, cache):
        return self.times * self.part.backward(self.part.backward(dy, cache.pop()), cache.pop())


def test_a_shared_layer(numpy64):
    assert bisect(Twice(numpy64), X).ok
    assert names(bisect(Twice(numpy64, times=2), X)) == ["Twice"]
    layer = Twice(numpy64)
    spoil(layer.part, "feed_forward")
    assert names(bisect(layer, X)) == ["Twice", "Twice.part", "Twice.part.feed_forward"]
    assert bisect(small_model(num_decoder_layers=1, tie_embeddings=True), SRC, TGT).ok


def state(model):
    """What bisect must leave alone: parameters, gradients, backends, attributes of every layer."""
    arrays = []
    for name, p in model.named_parameters():
        arrays.append((name, id(p.data.base), p.data.tobytes(), p.grad.tobytes()))

    def walk(layer):
        arrays.append((layer.backend, [(key, id(value)) for key, value in vars(layer).items()]))
        for _, part in layer._members():
            if isinstance(part, Layer):
                walk(part)

    walk(model)
    return arrays


def test_everything_is_restored_after_an_error(model):
    before = state(model)
    with pytest.raises(npf.errors.NpformerError):
        bisect(model, np.array([[1, 2, 99]]), TGT)
    assert state(model) == before

    class Failing(LayerNorm):
        def forward(self, x, *, context):
            raise RuntimeError("no forward today")

    model.encoder.layers[1].norm2.__class__ = Failing
    before = state(model)
    with pytest.raises(RuntimeError, match="today"), listening(model):
        model.forward(SRC, TGT)
    assert state(model) == before


class Absolute(Layer):
    """|x W|, which the complex step cannot see; its gradient is right for times 1."""

    def __init__(self, backend, times=1.0):
        super().__init__(backend)
        self.linear = Linear(4, 5, backend=backend)
        self.times = times

    def forward(self, x):
        y, cache = self.linear.forward(x)
        return np.abs(y), (np.sign(y.real), cache)

    def backward(self, dy, cache):
        return self.linear.backward(self.times * dy * cache[0], cache[1])


def test_without_the_complex_step(numpy64):
    assert bisect(Absolute(numpy64), X).ok
    assert bisect(Absolute(numpy64), X, complex_step=False).ok
    bisection = bisect(Absolute(numpy64, times=2), X, complex_step=False)
    assert names(bisection) == ["Absolute"]
    assert repr(bisection) == str(bisection)
    assert {row.verdict for row in bisection.path[0][1].rows} == {"WRONG"}


def test_what_has_no_parts_is_refused():
    with pytest.raises(ConfigError, match="target: expected a layer or model, which has parts, got tuple"):
        bisect((np.sin, np.cos), np.ones(3))
