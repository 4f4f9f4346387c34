"""PyTorch's greedy decoding, eager and incremental, with a key/value cache.

The cache is allocated once, and the source's keys and values are computed once. Each step runs the decoder on the
newest token only, in inference mode. Sources have no padding, so they need no mask.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.numpy import load_file

from benchmarks.harness import Contender
from benchmarks.own.model import sources
from benchmarks.peers.torch_device import about, place, seen, waiting
from benchmarks.peers.torch_model import Fused, Transformer, sinusoids
from npformer.models.presets import PRESETS

BOS_ID = 1


def decode(size, tokens, batches, device, weights, precision="float32"):
    """Tasks "batch 1" and so on; each returns the output tokens, (B, T) as lists."""
    at = place(device, precision)
    net = Transformer(PRESETS[size], 0.0, Fused).load(load_file(weights)).to(at).eval()
    positions = sinusoids(tokens, PRESETS[size].d_model).to(at)

    def make(batch):
        src = torch.from_numpy(sources(PRESETS[size], batch)).to(at)
        return lambda: greedy(net, src, positions).tolist()

    tasks = {f"batch {batch}": lambda batch=batch: make(batch) for batch in batches}
    return Contender(about(), tasks, synchronize=waiting(at), on_device=lambda: seen(at))


@torch.inference_mode()
def greedy(net, src, positions):
    """src (B, S), without padding, to tokens (B, T), one for each of the positions."""
    memory = net.encode(src, (src != 0)[:, None, None, :])
    states = [State(block, memory, len(positions)) for block in net.decoder]
    tokens = torch.full((src.shape[0], 1 + len(positions)), BOS_ID, device=src.device)
    for t in range(len(positions)):
        x = net.tgt_embed(tokens[:, t : t + 1]) * net.scale + positions[t]  # (B, 1, C)
        for state in states:
            x = state.step(x, t)
        tokens[:, t + 1] = net.generator(x[:, 0]).argmax(-1)
    return tokens[:, 1:]


class State:
    """One decoder layer and the keys and values (B, H, ·, D) that it has seen so far."""

    def __init__(self, block, memory, length):
        self.block, self.own, self.cross = block, block.self_attn, block.multihead_attn
        self_cache, cross = self.own, self.cross
        shape = (memory.shape[0], self_cache.heads, length, self_cache.width // self_cache.heads)
        self.keys, self.values = memory.new_empty(shape), memory.new_empty(shape)
        k, v = cross.inputs[1](memory).chunk(2, -1)
        self.memory_keys, self.memory_values = (cross.split_heads(each).contiguous() for each in (k, v))

    def step(self, x, t):
        """The layer on the token at position t, (B, 1, C)."""
        q, k, v = (self.own.split_heads(each) for each in self.own.inputs[0](x).chunk(3, -1))  # (B, H, 1, D)
        self.keys[:, :, t : t + 1], self.values[:, :, t : t + 1] = k, v
        heads = F.scaled_dot_product_attention(q, self.keys[:, :, : t + 1], self.values[:, :, : t + 1])
        x = self.block.norms[0](x + self.own.merge(heads))
        q = self.cross.split_heads(self.cross.inputs[0](x))
        heads = F.scaled_dot_product_attention(q, self.memory_keys, self.memory_values)
        x = self.block.norms[1](x + self.cross.merge(heads))
        return self.block.norms[2](x + self.block.linear2(F.relu(self.block.linear1(x))))
