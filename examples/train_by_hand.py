"""A complete Transformer layer in one file, from tokens to Adam: it learns to write eight letters backwards.

    x = table[tokens] + positions           x ← LN(x + Attention(x))           x ← LN(x + FeedForward(x))
    logits = x W + b                        loss = cross-entropy(logits, the same letters in reverse)

There is no autograd. The steps of the forward are numbered; each returns its output and a cache. The backward
counts down: it hands each cache back and receives the gradients, in the order of the inputs. Where a value was used
twice, its gradients add.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import npformer.functional as F  # noqa: N812
from npformer.io.percent import percent

V, T, C, H, D_FF = 10, 8, 32, 4, 64  # letters, letters per word, width, heads, width of the feed-forward
Array = Any


def new_parameters(rng: np.random.Generator) -> dict[str, Array]:
    """Matrices start small and random, biases and β at 0, γ at 1."""
    shapes = {"table": (V, C), "positions": (T, C), "W_qkv": (C, 3 * C), "b_qkv": (3 * C,), "W_o": (C, C), "b_o": (C,),
              "gamma1": (C,), "beta1": (C,), "W_1": (C, D_FF), "b_1": (D_FF,), "W_2": (D_FF, C), "b_2": (C,),
              "gamma2": (C,), "beta2": (C,), "W": (C, V), "b": (V,)}  # fmt: skip
    draw = {1: lambda shape: np.zeros(shape), 2: lambda shape: rng.normal(size=shape) / np.sqrt(shape[0])}
    return {name: draw[len(s)](s) + 1.0 * name.startswith("gamma") for name, s in shapes.items()}


def forward(p: dict[str, Array], tokens: Array) -> tuple[Array, list[Any]]:
    """tokens (B, T) to logits (B, T, V) and the caches of the steps."""
    x, c1 = F.embedding_forward(tokens, p["table"])  # 1. (B, T, C)
    x = x + p["positions"]  # 2. (B, T, C)
    qkv, c3 = F.linear_forward(x, p["W_qkv"], p["b_qkv"])  # 3. (B, T, 3C)
    q, k, v = (F.split_heads(part, H) for part in np.split(qkv, 3, axis=-1))  # 4. (B, H, T, D) each
    o, c5 = F.attention_forward(q, k, v, F.ALL_VISIBLE, None)  # 5. (B, H, T, D)
    f, c6 = F.linear_forward(F.merge_heads(o), p["W_o"], p["b_o"])  # 6. (B, T, C)
    x, c7 = F.post_norm_forward(x, f, p["gamma1"], p["beta1"], 1e-5, None)  # 7. (B, T, C), LN(x + f)
    f, c8 = F.feed_forward_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], "relu", None)  # 8. (B, T, C)
    x, c9 = F.post_norm_forward(x, f, p["gamma2"], p["beta2"], 1e-5, None)  # 9. (B, T, C), LN(x + f)
    logits, c10 = F.linear_forward(x, p["W"], p["b"])  # 10. (B, T, V)
    return logits, [c1, c3, c5, c6, c7, c8, c9, c10]


def backward(dlogits: Array, caches: list[Any]) -> dict[str, Array]:
    """dlogits (B, T, V) to the gradient of every parameter: the forward read from its last line to its first."""
    c1, c3, c5, c6, c7, c8, c9, c10 = caches
    g: dict[str, Array] = {}
    dx, g["W"], g["b"] = F.linear_backward(dlogits, c10)  # back through 10
    dx, df, g["gamma2"], g["beta2"] = F.post_norm_backward(dx, c9)  # back through 9
    from_f, g["W_1"], g["b_1"], g["W_2"], g["b_2"] = F.feed_forward_backward(df, c8)  # back through 8
    dx, df, g["gamma1"], g["beta1"] = F.post_norm_backward(dx + from_f, c7)  # back through 7: x was used twice
    do, g["W_o"], g["b_o"] = F.linear_backward(df, c6)  # back through 6
    dq, dk, dv = F.attention_backward(F.split_heads(do, H), c5)  # back through 5
    dqkv = np.concatenate([F.merge_heads(part) for part in (dq, dk, dv)], axis=-1)  # back through 4
    from_f, g["W_qkv"], g["b_qkv"] = F.linear_backward(dqkv, c3)  # back through 3
    dx = dx + from_f  # x was used twice here, too
    g["positions"] = dx.sum(axis=0)  # back through 2: one row for the whole batch
    (g["table"],) = F.embedding_backward(dx, c1)  # back through 1
    return g


def train(steps: int = 120, lr: float = 5e-3, seed: int = 0) -> tuple[dict[str, Array], float]:
    """The parameters after these steps, and the last loss. Adam: Kingma & Ba 2015, algorithm 1."""
    rng = np.random.default_rng(seed)
    p = new_parameters(rng)
    m, s = ({name: np.zeros_like(value) for name, value in p.items()} for _ in range(2))
    for t in range(1, steps + 1):
        tokens = rng.integers(0, V, (32, T))
        logits, caches = forward(p, tokens)
        loss, cache = F.cross_entropy_forward(logits, tokens[:, ::-1], ignore_index=-1)
        (dlogits,) = F.cross_entropy_backward(np.ones(()), cache)
        g = backward(dlogits, caches)
        for name in p:
            m[name] = 0.9 * m[name] + 0.1 * g[name]  # running mean of the gradient
            s[name] = 0.98 * s[name] + 0.02 * g[name] ** 2  # running mean of its square
            step = (m[name] / (1 - 0.9**t)) / (np.sqrt(s[name] / (1 - 0.98**t)) + 1e-9)
            p[name] = p[name] - lr * step
    return p, float(loss)


def main() -> None:
    """Train, then test on new random words."""
    p, loss = train()
    words = np.random.default_rng(1).integers(0, V, (1000, T))
    answers = forward(p, words)[0].argmax(axis=-1)
    right = percent((answers == words[:, ::-1]).all(axis=1).mean())
    print(f"loss {loss:.4f}; {words[0].tolist()} backwards: {answers[0].tolist()}; {right} of 1,000 words right")


if __name__ == "__main__":
    main()
