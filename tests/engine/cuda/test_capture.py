"""A recorded training step is the step itself, to the last bit, whatever changes from step to step."""

import gc
import weakref

import numpy as np
import pytest

from npformer.backend.select import cupy_backend
from npformer.engine.cupy.graph_driver import AHEAD, CupyDriver
from npformer.errors import DeviceError, DeviceMemoryError, ShapeError, TokenError
from npformer.models import Transformer, TransformerConfig
from npformer.optim import AdamW, WarmupCosine
from npformer.training import TrainStep


@pytest.fixture
def new_step(cupy):
    """new_step(changes, on, **options): a small Transformer's, on the machine that records, or on another backend."""

    def build(changes=None, on="float32", **options):
        sizes = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 12}
        config = TransformerConfig(9, 9, **({"dropout": 0.3, "init": "xavier", **sizes} | (changes or {})))
        backend = cupy_backend(on, "cuda") if isinstance(on, str) else on
        model = Transformer(config, backend=backend, seed=2)
        given = {"seed": 5, "label_smoothing": 0.1, "clip_norm": 0.7, "schedule": WarmupCosine(0.02, 4, 20)}
        return TrainStep(model, AdamW(model.arena, lr=0.01, eps=1e-4, weight_decay=0.1), **(given | options))

    return build


def batches(count, rows=4, source=5, target=6):
    rng = np.random.default_rng(7)
    found = []
    for _ in range(count):
        src, tgt = rng.integers(1, 9, (rows, source)), rng.integers(1, 9, (rows, target + 1))
        tgt[0, rng.integers(2, target) :] = 0
        found.append((src, tgt[:, :-1], tgt[:, 1:]))
    return found


def state(step):
    host = step.model.backend.host
    return [host(x).copy() for x in (step.model.arena.values, step.optimizer.m, step.optimizer.v)]


def run(step, given):
    """Losses and norms, then the parameters and moments at the end."""
    made = [(step(*batch), step.grad_norm) for batch in given]
    return [(float(loss), None if norm is None else float(norm)) for loss, norm in made] + state(step)


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


def unrecorded(step):
    step.runner.compute.refusal = "asked not to"
    return step


CASES = {
    "post-LN": ({}, {}),
    "pre-LN, gelu": ({"norm_order": "pre", "activation": "gelu", "tie_embeddings": True}, {}),
    "learned positions": ({"positions": "learned", "max_seq_len": 8}, {"clip_norm": None}),
    "micro-batches": ({}, {"accumulate": 3}),
    "recomputed": ({"recompute": True}, {"schedule": None}),
}


@pytest.mark.parametrize(("case", "dtype"), [*((case, "float32") for case in CASES), ("post-LN", "float64")])
def test_replays_are_steps_to_the_bit(case, dtype, new_step, machine):
    changes, options = CASES[case]
    given = batches(8)
    alone = run(unrecorded(new_step(changes, dtype, **options)), given)
    assert machine.records == 0
    same(run(new_step(changes, dtype, **options), given), alone)
    assert (machine.records, machine.launches) == (1, 7)


#: One after the other, between two steps.
CHANGES = [
    lambda step: step.model.arena.configure("encoder", trainable=False),
    lambda step: step.model.arena.configure("decoder", lr_scale=0.1),
    lambda step: setattr(step.optimizer, "weight_decay", 0.5),
    lambda step: setattr(step.optimizer, "betas", (0.5, 0.9)),
    lambda step: setattr(step.optimizer, "eps", 0.1),
    lambda step: setattr(step, "clip_norm", 0.01),
    lambda step: setattr(step, "clip_norm", None),
    lambda step: setattr(step, "label_smoothing", 0.4),
    lambda step: setattr(step, "seed", 99),
    lambda step: setattr(step.model.decoder.layers[0].feed_forward, "dropout", 0.0),
    lambda step: setattr(step, "schedule", None),
]


def test_the_static_arguments_of_a_record_may_change(new_step):
    given, runs = batches(2), []
    for make in (unrecorded, lambda step: step):
        step = make(new_step())
        found = run(step, given)
        for change in CHANGES:
            change(step)
            found += run(step, given)
        runs.append(found)
    same(*runs)


def test_settings_that_are_set_to_what_they_are_move_nothing_that_a_record_reads(new_step, machine):
    """Their table on the device is read by the records of before, too."""
    given, runs = [*batches(3), *batches(2, 3), *batches(3)], []
    for make in (unrecorded, lambda step: step):
        step = make(new_step())
        losses = run(step, given[:3])[:3]
        step.model.arena.configure("encoder", lr_scale=1.0)
        runs.append([*losses, *run(step, given[3:])])
    same(*runs)
    assert (machine.records, machine.launches) == (2, 7)
    assert step.runner.compute._at_first_sight


def test_shapes_come_and_go_and_memory_does_not_grow(new_step, machine):
    step = new_step(on="float64")
    most = step.runner.compute._most = 4
    shapes = [(rows, source, 6) for rows in (2, 4) for source in (3, 5, 6)]
    alone, used = unrecorded(new_step(on="float64")), []
    for _ in range(3):
        for shape in shapes:
            for batch in batches(2, *shape):
                assert float(step(*batch)) == float(alone(*batch))
        used.append(machine.used)
    same(state(step), state(alone))
    assert used[1] == used[2]
    assert len(step.runner.compute._shapes) == most < len(shapes)
    before = machine.used
    step.runner.compute.clear()
    assert machine.used < before


def test_a_shape_is_recorded_when_it_is_seen_first_if_another_was_run(new_step, machine):
    given = [batches(1, rows)[0] for rows in (4, 3, 2, 3, 4)]
    alone = run(unrecorded(new_step()), given)
    same(run(new_step(), given), alone)
    assert (machine.records, machine.launches) == (3, 4)  # of 4 rows, which were run, when they come again


@pytest.mark.parametrize("error", [RuntimeError("not while capturing"), DeviceError("cuBLAS says EXECUTION_FAILED")])
def test_what_cannot_be_recorded_the_first_time_is_recorded_the_second(error, new_step, machine, capsys):
    class Curious(Transformer):
        static = True
        known: frozenset = frozenset()

        def forward(self, src, *inputs, **options):
            if src.shape not in Curious.known:
                Curious.known |= {src.shape}
                if machine.recorded is not None:  # as a library, it loads its kernels, or compiles them
                    raise error
            return super().forward(src, *inputs, **options)

    given = [batches(1, rows)[0] for rows in (2, 3, 2, 3, 2, 3)]
    alone = run(unrecorded(new_step()), given)
    step = new_step()
    step.model.__class__ = Curious
    same(run(step, given), alone)
    assert step.runner.compute.refusal is None
    assert (machine.records, machine.launches) == (2, 4)
    assert "not recorded" not in capsys.readouterr().err


#: Bytes for a record of twelve sequences, but not beside one of four.
ENOUGH = 200_000


@pytest.mark.parametrize("full", ["the device", "the user's limit", "the bound of graphs"])
def test_memory_that_is_full_during_a_capture_costs_no_graph_its_memory(full, new_step, cupy, machine, monkeypatch):
    """CuPy's pool alone would give back what other graphs use, and go on; a launch of one of them finds that out."""
    small, large = batches(3), batches(2, 12)
    alone = run(unrecorded(new_step(on="float64")), small + large + small)
    if full == "the user's limit":
        gc.collect()  # of CuPy's own pool the next step takes what this one had
        machine.limit = ENOUGH + cupy.get_default_memory_pool().total_bytes()
    if full != "the bound of graphs":
        monkeypatch.setattr(CupyDriver, "bound", lambda self, pool: None)
    step = new_step(on="float64")
    losses = run(step, small)[:3]
    cupy.get_default_memory_pool().free_all_blocks()
    if full == "the device":
        machine.room = machine.used + 150_000
    same(losses + run(step, large)[:2] + run(step, small), alone)


def test_batches_of_many_shapes_share_the_memory_that_they_are_copied_from(new_step, cupy, monkeypatch):
    """Four pieces of the host's memory, each as large as the largest batch."""
    asked, real = [], cupy.cuda.alloc_pinned_memory
    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", lambda size: (asked.append(size), real(size))[1])
    given = [batch for _ in range(2) for rows in (4, 3, 2, 1) for batch in batches(2, rows)]
    same(run(new_step(), given), run(unrecorded(new_step()), given))
    assert len(asked) == 2 * AHEAD
    assert len(set(asked)) == 1


def test_a_dropped_step_frees_its_memory(new_step, cupy):
    """When nobody uses it any more (see the emulated free_all_blocks), though streams are late; and cuBLAS's handle."""
    cupy.machine.works_at_once = lambda stream: False
    step, released = new_step(), []
    run(step, batches(3))
    (shape,) = step.runner.compute._shapes.values()
    graph = weakref.ref(shape.graph)
    driver = step.runner.compute._driver
    real = driver.release
    driver.release = lambda pool: (released.append((pool, graph())), real(pool))
    pool = step.runner.compute._kept.pool
    assert pool.blocks.total > 0
    step(*batches(1)[0])  # nobody waits for it
    del step, shape
    gc.collect()
    assert pool.blocks.total == 0
    assert released == [(pool, None)], "the record has to go first: it is about this memory"
    assert [name for name, _ in cupy.cublas.calls].count("cublasDestroy_v2") == 1


def test_a_step_that_reads_the_device_runs_unrecorded_and_says_why_once(new_step, machine, capsys):
    class Curious(Transformer):
        static = True

        def forward(self, src, *inputs, **options):
            float(src[0, 0])
            return super().forward(src, *inputs, **options)

    given = batches(5)
    alone = run(unrecorded(new_step()), given)
    step = new_step()
    step.model.__class__ = Curious
    capsys.readouterr()
    same(run(step, given), alone)
    said = capsys.readouterr().err
    assert said.count("npformer: steps are not recorded as CUDA graphs, and so are slower: RecordingError: reading an")
    assert len(said.splitlines()) == 1
    assert machine.launches == 0


def test_another_device_is_noticed(new_step, cupy):
    """The arrays of the model, and the graphs, are on the one before."""
    step, given = new_step(), batches(4)
    said = "expected GPU 0 to be the current one, as it was when this backend was made, got GPU 1; leave cupy"
    for batch in given[:3]:  # run, recorded, launched
        before = state(step)
        with cupy.cuda.Device(1), pytest.raises(DeviceError, match=said):
            step(*batch)
        same(state(step), before)
        step(*batch)
    for make in (lambda on: on.array(np.ones(2)), lambda on: on.zeros((2,))):
        with cupy.cuda.Device(1), pytest.raises(DeviceError, match=said):
            make(step.model.backend)


def test_a_bad_batch_changes_nothing(new_step):
    step, given = new_step({"positions": "learned", "max_seq_len": 6}), batches(3)
    run(step, given)
    before = state(step)
    for bad in (tuple(ids + 9 for ids in given[0]), tuple(np.hstack([ids, ids]) for ids in given[0])):
        with pytest.raises((TokenError, ShapeError)):
            step(*bad)
    same(state(step), before)
    assert step.step_number == 3


def test_full_memory_says_what_needs_less_and_changes_nothing(new_step, cupy, machine):
    step, given = new_step(on="float64", clip_norm=None), batches(1, 4) + batches(1, 64)
    step(*given[0])
    cupy.get_default_memory_pool().free_all_blocks()
    before, machine.room = state(step), machine.used + 100_000
    with pytest.raises(DeviceMemoryError, match="Lower batch_size, or keep it and raise accumulate"):
        step(*given[1])
    same(state(step), before)
    assert step.step_number == 1
    step.accumulate = 16
    step(*given[1])
    assert step.step_number == 2
