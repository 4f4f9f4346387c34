"""What only a GPU can show; skipped, with the reason, where none answers. See also test_gpu_kernels.py."""

import dataclasses

import numpy as np
import pytest

from npformer import Adam, TrainStep, Transformer, TransformerConfig, functional, get_backend
from npformer.check import catalogue
from npformer.check.rounding.budget import against_float64
from npformer.decoding import beam_search, greedy
from npformer.engine.cupy.graph_driver import CupyDriver, GraphMemory
from npformer.functional import AttentionMask, Draw
from npformer.models import build_model
from npformer.run.assemble import assemble
from tests.decoding.test_every_search import as_lists
from tests.engine.cuda.test_recordable import MODELS, batches_for
from tests.engine.cuda.test_recorded_decode import decoder, sources, transformer

pytestmark = pytest.mark.gpu

CONFIG = TransformerConfig(9, 9, d_model=16, num_heads=4, num_encoder_layers=2, num_decoder_layers=2, d_ff=24)
#: How much of its size rounding may change an operand of a product by; to TF32 it may be cut off instead.
UNITS = {"float32": 0.0, "tf32": 2.0**-10}


def trained(backend, steps, *, recorded=True, **options):
    """(losses, values) after steps of training on batches that the seed decides."""
    rng = np.random.default_rng(0)
    batches = [tuple(rng.integers(1, 9, size=(3, 4, 6))) for _ in range(steps)]
    model = Transformer(dataclasses.replace(CONFIG, dropout=0.2), backend=backend, seed=1)
    step = TrainStep(model, Adam(model.arena, lr=1e-3), schedule=lambda t: 1e-3 / t, clip_norm=0.5, **options)
    if not recorded:
        step.runner.compute.refusal = "asked for"  # each step is run as it is
    losses = [step(*batch) for batch in batches]
    return np.array([float(loss) for loss in losses]), backend.host(model.arena.values)


def steps_of(step, length):
    """Losses of two steps on batches of this length."""
    return [float(step(*batch)) for batch in batches_for(step.model.config, 2, length)]


@pytest.mark.parametrize("case", catalogue(), ids=lambda case: case.name)
def test_float32_is_within_its_rounding_budget(case, cupy32):
    if case.float64_only:
        pytest.skip("its gradient is a difference of nearly equal numbers, lost in float32")
    against_float64(case.build, case.inputs, case.options, cupy32, case.name).raise_if_failed()


def test_dropout_bits_are_those_of_the_host(cupy64):
    draw = functional.Draw(seed=2**64 - 1, step=2**63, micro=3, site=12345678901234567890, rate=0.5)
    on_host = functional.philox_bits(draw, 1003, np.zeros(1))
    on_gpu = functional.philox_bits(draw, 1003, cupy64.zeros((1,)))
    np.testing.assert_array_equal(cupy64.host(on_gpu), on_host)


def test_training_follows_the_host(cupy64, numpy64):
    for accumulate in (1, 2):
        (losses, _), (true, _) = (trained(backend, 20, accumulate=accumulate) for backend in (cupy64, numpy64))
        np.testing.assert_allclose(losses, true, rtol=1e-10)


@pytest.mark.parametrize("precision", UNITS)
def test_a_recorded_step_is_an_eager_one_to_the_bit(precision, gpu):
    backend = get_backend("cupy", dtype="float32", precision=precision)
    recorded, eager = trained(backend, 20), trained(backend, 20, recorded=False)
    for losses, values in (eager, trained(backend, 20)):
        np.testing.assert_array_equal(losses, recorded[0])
        np.testing.assert_array_equal(values, recorded[1])
    assert len(set(recorded[0])) == 20


@pytest.mark.parametrize("kind", MODELS)
def test_a_step_of_every_kind_of_model_is_recorded(kind, cupy32):
    """The second shape when it is seen first, whatever CuPy compiles or loads for it."""
    losses = []
    for recorded in (True, False):
        model = build_model(MODELS[kind], backend=cupy32, seed=1)
        step = TrainStep(model, Adam(model.arena), seed=3)
        step.runner.compute.refusal = None if recorded else "asked for"
        losses.append([*steps_of(step, 12), *steps_of(step, 11), *steps_of(step, 12)])
        assert not recorded or (step.runner.compute._records, step.runner.compute._at_first_sight) == (2, True)
    np.testing.assert_array_equal(*losses)


def test_memory_that_is_full_during_a_capture_costs_one_graph(cupy32, monkeypatch):
    """CuPy's pool hands the error on as it is, and frees nothing."""
    import cupy

    real, failed = GraphMemory.__call__, []

    def memory(self, size):
        if cupy.cuda.get_current_stream().is_capturing() and size > 1000 and not failed:
            failed.append(size)
            raise MemoryError("as if it were full")
        return real(self, size)

    model = build_model(MODELS["norm layer"], backend=cupy32, seed=1)
    eager = TrainStep(model, Adam(model.arena), seed=3)
    eager.runner.compute.refusal = "asked for"
    expected = [loss for length in (5, 12, 5, 12) for loss in steps_of(eager, length)]
    monkeypatch.setattr(GraphMemory, "__call__", memory)
    monkeypatch.setattr(CupyDriver, "bound", lambda driver, pool: None)
    model = build_model(MODELS["norm layer"], backend=cupy32, seed=1)
    step = TrainStep(model, Adam(model.arena), seed=3)
    assert [loss for length in (5, 12, 5, 12) for loss in steps_of(step, length)] == expected
    assert failed


def test_a_pool_of_graphs_frees_nothing_at_its_bound(cupy32):
    """CuPy's would free what no array has, and graphs may use, and then have room."""
    import cupy

    driver = CupyDriver("a GPU")
    pool = driver.pool()
    with driver.using(pool):
        cupy.empty(1 << 24, np.uint8)  # and nobody has it
        driver.bound(pool)
        with pytest.raises(MemoryError, match="expected at most 20971520 bytes for graphs, got 16777216 and 17825792"):
            cupy.empty(17 << 20, np.uint8)
    assert pool.blocks.total_bytes() == 1 << 24


def test_real_batches_of_many_shapes_are_replayed_to_the_bit(gpu):
    """The sizes of the task: pieces of memory are large enough to be gone when they are freed."""
    losses = []
    for recorded in (True, False):
        made = assemble({"run": {"task": "dates", "device": "cupy", "precision": "tf32"}, "data": {}, "model": {},
                         "training": {}})  # fmt: skip
        made.step.runner.compute.refusal = None if recorded else "asked for"
        batches = [made.task.batch(i + 1, made.options.training.batch_size) for i in range(150)]
        losses.append([float(loss) for loss in [made.step(*batch) for batch in batches]])
    np.testing.assert_array_equal(*losses)


def test_thousands_of_replays_leak_nothing(cupy32, monkeypatch):
    import cupy

    rng = np.random.default_rng(0)
    model = Transformer(CONFIG, backend=cupy32, seed=1)
    step = TrainStep(model, Adam(model.arena, lr=1e-4))
    compute = step.runner.compute
    compute._most = 8
    pools = [cupy.get_default_memory_pool(), compute._kept.pool.blocks]
    new_pool = compute._driver.pool

    def remembered():
        pool = new_pool()
        pools.append(pool.blocks)
        return pool

    monkeypatch.setattr(compute._driver, "pool", remembered)
    batches = [rng.integers(1, 9, size=(3, 4, 4 + length)) for length in range(12)]  # more shapes than graphs are kept
    used = []
    for i in range(2000):
        step(*batches[i // 8 % len(batches)])
        if i in (500, 1999):
            cupy32.device.synchronize()
            used.append(sum(pool.total_bytes() for pool in pools))  # of this process alone, whoever else is there
    assert len(pools) > 3, "graphs that were given up had a pool, too"
    assert len(compute._shapes) == 8
    assert used[1] <= used[0] + 2**20, f"{(used[1] - used[0]) / 2**20:.0f} MiB more are taken after 1,500 steps"


@pytest.mark.parametrize("precision", UNITS)
def test_a_product_is_rounded_as_its_precision_says(precision, gpu):
    """|actual − A·B| ≤ (2u + u² + 2K·2⁻²⁴)·|A|·|B|, and more than float32's rounding where u says so."""
    backend = get_backend("cupy", dtype="float32", precision=precision)
    rng = np.random.default_rng(0)
    u, off = UNITS[precision], []
    for rows, inner, width in [(1, 1, 1), (3, 5, 7), (64, 128, 96), (33, 1000, 65), (256, 64, 2048)]:
        x, weight = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, inner), (inner, width)))
        zero = backend.zeros((width,))
        wide = backend.array(np.repeat(weight, 2, axis=1))
        turned = backend.array(np.ascontiguousarray(weight.T)).T
        exact = x.astype(np.float64) @ weight
        size = np.abs(x).astype(np.float64) @ np.abs(weight)
        for weights in (backend.array(weight), wide[:, ::2], turned):
            actual, _ = backend.ops.linear.forward(backend.array(x), weights, zero)
            off.append(np.max(np.abs(backend.host(actual) - exact) / size))
            assert off[-1] <= 2 * u + u * u + 2 * inner * 2.0**-24, (rows, inner, width)
    assert (max(off) > 2.0**-16) == (precision != "float32")


@pytest.mark.parametrize("mask", [AttentionMask(causal=True), AttentionMask(causal=True, window=100)], ids=str)
def test_long_attention_is_that_of_the_host(mask, cupy32, numpy64):
    rng = np.random.default_rng(0)
    q, k, v, dout = (rng.normal(size=(1, 2, 3001, 64)) for _ in range(4))
    draw = Draw(3, 4, 1, 99, 0.1)
    true, cache = numpy64.ops.attention.forward(q, k, v, mask, draw)
    expected = (true, *numpy64.ops.attention.backward(dout, cache))
    y, cache = cupy32.ops.attention.forward(*map(cupy32.array, (q, k, v)), mask, draw)
    actual = (y, *cupy32.ops.attention.backward(cupy32.array(dout), cache))
    for a, b in zip(actual, expected, strict=True):
        assert np.max(np.abs(cupy32.host(a) - b)) <= 2e-5 * np.max(np.abs(b))


def test_attention_over_many_tokens_needs_little_memory(cupy32):
    """Scores of 2 × 60,000² numbers would take 29 GB."""
    import cupy

    shape = (1, 2, 60_000, 64)
    q, k, v = (cupy.random.default_rng(i).standard_normal(shape, dtype="float32") for i in range(3))
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    y, cache = cupy32.ops.attention.forward(q, k, v, AttentionMask(causal=True))
    gradients = cupy32.ops.attention.backward(y, cache)
    assert all(bool(cupy.isfinite(part).all()) for part in (y, *gradients))
    assert pool.total_bytes() - before <= 20 * q.nbytes


@pytest.mark.parametrize("build", [transformer, decoder])
def test_recorded_decoding_finds_the_texts_of_the_host(build, cupy64, numpy64):
    """Behind the positions that one graph reads, too, and with rows that end early."""
    src, (there, here) = sources(32), (build(backend) for backend in (cupy64, numpy64))
    for eos_id in (3, 5, None):
        np.testing.assert_array_equal(greedy(there, src, 70, eos_id=eos_id), greedy(here, src, 70, eos_id=eos_id))
    assert as_lists(beam_search(there, src, 20)) == as_lists(beam_search(here, src, 20))
    state = there.start(src, 20) if build is transformer else there.start(32, 20)
    cupy64.engine.step(there, np.full(32, 3), state)
    room = state.recorded[1]
    assert room.steps.refusal is room.moves.refusal is None
