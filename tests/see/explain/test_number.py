"""One number: found, or refused with what would be right; its witnesses and its verdict; what a step changes."""

import pytest

from npformer.errors import ConfigError
from npformer.see.explain import Setting, explanation, session
from npformer.see.explain.number import StepEffect, find, means_of, steady, value_of
from npformer.see.record.models import model_setting
from tests.check.own_code import spoil


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("encoder.layers.0.norm1.gamma[2]", "parameter", "encoder.layers.0.norm1.gamma[2]"),
        ("generator.bias[-1]", "parameter", "generator.bias[7]"),
        ("decoder.layers.0@output[0,2,3]", "output", "decoder.layers.0@output[0,2,3]"),
        ("@output[0,2,3]", "output", "@output[0,2,3]"),
        (
            "decoder.layers.0.cross_attention.linear#2@output[0,1,5]",
            "output",
            "decoder.layers.0.cross_attention.linear#2@output[0,1,5]",
        ),
        ("decoder.layers.0.self_attention@x[0,1,2]", "taken", "decoder.layers.0.self_attention@x[0,1,2]"),
    ],
)
def test_a_number_is_found(opened, text, kind, shown):
    place = find(opened, text)
    assert (place.kind, place.text) == (kind, shown)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("encoder.layers.0.norm1.gama[2]", "the nearest names are encoder.layers.0.norm1.gamma"),
        ("gamma[2]", "the nearest names are encoder.layers.0.norm1.gamma, "),
        ("query.weight[3,5]", "the nearest names are encoder.layers.0.self_attention.query.weight, "),
        ("encoder.layers.0.norm1.gamma", "expected 1 number in brackets for the shape (4), such as [0], got 0"),
        ("encoder.layers.0.norm1.gamma[1,2]", "such as [0], got 2"),
        ("encoder.layers.0.norm1.gamma[4]", "expected an index from 0 to 3 along axis 0 of the shape (4), got 4"),
        ("encoder.layers.0.norm1.gamma[x]", "expected whole numbers in the brackets, got [x]"),
        ("encoder.layers.0.norm1.gamma[1", "expected NAME[INDEX]"),
        ("src[0,1]", "got token ids, which have no gradient; try src_embedding.embedding@output"),
        ("decoder.layers.0[0,1,2]", "expected decoder.layers.0@output[INDEX] for its output"),
        ("decoder.layers.7@output[0,1,2]", "the nearest names are decoder.layers.0"),
        ("decoder.layers.0@outptu[0,1,2]", "expected one of @output, @x, @memory after decoder.layers.0, got @outptu"),
        ("decoder.layers.0@output.1[0,1,2]", "expected output.0 to output.0"),
    ],
)
def test_another_number_is_refused_with_what_would_be_right(opened, text, words):
    with pytest.raises(ConfigError) as refused:
        find(opened, text)
    assert words in str(refused.value)


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
    predictions = [StepEffect(0.01 / 2**i, 0.0, error) for i, error in enumerate(errors)]
    assert steady(predictions, 1e-13) == (predictions[2], predictions[3], True)
    assert not steady(predictions[:3], 1e-13).falls_fourfold


@pytest.mark.parametrize(("fall", "holds"), [(3.4, False), (3.6, True), (4.4, True), (4.6, False)])
def test_the_error_falls_by_4_give_or_take_an_eighth(fall, holds):
    predictions = [StepEffect(0.01 / 2**i, 0.0, 1e-4 / fall**i) for i in range(3)]
    assert steady(predictions, 1e-13).falls_fourfold == holds


def test_rounding_alone_is_no_error():
    predictions = [StepEffect(0.01, 1e-3, 1e-3), StepEffect(0.005, 5e-4, 5e-4 + 1e-16)]
    assert steady(predictions, 1e-13).falls_fourfold


def test_the_target_is_as_before(opened):
    setting = model_setting("transformer-dropout")
    before = {name: p.data.copy() for name, p in setting.target.named_parameters()}
    with session(setting) as other:
        explanation(other, "encoder.layers.0.norm1.gamma[1]")
    assert all((p.data == before[name]).all() for name, p in setting.target.named_parameters())
    assert isinstance(setting, Setting)
    setting.target.forward(*setting.inputs)
