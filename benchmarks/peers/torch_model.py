"""The same Transformer in PyTorch, twice: as in textbooks, and in its fastest eager form.

Both: post-LN, ReLU, sinusoidal positions, embeddings scaled by √C, dropout on the embeddings, the attention
weights, inside the feed-forward and on each sub-layer's output; masks True = visible. They differ only
in attention: ``Textbook`` has one matrix for each of Q, K, V and writes the softmax out; ``Fused`` has one
product for Q, K, V (in cross-attention one for K, V) and calls scaled_dot_product_attention.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the usual short name for it
from torch import nn

from npformer.models.presets import Preset


class Attention(nn.Module):
    """The common part of both forms: H heads, the output product, the loading of weights."""

    #: How many of Q, K, V each input matrix produces, in this order: in self-attention, and in cross-attention.
    BLOCKS = ()

    def __init__(self, size: Preset, dropout, cross):
        super().__init__()
        self.heads, self.width, self.dropout, self.blocks = size.num_heads, size.d_model, dropout, self.BLOCKS[cross]
        self.inputs = nn.ModuleList(nn.Linear(size.d_model, n * size.d_model) for n in self.blocks)
        self.output = nn.Linear(size.d_model, size.d_model)

    def split_heads(self, x):
        """(B, T, C) to (B, H, T, D), a view."""
        return x.view(x.shape[0], -1, self.heads, self.width // self.heads).transpose(1, 2)

    def merge(self, heads):
        """(B, H, T, D) to (B, T, C), through the output product."""
        return self.output(heads.transpose(1, 2).flatten(2))

    def load(self, state, name):
        """Load the in_proj and out_proj of torch.nn.MultiheadAttention."""
        rows = [n * self.width for n in self.blocks]
        for kind in ("weight", "bias"):
            parts = torch.split(state[f"{name}.in_proj_{kind}"], rows)
            for linear, part in zip(self.inputs, parts, strict=True):
                linear.get_parameter(kind).data.copy_(part)
            self.output.get_parameter(kind).data.copy_(state[f"{name}.out_proj.{kind}"])


class Textbook(Attention):
    """softmax(QKᵀ/√D)V, written out."""

    BLOCKS = (1, 1, 1), (1, 1, 1)

    def forward(self, x, memory, visible):
        sources = (x, memory, memory)
        q, k, v = (self.split_heads(linear(each)) for linear, each in zip(self.inputs, sources, strict=True))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
        return self.merge(F.dropout(weights, self.dropout, self.training) @ v)


class Fused(Attention):
    """Few products and scaled_dot_product_attention."""

    BLOCKS = (3,), (1, 2)

    def forward(self, x, memory, visible):
        if len(self.blocks) == 2:
            q = self.inputs[0](x)
            k, v = self.inputs[1](memory).chunk(2, -1)
        else:
            q, k, v = self.inputs[0](x).chunk(3, -1)
        heads = F.scaled_dot_product_attention(
            self.split_heads(q),
            self.split_heads(k),
            self.split_heads(v),
            attn_mask=visible,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.merge(heads)


class Block(nn.Module):
    """An encoder layer; with cross, a decoder layer."""

    def __init__(self, size: Preset, dropout, form, cross):
        super().__init__()
        self.self_attn = form(size, dropout, cross=False)
        self.multihead_attn = form(size, dropout, cross=True) if cross else None
        self.linear1, self.linear2 = nn.Linear(size.d_model, size.d_ff), nn.Linear(size.d_ff, size.d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(size.d_model) for _ in range(3 if cross else 2))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, visible, memory=None, seen=None):
        x = self.norms[0](x + self.drop(self.self_attn(x, x, visible)))
        if self.multihead_attn is not None:
            x = self.norms[1](x + self.drop(self.multihead_attn(x, memory, seen)))
        return self.norms[-1](x + self.drop(self.linear2(self.drop(F.relu(self.linear1(x))))))

    def load(self, state, name):
        """Load the state of torch.nn.TransformerEncoderLayer or DecoderLayer stored under name."""
        self.self_attn.load(state, f"{name}.self_attn")
        if self.multihead_attn is not None:
            self.multihead_attn.load(state, f"{name}.multihead_attn")
        load_module(self.linear1, state, f"{name}.linear1")
        load_module(self.linear2, state, f"{name}.linear2")
        for i, norm in enumerate(self.norms, start=1):
            load_module(norm, state, f"{name}.norm{i}")


class Transformer(nn.Module):
    """The whole network."""

    def __init__(self, size: Preset, dropout, form):
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.src_embed, self.tgt_embed = (nn.Embedding(size.vocab_size, size.d_model) for _ in range(2))
        self.encoder = nn.ModuleList(Block(size, dropout, form, cross=False) for _ in range(size.num_layers))
        self.decoder = nn.ModuleList(Block(size, dropout, form, cross=True) for _ in range(size.num_layers))
        self.generator = nn.Linear(size.d_model, size.vocab_size)
        self.drop = nn.Dropout(dropout)
        self.positions = nn.Buffer(sinusoids(size.length, size.d_model))
        self.past = nn.Buffer(torch.ones(size.length, size.length, dtype=torch.bool).tril())

    def forward(self, src, tgt_in):
        """(B, S) and (B, T) to logits (B, T, V)."""
        seen = (src != 0)[:, None, None, :]
        visible = (tgt_in != 0)[:, None, None, :] & self.past
        memory = self.encode(src, seen)
        x = self.embed(self.tgt_embed, tgt_in)
        for block in self.decoder:
            x = block(x, visible, memory, seen)
        return self.generator(x)

    def encode(self, src, seen):
        """(B, S) to the memory (B, S, C)."""
        memory = self.embed(self.src_embed, src)
        for block in self.encoder:
            memory = block(memory, seen)
        return memory

    def embed(self, table, tokens):
        """(B, T) to (B, T, C): the table's rows, scaled, with positions, after dropout."""
        return self.drop(table(tokens) * self.scale + self.positions)

    def load(self, state):
        """Load npformer's weights, as npformer.interop.torch.to_state_dict names them."""
        tensors = {name: torch.from_numpy(array) for name, array in state.items()}
        for name in ("src_embed", "tgt_embed", "generator"):
            load_module(self.get_submodule(name), tensors, name)
        for stack, blocks in (("encoder", self.encoder), ("decoder", self.decoder)):
            for i, block in enumerate(blocks):
                block.load(tensors, f"{stack}.layers.{i}")
        return self


def load_module(module, state, name):
    """Copy the parameters of module from state, where their names are name.weight and so on."""
    for kind, parameter in module.named_parameters():
        parameter.data.copy_(state[f"{name}.{kind}"])


def sinusoids(length, width):
    """The table (T, C) of positions."""
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width].float()
