"""Names of numbers: found, or refused with what would be right."""

import pytest

from npformer.errors import ConfigError
from npformer.see.explain.place import find


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("encoder.layers.0.norm1.gamma[2]", "parameter", "encoder.layers.0.norm1.gamma[2]"),
        ("generator.bias[-1]", "parameter", "generator.bias[7]"),
        ("decoder.layers.0@output[0,2,3]", "output", "decoder.layers.0@output[0,2,3]"),
        ("@output[0,2,3]", "output", "@output[0,2,3]"),
        (
            "decoder.layers.0.cross_attention.linear#2@output[0,1,5]",
            "output",
            "decoder.layers.0.cross_attention.linear#2@output[0,1,5]",
        ),
        ("decoder.layers.0.self_attention@x[0,1,2]", "taken", "decoder.layers.0.self_attention@x[0,1,2]"),
    ],
)
def test_a_number_is_found(opened, text, kind, shown):
    place = find(opened, text)
    assert (place.kind, place.text) == (kind, shown)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("encoder.layers.0.norm1.gama[2]", "the nearest names are encoder.layers.0.norm1.gamma"),
        ("gamma[2]", "the nearest names are encoder.layers.0.norm1.gamma, "),
        ("query.weight[3,5]", "the nearest names are encoder.layers.0.self_attention.query.weight, "),
        ("encoder.layers.0.norm1.gamma", "expected 1 number in brackets for the shape (4), such as [0], got 0"),
        ("encoder.layers.0.norm1.gamma[1,2]", "such as [0], got 2"),
        ("encoder.layers.0.norm1.gamma[4]", "expected an index from 0 to 3 along axis 0 of the shape (4), got 4"),
        ("encoder.layers.0.norm1.gamma[x]", "expected whole numbers in the brackets, got [x]"),
        ("encoder.layers.0.norm1.gamma[1", "expected NAME[INDEX]"),
        ("src[0,1]", "got token ids, which have no gradient; try src_embedding.embedding@output"),
        ("decoder.layers.0[0,1,2]", "expected decoder.layers.0@output[INDEX] for its output"),
        ("decoder.layers.7@output[0,1,2]", "the nearest names are decoder.layers.0"),
        ("decoder.layers.0@outptu[0,1,2]", "expected one of @output, @x, @memory after decoder.layers.0, got @outptu"),
        ("decoder.layers.0@output.1[0,1,2]", "expected output.0 to output.0"),
    ],
)
def test_another_number_is_refused_with_what_would_be_right(opened, text, words):
    with pytest.raises(ConfigError) as refused:
        find(opened, text)
    assert words in str(refused.value)
