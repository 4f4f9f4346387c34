"""Each bug of the museum has its trace on its page: the first call that differs is its own, or a reason is given."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from docs.site import bug_sections, bug_traces, differences, museum, recordings
from docs.site.spread import Step, drawn, said
from npformer.functional import OPERATIONS
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.patch import edited_sources, function_at

#: Bugs of an operation's own code, of each kind of recording: small, a test's sample, large scores.
OF_OPERATIONS = (
    "softmax-diagonal", "softmax-empty-row", "softmax-overflow", "layer-norm-no-mean", "relu-no-gate",
    "embedding-assigned", "attention-dk-no-transpose", "attention-dv-before-dropout", "dropout-no-mask",
    "post-norm-bypassed", "loss-by-batch", "loss-smooths-padding", "test-length-one",
)  # fmt: skip
#: Bugs of layers and models: the recording, and the name of the first call that differs.
OF_MODELS = {
    "residual-omitted": ("transformer", "decoder.layers.0"),
    "causal-off": ("transformer", "decoder.layers.0.self_attention.attention"),
    "final-norm-skipped": ("transformer-pre", "decoder"),
    "tied-one-gradient": ("transformer-tied", "generator.linear"),
    "tied-overwritten": ("transformer-tied", "src_embedding"),
    "layers-in-forward-order": ("transformer-deep", "encoder"),
    "dropout-at-inference": ("transformer-inference", "encoder.layers.0.self_attention.attention"),
    "gradient-assigned": ("layer-twice", "feed_forward"),
}
#: Bugs outside of one forward and backward, by the words of their reason.
WITHOUT = {
    "when Adam turns gradients into updates": {
        "adam-t-per-tensor", "adam-t-zero", "adam-t-thirty", "adam-v-with-beta1", "adam-eps-inside",
        "adam-no-correction", "adamw-into-gradient", "adamw-no-rate",
    },
    "in what weight decay takes": {"adamw-decays-vectors"},
    "in the learning rate of each update": {"noam-max", "noam-per-tensor", "schedule-from-zero"},
    "when the gradients of all parameters are scaled together": {
        "clip-per-tensor", "clip-stretches", "clip-squared",
    },
    "in the order of clipping and update": {"clip-after-update"},
    "between two steps": {"gradients-not-zeroed"},
    "several small batches": {"accumulate-means", "accumulate-sums"},
    "when the same random numbers come again": {"same-mask-every-step", "same-mask-every-micro-batch"},
    "when a run is resumed": {"resume-redraws-dropout"},
    "when a run is saved or resumed": {
        "resume-replays-data", "resume-loses-moments", "resume-restarts-schedule", "resume-repeats-a-step",
    },
    "when a batch is made": {"target-not-shifted"},
    "in decoding": {"decoding-first-position"},
}  # fmt: skip


def first_call(name):
    """The recording's name, and the first call that differs."""
    one = bug_traces.of_bug(name)
    assert one is not None, name
    return one.recording.name, recordings.right(one.recording).calls[one.found.first.call]


def differing(name):
    """What the recording of a bug is, and the lines with other numbers."""
    one = bug_traces.of_bug(name)
    right = recordings.right(one.recording)
    return one, right, differences.rows(right, one.found)


def section(name):
    """What a bug's page says of its trace."""
    return bug_sections.section(bug_traces.of_bug(name))


@pytest.mark.parametrize("name", OF_OPERATIONS)
def test_the_first_call_that_differs_is_of_the_changed_operation(name):
    """The operation's file and the pass are those of the code that the museum changes."""
    files = {target.partition(":")[0] for target in bug(name).targets}
    _, call = first_call(name)
    assert OPERATIONS[call["type"]].forward.__module__ in files
    one = bug_traces.of_bug(name)
    ways = {way for way in ("forward", "backward") if any(target.endswith(f"_{way}") for target in bug(name).targets)}
    assert one.found.first.way in (ways or {"forward"})


def test_a_bug_of_layers_differs_first_where_its_code_is():
    found = {name: (recording, call["name"]) for name in OF_MODELS for recording, call in [first_call(name)]}
    assert found == OF_MODELS


def test_every_bug_has_a_recording_or_a_reason():
    """Which of both is told by the changed code alone; where a recording is to be, its own code runs."""
    without = {each.id for each in BUGS if bug_traces.reason(each)}
    assert without == set().union(*WITHOUT.values())
    for words, names in WITHOUT.items():
        assert {each.id for each in BUGS if words in bug_traces.reason(each)} == names, words
    for start in bug_traces.OUTSIDE:
        assert any(target.startswith(start) for each in BUGS for target in each.targets), start
    models = [recordings.model(name) for name in recordings.MODELS]
    ran = frozenset().union(*map(recordings.runs, models))
    for each in BUGS:
        if each.id not in without:
            assert each.targets & ran or bug_traces.operations_of(each), each.id


@pytest.mark.parametrize("name", ["softmax-diagonal", "layer-norm-no-mean", "post-norm-bypassed", "loss-by-batch"])
def test_the_changed_line_stands_beside_the_right_one(name):
    """What the museum calls the edited text is among the lines with other numbers, and so is the text that it was."""
    _, _, rows = differing(name)
    shown = [
        {made.code for made in side if made is not None}
        for side in ([row.right for row in rows], [row.wrong for row in rows])
    ]
    for before, after in edited_sources(bug(name).edits).values():
        for text, other, codes in ((before, after, shown[0]), (after, before, shown[1])):
            changed = {line.strip() for line in text.splitlines()} - {line.strip() for line in other.splitlines()}
            assert any(line in code for line in changed for code in codes), (name, codes)
    for row in rows:
        assert row.right is None or row.wrong is None or not np.array_equal(row.right.value, row.wrong.value)


def test_equal_lines_are_left_out_and_the_values_are_those_of_the_pair():
    one, right, (row,) = differing("layer-norm-no-mean")
    assert row.name == "dx"
    dx = next(right.arrays[each["value"]] for each in right.calls[0]["gradients"] if each["name"] == "dx")
    assert np.array_equal(row.right.value, dx)
    assert np.array_equal(row.wrong.value - dx, one.found.differences[0]["gradients"]["dx"])


def test_an_array_that_is_passed_on_is_shown_once():
    """``y`` is handed on as ``weights`` and ``dropped``; a changed line that returns an array is kept."""
    for name, expected in (
        ("causal-one-ahead", ["scores", "top", "shifted", "shifted", "powers", "total", "y", "out"]),
        ("neither-post-nor-pre", ["total", "centred", "r", "x_hat", "y", "y"]),
    ):
        assert [row.name for row in differing(name)[2]] == expected


def test_a_page_says_how_far_a_difference_spreads():
    one = bug_traces.of_bug("residual-omitted")
    steps = bug_sections.steps(one)
    assert len(steps) == 50
    (first,) = (i for i, step in enumerate(steps) if step.first)
    assert all(step.size == 0 for step in steps[:first])
    assert all(step.way == "backward" for step in steps[first:])
    text = section("residual-omitted")
    differing = [step for step in steps if step.size != 0]
    assert f"calls of operations, in forward and in backward, {len(differing)} return other numbers" in text
    assert "The loss is the same to the last bit" in text
    assert text.count('<rect class="backward"') == len(differing)
    assert text.count("<tr><td><code>") == len(differing)
    assert "The loss is 2." in section("causal-off")
    assert "1 gets another gradient" in section("tied-overwritten")


def test_a_call_that_does_not_run_is_named():
    text = section("layers-in-forward-order")
    assert "It does not run the backward of `encoder.layers.1`" in text
    text = section("residual-omitted-decoder")
    assert "It hands other numbers to `decoder.layers.0.norm1.post_norm`" in text


def test_a_statement_is_shown_whole_and_of_a_block_its_head():
    text = "def f(x):\n    y = sum(\n        x\n    )\n    if y < 0:\n        y = 0\n    return y\n"
    assert [differences.statement(text, i) for i in (1, 4, 6)] == ["y = sum(\n    x\n)", "if y < 0:", "return y"]


def test_the_parts_of_a_page_are_well_formed():
    made = differences.Made("f.f", "y = x[a<b]", "y", np.ones(2))
    ElementTree.fromstring(differences.shown([differences.Row("y", made, None)]))
    for name in ("softmax-overflow", "cross-sides-swapped", "tied-one-gradient"):
        text = section(name)
        blocks = re.findall(r"^<(?:div|svg|details).*$", text, re.MULTILINE)
        assert len(blocks) >= 1
        for block in blocks:
            ElementTree.fromstring(block)


def test_the_drawing_shows_each_size_and_where_it_begins():
    steps = [Step("a", "forward", 0.0), Step("a<", "backward", 0.5, True), Step("b", "backward", 1e-9),
             Step("c", "backward", float("nan"))]  # fmt: skip
    svg = drawn(steps)
    ElementTree.fromstring(svg)
    heights = [float(each) for each in re.findall(r'height="([\d.]+)"><title>', svg)]
    assert heights[0] < heights[2] < heights[1] < heights[3]
    assert svg.count('class="first"') == 1
    assert "a&lt;, backward: 50 %" in svg
    ElementTree.fromstring(drawn([Step("a", "forward", 1e200, True)]))
    assert [said(size) for size in (0.0, 12.3, 1.0, 0.034, 3e-7, float("nan"))] == [
        "the same", "12 times", "100 %", "3 %", "3e−07", "not a number",
    ]  # fmt: skip


def test_a_bug_without_both_is_refused(monkeypatch):
    monkeypatch.setattr(bug_traces, "OUTSIDE", {})
    monkeypatch.setattr(bug_traces, "of_bug", lambda name: None)
    with pytest.raises(LookupError, match=r"noam-max: expected a recording of docs/site/recordings\.py"):
        museum.traced(bug("noam-max"))


def test_every_target_of_a_reason_is_a_function():
    for each in BUGS:
        if bug_traces.reason(each):
            assert all(function_at(target) for target in each.targets)
