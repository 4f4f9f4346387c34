"""The number, its witnesses and its verdict; and what a step changes."""

import pytest

from npformer.backend import PLAIN, Pair
from npformer.explain import Setting, explanation, session
from npformer.explain.models import model_setting
from npformer.explain.place import find
from npformer.explain.value import Prediction, falls_fourfold, predictions, value_of


@pytest.mark.parametrize(
    "at",
    [
        "encoder.layers.0.self_attention.output.weight[1,2]",
        "decoder.layers.0.norm1.beta[3]",
        "encoder@output[0,1,2]",
        "decoder.layers.0.cross_attention@memory[0,2,1]",
    ],
)
def test_both_witnesses_agree_with_a_right_gradient(opened, at):
    found = value_of(opened, find(opened, at))
    assert found.analytic != 0
    assert found.by_complex == pytest.approx(found.analytic, rel=1e-10)
    assert found.by_central == pytest.approx(found.analytic, rel=1e-5)
    assert found.verdict == "right"


def wrong_linear():
    """The pair of linear, with a gradient of the weight that is 0.1 % too large."""

    def backward(dy, cache, into=()):
        if not into:
            dx, dweight, dbias = PLAIN.linear.backward(dy, cache)
            return dx, dweight * 1.001, dbias
        weight, bias = (total.copy() for total in into)
        dx = PLAIN.linear.backward(dy, cache, (weight, bias))
        into[0][...] += (weight - into[0]) * 1.001
        into[1][...] = bias
        return dx

    return Pair(PLAIN.linear.forward, backward)


def test_a_wrong_gradient_is_called_wrong():
    from dataclasses import replace

    setting = model_setting("transformer")
    model = setting.target
    for layer in model.all_layers():
        layer.backend = replace(layer.backend, ops=replace(layer.backend.ops, linear=wrong_linear()))
    with session(setting) as opened:
        wrong = value_of(opened, find(opened, "decoder.layers.0.self_attention.query.weight[3,1]"))
        right = value_of(opened, find(opened, "generator.bias[3]"))
    assert (wrong.verdict, right.verdict) == ("WRONG", "right")
    assert wrong.analytic == pytest.approx(1.001 * wrong.by_complex, rel=1e-9)


def test_half_the_step_leaves_a_quarter_of_the_error(opened):
    place = find(opened, "encoder.layers.0.feed_forward.down.weight[1,2]")
    number = value_of(opened, place).analytic
    whole, half = predictions(opened, place, number)
    assert half.step == whole.step / 2
    errors = [abs(each.predicted - each.measured) for each in (whole, half)]
    assert 3.5 <= errors[0] / errors[1] <= 4.5


def test_a_wrong_number_does_not_fall_fourfold(opened):
    place = find(opened, "encoder.layers.0.feed_forward.down.weight[1,2]")
    number = value_of(opened, place).analytic
    assert not falls_fourfold(*predictions(opened, place, 1.01 * number), opened.loss)


def test_rounding_alone_is_no_error():
    assert falls_fourfold(Prediction(0.01, 1e-3, 1e-3), Prediction(0.005, 5e-4, 5e-4 + 1e-16), 2.0)


def test_the_target_is_as_before(opened):
    setting = model_setting("transformer-dropout")
    before = {name: p.data.copy() for name, p in setting.target.named_parameters()}
    with session(setting) as other:
        explanation(other, "encoder.layers.0.norm1.gamma[1]")
    assert all((p.data == before[name]).all() for name, p in setting.target.named_parameters())
    assert isinstance(setting, Setting)
    setting.target.forward(*setting.inputs)
