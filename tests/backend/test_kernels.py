"""Every fast pair against its plain one, over shapes, memory layouts, dropout, and bad input."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import npformer
from npformer.backend import PLAIN
from npformer.backend.fallback import with_fallback, with_one_precision
from npformer.backend.ops import kernels_in
from npformer.backend.select import numba_problem
from npformer.check.cases.catalogue import usual_inputs
from npformer.errors import NpformerError
from npformer.functional import OPERATIONS, Draw
from tests.backend.conftest import both_ways
from tests.functional.test_refusals import REFUSED, filled

ROOT = Path(npformer.__file__).parent

DRAWS = [None, Draw(3, 4, 1, 99, 0.3), Draw(3, 4, 0, 98, 0.1, first_row=5)]
#: One number, one row, no tokens, odd sizes, more than a block (of 2¹⁶ numbers).
SHAPES = [(1, 1), (1, 1, 1), (1, 9), (2, 3, 5), (7, 4, 12), (0, 3, 4), (2, 0, 4), (610, 3, 61)]
LAYOUTS = ["read-only", "gaps", "columns first"]
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)
EVERY_DRAW = pytest.mark.parametrize("draw", DRAWS, ids=["inference", "dropout", "later rows"])
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture
def normal(dtype, layout, lay_out):
    """normal(*shape): random numbers, no zeros and no ones, in the test's dtype and layout."""
    rng = np.random.default_rng(0)
    return lambda *shape: lay_out(rng.normal(size=shape).astype(dtype), layout)


#: Where kernels are, and how many operations have one there; all others stay plain.
FOLDERS = {"backend.numpy": 18, "engine.numba": 11, "engine.cuda": 14}


def kernels_of(folder):
    """The operations whose forward is defined in a folder."""
    texts = "".join(path.read_text() for path in (ROOT / folder.replace(".", "/")).glob("*.py"))
    return {op for op in OPERATIONS if f"\ndef {op}_forward(" in texts}


@pytest.mark.parametrize("folder", FOLDERS)
def test_kernels_are_found_by_their_names(folder):
    problem = numba_problem() if folder == "engine.numba" else None
    if problem is not None:
        pytest.skip(problem)
    kernels = kernels_in(f"npformer.{folder}")
    assert set(kernels) == kernels_of(folder)
    assert len(kernels) == FOLDERS[folder], ", ".join(kernels)
    for op, pair in kernels.items():
        assert [half.__name__ for half in pair] == [f"{op}_forward", f"{op}_backward"]


@EVERY_SHAPE
@EVERY_LAYOUT
def test_linear(agree, normal, shape):
    for width in (1, 6):
        assert agree("linear", normal(*shape), normal(shape[-1], width), normal(width))
    assert agree("linear", normal(shape[-1]), normal(shape[-1], 3), normal(3))


@EVERY_SHAPE
@EVERY_DRAW
@EVERY_LAYOUT
def test_dropout_and_residual(agree, normal, shape, draw):
    assert agree("dropout", normal(*shape), draw)
    assert agree("residual", normal(*shape), normal(*shape), draw)


@EVERY_SHAPE
@EVERY_DRAW
@EVERY_LAYOUT
def test_norms(agree, normal, shape, draw):
    C = shape[-1]
    x, f, gamma, beta = 2 + normal(*shape), normal(*shape), normal(C), normal(C)
    eps = 1e-5 if C > 1 else 1.0  # one number has no variance: dx is 0, and its rounding errors grow by 1/√eps
    assert agree("layer_norm", x, gamma, beta, eps)
    assert agree("post_norm", x, f, gamma, beta, eps, draw)
    assert agree("add_norm", x, f, gamma, beta, eps, draw)


@EVERY_SHAPE
@EVERY_LAYOUT
def test_batch_norm(agree, normal, shape):
    C = shape[-1]
    x, gamma, beta, mean = 2 + normal(*shape), normal(C), normal(C), normal(C)
    counts = np.random.default_rng(3).random(shape[:-1]) < 0.6
    for counted in (None, counts, np.zeros(shape[:-1], bool)):
        assert agree("batch_norm", x, gamma, beta, counted, 0.1)  # two tokens may be near: errors grow by 1/√eps
    assert agree("batch_norm_inference", x, gamma, beta, mean, 0.1 + mean * mean, 1e-5)


@EVERY_SHAPE
@EVERY_DRAW
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("layout", ["gaps"])
def test_feed_forward(agree, normal, shape, draw, activation):
    C = shape[-1]
    for F in (1, 7):
        assert agree("feed_forward", normal(*shape), normal(C, F), normal(F), normal(F, C), normal(C), activation, draw)


@EVERY_SHAPE
@EVERY_LAYOUT
def test_gelu(agree, normal, shape):
    assert agree("gelu", 3 * normal(*shape))


@pytest.mark.parametrize("largest", [1.0, 0.7, 5.0, 9.0, 40.0, 1e4, 1e15])
def test_gelu_near_0_where_its_pieces_meet_and_far_out(agree, dtype, largest):
    x = (largest * np.linspace(-1, 1, 4001)).astype(dtype)
    assert agree("gelu", x)
    assert agree("gelu", x[:, None])


@EVERY_LAYOUT
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (0, 3, 4), (3, 2, 4, 6)], ids=str)
def test_positions(agree, normal, shape):
    assert agree("sinusoidal_positions", normal(*shape), 3)
    assert agree("sinusoidal_positions", normal(*shape))
    if len(shape) == 3:
        assert agree("learned_positions", normal(*shape), normal(shape[1] + 4, shape[2]), 2)


@EVERY_LAYOUT
@pytest.mark.parametrize("shape", [(1, 2), (2, 3, 6), (0, 3, 4), (3, 2, 5, 6), (2, 2, 0, 4)], ids=str)
def test_rotary(agree, normal, shape):
    assert agree("rotary", normal(*shape))
    assert agree("rotary", normal(*shape), 300, 50.0)


@EVERY_LAYOUT
@pytest.mark.parametrize("shape", [(1, 1, 0), (1, 7, 6), (5, 5, 0), (6, 0, 0), (130, 150, 3)], ids=str)
def test_relative_bias(agree, normal, shape):
    for K, causal, max_distance in ((8, False, 5), (5, True, 4), (32, False, 128)):
        assert agree("relative_bias", normal(K, 3), *shape, causal, max_distance)


#: (V, shape of the tokens): one row, more rows than tokens, many tokens of few rows, one token, no tokens.
TABLES = [(1, (4,)), (5, (2, 7)), (50, (3, 40)), (7, (1, 1)), (9, (0, 3))]


@EVERY_LAYOUT
@pytest.mark.parametrize(("num_rows", "shape"), TABLES)
def test_embedding(agree, normal, num_rows, shape):
    tokens = np.random.default_rng(1).integers(0, num_rows, size=shape)
    for ids in (tokens, tokens.astype(np.uint8), tokens - num_rows):  # NumPy counts negative ids from the end
        if ids.min(initial=0) >= 0:
            assert agree("embedding", ids, normal(num_rows, 6), 1.5)


def test_only_the_rows_of_tokens_that_occur_are_touched(table, dtype):
    rng = np.random.default_rng(0)
    ids, rows = rng.integers(3, 9, size=(4, 50)), rng.normal(size=(12, 6)).astype(dtype)
    dy, cache = table.embedding.forward(ids, rows, 1.5)
    total = np.full_like(rows, np.nan)
    total[3:9] = 0
    assert table.embedding.backward(dy, cache, into=(total,)) is None
    np.testing.assert_allclose(total[3:9], table.embedding.backward(dy, cache)[3:9], rtol=1e-5)
    assert np.isnan(total[[0, 1, 2, 9, 10, 11]]).all()


@pytest.mark.parametrize("ids", [[[1, 5]], [[-6, 0]]], ids=str)
def test_a_token_outside_the_table_is_refused(table, ids):
    """A kernel that trusted them would read, and in backward write, memory of somebody else."""
    rows = np.ones((5, 3), np.float32)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 5"):
        table.embedding.forward(np.array(ids), rows)


@pytest.mark.parametrize("other", ["float32", "float64", "float16", "int64", "bool"])
def test_a_gradient_of_another_kind_is_taken(table, dtype, other):
    """A user's loss may be computed in any precision; a gradient of ones is easily written in integers."""
    plain = with_one_precision(PLAIN)
    for op, ops in product(OPERATIONS, (plain, with_fallback(table, plain))):  # what users have
        true = both_ways(PLAIN, op, usual_inputs(op, dtype))
        actual = both_ways(ops, op, usual_inputs(op, dtype), lambda y: np.ones(y.shape, other))
        for f, t in zip(actual, true, strict=True):
            assert f.dtype == dtype, op  # two precisions at once would mean new kernels, in silence
            np.testing.assert_allclose(f, t, rtol=1e-3, atol=1e-5, err_msg=op)


@pytest.mark.parametrize(
    ("op", "arguments", "text"),
    [
        (op, arguments, text)
        for forward, _, rows in REFUSED
        for text, *arguments in rows
        if (op := forward.__name__.removesuffix("_forward")) in OPERATIONS
    ],
)
def test_bad_input_is_refused_in_the_plain_kernels_words(table, op, arguments, text):
    with pytest.raises(NpformerError, match=f"^{re.escape(text)}$"):
        getattr(table, op).forward(*filled(arguments))


def test_gradients_of_another_shape_are_refused(table, refuses_wrong_shapes):
    refuses_wrong_shapes(table)
