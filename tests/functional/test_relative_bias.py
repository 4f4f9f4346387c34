"""Relative position bias: buckets against a table by hand, and entries that sum the gradients of their pairs."""

import numpy as np

from npformer.functional import relative_bias_forward

#: 32 buckets for both directions, max_distance 128: the first distance of each bucket behind the query. Eight
#: distances have their own; then 8 + ⌊8·log(n/8)/log 16⌋, so bucket 8 + i starts at n = ⌈8·16^(i/8)⌉ = ⌈8·2^(i/2)⌉.
BOTH_WAYS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
#: 32 buckets for one direction: sixteen of their own, then 16 + ⌊16·log(n/16)/log 8⌋: ⌈16·8^(i/16)⌉ = ⌈16·2^(3i/16)⌉.
CAUSAL = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


def buckets(num_buckets, queries, keys, *options):
    """The bucket of every pair (T, S), read off a table that holds its own row numbers."""
    table = np.arange(float(num_buckets))[:, None]
    return relative_bias_forward(table, queries, keys, *options)[0][0].astype(int)


def starts(row):
    """The first distance of each bucket, in order."""
    return [int(np.argmax(row == bucket)) for bucket in sorted(set(row.tolist()))]


def test_keys_behind_the_query_are_in_the_buckets_of_the_formula():
    behind = buckets(32, 1, 400, 399)[0, ::-1]  # distances 0 … 399
    assert starts(behind) == BOTH_WAYS
    assert np.all(np.diff(behind) >= 0)
    assert set(behind[91:]) == {15}  # as far as one looks


def test_keys_ahead_have_the_other_half():
    ahead = buckets(32, 1, 400, 0)[0]  # distances 0, −1, …
    assert ahead[0] == 0
    assert starts(ahead[1:]) == [start - 1 for start in BOTH_WAYS[1:]]
    assert sorted(set(ahead[1:].tolist())) == list(range(17, 32))


def test_causal_buckets_are_all_for_the_past():
    behind = buckets(32, 1, 400, 399, True)[0, ::-1]
    assert starts(behind) == CAUSAL
    assert sorted(set(behind.tolist())) == list(range(32))
    assert set(buckets(32, 1, 9, 0, True)[0]) == {0}  # keys ahead, which a causal mask hides
