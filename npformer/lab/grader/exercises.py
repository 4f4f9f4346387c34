"""The exercises, from the linear map to a decoder layer: the function to differentiate, and reading hints.

Each is one pair of ``parts``: the learner gets its forward and writes its backward. The list is
in order; an exercise may use the pairs named in its ``parts``, which come before it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from npformer.errors import ConfigError
from npformer.lab.grader.parts import FUNCTIONS


@dataclass(frozen=True)
class Exercise:
    """One pair to write. Names of functions and files follow from ``name``."""

    name: str
    title: str
    formula: str  # the forward, in symbols that match the names in the code
    read: str  # hints to read first
    wrt: tuple[str, ...]  # the arguments that have a gradient, in the order in which backward returns them
    docs: str  # the module of npformer whose docstring derives the gradient, or several with spaces between
    parts: tuple[str, ...] = ()  # the functions of earlier exercises that a solution may call
    outputs: tuple[str, ...] = ("y",)

    @property
    def forward(self) -> Callable[..., Any]:
        """The reference forward, in plain NumPy."""
        return FUNCTIONS[f"{self.name}_forward"]

    @property
    def backward(self) -> Callable[..., Any]:
        """The reference backward, in plain NumPy."""
        return FUNCTIONS[f"{self.name}_backward"]

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the pair in a learner's file."""
        return _pairs(self.name)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the forward's arguments."""
        return tuple(inspect.signature(self.forward).parameters)

    @property
    def gradients(self) -> tuple[str, ...]:
        """The names of the gradients that backward returns: dx, dweight, …"""
        return tuple(f"d{name}" for name in self.wrt)

    @property
    def upstream(self) -> tuple[str, ...]:
        """The names of the upstream gradients that backward gets."""
        return tuple(f"d{name}" for name in self.outputs)

    @property
    def available(self) -> frozenset[str]:
        """The parts, and the parts that these call in turn."""
        earlier = [BY_NAME[name.removesuffix("_backward")] for name in self.parts if name.endswith("_backward")]
        return frozenset(self.parts).union(*(exercise.available for exercise in earlier))


def _pairs(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_{direction}" for name in names for direction in ("forward", "backward"))


_NORM = ("x", "f", "gamma", "beta")

EXERCISES: tuple[Exercise, ...] = (
    Exercise(
        "linear", "Linear map", "y = x W + b",
        "Write out one entry, y_nj = Σ_i x_ni W_ij + b_j, and ask for each of x_ni, W_ij, b_j: which y does it "
        "reach? Its gradient is the sum over all of them. Then write shapes under every product.",
        ("x", "weight", "bias"), "npformer.functional.linear",
    ),
    Exercise(
        "relu", "ReLU", "y = x where x > 0, else 0",
        "Draw the function. What is its slope left and right of 0?",
        ("x",), "npformer.functional.relu",
    ),
    Exercise(
        "gelu", "GELU, the exact form", "y = x·Φ(x)      Φ(x) = (1 + erf(x/√2))/2",
        "The product rule; and that Φ is the integral of the density φ(x) = exp(−x²/2)/√(2π).",
        ("x",), "npformer.functional.gelu",
    ),
    Exercise(
        "softmax", "Softmax", "y_j = exp(x_j)/Σ_k exp(x_k), over the visible entries of a row",
        "∂y_j/∂x_i for i = j and for i ≠ j. Then dx_i = Σ_j dy_j·∂y_j/∂x_i, and simplify. No matrix (S, S) is needed.",
        ("x",), "npformer.functional.softmax",
    ),
    Exercise(
        "dropout", "Dropout, its mask given", "y = x·s where keep, else 0      s = 1/(1 − rate)",
        "The mask does not depend on x: for the derivative it is a constant.",
        ("x",), "npformer.functional.dropout",
    ),
    Exercise(
        "embedding", "Token embedding", "y_n = scale·table[token_n]",
        "How often does a row of the table appear in y if its token is repeated? np.add.at may help.",
        ("table",), "npformer.functional.embedding",
    ),
    Exercise(
        "learned_positions", "Learned positions", "y_t = x_t + table[t + offset], in every sequence",
        "Row t of the table is added in every sequence of the batch: who uses it?",
        ("x", "table"), "npformer.functional.positions",
    ),
    Exercise(
        "layer_norm", "Layer normalisation",
        "μ = mean_C x      r = 1/√(mean_C (x − μ)² + ε)      x̂ = (x − μ)·r      y = γ·x̂ + β",
        "x reaches x̂ by three ways: directly, through μ, and through r. Name the gradient that reaches x̂ g = γ·dy, "
        "then follow each way.",
        ("x", "gamma", "beta"), "npformer.functional.layer_norm",
    ),
    Exercise(
        "residual", "Residual sum", "y = x + Drop(f)",
        "What does a sum do with its gradient? Your parts: dropout.",
        ("x", "f"), "npformer.functional.residual", _pairs("dropout"),
    ),
    Exercise(
        "post_norm", "Post-LN", "y = LayerNorm(x + Drop(f))",
        "Number the lines of the forward and undo them from the last to the first. Your parts: residual, layer_norm.",
        _NORM, "npformer.functional.post_norm", _pairs("residual", "layer_norm"),
    ),
    Exercise(
        "add_norm", "Pre-LN, between two sub-layers", "total = x + Drop(f)      normed = LayerNorm(total)",
        "There are two outputs, so two gradients come in: dy = (dtotal, dnormed). Where was total used?",
        _NORM, "npformer.functional.add_norm", _pairs("residual", "layer_norm"),
        ("total", "normed"),
    ),
    Exercise(
        "feed_forward", "Feed-forward", "y = Drop(relu(x W₁ + b₁)) W₂ + b₂",
        "The forward has four lines; the backward has the same four, from the last to the first.",
        ("x", "w1", "b1", "w2", "b2"), "npformer.functional.feed_forward", _pairs("linear", "relu", "dropout"),
    ),
    Exercise(
        "cross_entropy", "Cross-entropy",
        "p = softmax(z)   q = (1 − smoothing)·onehot + smoothing/V   loss = (1/N)·Σ_counted −Σ_v q_v log p_v",
        "log p_v = z_v − log Σ exp z, and Σ_v q_v = 1: write a token's loss with that, then differentiate. "
        "Over how many tokens is the mean?",
        ("logits",), "npformer.functional.cross_entropy", outputs=("loss",),
    ),
    Exercise(
        "attention", "Scaled dot-product attention", "out = softmax(Q Kᵀ/√D) V, over the visible keys",
        "Two matrix products with a softmax between them: the linear exercise twice, the softmax exercise once. "
        "Mind 1/√D. Your part: softmax.",
        ("q", "k", "v"), "npformer.functional.attention", _pairs("softmax"), ("out",),
    ),
    Exercise(
        "multi_head_attention", "Multi-head attention",
        "y = merge(attention(split(x W_q), split(memory W_k), split(memory W_v))) W_o",
        "split and merge only move numbers, so each is the other's backward. How often is memory used? "
        "Your parts: linear, attention, split_heads, merge_heads.",
        ("x", "memory", "params"), "npformer.layers.multi_head_attention",
        ("split_heads", "merge_heads", *_pairs("linear", "attention")),
    ),
    Exercise(
        "encoder_layer_post", "Encoder layer, post-LN", "x ← LN₁(x + Attention(x))      x ← LN₂(x + FeedForward(x))",
        "Every value that is used twice receives two gradients. In self-attention x is query and memory. "
        "Your parts: multi_head_attention, post_norm, feed_forward.",
        ("x", "params"), "npformer.layers.residual npformer.layers.encoder_layer",
        _pairs("multi_head_attention", "post_norm", "feed_forward"),
    ),
    Exercise(
        "encoder_layer_pre", "Encoder layer, pre-LN", "x ← x + Attention(LN₁(x))      x ← x + FeedForward(LN₂(x))",
        "Draw the stream x as a straight line, and where each sub-layer leaves and joins it. "
        "Your parts: multi_head_attention, layer_norm, add_norm, residual, feed_forward.",
        ("x", "params"), "npformer.layers.residual npformer.layers.encoder_layer",
        _pairs("multi_head_attention", "layer_norm", "add_norm", "residual", "feed_forward"),
    ),
    Exercise(
        "decoder_layer", "Decoder layer, post-LN",
        "x ← LN₁(x + Attention(x, x))\nx ← LN₂(x + Attention(x, memory))\nx ← LN₃(x + FeedForward(x))",
        "Six lines to undo. The memory is an input here: its gradient goes out to the encoder. "
        "Your parts: multi_head_attention, post_norm, feed_forward.",
        ("x", "memory", "params"), "npformer.layers.residual npformer.layers.decoder_layer",
        _pairs("multi_head_attention", "post_norm", "feed_forward"),
    ),
)  # fmt: skip

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}


def find(name: str) -> Exercise:
    """The exercise called name. Raises ConfigError, with all names, if there is none."""
    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"exercise: expected one of {', '.join(BY_NAME)}, got {name!r}; {hint}npformer grade --list shows them"
        )
    return BY_NAME[name]
