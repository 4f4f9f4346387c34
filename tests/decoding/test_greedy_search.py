"""Greedy decoding against one argmax after the other over the full model."""

import numpy as np
import pytest

from npformer.decoding import greedy
from npformer.errors import ShapeError
from tests.decoding.conftest import SRC as FIVE
from tests.decoding.conftest import by_full_recomputation, rows_of_steps

SRC = FIVE[:4]


@pytest.fixture
def build(transformer):
    """build(backend, **changes): a Transformer for which neither [PAD] nor [BOS] is likely."""

    def made(backend, **changes):
        model = transformer(backend, **({"max_seq_len": 8} | changes))
        bias = model.generator.bias.data
        bias[...] = bias - backend.array(np.array([9.0, 9, 0, 0, 0, 0, 0, 0, 0]))
        return model

    return made


def ending(model, max_len):
    """A token that some row emits before the last position and not all rows emit at once."""
    rows = [by_full_recomputation(model, row, max_len, eos_id=-1) for row in SRC]
    for token in {token for row in rows for token in row[1:-2]}:
        ends = [row.index(token) if token in row else max_len for row in rows]
        if len(set(ends)) > 1 and max(ends) > 0:
            return token
    raise AssertionError("no token ends the rows at different lengths; take another seed")


def test_a_batch_decodes_as_its_rows_alone_and_ends_row_by_row(build, numpy64):
    model = build(numpy64)
    eos_id = ending(model, 7)
    expected = [by_full_recomputation(model, row, 7, eos_id) for row in SRC]
    assert len({len(row) for row in expected}) > 1
    width = max(map(len, expected))
    rows = greedy(model, SRC, max_len=7, eos_id=eos_id)
    assert rows.dtype == np.int64
    assert rows.tolist() == [row + [0] * (width - len(row)) for row in expected]
    for row, alone in zip(SRC, expected, strict=True):
        assert greedy(model, [row], max_len=7, eos_id=eos_id).tolist() == [alone]


def test_rows_that_have_ended_leave_once_they_are_half(build, numpy64, monkeypatch):
    model = build(numpy64)
    eos_id = ending(model, 7)
    ends = sorted(len(by_full_recomputation(model, row, 7, eos_id)) for row in SRC)
    sizes = rows_of_steps(model, monkeypatch)
    greedy(model, SRC, max_len=7, eos_id=eos_id)
    assert sizes[0] == 4
    assert sizes[-1] <= 2
    for step_number, size in enumerate(sizes):
        going = sum(end > step_number for end in ends)
        assert going <= size
        assert going == size or 2 * going > size


def test_learned_positions_may_end_before_max_len(build, numpy64):
    model = build(numpy64, positions="learned")
    model.generator.bias.data[2] += 100  # [EOS] at once
    assert greedy(model, SRC, max_len=30).tolist() == [[2]] * 4
    model.generator.bias.data[2] -= 200  # never
    with pytest.raises(ShapeError, match="max_seq_len"):
        greedy(model, SRC, max_len=30)
