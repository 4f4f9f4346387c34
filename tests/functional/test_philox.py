"""Philox4x64-10 against its published answers, NumPy's own, and itself on another device."""

import array_api_strict as strict
import numpy as np
import pytest

from npformer.backend.numpy.philox import philox_bits as numpy_bits
from npformer.functional import Draw, philox_bits
from npformer.functional.philox import WORD, philox_block

# The known answers that Random123 publishes for philox4x64-10: counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]),
    ([WORD] * 4, [WORD] * 2, [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0]),
    (
        [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],  # the digits of π
        [0x452821E638D01377, 0xBE5466CF34E90C6C],
        [0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6],
    ),
]
EXTREMES = [0, 1, 2**32 - 1, 2**32, 2**63, WORD - 1, WORD]


def words(values):
    return tuple(np.array([value], dtype=np.uint64) for value in values)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_published_answers(counter, key, answer):
    block = philox_block(words(counter), (key[0], key[1]))
    assert [int(word[0]) for word in block] == answer


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


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_a_longer_draw_continues_a_shorter_one(size):
    draw = Draw(seed=1, step=0, micro=0, site=2, rate=0.5)
    bits = philox_bits(draw, size, np.ones(1))
    assert bits.shape == (size,)
    assert np.array_equal(bits, philox_bits(draw, 1200, np.ones(1))[:size])


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


@pytest.mark.parametrize("step", EXTREMES)
@pytest.mark.parametrize("micro", [0, 1, 2**40, WORD])
def test_plain_numpy_and_strict_device_draw_the_same(step, micro):
    for seed, site in ((0, 0), (WORD, 1), (12345, WORD)):
        expect_everywhere(Draw(seed, step, micro, site, 0.5), 33)


@pytest.mark.parametrize("row", [(1,), (3,), (5, 3), (16,), (2, 37)], ids=str)
@pytest.mark.parametrize(
    "draw", [Draw(3, 5, 7, 11, 0.5), Draw(WORD, WORD, WORD - 1, 2**63, 0.5)], ids=["small", "large"]
)
def test_rows_of_a_batch_draw_what_they_draw_in_the_whole(row, draw):
    rows, size = 9, int(np.prod(row))
    whole = philox_bits(draw, rows * size, np.ones((rows, *row)))
    for bits in (philox_bits, numpy_bits):
        for first, last in ((0, 1), (1, 2), (1, 9), (4, 7), (8, 9)):
            like = np.ones((last - first, *row))
            part = bits(draw._replace(first_row=first), like.size, like)
            assert np.array_equal(part, whole[first * size : last * size]), (bits, first, last)


def test_later_rows_on_a_device_and_none_at_all():
    draw = Draw(1, 2, 3, 4, 0.5, first_row=3)
    whole = philox_bits(draw._replace(first_row=0), 25, np.ones((5, 5)))
    assert np.array_equal(expect_everywhere(draw, 2, 5), whole[15:])
    assert philox_bits(draw._replace(first_row=0), 0, np.ones((0, 5))).shape == (0,)
