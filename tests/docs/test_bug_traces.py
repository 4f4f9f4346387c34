"""Each bug of the museum has its trace on its page: the first call that differs is its own, or a reason is given."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from docs.site import bug_traces, museum, places, recordings
from npformer.functional import OPERATIONS
from npformer.lab.museum.bugs import BUGS, bug

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


def first_call(name):
    """The recording's name, and the first call that differs."""
    one = bug_traces.of_bug(name)
    assert one is not None, name
    return one.recording.name, recordings.right(one.recording).calls[one.found.first.call]


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
    first_calls = {name: (recording, call["name"]) for name in OF_MODELS for recording, call in [first_call(name)]}
    assert first_calls == OF_MODELS


def test_every_bug_has_a_recording_or_a_reason():
    """Which of both is told by the changed code alone; where a recording is to be, its own code runs."""
    without = {bug.id for bug in BUGS if bug_traces.reason(bug)}
    assert without.isdisjoint((*OF_OPERATIONS, *OF_MODELS))
    assert len(without) == 29
    for name, words in (
        ("noam-max", "in the learning rate of each update"),
        ("decoding-first-position", "in decoding"),
    ):
        assert words in bug_traces.reason(bug(name))
    for start in bug_traces.OUTSIDE:
        assert any(target.startswith(start) for bug in BUGS for target in bug.targets), start
    models = [recordings.model(name) for name in recordings.MODELS]
    ran = frozenset().union(*map(recordings.runs, models))
    for one in BUGS:
        if one.id not in without:
            assert one.targets & ran or bug_traces.operations_of(one), one.id


def test_a_page_says_where_the_numbers_first_differ():
    for name, (recording, call) in OF_MODELS.items():
        sentence = museum.differing(bug_traces.of_bug(name))
        assert recordings.MODELS[recording] in sentence
        assert f"The first call that differs is `{call}" in sentence
    sentence = museum.differing(bug_traces.of_bug("relu-no-gate"))
    assert "small input. In the Transformer of [the walk](../walk.md), the first call that differs is" in sentence
    assert sentence.endswith(
        '<a href="../traces/transformer.html?bug=relu-no-gate">Step through the walk with the bug in it</a>.'
    )
    assert museum.differing(bug_traces.of_bug("softmax-empty-row")).endswith("on which this bug changes a number.")


def test_the_losses_of_both_runs_are_drawn_in_a_file_beside_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "SOURCES", tmp_path)
    one = bug("relu-no-gate")
    (source,) = re.findall(r'<img class="paper" src="([^"]+)"', museum.effect(one))
    drawn = (tmp_path / "_extra" / "museum" / source).read_text(encoding="utf-8")
    assert ElementTree.fromstring(drawn)[0].text == one.heading
    assert f'src="{source}"' in museum.card(one)


def test_a_bug_without_both_is_refused(monkeypatch):
    monkeypatch.setattr(bug_traces, "OUTSIDE", {})
    monkeypatch.setattr(bug_traces, "of_bug", lambda name: None)
    with pytest.raises(LookupError, match=r"noam-max: expected a recording of docs/site/recordings\.py"):
        museum.traced(bug("noam-max"))
