"""A Transformer's forward in loops, written from the paper alone; it shares no line with npformer.

A gradient check cannot notice a wrongly wired network with right gradients. This forward is slow,
handles one sentence at a time, and is short enough to compare with the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.typing import HostArray, Tensors


@dataclass(frozen=True)
class Plain:
    """Parameters by name, and the few options that change the wiring."""

    of: Tensors
    heads: int
    layers: tuple[int, int]  # encoder, decoder
    pre: bool
    gelu: bool

    def logits(self, src: list[int], tgt: list[int]) -> HostArray:
        """Logits (T, V) of one sentence pair, token ids, 0 being padding."""
        memory = self.embed("src_embedding", src)
        reads = [token != 0 for token in src]
        for i in range(self.layers[0]):
            memory = self.encoder_layer(f"encoder.layers.{i}", memory, reads)
        if self.pre:
            memory = self.norm("encoder.norm", memory)
        x = self.embed("tgt_embedding", tgt)
        for i in range(self.layers[1]):
            x = self.decoder_layer(f"decoder.layers.{i}", x, tgt, memory, reads)
        if self.pre:
            x = self.norm("decoder.norm", x)
        if "generator.weight" in self.of:
            return self.linear("generator", x)
        return x @ self.of["src_embedding.weight"].T + self.of["generator.bias"]

    def embed(self, name: str, tokens: list[int]) -> HostArray:
        table = self.of.get(f"{name}.weight", self.of["src_embedding.weight"])
        width = table.shape[1]
        x = np.zeros((len(tokens), width))
        for position, token in enumerate(tokens):
            for c in range(width):
                angle = position / 10000 ** ((c - c % 2) / width)
                x[position, c] = math.sqrt(width) * table[token, c] + (math.sin(angle), math.cos(angle))[c % 2]
        return x

    def encoder_layer(self, name: str, x: HostArray, reads: list[bool]) -> HostArray:
        sees = [reads] * len(x)
        x = self.sub_layer(f"{name}.norm1", x, lambda y: self.attend(f"{name}.self_attention", y, y, sees))
        return self.sub_layer(f"{name}.norm2", x, lambda y: self.feed_forward(f"{name}.feed_forward", y))

    def decoder_layer(self, name: str, x: HostArray, tgt: list[int], memory: HostArray, reads: list[bool]) -> HostArray:
        past = [[j <= i and tgt[j] != 0 for j in range(len(tgt))] for i in range(len(tgt))]
        source = [reads] * len(x)
        x = self.sub_layer(f"{name}.norm1", x, lambda y: self.attend(f"{name}.self_attention", y, y, past))
        x = self.sub_layer(f"{name}.norm2", x, lambda y: self.attend(f"{name}.cross_attention", y, memory, source))
        return self.sub_layer(f"{name}.norm3", x, lambda y: self.feed_forward(f"{name}.feed_forward", y))

    def sub_layer(self, norm: str, x: HostArray, f: Any) -> HostArray:
        return x + f(self.norm(norm, x)) if self.pre else self.norm(norm, x + f(x))

    def norm(self, name: str, x: HostArray) -> HostArray:
        rows = [(row - row.mean()) / math.sqrt(row.var() + 1e-5) for row in x]
        return np.array(rows) * self.of[f"{name}.gamma"] + self.of[f"{name}.beta"]

    def feed_forward(self, name: str, x: HostArray) -> HostArray:
        return self.linear(f"{name}.down", np.vectorize(self.activation)(self.linear(f"{name}.up", x)))

    def activation(self, z: float) -> float:
        return z * (1 + math.erf(z / math.sqrt(2))) / 2 if self.gelu else max(z, 0.0)

    def linear(self, name: str, x: HostArray) -> HostArray:
        return np.asarray(x @ self.of[f"{name}.weight"] + self.of[f"{name}.bias"])

    def attend(self, name: str, x: HostArray, source: HostArray, sees: list[list[bool]]) -> HostArray:
        """sees[i][j]: query i may attend to key j. A query that sees no key gets zeros."""
        q, k, v = (self.linear(f"{name}.{part}", y) for part, y in (("query", x), ("key", source), ("value", source)))
        width = x.shape[1] // self.heads
        out = np.zeros_like(q)
        for head in range(self.heads):
            part = slice(head * width, (head + 1) * width)
            for i, row in enumerate(sees):
                keys = [j for j, seen in enumerate(row) if seen]
                if keys:
                    powers = np.array([math.exp(q[i, part] @ k[j, part] / math.sqrt(width)) for j in keys])
                    out[i, part] = powers / powers.sum() @ v[keys, part]
        return self.linear(f"{name}.output", out)
