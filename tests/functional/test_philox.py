"""Philox4x64-10 against its published answers, NumPy's own, and itself on another device."""

import array_api_strict as strict
import numpy as np
import pytest

from npformer.backend.numpy.philox import philox_bits as numpy_bits
from npformer.functional import Draw, philox_bits
from npformer.functional.philox import WORD, philox_block

EXTREMES = [0, 1, 2**32 - 1, 2**32, 2**63, WORD - 1, WORD]


def words(values):
    return tuple(np.array([value], dtype=np.uint64) for value in values)


def numpy_block(counter, key):
    """One block by NumPy, which steps its counter before the first one."""
    whole = sum(word << (64 * i) for i, word in enumerate(counter))
    before = (whole - 1) % 2**256
    parts = np.array([before >> (64 * i) & WORD for i in range(4)], dtype=np.uint64)
    return [int(w) for w in np.random.Philox(key=np.array(key, dtype=np.uint64), counter=parts).random_raw(4)]


def test_blocks_equal_numpys_for_random_and_for_extreme_words(rng):
    drawn = [[int(w) for w in row] for row in rng.integers(0, WORD, size=(20, 6), dtype=np.uint64, endpoint=True)]
    extreme = [[EXTREMES[i] for i in row] for row in rng.integers(0, len(EXTREMES), size=(40, 6))]
    for row in [*drawn, *extreme]:
        block = philox_block(words(row[:4]), (row[4], row[5]))
        assert [int(word[0]) for word in block] == numpy_block(row[:4], row[4:]), row


def test_lanes_run_through_a_word_from_its_lowest_bits():
    draw = Draw(seed=3, step=5, micro=7, site=11, rate=0.5)
    bits = philox_bits(draw, 40, np.ones(1))
    assert bits.dtype == np.uint16
    for e, lane in enumerate(bits):
        block = numpy_block([e // 16, 5, 7, 0], [3, 11])
        place = e % 16
        assert int(lane) == block[place // 4] >> (16 * (place % 4)) & 0xFFFF


def expect_everywhere(draw, *shape):
    """Fail unless plain, NumPy's kernel and the strict device draw the same, step and micro arrays or not; the bits."""
    device, size = strict.Device("device1"), int(np.prod(shape))
    host = draw._replace(step=np.array(draw.step, dtype=np.uint64), micro=np.array(draw.micro, dtype=np.uint64))
    there = draw._replace(
        step=strict.asarray(host.step, device=device), micro=strict.asarray(host.micro, device=device)
    )
    plain = philox_bits(draw, size, np.ones(shape))
    for bits, draw_form in ((philox_bits, host), (numpy_bits, draw), (numpy_bits, host)):
        assert np.array_equal(plain, bits(draw_form, size, np.ones(shape)))
    for draw_form in (draw, there):
        far = philox_bits(draw_form, size, strict.ones(shape, device=device))
        assert far.device == device
        assert np.array_equal(plain, np.asarray(far.to_device(strict.Device("CPU_DEVICE"))))
    return plain


@pytest.mark.parametrize(("step", "micro"), [*zip(EXTREMES, EXTREMES[::-1], strict=True), (WORD, WORD), (5, 2**40)])
def test_plain_numpy_and_strict_device_draw_the_same(step, micro):
    for seed, site in ((0, 0), (WORD, 1), (12345, WORD)):
        expect_everywhere(Draw(seed, step, micro, site, 0.5), 33)


def test_later_rows_on_a_device_and_none_at_all():
    draw = Draw(1, 2, 3, 4, 0.5, first_row=3)
    whole = philox_bits(draw._replace(first_row=0), 25, np.ones((5, 5)))
    assert np.array_equal(expect_everywhere(draw, 2, 5), whole[15:])
    assert philox_bits(draw._replace(first_row=0), 0, np.ones((0, 5))).shape == (0,)
