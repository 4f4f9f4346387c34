"""Numbers are followed from the call that made them to every call that read them."""

import numpy as np
import pytest

import npformer as npf
from npformer.see.page.flows import Flows
from npformer.see.record.models import showcase


def named(trace, number):
    return trace.calls[number]["name"].rpartition(".layers.0.")[2]


@pytest.mark.parametrize("changes", [{}, {"norm_order": "pre", "num_decoder_layers": 2}, {"tie_embeddings": True}])
def test_the_uses_of_every_number_add_up_to_its_gradient(changes):
    trace = showcase(**changes)
    flows = Flows(trace.calls, trace.arrays)
    for call in trace.calls:
        for what in ("upstream", "gradients"):
            listed = what == "upstream" or call["kind"] == "layer"
            for entry in call[what] if listed else ():
                if call["parent"] is None and (what == "gradients" or call["type"] == "cross_entropy"):
                    continue
                uses = flows.fan_in[call["id"], what, entry["name"]]
                total = np.zeros(trace.arrays[entry["value"]].size)
                for user, gradient, where in uses:
                    value = next(g["value"] for g in trace.calls[user]["gradients"] if g["name"] == gradient)
                    np.add.at(total, where[where >= 0], trace.arrays[value].reshape(-1)[where >= 0])
                values = trace.arrays[entry["value"]].reshape(-1)
                assert np.max(np.abs(total - values)) <= 1e-12 * np.max(np.abs(values))


def test_the_graph_has_an_edge_for_each_reading(shown):
    flows = Flows(shown.calls, shown.arrays)
    edges = {(named(shown, a), named(shown, b)) for a, b, _ in flows.edges}
    assert ("self_attention.linear", "self_attention.attention") in edges
    assert ("norm2.post_norm", "cross_attention.linear") in edges  # the memory
    assert ("generator.linear", "loss") in edges
    readers = {b for _, b, _ in flows.edges}
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


def test_of_equal_numbers_the_one_in_the_same_place_is_linked(numpy64):
    trace = npf.trace(Second(numpy64), np.array([[7.0, 7.0, 3.0]]))
    flows = Flows(trace.calls, trace.arrays)
    calls = {call["type"]: call["id"] for call in trace.calls}
    relu, gelu = calls["relu"], calls["gelu"]
    assert flows.source[gelu, 0] == [None, (relu, 0, 1), (relu, 0, 2)]
    assert flows.edges == [(relu, gelu, 0)]
    ((user, gradient, where),) = flows.fan_in[relu, "upstream", "dy"]
    assert (user, gradient, where.tolist()) == (gelu, "dx", [-1, 1, 2])


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
    flows = Flows(trace.calls, trace.arrays)
    calls = {call["name"]: call["id"] for call in trace.calls}
    users = [trace.calls[user]["type"] for user, _, _ in flows.fan_in[calls["both"], "upstream", "dy0"]]
    assert users == ["residual"]
    users = {trace.calls[user]["type"] for user, _, _ in flows.fan_in[calls["both.relu"], "upstream", "dy"]}
    assert users == {"residual", "gelu"}
