"""A gradient is the sum over all uses of its number: which entries of which gradients arrive where."""

import numpy as np
import pytest

import npformer as npf
from npformer.see.page import trace_page
from npformer.see.page.trace_writer import uses
from npformer.see.record.models import showcase
from tests.see.page.test_trace_writer import data_of


def named(trace, number):
    return trace.calls[number]["name"].rpartition(".layers.0.")[2]


@pytest.mark.parametrize("changes", [{}, {"norm_order": "pre", "num_decoder_layers": 2}, {"tie_embeddings": True}])
def test_the_uses_of_every_number_add_up_to_its_gradient(changes):
    trace = showcase(**changes)
    found = uses(trace.recording)
    for call in trace.calls:
        for what in ("upstream", "gradients"):
            listed = what == "upstream" or call["kind"] == "layer"
            for part, entry in enumerate(call[what] if listed else ()):
                if call["parent"] is None and (what == "gradients" or call["type"] == "cross_entropy"):
                    continue
                total = np.zeros(trace.arrays[entry["value"]].size)
                for use in found[call["id"], what, part]:
                    value = trace.calls[use.call]["gradients"][use.gradient]["value"]
                    is_read = use.where >= 0
                    np.add.at(total, use.where[is_read], trace.arrays[value].reshape(-1)[is_read])
                values = trace.arrays[entry["value"]].reshape(-1)
                assert np.max(np.abs(total - values)) <= 1e-12 * np.max(np.abs(values))


def test_the_graph_has_an_edge_for_each_reading(shown):
    found = data_of(trace_page(shown))["flows"]["edges"]
    edges = {(named(shown, a), named(shown, b)) for a, b, _ in found}
    assert ("self_attention.linear", "self_attention.attention") in edges
    assert ("norm2.post_norm", "cross_attention.linear") in edges  # the memory
    assert ("generator.linear", "loss") in edges
    readers = {b for _, b, _ in found}
    leaves = {call["id"] for call in shown.calls} - {call["parent"] for call in shown.calls}
    assert {named(shown, leaf) for leaf in leaves - readers} == {"src_embedding.embedding", "tgt_embedding.embedding"}


class Second(npf.layers.Layer):
    """Reads the second of two equal numbers, and 0 for the first."""

    def forward(self, x):
        y, first = self.ops.relu.forward(x)
        z, second = self.ops.gelu.forward(y * np.array([0.0, 1.0, 1.0]))
        return z, (first, second)

    def backward(self, dy, cache):
        dx = self.ops.gelu.backward(dy, cache[1]) * np.array([0.0, 1.0, 1.0])
        return self.ops.relu.backward(dx, cache[0])


def test_of_equal_numbers_the_one_that_was_read_is_linked(numpy64):
    trace = npf.trace(Second(numpy64), np.array([[7.0, 7.0, 3.0]]))
    calls = {call["type"]: call["id"] for call in trace.calls}
    (use,) = uses(trace.recording)[calls["relu"], "upstream", 0]
    assert (use.call, use.gradient, use.where.tolist()) == (calls["gelu"], 0, [-1, 1, 2])


class Halved(npf.layers.Layer):
    """Hands on half of what ReLU makes, and adds to a gain of its own."""

    def __init__(self, backend):
        super().__init__(backend)
        self.gain = npf.layers.Parameter("gain", np.ones(2))

    def forward(self, x):
        y, first = self.ops.relu.forward(x)
        z, second = self.ops.gelu.forward(y / 2)
        return self.gain.data * z, (first, second, z)

    def backward(self, dy, cache):
        self.gain.grad += (dy * cache[2]).sum(axis=0)
        return self.ops.relu.backward(self.ops.gelu.backward(self.gain.data * dy, cache[1]) / 2, cache[0])


def test_a_gradient_that_a_layer_scales_is_no_sum_of_uses(numpy64):
    trace = npf.trace(Halved(numpy64), np.array([[1.0, 2.0]]))
    calls = {call["type"]: call["id"] for call in trace.calls}
    assert (calls["relu"], "upstream", 0) not in uses(trace.recording)


class Both(npf.layers.Layer):
    """Returns two numbers, of which it reads the first itself."""

    def forward(self, x):
        a, first = self.ops.relu.forward(x)
        b, second = self.ops.gelu.forward(a)
        return (a, b), (first, second)

    def backward(self, dy, cache):
        return self.ops.relu.backward(dy[0] + self.ops.gelu.backward(dy[1], cache[1]), cache[0])


class Around(npf.layers.Layer):
    """Adds what Both returns."""

    def __init__(self, backend):
        super().__init__(backend)
        self.both = Both(backend)

    def forward(self, x):
        (a, b), inner = self.both.forward(x)
        y, total = self.ops.residual.forward(a, b, None)
        return y, (inner, total)

    def backward(self, dy, cache):
        return self.both.backward(self.ops.residual.backward(dy, cache[1]), cache[0])


def test_what_a_layer_returns_and_reads_itself_arrives_from_outside_only(numpy64):
    trace = npf.trace(Around(numpy64), 0.5 + np.random.default_rng(0).random(size=(2, 3)))
    calls, found = {call["name"]: call["id"] for call in trace.calls}, uses(trace.recording)
    assert [trace.calls[use.call]["type"] for use in found[calls["both"], "upstream", 0]] == ["residual"]
    assert {trace.calls[use.call]["type"] for use in found[calls["both.relu"], "upstream", 0]} == {"residual", "gelu"}
