"""A Transformer's forward from the second implementation of its parts (``second.py``), wired from the paper.

A gradient check cannot notice a wrongly wired network with right gradients. This forward is short enough to compare
with the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from npformer.lab.museum.checks.second import FORWARD, layer_norm
from npformer.models import TransformerConfig
from npformer.typing import HostArray, Tensors


def sines(length: int, width: int, offset: int = 0) -> HostArray:
    """The paper's table of positions from offset on, (length, width), number by number."""
    table = np.zeros((length, width))
    for p, c in product(range(length), range(width)):
        angle = (p + offset) / 10000 ** ((c - c % 2) / width)
        table[p, c] = (math.sin(angle), math.cos(angle))[c % 2]
    return table


@dataclass(frozen=True)
class Plain:
    """Parameters by name, and the options that change the wiring."""

    of: Tensors
    config: TransformerConfig

    def logits(self, src: HostArray, tgt: HostArray) -> HostArray:
        """Logits (B, T, V) of pairs of sentences, token ids (B, S) and (B, T), 0 being padding."""
        reads, seen = ((tokens != 0)[:, None, None, :] for tokens in (src, tgt))
        past = seen & np.tril(np.ones((tgt.shape[1],) * 2, dtype=bool))
        memory = self.stack("encoder", self.embed("src_embedding", src), ("self_attention", None, reads))
        x = self.embed("tgt_embedding", tgt)
        x = self.stack("decoder", x, ("self_attention", None, past), ("cross_attention", memory, reads))
        if "generator.weight" in self.of:
            return self.linear("generator", x)
        return np.asarray(x @ self.of["src_embedding.weight"].T + self.of["generator.bias"])

    def embed(self, name: str, tokens: HostArray) -> HostArray:
        table = self.of.get(f"{name}.weight", self.of["src_embedding.weight"])
        width = table.shape[1]
        return np.asarray(math.sqrt(width) * table[tokens] + sines(tokens.shape[1], width))

    def stack(self, name: str, x: HostArray, *attentions: tuple[str, HostArray | None, HostArray]) -> HostArray:
        """The layers of one side; each attention with its memory, None for x itself, and which keys it sees."""
        pre = self.config.norm_order == "pre"
        for i in range(getattr(self.config, f"num_{name}_layers")):
            layer = f"{name}.layers.{i}"
            subs: list[Any] = [
                partial(self.attend, f"{layer}.{kind}", memory, seen) for kind, memory, seen in attentions
            ]
            for number, f in enumerate([*subs, partial(self.feed_forward, f"{layer}.feed_forward")], 1):
                norm = partial(self.norm, f"{layer}.norm{number}")
                x = x + f(norm(x)) if pre else norm(x + f(x))
        return self.norm(f"{name}.norm", x) if pre else x

    def norm(self, name: str, x: HostArray) -> HostArray:
        return np.asarray(layer_norm(x, self.of[f"{name}.gamma"], self.of[f"{name}.beta"]))

    def linear(self, name: str, x: HostArray) -> HostArray:
        return np.asarray(x @ self.of[f"{name}.weight"] + self.of[f"{name}.bias"])

    def feed_forward(self, name: str, x: HostArray) -> HostArray:
        return self.linear(f"{name}.down", FORWARD[self.config.activation](self.linear(f"{name}.up", x)))

    def attend(self, name: str, memory: HostArray | None, visible: HostArray, x: HostArray) -> HostArray:
        others = x if memory is None else memory
        heads = (
            FORWARD["heads"](self.linear(f"{name}.{part}", y), self.config.num_heads)
            for part, y in (("query", x), ("key", others), ("value", others))
        )
        out = FORWARD["attention"](*heads, visible)
        return self.linear(f"{name}.output", np.concatenate(list(out.swapaxes(0, 1)), axis=-1))
