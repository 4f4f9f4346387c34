"""The page of a report: sections, examples piece by piece, charts of one run and of several, and nothing unescaped.

Its tables: what differs, what was taken for what, norms with shades. In a real browser it is silent, and no wider than
the screen or the sheet.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from npformer.run import RunDirectory
from npformer.run.predictions import AttentionExample, Piece, Predicted
from npformer.see.page.report import confusion_table, options_table, report_page, what_table
from tests.chromium import NARROW, WIDE

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=y> \" ' \u202e"


def section(name, *runs):
    """A section of these runs' report."""
    text = report_page(runs)
    return text.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_pieces_are_marked_where_they_are_wrong(summary):
    pieces = (Piece("a", "a"), Piece("b", "x"), Piece("c", None), Piece(None, "y"), Piece("z", "z", asked=False))
    text = section("examples", replace(summary, predictions=[Predicted("abc", pieces, "")]))
    written = re.search(r'<span class="written">(.*?)</span> <span class="quiet">expected abcz<', text)[1]
    assert written == (
        'a<span class="piece bad" title="expected b">x</span><del>c</del><ins>y</ins><span class="quiet">z</span>'
    )
    assert "0 of 1 are right" in text


def test_the_first_ten_examples_and_ten_more_that_are_wrong(summary):
    predictions = [Predicted(f"s{i}", (Piece("a", "a" if i % 2 else "b"),), "") for i in range(60)]
    text = section("examples", replace(summary, predictions=predictions))
    sources = re.findall(r'class="source">(.*?)<', text)
    assert sources == [f"s{i}" for i in [*range(10), *range(10, 30, 2)]]
    assert "30 of 60 are right. Shown: the first 10, and 10 more that are wrong." in text


def test_a_language_model_s_text_is_marked_where_another_token_was_likelier(summary):
    evaluation = replace(summary.evaluation, kind="causal")
    predictions = [Predicted("ab", (Piece("a", "a"), Piece("b", " ")), "")] * 8
    text = section("examples", replace(summary, predictions=predictions, evaluation=evaluation))
    assert text.count('<span class="written">a<span class="piece bad" title="likelier: ␣">b</span></span>') == 5
    assert "8 of 16 tokens are right. Shown: the first 5." in text


def test_shares_of_another_sample_say_so(summary):
    """The table above has those of the whole evaluation; a language model's texts are looked at one by one."""
    evaluation = replace(summary.evaluation, kind="causal", count=300)
    predictions = [Predicted("ab", (Piece("a", "a"), Piece("b", " ")), "")] * 64
    looked_at = replace(summary, predictions=predictions, evaluation=evaluation)
    assert "of 300 sequences" in section("what", looked_at)
    assert "64 of 128 tokens are right in the first 64 sequences of 300. Shown" in section("examples", looked_at)
    assert "64 of 128 pieces are wrong in the first 64 sequences of 300" in section("mistakes", looked_at)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([4, 4], "measured on 4 sequences."),
        ([9, 200, 1000], "measured on 9 to 200 sequences; the last, at step 20, on 1,000."),
        ([], None),
    ],
)
def test_curves_say_on_how_many_sequences(summary, counts, said):
    steps = [5, 10, 20][3 - len(counts) :]
    evaluated = [{"step": s, "kind": "eval", "loss": 1.0, "examples": n} for s, n in zip(steps, counts, strict=True)]
    records = [line for line in summary.records if line["kind"] != "eval"] + evaluated
    told = re.findall(r'<p class="quiet">(.*?)</p>', section("curves", replace(summary, records=records)))
    assert told == ([] if said is None else [f"reverse-007: each held-out value was {said}"])


def test_nobody_s_text_is_html(summary, tmp_path):
    hostile = replace(
        summary,
        run=RunDirectory(tmp_path / "a<b>"),
        predictions=[Predicted(HOSTILE, (Piece(HOSTILE, HOSTILE[::-1]),), "")],
        environment={HOSTILE: HOSTILE},
        note=HOSTILE,
        records=[{"step": 1, "kind": "gradient", f"norm.{HOSTILE}": 1.0}, *summary.records],
    )
    for runs in ([hostile], [hostile, replace(hostile, predictions=[])]):
        text = report_page(runs)
        assert "script-src 'none'" in text
        assert not re.search("<script|<img|\u202e|https?:|@import", text)
        assert text.count("</style>") == 1
        assert "a&lt;b&gt;" in text


def test_curves_of_one_run_and_of_several(summary):
    one = section("curves", summary)
    told = re.findall('<svg class="drawn" [^>]*role="img" aria-label="(.*?)[.] ', one)
    assert told == ["Loss, nats per token", "Held-out accuracy", "Learning rate", "Gradient norm, clipped to 1"]
    assert "warm-up ends, 8" in one
    assert 'training <tspan class="ink bold">2</tspan>' in one
    assert ">as the options say</text>" in one
    two = section("curves", summary, summary)
    assert f"{summary.name}, held-out" in two
    assert two.count("warm-up ends") == 1


def test_values_that_are_no_numbers_are_not_drawn(summary):
    odd = [{"step": "x", "kind": "train", "loss": 1.0}, {"step": 5, "kind": "train", "loss": "high", "grad_norm": 1.0}]
    text = section("curves", replace(summary, records=[*odd, *summary.records]))
    assert "training: 2 at step 20" in text
    assert "whole model: 1 at step 20" in text


def test_only_the_attention_of_a_run_with_weights_is_drawn(summary):
    assert "no weights to show" in section("attention", summary)
    assert "gone" in section("attention", replace(summary, note="gone"))


def test_gradients_of_layers_are_those_of_their_parts_together(summary):
    text = section("gradients", summary)
    assert 'encoder.layers.0 <tspan class="ink bold">0.1</tspan>' in text
    assert "encoder.layers.0: 0.1 at step 20" in text
    assert re.findall(r'[.] encoder.layers.0: ([^"]*?) at step 10"', text) == ["0.002", "25 %", "12.5 %"]
    without = replace(summary, records=[line for line in summary.records if line["kind"] != "gradient"])
    assert "metrics lack these norms" in section("gradients", without)


def test_parts_of_3_and_4_make_a_layer_of_5(summary):
    """The norm of all numbers of a layer: the root of the sum of squares."""
    norms = {"norm.layers.0.attention": 3.0, "norm.layers.0.feed_forward": 4.0, "norm.generator": 2.0}
    line = {"kind": "gradient", "step": 7} | norms
    text = section("gradients", replace(summary, records=[line]))
    assert "layers.0: 5 at step 7; generator: 2 at step 7" in text


def rows(text):
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]


def marked(text):
    """A text's tags taken away."""
    return re.sub(r"<[^>]+>", "", text)


def predictions(*pairs):
    return [Predicted("source", tuple(Piece(*pair) for pair in pairs), "")]


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
    table = dict(rows(what_table([summary]))[1:])
    assert table["task"] == "reverse"
    assert table["steps"] == "20 of 40, each of 96 sequences"
    assert table["model"] == "Transformer, 1,234 parameters"
    assert table["speed"] == "300 tokens per second (median)"
    slow, unknown = ({"kind": "train", "tokens_per_second": speed} for speed in (50.0, float("nan")))
    for records in ([*summary.records, unknown, slow], [unknown, *summary.records, slow, unknown]):
        assert dict(rows(what_table([replace(summary, records=records)]))[1:])["speed"].startswith("100 tokens")
    assert "speed" not in dict(rows(what_table([replace(summary, records=[unknown])]))[1:])
    assert table["held-out"] == "tokens 50.0 %, exact match 25.0 % of 4 sequences"


def test_the_most_frequent_mistakes_come_first(summary):
    pairs = [("a", "b"), ("a", "b"), ("c", None), (None, "<d>"), ("e", "e"), ("e", " ")]
    text = confusion_table(replace(summary, predictions=predictions(*pairs)))
    assert [[marked(cell) for cell in row[:3]] for row in rows(text)[1:]] == [
        ["a", "b", "2"],
        ["c", "nothing", "1"],
        ["nothing", "&lt;d&gt;", "1"],
        ["e", "␣", "1"],
    ]
    assert "5 of 6 pieces are wrong" in text
    assert "Nothing was wrong" in confusion_table(replace(summary, predictions=predictions(("a", "a"))))


def test_classes_stand_against_classes(summary):
    pairs = [("da", "da"), ("da", "da"), ("da", "nb"), ("nb", "nb"), ("fi", "da")]
    evaluation = replace(summary.evaluation, kind="classify")
    text = confusion_table(replace(summary, predictions=predictions(*pairs), evaluation=evaluation))
    assert rows(text) == [
        ["", "da", "fi", "nb", "expected in all"],
        ["da", "2", "·", "1", "3"],
        ["fi", "1", "·", "·", "1"],
        ["nb", "·", "·", "1", "1"],
    ]
    many = predictions(*[(f"c{i:02}", f"c{i + (i > 20):02}") for i in range(40)])
    text = confusion_table(replace(summary, predictions=many, evaluation=evaluation))
    assert len(rows(text)) == 17
    assert "16 of 41, those with most mistakes" in text
    assert "c00" not in text
    assert "c30" in text


def test_of_many_layers_fourteen_or_fewer_are_drawn(summary):
    line = {"step": 1, "kind": "gradient"} | {f"norm.layers.{i}": 1.0 for i in range(20)}
    assert len(re.findall(r"layers.\d+ <tspan", section("gradients", replace(summary, records=[line])))) == 10


@pytest.fixture
def page(summary, tmp_path):
    """A page of two runs with long words and wide maps."""
    tokens = [f"token{i}" for i in range(40)]
    weights = {"encoder.layers.0.self_attention": np.tril(np.full((2, 40, 40), 1 / 40))}
    long = "a" * 300
    full = replace(
        summary,
        predictions=[Predicted(long, (Piece(long, long[::-1]), Piece("b", "x")), "")],
        attention=AttentionExample(weights, tokens, tokens, long),
        environment={"processor": long},
    )
    place = tmp_path / "report.html"
    place.write_text(report_page([full, full]), encoding="utf-8")
    return place


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_wide_narrow_and_on_paper(browser, page, dark):
    browser.open(page)
    for size, printed in ((WIDE, False), (NARROW, False), ((794, 1123), True)):
        browser.look(size, dark=dark, printed=printed)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        paper = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(20, 23, 28)" if dark and not printed else "rgb(255, 255, 255)")
    assert browser.run("return document.querySelectorAll('script').length") == 0


@pytest.mark.browser
def test_the_style_is_in_force_and_the_links_lead_somewhere(browser, page):
    browser.open(page)
    assert browser.run("return getComputedStyle(document.querySelector('.bad')).textDecorationLine") == "underline"
    lost = "return [...document.querySelectorAll('a')].filter(a => !document.querySelector(a.hash)).length"
    assert browser.run(lost) == 0
    lefts = browser.run("return [...document.querySelectorAll('#curves .chart')].map(chart => chart.offsetLeft)")
    assert len(lefts) == 4
    assert len(set(lefts)) == 2  # two and two
