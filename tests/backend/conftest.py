"""Comparing each table of fast pairs with the plain one: outputs, gradients, promises; never caches."""

import math

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.backend.numpy.kernels import KERNELS
from npformer.backend.select import numba_problem
from npformer.check.cases.catalogue import usual_inputs
from npformer.errors import ShapeError
from npformer.functional import OPERATIONS, Draw
from tests.outputs import parts

#: Largest scaled error of a fast kernel, by dtype: sums of some hundred terms in another order.
BOUND = {"float32": 3e-5, "float64": 1e-12}
#: What a gradient that is exactly 0 is measured against, as a share of the largest: it comes out as rounding noise.
FLOOR = {"float32": 1e-2, "float64": 1e-3}


def scaled_errors(actual, true):
    """For each array max|f − t| over the largest of t, or FLOOR of the largest of all."""
    floor = max((float(np.max(np.abs(t), initial=0)) * FLOOR[t.dtype.name] for t in parts(true)), default=0.0)
    for f, t in zip(parts(actual), parts(true), strict=True):
        assert np.shape(f) == np.shape(t)
        assert f.dtype == t.dtype
        assert np.isfinite(f).all() or not np.isfinite(t).all()
        error, size = float(np.max(np.abs(f - t), initial=0)), float(np.max(np.abs(t), initial=0))
        yield error / (max(size, floor) or 1)


def upstream_for(y, rng=None):
    """A random read-only gradient for each output."""
    rng = rng or np.random.default_rng(3)
    made = tuple(np.asarray(rng.normal(size=part.shape)).astype(part.dtype) for part in parts(y))
    for part in made:
        part.flags.writeable = False
    return made if isinstance(y, tuple) else made[0]


def both_ways(ops, op, inputs, upstream=np.ones_like):
    """Outputs and gradients; ``upstream`` makes the gradient of an output."""
    with np.errstate(all="ignore"):
        y, cache = getattr(ops, op).forward(*inputs)
        dy = tuple(map(upstream, y)) if isinstance(y, tuple) else upstream(y)
        return [*parts(y), *parts(getattr(ops, op).backward(dy, cache))]


def column_views(arrays, rng):
    """Arrays like these, each a view of some columns of a wider one, holding random numbers."""
    return tuple(rng.normal(size=(*a.shape[:-1], 2 * a.shape[-1] + 1)).astype(a.dtype)[..., 1::2] for a in arrays)


class Agreement:
    """Callable: whether one fast pair agrees with its plain one on one set of inputs; each check says what does not."""

    def __init__(self, table):
        self.table = table
        self.rng = np.random.default_rng(5)

    def __call__(self, op, *inputs, **options):
        fast, plain = getattr(self.table, op), getattr(PLAIN, op)
        if inputs[0].shape[:1] == (0,):  # no rows, so none is the first of them
            inputs = tuple(x._replace(first_row=0) if isinstance(x, Draw) else x for x in inputs)
        self.bound = BOUND[next(x.dtype.name for x in inputs if isinstance(x, np.ndarray) and x.dtype.kind == "f")]
        before = [np.copy(x) if isinstance(x, np.ndarray) else x for x in inputs]
        y, cache = fast.forward(*inputs, **options)
        true, plain_cache = plain.forward(*inputs, **options)
        self.near(y, true)
        dy = upstream_for(y, self.rng)
        gradients = plain.backward(dy, plain_cache)
        self.near(fast.backward(dy, cache), gradients)
        kept = [np.copy(part) for part in (*parts(y), *parts(fast.backward(dy, cache)))]
        for into in self.intos(parts(gradients), OPERATIONS[op].parameters):
            self.adds(fast, dy, cache, parts(gradients), into)
        again = (*parts(y), *parts(fast.backward(dy, cache)))
        assert all(np.array_equal(a, b) for a, b in zip(kept, again, strict=True)), "a second backward differs"
        for x, was in zip(inputs, before, strict=True):
            assert not isinstance(x, np.ndarray) or np.array_equal(x, was, equal_nan=x.dtype.kind == "f")
        return True

    def near(self, actual, true):
        errors = list(scaled_errors(actual, true))
        assert max(errors, default=0) <= self.bound, f"scaled errors {errors}"

    def intos(self, gradients, count):
        """All parameters; each one frozen in turn; all frozen; the last alone."""
        if count == 0:
            return
        totals = list(column_views(gradients[-count:], self.rng))
        yield totals
        for i in range(count):
            yield [None if i == j else total for j, total in enumerate(totals)]
        yield [None] * count
        yield totals[-1:]

    def adds(self, fast, dy, cache, gradients, into):
        """backward with ``into`` adds what it should, and returns the rest."""
        before = [None if total is None else total.copy() for total in into]
        rest = parts(fast.backward(dy, cache, into=into))
        assert len(rest) == len(gradients) - len(into)
        self.near(rest, gradients[: len(rest)])
        for gradient, total, was in zip(gradients[len(rest) :], into, before, strict=True):
            if total is not None and was is not None:
                self.near(total, was + gradient)


def laid_out(x, layout):
    """x read-only, with gaps between its numbers, or column by column."""
    if layout == "gaps":
        x = np.repeat(x, 2, axis=-1)[..., ::2]
    elif layout == "columns first":
        x = np.asfortranarray(x)
    x = x.view()
    x.flags.writeable = False
    return x


@pytest.fixture
def lay_out():
    """lay_out(x, layout): x in memory as users' arrays may be."""
    return laid_out


@pytest.fixture(params=["numpy", "numba"])
def table(request):
    """Each table of fast kernels in turn, bare: what is left to the plain pairs is not theirs."""
    if request.param == "numpy":
        return KERNELS
    problem = numba_problem()
    if problem is not None:
        pytest.skip(problem)
    from npformer.engine import numba as compiled

    return compiled.OPS


@pytest.fixture
def agree(table):
    """agree(op, *inputs): whether the fast pair does what the plain one does; if not, it says what differs."""
    return Agreement(table)


@pytest.fixture(params=["linear", "embedding", "learned_positions", "attention", "layer_norm", "post_norm", "add_norm",
                        "feed_forward"])  # fmt: skip
def refuses_wrong_shapes(request):
    """A check of a table's pair: dy of another shape than y's, or a parameter's place of another, is not computed with.

    A kernel would read, or write, memory that is not the array's.
    """
    op = request.param
    inputs = usual_inputs(op)

    def changed(shape):
        for axis in range(len(shape)):
            for size in (1, shape[axis] + 1):
                yield (*shape[:axis], size, *shape[axis + 1 :])

    def check(table):
        pair = getattr(table, op)
        y, cache = pair.forward(*inputs)
        dy = np.ones(parts(y)[0].shape)
        true = [part.shape for part in parts(getattr(PLAIN, op).backward(*_upstream(op, inputs)))]
        places = [np.zeros(shape) for shape in true[len(true) - OPERATIONS[op].parameters :]]
        whole = (lambda part: (dy, part)) if op == "add_norm" else (lambda part: part)
        pair.backward(whole(dy), cache, tuple(places))  # as it should be
        skipped = 4 if op == "learned_positions" else 0  # its sequences may be of any number and length
        for shape in list(changed(dy.shape))[skipped:]:
            with pytest.raises(ShapeError, match=r"expected the shape of (y|the parameter)"):
                pair.backward(whole(np.ones(shape)), cache, tuple(places))
        if op == "add_norm":
            with pytest.raises(ShapeError, match="dy: expected"):
                pair.backward((dy[:1], dy), cache, tuple(places))
        for i, place in enumerate(places):
            for shape in changed(place.shape):
                room = np.zeros(1000)
                wrong = room[: math.prod(shape)].reshape(shape)
                with pytest.raises(ShapeError, match="into: expected the shape of the parameter"):
                    pair.backward(whole(dy), cache, (*places[:i], wrong, *places[i + 1 :]))
                assert not room[wrong.size :].any(), "it wrote behind the array"

    return check


def _upstream(op, inputs):
    """A gradient of the plain pair's output, and its cache."""
    y, cache = getattr(PLAIN, op).forward(*inputs)
    return upstream_for(y, np.random.default_rng(8)), cache
