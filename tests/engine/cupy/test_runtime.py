"""The graph driver and the device runtime for CuPy, whole, without a GPU."""

import gc

import numpy as np
import pytest

from npformer import Adam, TrainStep, Transformer, TransformerConfig
from npformer.backend import get_backend
from npformer.backend.select import cupy_backend
from npformer.backend.workspace import side_by_side
from npformer.engine.cupy.graph_driver import CupyDriver
from npformer.run import world
from tests.engine.cuda.host_runtime import compiler_problem
from tests.engine.cupy import emulated

pytestmark = pytest.mark.skipif(compiler_problem() is not None, reason=str(compiler_problem()))
CONFIG = TransformerConfig(9, 9, d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=12)


@pytest.fixture
def cupy(monkeypatch):
    return emulated.installed(monkeypatch)


def trained(steps=7, lengths=(5,)):
    """Losses, which nobody reads before the end, and the parameters."""
    rng, backend = np.random.default_rng(3), cupy_backend("float32", "cuda")
    model = Transformer(CONFIG, backend=backend, seed=2)
    step = TrainStep(model, Adam(model.arena, lr=0.01), seed=5, clip_norm=0.7)
    losses = [step(*rng.integers(1, 9, (3, 4, lengths[i % len(lengths)]))) for i in range(steps)]
    return [*(float(loss) for loss in losses), backend.host(model.arena.values)]


#: Which streams work at once: none; all that CuPy does not begin with.
LAZY = lambda stream: False  # noqa: E731
HASTY = lambda stream: not stream.is_default  # noqa: E731


@pytest.mark.parametrize("at_once", [LAZY, HASTY], ids=["lazy streams", "hasty ones"])
@pytest.mark.parametrize("lengths", [(5,), (5, 3), (3, 6, 12)], ids=["one shape", "two by turns", "longer ones"])
def test_a_training_waits_for_all_that_it_needs(cupy, lengths, at_once):
    """More steps than inputs are kept for, on two streams, of which the host waits for neither."""
    expected = trained(12, lengths)
    cupy.machine.works_at_once = at_once
    for x, y in zip(trained(12, lengths), expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_nothing_is_collected_while_a_stream_records(cupy):
    """A forgotten step's finalizer waits for the device, which ends a capture."""
    driver = CupyDriver("a GPU")
    seen = []
    with driver.using(driver.pool()):
        driver.record(lambda: seen.append(gc.isenabled()))
        with pytest.raises(ZeroDivisionError):
            driver.record(lambda: 1 / 0)
    assert (seen, gc.isenabled()) == ([False], True)


def test_columns_of_one_array_of_the_device_are_joined_without_a_copy(cupy):
    """As attention's gradients dq, dk and dv are, which one product with the weights reads."""
    whole = cupy.empty((2, 5, 3, 4), "float32")
    a, b, c = (whole[:, :, i] for i in range(3))
    joined = side_by_side((b, c))
    assert (joined.shape, joined.strides, joined.data.ptr) == ((2, 5, 8), (240, 48, 4), whole.data.ptr + 16)
    assert side_by_side((a, b, c)).flags.c_contiguous
    other = cupy.empty((2, 5, 3, 4), "float32")
    for parts in ((a, c), (b, a), (a, other[:, :, 1]), (a, b[:1]), (whole, whole), (c, whole[:, :, 0])):
        assert side_by_side(parts) is None


def test_what_decides_the_bits_of_a_run_is_among_its_conditions(cupy):
    """A run that is resumed with another of them is told so."""
    found = world.versions(cupy_backend("float32"))
    assert (found["CuPy"], found["cuBLAS"], found["driver"]) == ("14.2.0", "13.14.15", "CUDA 13.1")
    assert "cuBLAS" not in world.versions(get_backend("numpy"))
