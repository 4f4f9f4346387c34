"""The bias of a linear map is added by the norm that comes next, to the same bits, and by nobody who is not that."""

from contextlib import nullcontext

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.backend.select import cupy_backend
from npformer.engine.cuda.layer_norm import HELD
from npformer.errors import ShapeError
from npformer.functional import Draw
from npformer.layers import FeedForward
from tests.engine.cuda import test_capture

new_step = test_capture.new_step
HOST = lambda: get_backend("numpy", "float64", kernels="plain", threads=1)  # noqa: E731
#: Widths of a row of a warp's, of one that is as long as a warp takes, and of a block's.
WIDTHS = [5, HELD // 8, HELD // 4 + 3]


class Maps:
    """A linear map or a feed-forward layer from (2, rows, 6) to width columns, and a norm of x plus what it returns."""

    def __init__(self, backend, width, rows=3):
        rng = np.random.default_rng(width)
        sizes = {"x": (2, rows, width), "h": (2, rows, 6), "w": (6, width), "b": (width,), "up": (6, 6), "c": (6,)}
        for name, size in (sizes | {"gamma": (width,), "beta": (width,), "dy": (2, rows, width)}).items():
            setattr(self, name, backend.array(rng.normal(size=size)))
        self.backend, self.ops = backend, backend.ops

    def mapped(self, kind="linear"):
        if kind == "linear":
            return self.ops.linear.forward(self.h, self.w, self.b)
        return self.ops.feed_forward.forward(self.h, self.up, self.c, self.w, self.b, "gelu", None)

    def normed(self, f, draw=None, kind="post_norm", x=None):
        x = self.x if x is None else x
        return getattr(self.ops, kind).forward(x, f, self.gamma, self.beta, 1e-5, draw)

    def all_of(self, kind, norm, draw):
        """What the norm returns, and all gradients."""
        f, cache = self.mapped(kind)
        y, of_norm = self.normed(f, draw, norm)
        dx, df, *of_parameters = getattr(self.ops, norm).backward(self.dy if norm == "post_norm" else y, of_norm)
        made = *(y if norm == "add_norm" else (y,)), dx, df, *of_parameters
        return *made, *getattr(self.ops, kind).backward(df, cache)


def hosts(backend, arrays):
    return [backend.host(x).copy() for x in arrays]


def biased(cupy):
    """How many products had a bias since this was asked last."""
    calls = [name for name, _ in cupy.cublas.calls]
    cupy.cublas.calls.clear()
    return calls.count("cublasLtMatmul")


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["linear", "feed_forward"])
@pytest.mark.parametrize("norm", ["post_norm", "add_norm"])
def test_the_norm_adds_the_same_bias_to_the_same_bits(norm, kind, width, rows, rate, dtype, cupy):
    cupy.machine.kernels.block = None
    for late in (False, True):
        cupy.machine.works_at_once = lambda stream, late=late: not late
        backend = cupy_backend(dtype)
        maps, draw = Maps(backend, width, rows), Draw(3, 7, 0, 11, rate)
        alone = hosts(backend, maps.all_of(kind, norm, draw))
        assert biased(cupy) == (rows > 0)
        with backend.engine.backward_pass(True):
            found = maps.all_of(kind, norm, draw)
        for x, y in zip(hosts(backend, found), alone, strict=True):
            np.testing.assert_array_equal(x, y)
        assert biased(cupy) == 0


#: What comes between a map of five columns and what reads its result f: (maps, f) -> that.
OTHERS = {
    "another operation": lambda maps, f: (maps.ops.gelu.forward(maps.x)[0], f),
    "a plain operation": lambda maps, f: (maps.ops.conv1d.forward(maps.x, maps.kernel, maps.b)[0], f),
    "an operation's backward": lambda maps, f: (maps.ops.gelu.backward(f, maps.of_gelu), f),
    "a norm of it alone": lambda maps, f: maps.ops.layer_norm.forward(f, maps.gamma, maps.beta)[:1],
    "a norm of another map": lambda maps, f: (maps.normed(maps.mapped()[0])[0], f),
    "a norm of another array": lambda maps, f: (maps.normed(maps.dy)[0], f),
    "a norm of a part": lambda maps, f: (maps.normed(f[:1], x=maps.x[:1])[0], f),
    "a norm of a view": lambda maps, f: (maps.normed(f.reshape(2, 3, 5))[0], f),
    "a norm of it and itself": lambda maps, f: (maps.normed(f, x=f)[0], f),
    "a norm that adds to it": lambda maps, f: (maps.normed(maps.dy, x=f)[0], f),
    "the end": lambda maps, f: (f,),
}


@pytest.mark.parametrize("what", OTHERS)
def test_whoever_else_comes_next_finds_the_bias_added(what, cupy):
    backend = cupy_backend("float64")
    maps, made = Maps(backend, 5), []
    maps.of_gelu, maps.kernel = maps.ops.gelu.forward(maps.x)[1], backend.array(np.ones((1, 5, 5)))
    for known in (False, True):
        with backend.engine.backward_pass(known):
            found = OTHERS[what](maps, maps.mapped()[0])
        made.append(hosts(backend, found))
    test_capture.same(*made)


def test_a_map_of_a_pass_that_fails_is_forgotten_and_the_next_is_right(cupy):
    backend = cupy_backend("float64")
    maps = Maps(backend, 5)
    expected = backend.host(maps.normed(maps.mapped()[0])[0])

    def fail():
        with backend.engine.backward_pass(True):
            maps.mapped()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with backend.engine.backward_pass(True):
        f, _ = maps.mapped()
        with pytest.raises(ShapeError):
            maps.normed(f, x=maps.x[:1])
        found, _ = maps.normed(f)
    np.testing.assert_array_equal(backend.host(found), expected)


def test_outside_of_a_known_pass_nothing_waits(cupy):
    backend = cupy_backend("float64")
    for scope in (nullcontext(), backend.engine.backward_pass(False)):
        with scope:
            f, _ = Maps(backend, 5).mapped()
            assert biased(cupy) == 1
            assert np.isfinite(backend.host(f)).all()


class Reads(FeedForward):
    """A user's, which computes with its map's result by CuPy itself."""

    static = True

    def forward(self, x, **options):
        y, cache = super().forward(x, **options)
        return 2.0 * y, cache


def test_with_layers_of_ones_own_nothing_waits(new_step):
    """Nobody knows what they do between two operations, and after a norm."""

    def parameters(on):
        step = new_step({"dropout": 0.0}, on)
        (layer,) = step.model.encoder.layers
        layer.feed_forward.__class__ = Reads
        return test_capture.run(step, test_capture.batches(3))[-3]

    np.testing.assert_allclose(parameters("float64"), parameters(HOST()), rtol=1e-9, atol=1e-11)
