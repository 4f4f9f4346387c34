"""The entry at which a page opens is the number that was asked for, to the last bits."""

import numpy as np
import pytest

import npformer as npf
from npformer.explain import Setting, session
from npformer.explain.models import model_setting
from npformer.explain.place import find
from npformer.layers import EncoderLayer, Layer
from npformer.layers.parameter import Parameter
from npformer.pages import write_trace_page
from npformer.pages.opening import opening


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


class Scaled(Layer):
    """A gain in the layer's own code, without an operation, after an encoder layer."""

    def __init__(self, backend):
        super().__init__(backend)
        self.layer = EncoderLayer(4, 2, 6, backend=backend)
        self.gain = Parameter("gain", np.array([1.0, 2.0, 0.5, -1.0]))

    def forward(self, x):
        y, cache = self.layer.forward(x)
        return y * self.gain.data, (y, cache)

    def backward(self, dy, cache):
        y, inner = cache
        self.gain.grad += (dy * y).sum(axis=(0, 1))
        return self.layer.backward(dy * self.gain.data, inner)


@pytest.mark.parametrize(
    ("at", "what"), [("x[1,2,3]", "gradients"), ("gain[1]", "parameter"), ("layer.norm1.gamma[2]", "gradients")]
)
def test_an_input_and_a_parameter_of_a_layers_own_code(at, what):
    layer = Scaled(npf.get_backend("numpy", dtype="float64", kernels="plain"))
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    trace = npf.trace(layer, x)
    with session(Setting("scaled", layer, (x,))) as opened:
        place = find(opened, at)
        entry = opening(trace, place)
        shape = place.gradients(opened, opened.run()).shape
    assert entry["what"] == what
    assert entry["flat"] == np.ravel_multi_index(place.index, shape)


@pytest.mark.browser
def test_the_page_shows_what_a_layers_own_code_added(browser, tmp_path):
    layer = Scaled(npf.get_backend("numpy", dtype="float64", kernels="plain"))
    trace = npf.trace(layer, np.random.default_rng(0).normal(size=(2, 3, 4)))
    entry = {"call": 0, "what": "parameter", "name": "gain", "flat": 1}
    write_trace_page(trace, tmp_path / "page.html", opens=entry)
    browser.open(tmp_path / "page.html")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    assert "✓" in browser.find("#entry .sum").text
