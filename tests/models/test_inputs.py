"""Token ids are checked when they enter a model, on the host and on a device alike."""

import re

import numpy as np
import pytest

from npformer.errors import DTypeError, ShapeError, TokenError
from npformer.models.inputs import token_ids

BAD = [
    ([1, 2, 3], ShapeError, "src: expected (B, T), a batch of token ids, got (3,)"),
    (4, ShapeError, "src: expected (B, T), a batch of token ids, got ()"),
    ([[]], ShapeError, "src: expected at least one sequence of at least one token, got (1, 0)"),
    ([[1, 2], [3]], ShapeError, "src: expected (B, T), rows of equal length, got rows that differ; pad them"),
    ([[1.0, 2.0]], DTypeError, "src: expected integers (token ids), got float64; convert with astype first"),
    ([[True, False]], DTypeError, "src: expected integers (token ids), got bool; convert with astype first"),
    (
        [[1, 2], [3, 9]],
        TokenError,
        "src[1, 1]: expected a token id with 0 <= id < 9, got 9 (1 such); is the vocabulary the one the model was "
        "made for?",
    ),
    (
        [[1, -1], [30, 2]],
        TokenError,
        "src[0, 1]: expected a token id with 0 <= id < 9, got -1 (2 such); is the vocabulary the one the model was "
        "made for?",
    ),
]


@pytest.mark.parametrize(("ids", "error", "text"), BAD)
@pytest.mark.parametrize("name", ["numpy64", "strict64"])
def test_bad_ids_are_refused_before_a_device_sees_them(ids, error, text, name, request):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        token_ids("src", ids, 9, request.getfixturevalue(name))


@pytest.mark.parametrize("bad", [9, -1])
def test_ids_on_the_device_are_checked_too(bad, strict64):
    """A GPU would wrap them around silently."""
    ids = strict64.integers(np.array([[1, bad]]))
    with pytest.raises(TokenError, match=rf"^src\[0, 1\]: expected a token id with 0 <= id < 9, got {bad} "):
        token_ids("src", ids, 9, strict64)


def test_ids_of_another_device_are_refused(strict64, numpy64):
    class Elsewhere:
        def __array__(self, *_, **__):
            raise TypeError("implicit conversion to a NumPy array is not allowed")

    text = "src: expected token ids in a NumPy array or on the model's device, got <class '"
    for backend in (numpy64, strict64):
        with pytest.raises(DTypeError, match=f"^{re.escape(text)}"):
            token_ids("src", Elsewhere(), 9, backend)


def test_ids_of_the_device_pass_as_they_are(strict64):
    ids = strict64.integers(np.array([[1, 2]]))
    assert token_ids("src", ids, 9, strict64) is ids


def test_a_cache_keeps_its_own_copy_of_the_ids(numpy64, small_model):
    """Whoever writes the next batch into the same array before backward changes no gradient."""
    model = small_model(numpy64)
    ids = np.array([[1, 2], [3, 4]])
    grads = []
    for later in (ids.copy(), np.full_like(ids, 5)):
        ids_copy = ids.copy()
        logits, cache = model.forward(ids_copy, ids_copy)
        ids_copy[...] = later
        model.zero_grad()
        model.backward(np.ones_like(logits), cache)
        grads.append(model.arena.grads.copy())
    assert np.array_equal(*grads)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "uint64"])
def test_ids_of_any_integer_type_become_int64(dtype, numpy64):
    ids = token_ids("src", np.array([[1, 2]], dtype=dtype), 300, numpy64)
    assert ids.dtype == np.int64
    assert np.array_equal(ids, [[1, 2]])


def test_src_and_tgt_in_must_have_as_many_rows(numpy64, small_model):
    with pytest.raises(ShapeError, match=r"^tgt_in: expected \(B=2, T\) like src, got \(1, 3\)$"):
        small_model(numpy64)([[1, 2], [3, 4]], [[1, 2, 3]])
