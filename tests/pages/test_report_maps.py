"""Attention as SVG: each weight in its cell, what is hidden told apart, and the tokens named."""

import re

import numpy as np
import pytest

from npformer.pages.report_maps import LEVELS, attention_figures, title_of, token_label
from npformer.training.attention_example import AttentionExample


def figures(weights, source=("a", "b", "<i>"), target=("[BOS]", "x")):
    return attention_figures(AttentionExample(weights, list(source), list(target), "abc → x"))


def squares(svg, kind):
    """(row, column) -> opacity of the cells of a class."""
    found = {}
    for opacity, path in re.findall(rf'<path class="{kind}"(?: fill-opacity="([\d.]+)")? d="([^"]*)"', svg):
        found |= {(int(i), int(j)): float(opacity or 0) for j, i in re.findall(r"M(\d+) (\d+)h1v1h-1z", path)}
    return found


def test_each_weight_is_in_its_cell_and_zeros_are_told_apart():
    weights = np.array([[[0.25, 0.75, 0.0], [1.0, 0.0, 1e-4]]])
    svg = figures({"decoder.layers.1.cross_attention": weights})
    shown = squares(svg, "weight")
    assert shown == {(0, 0): 0.25, (0, 1): 0.75, (1, 0): 1.0}
    assert set(squares(svg, "hidden")) == {(0, 2), (1, 1)}
    rounded = {place: round(weights[0][place] * LEVELS) / LEVELS for place in shown}
    assert shown == pytest.approx(rounded)


def test_queries_and_keys_are_named_and_heads_counted():
    svg = figures({"decoder.layers.1.cross_attention": np.full((3, 2, 3), 1 / 3)})
    assert svg.count("<svg") == 3
    assert "head 3" in svg
    assert "decoder 2 · cross-attention" in svg
    assert "target tokens, down, read source tokens, across" in svg
    assert svg.count(">[BOS]</text>") == 3
    assert ">&lt;i&gt;</text>" in svg
    assert "<i>" not in svg
    assert "[BOS] to a 0.33" in svg


def test_an_encoder_reads_its_own_tokens():
    svg = figures({"encoder.layers.0.self_attention": np.full((1, 3, 3), 1 / 3)})
    assert "[BOS]" not in svg
    assert "source tokens read each other" in svg


def test_a_long_sequence_names_only_some_tokens():
    tokens = [f"t{i}" for i in range(40)]
    svg = figures({"layers.0.self_attention": np.full((1, 40, 40), 1 / 40)}, tokens, tokens)
    assert 20 <= svg.count("</text>") <= 41
    width = int(re.search(r'width="(\d+)"', svg)[1])
    assert width <= 358, "it fits on a narrow screen"


def test_names():
    assert title_of("layers.3.self_attention") == "layer 4 · self-attention"
    assert title_of("mine") == "mine"
    assert [token_label(token) for token in (" ", "\n", "abcdefghijkl")] == ["␣", "\\n", "abcdefgh…"]
