"""What a check knows of its problem: sizes by their letters, tokens, masks, heads, and npformer's own code."""

import math

import numpy as np

from npformer.check.causes.diagnosis import clues_of
from npformer.functional import AttentionMask, Draw
from npformer.layers import MultiHeadAttention, RandomKey
from tests.check.functions import normals

normal = normals()
TOKENS = np.array([[3, 1, 3, 0], [0, 3, 4, 6]])
X = normal(3, 5, 12)


def test_an_operations_sizes_and_mask():
    q, k = normal(2, 3, 4, 6), normal(2, 3, 5, 6)
    visible = np.arange(5) < np.array([[5], [3]])
    clues = clues_of(None, (q, k), {"mask": AttentionMask(visible), "draw": Draw(0, 0, 0, 0, rate=0.5)})
    assert clues.sizes == {"B": 2, "H": 3, "T": 4, "D": 6, "S": 5, "√D": math.sqrt(6), "1/(1−p)": 2.0}
    assert clues.key_visible is visible
    assert (clues.tokens, clues.num_heads) == (None, None)


def test_the_first_array_names_the_sizes_and_a_weight_does_not():
    assert clues_of(None, (normal(2, 3, 4), normal(4, 7)), {}).sizes == {"B": 2, "T": 3, "C": 4, "√C": 2}
    clues = clues_of(None, (TOKENS,), {})
    assert (clues.tokens is TOKENS, clues.sizes) == (True, {"B": 2, "T": 4})
    assert clues_of(None, (normal(6, 4), normal(4)), {}).sizes == {"N": 6, "C": 4, "√C": 2}
    assert clues_of(None, (normal(1, 3, 4),), {}).sizes.keys() == {"T", "C", "√C"}  # 1 is no factor


def test_a_layers_sizes(numpy64):
    layer = MultiHeadAttention(12, 2, dropout=0.5, backend=numpy64)
    wanted = {"B": 3, "T": 5, "C": 12, "H": 2, "D": 6, "√C": math.sqrt(12), "√D": math.sqrt(6)}
    assert clues_of(layer, (X,), {}).sizes == wanted
    assert clues_of(layer, (X,), {"key": RandomKey(seed=0, step=0)}).sizes == wanted | {"1/(1−p)": 2.0}
    assert clues_of(layer, (X,), {}).num_heads == 2
