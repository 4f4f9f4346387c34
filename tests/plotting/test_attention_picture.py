"""The picture of attention: every head in its place, every token readable, hidden keys visible as such."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from npformer.errors import DTypeError, ShapeError
from npformer.plotting import colours, draw_attention
from npformer.plotting.attention import attention_figure
from npformer.plotting.attention_layout import attention_map, plan
from tests.plotting.figures import expect_inside, texts


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


def heads_of(figure):
    """The axes of the heads, in reading order: all but the colour bar."""
    return figure.axes[1:]


def names_of(axes, side):
    """The names of a map's tokens: those of its queries end at its left, those of its keys stand below."""
    return [text for text in axes.texts if text.get_ha() == {"queries": "right", "keys": "center"}[side]]


def labels(axes):
    return [text.get_text() for text in names_of(axes, "queries")], [text.get_text() for text in names_of(axes, "keys")]


def bold_texts(figure):
    return [text.get_text() for text in figure.texts if text.get_weight() == "bold"]


def encoded(weights, tokens):
    """The picture of one attention of an encoder."""
    return attention_figure({"encoder.layers.0.self_attention": weights}, tokens, [])


def are_apart(names, nearest=0.0):
    """Whether no name touches the next, once they are drawn."""
    return all(left.x1 <= right.x0 - nearest for left, right in pairwise(text.get_window_extent() for text in names))


def pixels(axes):
    return np.asarray(axes.images[0].get_array())


def test_rows_are_attentions_in_order_and_columns_are_heads():
    figure = attention_figure(*example(3), title="reverse")
    assert bold_texts(figure) == [
        "reverse",
        "encoder 1 · self-attention",
        "encoder 2 · self-attention",
        "decoder 1 · self-attention",
        "decoder 1 · cross-attention",
        "decoder 2 · self-attention",
        "decoder 2 · cross-attention",
    ]
    panels = heads_of(figure)
    assert [axes.get_title(loc="left") for axes in panels] == [f"head {n}" for n in (1, 2, 3, 4)] * 6
    tops = [axes.get_position().y1 for axes in panels[::4]]
    assert tops == sorted(tops, reverse=True)
    assert all(
        axes.get_position().y1 == pytest.approx(top)
        for row, top in enumerate(tops)
        for axes in panels[4 * row : 4 * row + 4]
    )
    lefts = [axes.get_position().x0 for axes in panels[:4]]
    assert lefts == sorted(set(lefts))


def test_each_kind_of_attention_has_its_own_tokens():
    weights, _, _ = example(2, layers=1)
    figure = attention_figure(weights, ["a", " "], ["[BOS]", "b", "[EOS]"])
    encoder, decoder, cross = heads_of(figure)[::4]
    assert labels(encoder) == (["a", "␣"], ["a", "␣"])
    assert labels(decoder) == (["⟨s⟩", "b", "⟨/s⟩"], ["⟨s⟩", "b", "⟨/s⟩"])
    assert labels(cross) == (["⟨s⟩", "b", "⟨/s⟩"], ["a", "␣"])
    faint = [text.get_text() for text in figure.texts if text.get_ha() == "right"]
    assert faint == [
        "source tokens look at source tokens",
        "target tokens look at target tokens",
        "target tokens look at source tokens",
    ]


def test_queries_are_named_once_per_row_and_keys_under_every_head():
    panels = heads_of(attention_figure(*example(4)))
    assert [bool(labels(axes)[0]) for axes in panels[:4]] == [True, False, False, False]
    assert all(len(labels(axes)[1]) >= 4 for axes in panels)


def test_query_i_is_row_i_and_key_j_is_column_j():
    weights = {"decoder.layers.0.cross_attention": np.array([[[0.9, 0.1, 0.0], [0.25, 0.25, 0.5]]])}
    (axes,) = heads_of(attention_figure(weights, list("abc"), list("xy")))
    image, ramp = pixels(axes), colours.weight_ramp()
    assert image.shape == (2, 3, 3)
    np.testing.assert_allclose(image[0, 0], ramp(0.9)[:3])
    np.testing.assert_allclose(image[1, 2], ramp(0.5)[:3])
    assert axes.get_ylim() == (1.5, -0.5)  # the first query on top
    assert axes.get_xlim() == (-0.5, 2.5)


def test_the_scale_is_0_to_1_for_every_head():
    (axes,) = heads_of(encoded(np.full((1, 4, 4), 0.25), list("abcd")))
    np.testing.assert_allclose(pixels(axes)[0, 0], colours.weight_ramp()(0.25)[:3])


def test_exactly_zero_is_the_hidden_colour_and_nearly_zero_is_not():
    weights = np.array([[[1.0, 0.0], [1 - 1e-9, 1e-9]]])
    figure = attention_figure({"decoder.layers.0.self_attention": weights}, [], list("ab"))
    image = pixels(heads_of(figure)[0])
    np.testing.assert_allclose(image[0, 1], to_rgb(colours.HIDDEN))
    np.testing.assert_allclose(image[1, 1], colours.weight_ramp()(0.0)[:3])
    assert "exactly 0 (hidden)" in texts(figure)


def test_what_is_not_a_number_is_shown_and_named():
    weights = np.array([[[np.nan, np.nan], [0.5, 0.5]]], dtype=np.float32)
    figure = encoded(weights, list("ab"))
    np.testing.assert_allclose(pixels(heads_of(figure)[0])[0, 1], to_rgb(colours.WARNING))
    assert "not a number" in texts(figure)
    assert "exactly 0 (hidden)" not in texts(figure)


@pytest.mark.parametrize("length", [1, 3, 12, 16, 30, 40])
def test_every_token_is_named_and_no_two_names_overlap(length):
    figure = attention_figure(*example(length, layers=1, heads=2))
    figure.canvas.draw()
    for axes in heads_of(figure):
        names = names_of(axes, "keys")
        assert len(names) == pixels(axes).shape[1]
        assert are_apart(names, -0.5)
        assert min(text.get_fontsize() for text in names) >= 6
    edges = [text.get_window_extent() for text in names_of(heads_of(figure)[0], "queries")]
    assert len(edges) == length
    assert all(upper.y0 >= lower.y1 - 3 for upper, lower in pairwise(edges))


def test_wide_names_of_keys_are_written_upwards():
    words = ["the", "quick", "brown", "fox", "a"] * 2
    figure = encoded(np.full((1, 10, 10), 0.1), words)
    figure.canvas.draw()
    names = names_of(heads_of(figure)[0], "keys")
    assert [text.get_rotation() for text in names[:5]] == [90, 90, 90, 90, 0]
    assert are_apart(names)


@pytest.mark.parametrize("length", [3, 8, 12, 20, 40])
def test_special_tokens_are_upright_between_letters(length):
    letters = [*"abcdefgh" * 5][:length]
    source, target = [*letters, "[EOS]"], ["[BOS]", *letters]
    flat = np.full((2, length + 1, length + 1), 0.1)
    weights = {f"decoder.layers.0.{kind}_attention": flat for kind in ("cross", "self")}
    figure = attention_figure(weights, source, target)
    figure.canvas.draw()
    for axes in heads_of(figure):
        names = names_of(axes, "keys")
        assert [text.get_rotation() for text in names] == [0.0] * len(names)
        assert are_apart(names, -0.5)


def test_special_tokens_without_room_are_written_upwards():
    words = ["[BOS]", "[MASK]", "[MASK]", "[EOS]"] * 5
    figure = encoded(np.full((1, 20, 20), 0.1), words)
    names = names_of(heads_of(figure)[0], "keys")
    assert [text.get_rotation() for text in names[1:3]] == [90, 90]


@pytest.mark.parametrize("length", [3, 12, 40])
def test_nothing_reaches_over_the_edge_and_no_row_into_the_next(length):
    weights, source, target = example(length, layers=1, heads=1)
    target[1] = "extraordinarily"
    figure = attention_figure(weights, source, target, title="reverse " * 40)
    expect_inside(figure)
    next_titles = [text for text in figure.texts if text.get_weight() == "bold"][2:]
    for axes, title in zip(heads_of(figure), next_titles, strict=False):
        lowest = min(text.get_window_extent().y0 for text in names_of(axes, "keys"))
        assert title.get_window_extent().y1 < lowest


def test_beyond_forty_tokens_only_some_are_named():
    weights, source, target = example(100, layers=1, heads=1)
    queries, keys = labels(heads_of(attention_figure(weights, source, target))[0])
    assert queries == keys == [source[place] for place in range(0, 100, 3)]


def test_a_large_model_stays_within_the_pixels_a_viewer_can_open():
    weights, source, target = example(40, layers=12, heads=16)
    layout = plan([attention_map(name, value, source, target) for name, value in weights.items()], "")
    assert layout.width * layout.dpi <= 12_000
    assert layout.height * layout.dpi <= 12_000
    assert layout.width * layout.height * layout.dpi**2 <= 40.1e6


@pytest.mark.parametrize(("length", "smallest", "largest"), [(3, 900, 3000), (12, 1300, 3200), (30, 2000, 5000)])
def test_the_picture_has_a_sensible_size(length, smallest, largest):
    width, height = attention_figure(*example(length), title="reverse").canvas.get_width_height()
    assert smallest <= width < height <= largest


def test_tokens_and_titles_are_taken_as_they_are(tmp_path):
    weights = {"encoder.layers.0.self_attention": np.full((1, 3, 3), 1 / 3)}
    draw_attention(weights, ["$x^$", "中", "\\frac$$"], [], tmp_path / "a.png", title="cost: $5 → \\$6 {$\n中")
    assert (tmp_path / "a.png").stat().st_size > 1000  # and no warning, which would be an error


def test_the_weights_are_left_as_they_were():
    weights, source, target = example(3)
    before = {name: value.copy() for name, value in weights.items()}
    for value in weights.values():
        value.setflags(write=False)
    attention_figure(weights, source, target)
    for name, value in weights.items():
        np.testing.assert_array_equal(value, before[name])


def test_names_of_other_models():
    weights = np.full((1, 2, 2), 0.5)
    assert attention_map("layers.2.self_attention", weights, [], ["a", "b"]).title == "layer 3 · self-attention"
    assert attention_map("attention", weights, [], ["a", "b"]).title == "attention"


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 2, 3), (2, 3, 2), (0, 2, 3), (2, 2, 2)], ids=lambda shape: str(shape))
def test_weights_that_do_not_fit_the_tokens(shape):
    expected = r"cross_attention: expected weights \(H, T=2 target tokens, S=3 source tokens\).*got \(.*batch axis"
    with pytest.raises(ShapeError, match=expected):
        attention_figure({"decoder.layers.0.cross_attention": np.ones(shape)}, list("abc"), list("xy"))


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
        encoded(weights, ["a"])


def test_no_tokens_is_an_error():
    with pytest.raises(ShapeError, match="none of them 0"):
        encoded(np.ones((1, 0, 0)), [])
