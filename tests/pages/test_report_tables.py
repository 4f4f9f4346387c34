"""The tables of a report: what differs, what was taken for what, norms with shades, and texts as texts."""

import re
from dataclasses import replace

from npformer.pages.report_tables import confusion_table, norms_table, options_table, what_table
from npformer.training.told import Piece, Told


def rows(text):
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]


def marked(text):
    """A text's tags taken away."""
    return re.sub(r"<[^>]+>", "", text)


def told(*pairs):
    return [Told("source", tuple(Piece(*pair) for pair in pairs), "")]


def test_options_that_differ_stand_in_one_row_each(summary):
    other = replace(
        summary,
        options=replace(summary.options, training=replace(summary.options.training, clip_norm=None, steps=9)),
    )
    assert rows(options_table([summary, other], differing=True))[1:] == [
        ["training.steps", "40", "9"],
        ["training.clip_norm", "1.0", "none"],
    ]
    assert "All options are the same" in options_table([summary, summary], differing=True)
    assert len(rows(options_table([summary], differing=False))) > 40


def test_what_was_trained(summary):
    found = dict(rows(what_table([summary]))[1:])
    assert found["task"] == "reverse"
    assert found["steps"] == "20 of 40, each of 96 sequences"
    assert found["model"] == "Transformer, 1,234 parameters"
    assert found["speed"] == "300 tokens per second (median)"
    assert found["held-out"] == "tokens 50.0 %, exact match 25.0 % of 4 sequences"


def test_the_most_frequent_mistakes_come_first(summary):
    pairs = [("a", "b"), ("a", "b"), ("c", None), (None, "<d>"), ("e", "e"), ("e", " ")]
    text = confusion_table(replace(summary, told=told(*pairs)))
    assert [[marked(cell) for cell in row[:3]] for row in rows(text)[1:]] == [
        ["a", "b", "2"],
        ["c", "nothing", "1"],
        ["nothing", "&lt;d&gt;", "1"],
        ["e", "␣", "1"],
    ]
    assert "5 of 6 pieces are wrong" in text
    assert "Nothing was wrong" in confusion_table(replace(summary, told=told(("a", "a"))))


def test_classes_stand_against_classes(summary):
    pairs = [("da", "da"), ("da", "da"), ("da", "nb"), ("nb", "nb"), ("fi", "da")]
    evaluation = replace(summary.evaluation, kind="classify")
    text = confusion_table(replace(summary, told=told(*pairs), evaluation=evaluation))
    assert rows(text) == [
        ["", "da", "fi", "nb", "expected in all"],
        ["da", "2", "·", "1", "3"],
        ["fi", "1", "·", "·", "1"],
        ["nb", "·", "·", "1", "1"],
    ]
    many = told(*[(f"c{i:02}", f"c{i + (i > 20):02}") for i in range(40)])
    text = confusion_table(replace(summary, told=many, evaluation=evaluation))
    assert len(rows(text)) == 17
    assert "16 of 41, those with most mistakes" in text
    assert "c00" not in text
    assert "c30" in text


def test_norms_are_shaded_by_their_logarithm(summary):
    text = norms_table(summary)
    assert rows(text) == [
        ["part", "10", "20"],
        ["encoder.layers.0.norm1", "0.01", "0.1"],
        ["encoder.layers.0.feed_forward", "1", "0"],
        ["generator", "–", "not finite"],
    ]
    assert re.findall(r'class="number (s\d)"', text) == ["s0", "s4", "s9", "s0", "s0"]


def test_many_evaluations_leave_eight_columns_with_both_ends(summary):
    records = [{"step": step, "kind": "gradient", "norm.a": 1.0} for step in range(1, 101)]
    head = rows(norms_table(replace(summary, records=records)))[0]
    assert (len(head), head[1], head[-1]) == (9, "1", "100")
