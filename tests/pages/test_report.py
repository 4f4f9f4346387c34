"""The page of a report: sections, examples piece by piece, charts of one run and of several, and nothing unescaped."""

import re
from dataclasses import replace

import pytest

from npformer.pages.report import layer_of, report_page
from npformer.training import RunDirectory
from npformer.training.told import Piece, Told

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=y> \" ' \u202e"


def section(name, *runs):
    """A section of these runs' report."""
    text = report_page(runs)
    return text.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_pieces_are_marked_where_they_are_wrong(summary):
    pieces = (Piece("a", "a"), Piece("b", "x"), Piece("c", None), Piece(None, "y"), Piece("z", "z", asked=False))
    text = section("examples", replace(summary, told=[Told("abc", pieces, "")]))
    written = re.search(r'<span class="written">(.*?)</span> <span class="quiet">expected abcz<', text)[1]
    assert written == (
        'a<span class="piece bad" title="expected b">x</span><del>c</del><ins>y</ins><span class="quiet">z</span>'
    )
    assert "0 of 1 are right" in text


def test_the_first_ten_examples_and_ten_more_that_are_wrong(summary):
    told = [Told(f"s{i}", (Piece("a", "a" if i % 2 else "b"),), "") for i in range(60)]
    text = section("examples", replace(summary, told=told))
    sources = re.findall(r'class="source">(.*?)<', text)
    assert sources == [f"s{i}" for i in [*range(10), *range(10, 30, 2)]]
    assert "30 of 60 are right. Shown: the first 10, and 10 more that are wrong." in text


def test_a_language_model_s_text_is_marked_where_another_token_was_likelier(summary):
    evaluation = replace(summary.evaluation, kind="causal")
    told = [Told("ab", (Piece("a", "a"), Piece("b", " ")), "")] * 8
    text = section("examples", replace(summary, told=told, evaluation=evaluation))
    assert text.count('<span class="written">a<span class="piece bad" title="likelier: ␣">b</span></span>') == 5
    assert "8 of 16 tokens are right. Shown: the first 5." in text


def test_warm_ups_of_several_runs_have_one_text(summary):
    training = replace(summary.options.training, warmup_steps=5)
    other = replace(summary, options=replace(summary.options, training=training))
    text = section("curves", summary, other)
    assert "warm-ups end, 5, 8" in text
    assert text.count('<path class="mark"') == 2


def test_nobody_s_text_is_html(summary, tmp_path):
    hostile = replace(
        summary,
        run=RunDirectory(tmp_path / "a<b>"),
        told=[Told(HOSTILE, (Piece(HOSTILE, HOSTILE[::-1]),), "")],
        environment={HOSTILE: HOSTILE},
        note=HOSTILE,
        repeat=HOSTILE,
        records=[{"step": 1, "kind": "gradient", f"norm.{HOSTILE}": 1.0}, *summary.records],
    )
    for runs in ([hostile], [hostile, replace(hostile, told=[])]):
        text = report_page(runs)
        assert "<script" not in text
        assert "<img" not in text
        assert "<b>\u202e" not in text
        assert "\u202e" not in text
        assert text.count("</style>") == 1
        assert "a&lt;b&gt;" in text


def test_curves_of_one_run_and_of_several(summary):
    one = section("curves", summary)
    captions = re.findall("<figcaption>(.*?)</figcaption>", one)
    assert captions == ["Loss, nats per token", "Held-out accuracy", "Learning rate", "Gradient norm, before clipping"]
    assert "warm-up ends, 8" in one
    assert "training <b>2</b>" in one
    two = section("curves", summary, summary)
    assert f"{summary.name}, held-out" in two
    assert two.count("warm-up ends") == 1


def test_only_the_attention_of_a_run_with_weights_is_drawn(summary):
    assert "no weights to show" in section("attention", summary)
    assert "gone" in section("attention", replace(summary, note="gone"))


def test_gradients_of_layers_are_those_of_their_parts_together(summary):
    text = section("gradients", summary)
    assert "encoder.layers.0 <b>0.1</b>" in text
    assert "encoder.layers.0: 0.1 at step 20" in text
    without = replace(summary, records=[line for line in summary.records if line["kind"] != "gradient"])
    assert "metrics lack these norms" in section("gradients", without)


@pytest.mark.parametrize(
    ("part", "layer"),
    [("decoder.layers.1.norm2", "decoder.layers.1"), ("layers.0.feed_forward", "layers.0"), ("generator", "generator"),
     ("encoder.norm", "encoder.norm"), ("layers.0.a", "layers.0")],
)  # fmt: skip
def test_the_layer_of_a_part(part, layer):
    assert layer_of(part) == layer


def test_there_is_one_style_and_no_script(summary):
    text = report_page([summary])
    assert "script-src 'none'" in text
    assert text.count("<style>") == 1
    assert "style=" not in text
    assert not re.search(r"https?:|url\(|@import", text)
