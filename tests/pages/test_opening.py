"""The entry at which a page opens is the number that was asked for, to the last bits."""

import numpy as np
import pytest

import npformer as npf
from npformer.explain import Setting, session
from npformer.explain.models import model_setting
from npformer.explain.place import find
from npformer.pages.opening import opening
from tests.proof.own_code import Scaled


def both(setting, *places):
    """For each place what the page would open at, and whether that number is the place's gradient."""
    about = {"targets": setting.targets, "tokens": setting.labels or None}
    trace = npf.trace(setting.target, *setting.inputs, **about, **setting.options)
    found = []
    with session(setting) as opened:
        gradients = opened.run()
        for text in places:
            place = find(opened, text)
            entry = opening(trace, place)
            value = place.gradient(opened, gradients)
            found.append((entry, np.isclose(number(trace, entry), value, rtol=1e-12, atol=0)))
    return trace, found


def number(trace, entry):
    if entry["what"] == "parameter":
        name = next(each["gradient"] for each in trace.document["parameters"] if each["name"] == entry["name"])
    else:
        made = trace.calls[entry["call"]][entry["what"]]
        name = next(each["value"] for each in made if each["name"] == entry["name"])
    return trace.arrays[name].reshape(-1)[entry["flat"]]


def test_parameters_activations_and_what_went_in_open_where_they_are():
    trace, found = both(
        model_setting("transformer"),
        "decoder.layers.0.self_attention.value.weight[3,1]",
        "decoder.layers.0.self_attention.key.bias[2]",
        "decoder.layers.0@output[0,2,3]",
        "decoder.layers.0.self_attention@x[0,1,2]",
        "decoder.layers.0.cross_attention.linear#2@output[0,1,0]",
    )
    assert all(is_right for _, is_right in found)
    entries = [(trace.calls[entry["call"]]["name"], entry["what"], entry["name"]) for entry, _ in found]
    assert entries == [
        ("decoder.layers.0.self_attention.linear", "gradients", "dweight"),
        ("decoder.layers.0.self_attention.linear", "gradients", "dbias"),
        ("decoder.layers.0", "upstream", "dy"),
        ("decoder.layers.0.self_attention", "gradients", "dx"),
        ("decoder.layers.0.cross_attention.linear", "upstream", "dy"),
    ]


def test_a_tied_parameter_opens_with_the_sum_over_its_uses():
    _, found = both(model_setting("transformer-tied"), "src_embedding.weight[4,2]")
    assert found == [({"call": 0, "what": "parameter", "name": "src_embedding.weight", "flat": 18}, True)]


@pytest.mark.parametrize(
    ("at", "what"), [("x[1,2]", "gradients"), ("scale[1]", "parameter"), ("inner.weight[2,1]", "gradients")]
)
def test_an_input_and_a_parameter_of_a_layers_own_code(numpy64, at, what):
    layer, x = Scaled(numpy64), np.random.default_rng(0).normal(size=(2, 3))
    trace = npf.trace(layer, x)
    with session(Setting("scaled", layer, (x,))) as opened:
        place = find(opened, at)
        entry = opening(trace, place)
        shape = place.gradients(opened, opened.run()).shape
    assert entry["what"] == what
    assert entry["flat"] == np.ravel_multi_index(place.index, shape)
