"""What a check knows of its problem: sizes by their letters, tokens, masks, heads, and npformer's own code."""

import math

import numpy as np

from npformer import functional
from npformer.check.diagnosis.clues import clues_of, with_reference
from npformer.check.diagnosis.mutants import nested_mutants
from npformer.check.subject import subject
from npformer.functional import AttentionMask, Draw
from npformer.layers import Layer, LayerNorm, MultiHeadAttention, RandomKey
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
    assert clues_of(layer, (X,), {}).target is layer


def referenced(target, *inputs):
    checked = subject(target, inputs, {}, None)
    upstream = tuple(np.ones(y.shape) for y in checked.outputs({}))
    return with_reference(clues_of(target, inputs, {}), checked, upstream)


def test_a_pair_of_the_same_name_and_value_is_compared_with_npformers():
    def softmax_forward(x):
        powers = np.exp(x)
        return powers / powers.sum(axis=-1, keepdims=True), None

    def other_forward(x):
        return softmax_forward(x)

    pair = (softmax_forward, lambda dy, _: dy)
    clues = referenced(pair, X)
    assert len(clues.mistakes) == len(nested_mutants(functional.softmax_backward)) > 5
    rerun = clues.rerun(clues.mistakes[0])
    assert {name: g.shape for name, g in rerun.items()} == {"x": X.shape}
    assert referenced((other_forward, pair[1]), X).mistakes == ()
    softmax_forward.__name__ = "relu_forward"
    assert referenced(pair, X).mistakes == ()


def test_layers_are_compared_with_the_method_that_they_override(numpy64):
    class Mine(LayerNorm):
        def backward(self, dy, cache):
            return super().backward(dy, cache)

    class Farther(Mine):
        pass

    class Fresh(Layer):
        def forward(self, x):
            return x, None

        def backward(self, dy, cache):
            return dy

    for kind in (Mine, Farther):
        assert {m.function for m in referenced(kind(12, backend=numpy64), X).mistakes} == {"backward", "join_backward"}
    for layer in (LayerNorm(12, backend=numpy64), Fresh(numpy64)):
        assert list(referenced(layer, X).mistakes) == []
