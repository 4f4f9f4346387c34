"""The picture of attention: every head in its place, every weight in its cell, every token readable, hidden keys told
apart.
"""

import re

import numpy as np
import pytest

from npformer.errors import DTypeError, ShapeError
from npformer.see.plot import draw_attention
from npformer.see.plot.attention import LEVELS, attention_key, attention_maps
from tests.see.plot.figures import expect_inside, paths, texts, tree

KINDS = {"hidden": -1.0, "warn": -2.0}


def example(length, layers=2, heads=4):
    """Weights of an encoder-decoder that reverses its source, and the tokens of both sides."""
    rng = np.random.default_rng(length)
    source = list("abcdefghijklmnopqrstuvwxyz" * 20)[:length]
    target = ["[BOS]", *reversed(source)]
    weights = {}
    for layer in range(layers):
        weights[f"encoder.layers.{layer}.self_attention"] = softmax(rng, heads, length, length)
    for layer in range(layers):
        visible = np.tril(np.ones((length + 1, length + 1)))
        rows = softmax(rng, heads, length + 1, length + 1) * visible
        weights[f"decoder.layers.{layer}.self_attention"] = rows / rows.sum(-1, keepdims=True)
        weights[f"decoder.layers.{layer}.cross_attention"] = softmax(rng, heads, length + 1, length)
    return weights, source, target


def softmax(rng, *shape):
    scores = np.exp(rng.normal(size=shape))
    return scores / scores.sum(-1, keepdims=True)


def colours(drawing):
    """(row, column) -> the opacity of each cell that is drawn, or what it is instead of a weight."""
    shades = {}
    (group,) = [each for each in tree(drawing).iter("g") if each.get("class") == "cells"]
    for path in group.iter("path"):
        shade = KINDS.get(path.get("class"), float(path.get("stroke-opacity", 1)))
        i = j = 0
        for dj, di, count in re.findall(r"m(-?\d+) (\d+)h(\d+)", path.get("d")):
            i, j = i + int(di), j + int(dj)
            shades |= {(i, j + k): shade for k in range(int(count))}
            j += int(count)
    return shades


def only(weights, source=("a", "b", "<i>"), target=("[BOS]", "x"), name="decoder.layers.1.cross_attention"):
    """The one map of a head."""
    ((drawing,),) = (row.drawings() for row in attention_maps({name: weights}, source, target))
    return drawing


def key_of(weights, tokens):
    return texts(attention_key(attention_maps({"encoder.layers.0.self_attention": weights}, tokens, [])))


def test_rows_are_attentions_in_order_and_columns_are_heads(tmp_path):
    draw_attention(*example(3), tmp_path / "a.svg", "reverse")
    sheet = (tmp_path / "a.svg").read_text()
    assert texts(sheet, "bold") == [
        "reverse",
        "encoder 1 · self-attention",
        "encoder 2 · self-attention",
        "decoder 1 · self-attention",
        "decoder 1 · cross-attention",
        "decoder 2 · self-attention",
        "decoder 2 · cross-attention",
    ]
    assert [text for text in texts(sheet) if text.startswith("head")] == [f"head {n}" for n in (1, 2, 3, 4)] * 6
    maps = [each for each in tree(sheet).iter("svg") if (each.get("aria-label") or "").startswith("Head")]
    tops = [float(each.get("y")) for each in maps]
    assert tops == sorted(tops)
    assert len(set(tops)) == 6
    lefts = [float(each.get("x")) for each in maps[:4]]
    assert lefts == sorted(set(lefts))


def test_each_kind_of_attention_has_its_own_tokens():
    weights, _, _ = example(2, layers=1)
    rows = attention_maps(weights, ["a", " "], ["[BOS]", "b", "[EOS]"])
    encoder, decoder, cross = ([text for text in texts(row.drawings()[0]) if "head" not in text] for row in rows)
    assert encoder == ["a", "␣", "a", "␣"]
    assert decoder == ["[BOS]", "b", "[EOS]", "[BOS]", "b", "[EOS]"]
    assert cross == ["[BOS]", "b", "[EOS]", "a", "␣"]
    assert [row.reading for row in rows] == [
        "source tokens, down, look at source tokens, across",
        "target tokens, down, look at target tokens, across",
        "target tokens, down, look at source tokens, across",
    ]


def test_each_weight_is_in_its_cell_and_zeros_are_told_apart():
    weights = np.array([[[0.25, 0.75, 0.0], [1.0, 0.0, 1e-4]]])
    shown = colours(only(weights))
    assert shown == {(0, 0): 0.25, (0, 1): 0.75, (0, 2): -1.0, (1, 0): 1.0, (1, 1): -1.0}
    told = "exactly 0 (hidden, or too small for a float)"  # nothing was masked: exp(−200) is 0 in float32
    assert told in key_of(np.exp(np.array([[[0, -200], [-0.7, -0.7]]], np.float32)), "ab")
    assert told not in key_of(np.full((1, 2, 2), 0.5), "ab")


def test_every_weight_has_its_strength():
    weights = softmax(np.random.default_rng(0), 1, 9, 14)
    shown = colours(only(weights, "a" * 14, "b" * 9))
    for place, weight in np.ndenumerate(weights[0]):
        assert shown.get(place, 0.0) == pytest.approx(weight, abs=0.5 / LEVELS + 0.001)
    assert len(paths(only(weights, "a" * 14, "b" * 9), "weight")) <= LEVELS


def test_what_is_not_a_number_is_shown_and_named():
    weights = np.array([[[np.nan, np.nan], [0.5, 0.5]]], dtype=np.float32)
    shown = colours(only(weights, "ab", "xy"))
    assert [shown[0, 0], shown[0, 1], shown[1, 0]] == [-2.0, -2.0, 0.5]
    assert key_of(weights, "ab")[-1] == "not a number"


def test_a_token_is_named_beside_its_row_and_below_its_column():
    drawing = only(np.full((1, 3, 3), 1 / 3), "abc", "xyz")
    places = {each.text: (float(each.get("x")), float(each.get("y"))) for each in tree(drawing).iter("text")}
    left, top, side = map(float, re.match(r"M([\d.]+) ([\d.]+)h([\d.]+)", paths(drawing, "frame")[0]).groups())
    cell = side / 3
    for i, (query, key) in enumerate(zip("xyz", "abc", strict=True)):
        assert places[query] == pytest.approx((left - 4, top + cell * (i + 0.5) + 3.5), abs=0.06)
        assert places[key] == pytest.approx((left + cell * (i + 0.5), top + side + 12), abs=0.06)
    (place,) = re.findall(r"translate\((\S+) (\S+)\)scale\((\S+)\)", drawing.body)
    assert tuple(map(float, place)) == (left, top + cell / 2, cell), "strokes are drawn about their middle"


def test_wide_names_of_keys_are_written_upwards():
    drawing = only(np.full((1, 2, 3), 1 / 3), ["fox", "a", "[EOS]"])
    turned = {each.text: each.get("transform", "") for each in tree(drawing).iter("text")}
    assert ["rotate(-90)" in turned[name] for name in ("fox", "a", "[EOS]")] == [True, False, True]


@pytest.mark.parametrize("length", [1, 3, 12, 24, 40, 100])
def test_every_drawing_is_named_and_nothing_sticks_out(length):
    weights, source, target = example(length, layers=1, heads=1)
    for row in attention_maps(weights, source, ["extraordinarily", *target[1:]]):
        (drawing,) = row.drawings()
        expect_inside(drawing)
        rows = [float(each.get("y")) for each in tree(drawing).iter("text") if each.get("x") and each.text in source]
        named = len(texts(drawing)) - 1
        assert named >= 2 * length if length <= 16 else named >= length
        assert min(np.diff(sorted(set(rows))), default=20) >= 9


def test_forty_tokens_fit_on_a_narrow_screen():
    assert all(row.drawings()[0].width <= 358 for row in attention_maps(*example(40, layers=1, heads=1)))


def test_a_map_is_told_in_words():
    drawing = only(np.array([[[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]]))
    assert drawing.told == "Head 1; the largest weight of each query: [BOS] to b 0.75, x to a 1.00"


def test_names_of_other_models():
    weights = np.full((1, 2, 2), 0.5)
    named = {"layers.2.self_attention": "layer 3 · self-attention", "attention": "attention"}
    assert [row.title for row in attention_maps(dict.fromkeys(named, weights), [], "ab")] == list(named.values())


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 2, 3), (2, 3, 2), (0, 2, 3), (2, 2, 2)], ids=lambda shape: str(shape))
def test_weights_that_do_not_fit_the_tokens(shape):
    expected = r"cross_attention: expected weights \(H, T=2 target tokens, S=3 source tokens\).*got \(.*batch axis"
    with pytest.raises(ShapeError, match=expected):
        attention_maps({"decoder.layers.0.cross_attention": np.ones(shape)}, list("abc"), list("xy"))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((1, 1, 1), dtype=np.int64), "expected floating-point weights, got int64"),
        (np.full((1, 1, 1), 1.1), "between 0 and 1, got 1.1 to 1.1; pass the weights after the softmax"),
        (np.full((1, 1, 1), -0.5), "between 0 and 1, got -0.5 to -0.5"),
    ],
)
def test_numbers_that_are_no_weights(weights, message):
    with pytest.raises(DTypeError, match=message):
        attention_maps({"encoder.layers.0.self_attention": weights}, "a", "")


def test_no_tokens_is_an_error():
    with pytest.raises(ShapeError, match="none of them 0"):
        attention_maps({"encoder.layers.0.self_attention": np.ones((1, 0, 0))}, "", "")
