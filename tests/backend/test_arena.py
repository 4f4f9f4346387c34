"""The arena: views on cache lines, gaps that stay zero, settings by name, runs of equal settings."""

import numpy as np
import pytest

from npformer.backend import Arena, SegmentRun, get_backend
from npformer.errors import ConfigError
from npformer.layers import Parameter
from npformer.models import Transformer, TransformerConfig
from npformer.optim import AdamW, clip_by_global_norm

SHAPES = {"a.weight": (3, 5), "a.bias": (5,), "b.weight": (4, 8), "b.bias": (1,), "c.weight": (2, 2), "scale": ()}


def new_arena(backend):
    rng = np.random.default_rng(0)
    parameters = {name: Parameter(name, backend.array(rng.normal(size=shape))) for name, shape in SHAPES.items()}
    return Arena(((name, p, (f"tied.{name}",)) for name, p in parameters.items()), backend), parameters


@pytest.fixture(params=["float32", "float64"])
def packed(request):
    """An arena of six parameters, and these."""
    return new_arena(get_backend("numpy", dtype=request.param))


def test_every_segment_starts_on_a_cache_line(packed):
    arena, parameters = packed
    for segment in arena.segments:
        for flat in (arena.values, arena.grads):
            assert arena.view(flat, segment).ctypes.data % 64 == 0, segment
        assert parameters[segment.name].data.ctypes.data == arena.view(arena.values, segment).ctypes.data


def test_parameters_keep_their_numbers_and_become_views(packed):
    arena, parameters = packed
    rng = np.random.default_rng(0)
    for name, parameter in parameters.items():
        expected = rng.normal(size=SHAPES[name])
        assert parameter.data.shape == parameter.grad.shape == SHAPES[name]
        np.testing.assert_array_equal(parameter.data, expected.astype(parameter.data.dtype))
        assert np.shares_memory(parameter.data, arena.values)
        assert np.shares_memory(parameter.grad, arena.grads)
        parameter.data[...] = 3
        parameter.grad[...] = 5
    sizes = sum(parameter.data.size for parameter in parameters.values())
    assert np.count_nonzero(arena.values == 3) == np.count_nonzero(arena.grads == 5) == sizes
    arena.zero_grad()
    assert not any(parameter.grad.any() for parameter in parameters.values())


def test_gaps_stay_zero_through_clipping_and_adam(packed):
    arena, parameters = packed
    optimizer = AdamW(arena, lr=0.1, weight_decay=0.3)
    rng = np.random.default_rng(1)
    for _ in range(5):
        arena.zero_grad()
        for parameter in parameters.values():
            parameter.grad[...] += rng.normal(size=parameter.grad.shape)
        clip_by_global_norm(arena, 0.5)
        optimizer.step()
    gap = np.ones(arena.size, dtype=bool)
    for segment in arena.segments:
        gap[segment.start : segment.stop] = False
    assert gap.any()
    for flat in (arena.values, arena.grads, optimizer.m, optimizer.v):
        assert not flat[gap].any()
        assert np.all(flat[~gap] != 0)


def test_neighbours_of_equal_settings_are_one_run(packed):
    arena, _ = packed
    segment = {s.name: s for s in arena.segments}
    assert len(list(arena.runs())) == 6  # matrix, vector, matrix, vector, matrix, scalar
    arena.configure("b", weight_decay=0.0)
    assert list(arena.runs())[1] == SegmentRun(slice(segment["a.bias"].start, segment["b.bias"].stop), 1.0, 0.0)
    arena.configure("a.weight", weight_decay=0.0)
    arena.configure("c", weight_decay=0.0)
    assert list(arena.runs()) == [SegmentRun(slice(0, segment["scale"].stop), 1.0, 0.0)]
    arena.configure("b.bias", lr_scale=0.5)
    assert [run.lr_scale for run in arena.runs()] == [1.0, 0.5, 1.0]


@pytest.mark.parametrize("frozen", list(SHAPES))
def test_a_frozen_segment_is_in_no_run_and_never_moves(packed, frozen):
    arena, parameters = packed
    for name in SHAPES:
        arena.configure(name, weight_decay=0.0)
    arena.configure(frozen, trainable=False)
    before = {name: parameter.data.copy() for name, parameter in parameters.items()}
    arena.grads[...] = 1
    optimizer = AdamW(arena, lr=0.1, weight_decay=0.5)
    optimizer.step()
    for name, parameter in parameters.items():
        assert np.array_equal(parameter.data, before[name]) == (name == frozen)
    segment = next(s for s in arena.segments if s.name == frozen)
    assert not any(run.where.start < segment.stop and segment.start < run.where.stop for run in arena.runs())
    assert not arena.view(optimizer.m, segment).any()


def test_configure_takes_names_prefixes_and_aliases_and_nothing_in_between(packed):
    arena, _ = packed
    arena.configure("a", lr_scale=2.0)
    arena.configure("tied.scale", lr_scale=3.0)
    assert [s.lr_scale for s in arena.segments] == [2, 2, 1, 1, 1, 3]
    for wrong in ("", "a.", "a.wei", "weight", "sca"):
        with pytest.raises(ConfigError, match=rf"^'{wrong}': expected the name of a segment, "):
            arena.configure(wrong, lr_scale=9.0)
    with pytest.raises(ConfigError, match=r"the nearest is \['b\.weight'\]"):
        arena.configure("b.wieght", trainable=False)
    assert [s.lr_scale for s in arena.segments] == [2, 2, 1, 1, 1, 3]


def test_a_tied_parameter_is_there_once_with_its_aliases(numpy64):
    options = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1}
    config = TransformerConfig(7, 7, num_decoder_layers=1, tie_embeddings=True, **options)
    model = Transformer(config, backend=numpy64)
    aliases = {s.name: s.aliases for s in model.arena.segments if s.aliases}
    assert aliases == {"src_embedding.weight": ("tgt_embedding.weight", "generator.weight")}
    assert np.shares_memory(model.generator.weight.grad, model.src_embedding.weight.grad)
    assert sum(s.stop - s.start for s in model.arena.segments) == model.num_parameters()
    model.arena.configure("generator.weight", trainable=False)
    assert [s.name for s in model.arena.segments if not s.trainable] == ["src_embedding.weight"]


def test_a_replica_shares_values_and_has_its_own_gradients(packed):
    arena, parameters = packed
    copies = {name: Parameter(name, p.data) for name, p in reversed(parameters.items())}
    stranger = Parameter("stranger", np.ones(3))
    replica = arena.replica([(name, p, ()) for name, p in copies.items()] + [("stranger", stranger, ())])
    stranger.grad += 1  # it has a place of its own
    arena.values += 1
    replica.grads[...] = 2
    for name, copy in copies.items():
        assert np.shares_memory(copy.data, arena.values)
        assert np.array_equal(copy.data, parameters[name].data)
        assert copy.grad.shape == parameters[name].grad.shape
        assert np.all(copy.grad == 2)
        assert not parameters[name].grad.any()
        assert copy.grad.ctypes.data % 64 == 0
    replica.zero_grad()
    assert not copies["b.weight"].grad.any()


def test_an_arena_of_nothing():
    arena = Arena([], get_backend("numpy", kernels="plain", threads=2))
    arena.add_gradients(arena.replica([]))
    assert arena.values.shape == arena.grads.shape == (0,)


@pytest.mark.parametrize("change", [{"lr_scale": float("nan")}, {"lr_scale": -1.0}, {"weight_decay": float("inf")}])
def test_settings_that_make_no_sense_are_refused(packed, change):
    arena, _ = packed
    before = arena.segments
    with pytest.raises(ConfigError, match=f"{next(iter(change))}: expected a finite number >= 0"):
        arena.configure("a", **change)
    assert arena.segments is before


def test_two_parameters_of_one_name_are_refused(numpy64):
    parameters = [("w", Parameter("w", np.ones(3)), ()) for _ in range(2)]
    with pytest.raises(ConfigError, match="w: expected a name for each parameter, got one for several"):
        Arena(parameters, numpy64)
