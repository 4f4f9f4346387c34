"""Each bug of the museum changes a trace first where its own code is."""

from functools import partial

import numpy as np
import pytest

import npformer as npf
from npformer.errors import ConfigError
from npformer.lab.museum.bugs import bug
from npformer.see.page.bugs import MOST, bug_traces, with_bug
from npformer.see.page.document import Pack
from npformer.see.record.models import showcase

#: The first ten whose code the showcase runs: the call that differs first, and in which of its two passes.
FIRST = {
    "loss-by-batch": ("loss", "backward"),
    "linear-bias-first-token": ("generator.linear", "backward"),
    "post-norm-bypassed": ("decoder.layers.0.norm3.post_norm", "backward"),
    "layer-norm-no-mean": ("decoder.layers.0.norm3.post_norm", "backward"),
    "relu-no-gate": ("decoder.layers.0.feed_forward.feed_forward", "backward"),
    "softmax-no-shared": ("decoder.layers.0.cross_attention.attention", "backward"),
    "attention-no-scale": ("decoder.layers.0.cross_attention.attention", "backward"),
    "residual-omitted-decoder": ("decoder.layers.0", "backward"),
    "memory-values-only": ("decoder.layers.0.cross_attention", "backward"),
    "residual-omitted": ("decoder.layers.0", "backward"),
}


def where(trace, one):
    """The call that differs first, and in which of its two passes."""
    return trace.calls[one.first.call]["name"], one.first.way


def test_each_of_ten_bugs_differs_first_where_its_code_is(shown, bugs):
    places = {one.bug.id: where(shown, one) for one in bugs}
    assert places == FIRST
    assert len(places) == MOST


def test_the_lines_are_those_of_the_changed_code(bugs):
    lines = {one.bug.id: one.to_dict(Pack()) for one in bugs}
    changed = lines["layer-norm-no-mean"]
    assert "along_one -" not in changed["sources"]["layer_norm"]["functions"]["layer_norm_backward"]["text"]
    assert changed["function"] == "post_norm.post_norm_backward"
    inner = [frame["function"] for line in changed["lines"] for frame in line.get("inside", [])]
    assert inner == ["layer_norm.layer_norm_backward", "residual.residual_backward"]
    assert [sign for sign, _ in changed["changed"] if sign != " "] == ["-", "+"]
    assert lines["memory-values-only"]["lines"] == []  # a layer has none


def gradient(trace, call, name):
    """A gradient that a call returned."""
    return trace.arrays[next(each["value"] for each in trace.calls[call]["gradients"] if each["name"] == name)]


def test_a_difference_is_wrong_minus_right(shown, bugs):
    one = next(bug for bug in bugs if bug.bug.id == "loss-by-batch")
    right, wrong = (gradient(trace, one.first.call, "dlogits") for trace in (shown, one.wrong))
    assert np.array_equal(one.differences[one.first.call]["gradients"]["dlogits"], wrong - right)


def test_a_bug_of_the_forward_is_found_in_the_forward(shown):
    for name, first in (
        ("causal-one-ahead", ("decoder.layers.0.self_attention.attention", "forward")),
        ("positions-base", ("src_positions.sinusoidal_positions", "forward")),
        ("cross-sides-swapped", ("decoder.layers.0", "forward")),
        ("positions-before-scaling", ("", "forward")),
    ):
        one = with_bug(showcase, shown, bug(name))
        assert where(shown, one) == first, name


def test_a_gradient_that_is_not_made_or_not_added_is_a_difference():
    """None of these changes what a call returns; each changes what becomes of it."""
    record = partial(showcase, tie_embeddings=True)
    right = record()
    one = with_bug(record, right, bug("tied-one-gradient"))
    assert right.calls[one.first.call]["name"] == "generator.linear"
    dweight = gradient(right, one.first.call, "dweight")
    assert np.array_equal(one.differences[one.first.call]["gradients"]["dweight"], -dweight)
    assert one.sizes == {one.first.call: {"backward": 1.0}}
    one = with_bug(record, right, bug("tied-overwritten"))
    assert where(right, one) == ("src_embedding", "backward")
    assert list(one.differences[one.first.call]) == ["added"]
    assert one.wrong.recording is None


def test_a_backward_that_does_not_run_is_a_difference():
    record = partial(showcase, num_encoder_layers=2)
    right = record()
    one = with_bug(record, right, bug("layers-in-forward-order"))
    assert where(right, one) == ("encoder", "backward")
    assert right.calls[one.first.handed]["name"] == "encoder.layers.1"
    assert one.differences == {}
    assert {right.calls[number]["name"].rpartition(".")[2] for number in one.sizes} > {"0", "1", "self_attention"}
    assert {size for ways in one.sizes.values() for size in ways.values()} == {np.inf}
    assert set(one.to_dict(Pack())["sizes"][str(one.first.handed)].values()) == {None}


def test_a_named_bug_must_run_and_must_change_something(shown):
    record = partial(npf.trace, "layer_norm")
    right = record()
    (one,) = bug_traces(record, right, ["layer-norm-no-mean"])
    assert one.first.call == 0
    with pytest.raises(
        ConfigError, match=r"expected bugs whose code this trace runs, got relu-no-gate.*layer-norm-no-mean"
    ):
        bug_traces(record, right, ["relu-no-gate"])
    with pytest.raises(ConfigError, match="that change a number of this trace, got attention-dv-before-dropout"):
        bug_traces(showcase, shown, ["attention-dv-before-dropout"])
    with pytest.raises(ConfigError, match="did you mean relu-no-gate"):
        bug_traces(record, right, ["relu-no-gat"])
    assert bug_traces(record, right, []) == []
