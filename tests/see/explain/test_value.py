"""The number, its witnesses and its verdict; and what a step changes."""

import pytest

from npformer.see.explain import Setting, explanation, session
from npformer.see.explain.models import model_setting
from npformer.see.explain.place import find
from npformer.see.explain.value import Prediction, means_of, steady, value_of
from tests.check.own_code import spoil


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
    value = value_of(opened, find(opened, at))
    assert value.analytic != 0
    assert value.by_complex == pytest.approx(value.analytic, rel=1e-10)
    assert value.by_central == pytest.approx(value.analytic, rel=1e-5)
    assert value.verdict == "right"


def test_a_wrong_gradient_is_called_wrong():
    setting = model_setting("transformer")
    spoil(setting.target.generator, "linear")
    with session(setting) as opened:
        wrong = value_of(opened, find(opened, "decoder.layers.0.self_attention.query.weight[3,1]"))
        right = value_of(opened, find(opened, "generator.bias[3]"))
    assert (wrong.verdict, right.verdict) == ("WRONG", "right")
    assert wrong.analytic == pytest.approx(1.001 * wrong.by_complex, rel=1e-9)


@pytest.mark.parametrize("at", ["encoder.layers.0.feed_forward.down.weight[1,2]", "encoder@output[0,1,2]"])
def test_half_the_step_leaves_a_quarter_of_the_error(opened, at):
    place = find(opened, at)
    value = means_of(opened, place, value_of(opened, place).analytic)
    assert value.falls_fourfold
    assert value.half.step == value.whole.step / 2
    assert 3.5 <= value.whole.error / value.half.error <= 4.5


@pytest.mark.parametrize("factor", [1.01, 0.5, -1])
def test_a_wrong_number_does_not(opened, factor):
    place = find(opened, "encoder.layers.0.feed_forward.down.weight[1,2]")
    assert not means_of(opened, place, factor * value_of(opened, place).analytic).falls_fourfold


def test_a_step_over_a_kink_is_halved_first():
    errors = [3e-4, 2e-4, 1.5e-5, 3.75e-6, 9.4e-7, 5e-15]
    predictions = [Prediction(0.01 / 2**i, 0.0, error) for i, error in enumerate(errors)]
    assert steady(predictions, 1e-13) == (predictions[2], predictions[3], True)
    assert not steady(predictions[:3], 1e-13).falls_fourfold


@pytest.mark.parametrize(("fall", "holds"), [(3.4, False), (3.6, True), (4.4, True), (4.6, False)])
def test_the_error_falls_by_4_give_or_take_an_eighth(fall, holds):
    predictions = [Prediction(0.01 / 2**i, 0.0, 1e-4 / fall**i) for i in range(3)]
    assert steady(predictions, 1e-13).falls_fourfold == holds


def test_rounding_alone_is_no_error():
    predictions = [Prediction(0.01, 1e-3, 1e-3), Prediction(0.005, 5e-4, 5e-4 + 1e-16)]
    assert steady(predictions, 1e-13).falls_fourfold


def test_the_target_is_as_before(opened):
    setting = model_setting("transformer-dropout")
    before = {name: p.data.copy() for name, p in setting.target.named_parameters()}
    with session(setting) as other:
        explanation(other, "encoder.layers.0.norm1.gamma[1]")
    assert all((p.data == before[name]).all() for name, p in setting.target.named_parameters())
    assert isinstance(setting, Setting)
    setting.target.forward(*setting.inputs)
