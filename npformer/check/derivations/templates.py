"""Forwards of the exercises, to derive the backward of."""

from __future__ import annotations

from npformer.check.derivations.grammar import read
from npformer.errors import ConfigError

_SOFTMAX = """
top = {0}.max(axis=-1, keepdims=True)
powers = np.exp({0} - top)
total = powers.sum(axis=-1, keepdims=True)
{1} = powers / total"""
_NORM = """
mu = {0}.mean(axis=-1, keepdims=True)
centred = {0} - mu
var = (centred * centred).mean(axis=-1, keepdims=True)
r = 1 / np.sqrt(var + 1e-5)
x_hat = centred * r
{1} = gamma * x_hat + beta"""
_DROPPED = "\nkeep: (N, C) < 2\nscale: () > 0"

TEMPLATES = {
    "linear": "x: (N, C)\nweight: (C, F)\nbias: (F,)\ny = x @ weight + bias",
    "relu": "x: (N, C)\ny = np.maximum(x, 0)",
    "gelu_tanh": "x: (N, C)\nu = np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)\nt = np.tanh(u)\ny = 0.5 * x * (1 + t)",
    "softmax": "x: (N, S)" + _SOFTMAX.format("x", "y"),
    "dropout": f"x: (N, C){_DROPPED}\ny = x * keep * scale",
    "embedding": "tokens: (N,) < V\ntable: (V, C)\nhot = np.eye(V)[tokens]\ny = hot @ table * np.sqrt(C)",
    "layer_norm": "x: (N, C)\ngamma: (C,)\nbeta: (C,)" + _NORM.format("x", "y"),
    "residual": f"x: (N, C)\nf: (N, C){_DROPPED}\ny = x + f * keep * scale",
    "post_norm": "x: (N, C)\nf: (N, C)\ngamma: (C,)\nbeta: (C,)\nu = x + f" + _NORM.format("u", "y"),
    "feed_forward": "x: (N, C)\nw1: (C, F)\nb1: (F,)\nw2: (F, C)\nb2: (C,)\na = x @ w1 + b1\nh = np.maximum(a, 0)\n"
    "y = h @ w2 + b2",
    "cross_entropy": "logits: (N, V)\ntargets: (N,) < V" + _SOFTMAX.format("logits", "p")
    + "\nq = np.eye(V)[targets]\nloss = -(q * np.log(p)).sum(axis=None) / N",
    "attention": "q: (T, D)\nk: (S, D)\nv: (S, D)\nscores = q @ k.T / np.sqrt(D)" + _SOFTMAX.format("scores", "weights")
    + "\nout = weights @ v",
}  # fmt: skip


def template(name: str) -> str:
    """A derivation to fill in: the forward, and a blank line for the gradient of each of its names."""
    if name not in TEMPLATES:
        raise ConfigError(f"--template: expected one of {', '.join(TEMPLATES)}, got {name!r}")
    forward = TEMPLATES[name]
    derivation = read(f"{forward}\nd{forward.splitlines()[-1].split()[0]} = ...")
    whole = {each.name for each in derivation.inputs if each.kind or not each.shape}
    constant = {*whole, "hot"} | ({"q"} if "targets" in whole else set())
    names = [node for node in derivation.nodes[::-1] if node not in constant and node != derivation.output]
    blanks = "\n".join(f"d{node} = ..." for node in names)
    given = f"d{derivation.output}" if derivation.output != "loss" else "dloss, which is 1,"
    heading = f"# The backward: {given} is given; write each line in the place of its dots."
    return f"# The forward.\n{forward}\n\n{heading}\n{blanks}\n"
