"""The exercises, from the linear map to a decoder layer: the function to differentiate, and reading hints.

Each is one pair of ``parts``: the learner gets its forward and writes its backward. The list is in order: an exercise
may use the pairs that its own solution calls, which come before it. What an operation's file says of it (its title,
its formula) is taken from there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.functional.derivation import for_page
from npformer.lab.grader.parts.functions import FUNCTIONS, TEXTS


@dataclass(frozen=True)
class Exercise:
    """One pair to write. Names of functions and files follow from ``name``."""

    name: str
    title: str
    formula: str  # the forward, in symbols that match the names in the code
    hint: str  # what to think of first
    docs: str  # the module of npformer whose docstring derives the gradient, or several with spaces between

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
        return f"{self.name}_forward", f"{self.name}_backward"

    @property
    def known(self) -> str:
        """What one knows who has solved it, in a sentence."""
        return KNOWN[self.name]

    @property
    def read(self) -> str:
        """What to think of first, and what may be called."""
        names = dict.fromkeys(re.sub("_(for|back)ward$", "", part) for part in self.parts)
        return f"{self.hint} Your part{'s' * (len(names) > 1)}: {', '.join(names)}." if names else self.hint

    @property
    def parts(self) -> tuple[str, ...]:
        """The functions of earlier exercises that a solution may call: those that the reference calls."""
        called = set(re.findall(r"\w+", "".join(TEXTS[name] for name in self.functions)))
        return tuple(name for name in TEXTS if name in called and name not in self.functions)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the forward's arguments."""
        return tuple(inspect.signature(self.forward).parameters)

    @property
    def wrt(self) -> tuple[str, ...]:
        """The arguments that have a gradient, in the order in which backward returns them."""
        returned = (inspect.getdoc(self.backward) or "").rpartition("Returns ")[2]
        return tuple(name for name in self.arguments if re.search(rf"\bd{name}\b", returned))

    @property
    def gradients(self) -> tuple[str, ...]:
        """The names of the gradients that backward returns: dx, dweight, …"""
        return tuple(f"d{name}" for name in self.wrt)

    @property
    def upstream(self) -> tuple[str, ...]:
        """The names of the upstream gradients that backward gets."""
        dy = next(iter(inspect.signature(self.backward).parameters))
        several = re.search(rf"^ +(d\w+(?:, d\w+)+) = {dy}$", TEXTS[f"{self.name}_backward"], re.M)
        return tuple(several[1].split(", ")) if several else (dy,)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what they are the gradients of."""
        return tuple(name[1:] for name in self.upstream)

    @property
    def available(self) -> frozenset[str]:
        """The parts, and the parts that these call in turn."""
        earlier = [BY_NAME[name.removesuffix("_backward")] for name in self.parts if name.endswith("_backward")]
        return frozenset(self.parts).union(*(exercise.available for exercise in earlier))


def _of_operation(name: str, hint: str, title: str = "", formula: str = "") -> Exercise:
    """An exercise of which the operation's file says what is not given here."""
    row = OPERATIONS[name]
    docs = row.forward.__module__
    shown = for_page(import_module(docs).__doc__ or "", row)
    title, formula = title or shown["title"].partition(": ")[0], formula or "\n".join(shown["forward"])
    return Exercise(name, title, formula, hint, docs)


EXERCISES: tuple[Exercise, ...] = (
    _of_operation(
        "linear",
        "Write out one entry, y_nj = Σ_i x_ni W_ij + b_j, and ask for each of x_ni, W_ij, b_j: which y does it "
        "reach? Its gradient is the sum over all of them. Then write shapes under every product.",
    ),
    _of_operation("relu", "Draw the function. What is its slope left and right of 0?"),
    _of_operation("gelu", "The product rule; and that Φ is the integral of the density φ."),
    _of_operation(
        "softmax",
        "∂y_j/∂x_i for i = j and for i ≠ j. Then dx_i = Σ_j dy_j·∂y_j/∂x_i, and simplify. No matrix (S, S) is needed.",
    ),
    _of_operation(
        "dropout", "The mask does not depend on x: for the derivative it is a constant.",
        "Dropout, its mask given", "y = x·s where keep, else 0      s = 1/(1 − rate)",
    ),
    _of_operation(
        "embedding", "How often does a row of the table appear in y if its token is repeated? np.add.at may help."
    ),
    _of_operation(
        "learned_positions", "Row t of the table is added in every sequence of the batch: who uses it?",
        "Learned positions",
    ),
    _of_operation(
        "layer_norm",
        "x reaches x̂ by three ways: directly, through μ, and through r. Name the gradient that reaches x̂ g = γ·dy, "
        "then follow each way.",
    ),
    _of_operation("residual", "What does a sum do with its gradient?"),
    _of_operation("post_norm", "Number the lines of the forward and undo them from the last to the first."),
    _of_operation(
        "add_norm",
        "There are two outputs, so two gradients come in: dy = (dtotal, dnormed). Where was total used?",
    ),
    _of_operation(
        "feed_forward",
        "The forward has four lines; the backward has the same four, from the last to the first. act is ReLU.",
    ),
    _of_operation(
        "cross_entropy",
        "log p_v = z_v − log Σ exp z, and Σ_v q_v = 1: write a token's loss with that, then differentiate. "
        "Over how many tokens is the mean?",
    ),
    _of_operation(
        "attention",
        "Two matrix products with a softmax between them: the linear exercise twice, the softmax exercise once. "
        "Mind 1/√D, and which weights met V: those before dropout, or those after.",
    ),
    Exercise(
        "multi_head_attention", "Multi-head attention",
        "y = merge(attention(split(x W_q), split(memory W_k), split(memory W_v))) W_o",
        "split and merge only move numbers, so each is the other's backward. How often is memory used?",
        "npformer.layers.multi_head_attention",
    ),
    Exercise(
        "encoder_layer_post", "Encoder layer, post-LN", "x ← LN₁(x + Attention(x))      x ← LN₂(x + FeedForward(x))",
        "Every value that is used twice receives two gradients. In self-attention x is query and memory.",
        "npformer.layers.residual npformer.layers.encoder_layer",
    ),
    Exercise(
        "encoder_layer_pre", "Encoder layer, pre-LN", "x ← x + Attention(LN₁(x))      x ← x + FeedForward(LN₂(x))",
        "Draw the stream x as a straight line, and where each sub-layer leaves and joins it.",
        "npformer.layers.residual npformer.layers.encoder_layer",
    ),
    Exercise(
        "decoder_layer", "Decoder layer, post-LN",
        "x ← LN₁(x + Attention(x, x))\nx ← LN₂(x + Attention(x, memory))\nx ← LN₃(x + FeedForward(x))",
        "Six lines to undo. The memory is an input here: its gradient goes out to the encoder.",
        "npformer.layers.residual npformer.layers.decoder_layer",
    ),
)  # fmt: skip

#: Exercise -> what one knows who has solved it.
KNOWN = {
    "linear": "A value that every token uses gets the sum of what they all send back.",
    "relu": "A gate passes the gradient where it was open, and 0 where it was closed.",
    "gelu": "A gate that depends on x gives a second term: how the gate itself moves.",
    "softmax": "Entries that share a sum share a gradient: each dy counts by how far it is from their weighted mean.",
    "dropout": "What was drawn is a constant: backward uses the forward's mask and factor again.",
    "embedding": "A row that is looked up twice gets two gradients, and they are added.",
    "learned_positions": "What the forward repeats along an axis, the backward sums along it.",
    "layer_norm": "A statistic of x is a way from x to the loss: the mean and the variance each take a part off dx.",
    "residual": "A sum hands its gradient to both sides unchanged.",
    "post_norm": "Parts in a row are undone in the opposite order.",
    "add_norm": "A value with two readers gets two gradients, added before they go further down.",
    "feed_forward": "A layer's backward is its lines from the last to the first, each with what its own forward kept.",
    "cross_entropy": "Through softmax and logarithm at once the gradient is p − q, over the tokens that count.",
    "attention": "Every factor of the forward comes back: 1/√D in dq and in dk, and the mask as zeros.",
    "multi_head_attention": "Moving numbers is undone by moving them back; a memory read twice gets two gradients.",
    "encoder_layer_post": "x is query, memory and residual at once, so three gradients meet in dx.",
    "encoder_layer_pre": "The stream passes no norm on its way down, so its gradient reaches the lowest layer whole.",
    "decoder_layer": "A layer with two inputs has two gradients to return: one goes down, one to the encoder.",
}

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
