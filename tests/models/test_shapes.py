"""A model of shapes has the arrays of the real one, and stops at the first array beyond its limit."""

import itertools

import pytest

from npformer.errors import ConfigError
from npformer.models import DecoderConfig, build_model
from npformer.models.shapes import Limit, model_of_shapes
from tests.models.test_handed_down import EVERY_KIND, KINDS, SIZES


def shapes(model):
    return {name: tuple(each.data.shape) for name, each in (*model.named_parameters(), *model.named_buffers())}


def segments(model):
    return [(segment.name, tuple(segment.shape), segment.aliases) for segment in model.arena.segments]


@EVERY_KIND
@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "none"])
def test_the_arrays_are_those_of_the_model(kind, norm, positions, numpy64):
    config, sizes = KINDS[kind]
    vocabulary = {name: 7 for name in sizes if "vocab" in name}
    for norm_order, tied in itertools.product(("pre", "post"), (False, True)):
        options = {"norm": norm, "positions": positions, "norm_order": norm_order, "tie_embeddings": tied}
        described = config(**sizes | vocabulary, **SIZES, **options)
        real, made = build_model(described, backend=numpy64), model_of_shapes(described)
        assert shapes(made) == shapes(real)
        assert segments(made) == segments(real)


def test_it_stops_at_the_first_array_too_much():
    config = DecoderConfig(7, num_layers=10_000, **SIZES)
    limit = Limit(arrays=20)
    with pytest.raises(ConfigError, match="expected no more arrays and numbers than there are"):
        model_of_shapes(config, limit)
    assert limit.arrays == -1
    limit = Limit(numbers=100)
    with pytest.raises(ConfigError, match="expected no more arrays and numbers than there are"):
        model_of_shapes(config, limit)
    assert limit.numbers == 100 - 7 * 8 - 8 * 24, "the table, and the first block"


def test_exactly_as_much_as_it_needs_is_enough(numpy64):
    config = DecoderConfig(7, num_layers=2, **SIZES)
    model = build_model(config, backend=numpy64)
    arrays, numbers = len(segments(model)), model.num_parameters()
    limit = Limit(arrays, numbers)
    model_of_shapes(config, limit)
    assert (limit.arrays, limit.numbers) == (0, 0)
    for less in (Limit(arrays - 1, numbers), Limit(arrays, numbers - 1)):
        with pytest.raises(ConfigError):
            model_of_shapes(config, less)


def test_no_number_is_made():
    """The largest of all would take 2⁵¹ numbers."""
    sizes = {"d_model": 2**20, "d_ff": 2**20, "num_heads": 1, "num_layers": 1, "positions": "learned"}
    model = model_of_shapes(DecoderConfig(2**31 - 1, **sizes, max_seq_len=2**31 - 1))
    assert dict(model.named_parameters())["embedding.weight"].data.shape == (2**31 - 1, 2**20)
