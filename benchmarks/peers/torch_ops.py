"""The operations in PyTorch, as a good program spells them; backward is autograd's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.cases import EPS, RATE, Case, case
from benchmarks.peers.torch_device import about, autocast, place, waiting
from benchmarks.peers.torch_model import sinusoids
from benchmarks.tasks import TOGETHER, Contender, Task, repeated
from npformer.models.presets import PRESETS, Preset

Spelling = Callable[..., Any]
TRANSPOSED = {"linear": (1,), "feed_forward": (1, 3)}  # which inputs are matrices, (out, in) in PyTorch


def ops(size: str, device: str, threads: int, precision: str = "float32") -> Contender:
    """Tasks "linear forward", "linear backward" and so on. Forward builds what autograd needs, as in training."""
    torch.set_num_threads(threads)
    at, together = place(device, precision), TOGETHER[device]

    def make(name: str, backward: bool) -> Task:
        function, inputs, dy = prepared(name, PRESETS[size], RATE, at)
        if precision == "bfloat16":
            function = autocast(at, precision)(function)
        return repeated(_backward(function, inputs, dy) if backward else _forward(function, inputs), together)

    tasks = {}
    for name in spellings(PRESETS[size], RATE, at):
        tasks[f"{name} forward"] = lambda name=name: make(name, backward=False)
        tasks[f"{name} backward"] = lambda name=name: make(name, backward=True)
    return Contender(about(), tasks, synchronize=waiting(at), together=together)


def prepared(name: str, size: Preset, rate: float, at: torch.device) -> tuple[Spelling, list[Tensor], list[Tensor]]:
    """(the function, its inputs, what backward starts from) for the operation of that name."""
    given: Case = case(name, size)
    inputs = []
    for i, array in enumerate(given.arrays):
        turned = np.ascontiguousarray(array.T) if i in TRANSPOSED.get(name, ()) else array
        tensor = torch.from_numpy(turned).to(at)
        inputs.append(tensor.requires_grad_() if tensor.is_floating_point() else tensor)
    dy = given.dy if isinstance(given.dy, tuple) else (given.dy,)
    grads = [torch.from_numpy(np.asarray(each, dtype=np.float32)).to(at) for each in dy]
    return spellings(size, rate, at)[name], inputs, grads


def _forward(function: Spelling, inputs: list[Tensor]) -> Task:
    def run() -> None:
        function(*inputs)

    return run


def _backward(function: Spelling, inputs: list[Tensor], dy: Sequence[Tensor]) -> Task:
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    wanted = [x for x in inputs if x.requires_grad]
    like = [each.to(y.dtype) for each, y in zip(dy, outputs, strict=True)]

    def run() -> None:
        torch.autograd.grad(outputs, wanted, like, retain_graph=True)

    return run


def spellings(size: Preset, rate: float, at: torch.device) -> dict[str, Spelling]:
    """Each operation as a function of tensors; tables and masks are made beforehand."""
    table = sinusoids(size.length, size.d_model).to(at)
    past = torch.ones(size.length, size.length, dtype=torch.bool, device=at).tril()
    visible = torch.ones(size.batch, 1, 1, size.length, dtype=torch.bool, device=at) & past
    width = (size.d_model,)

    def drop(x: Tensor) -> Tensor:
        return F.dropout(x, rate, training=True)

    def add_norm(x: Tensor, f: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        total = x + drop(f)
        return total, F.layer_norm(total, width, gamma, beta, EPS)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=rate)

    return {
        "linear": F.linear,
        "relu": F.relu,
        "gelu": F.gelu,
        "softmax": lambda x: x.softmax(-1),
        "dropout": drop,
        "embedding": lambda tokens, weight: F.embedding(tokens, weight) * size.d_model**0.5,
        "sinusoidal_positions": lambda x: x + table,
        "learned_positions": lambda x, weight: x + weight[: x.shape[1]],
        "layer_norm": lambda x, gamma, beta: F.layer_norm(x, width, gamma, beta, EPS),
        "attention": attention,
        "residual": lambda x, f: x + drop(f),
        "post_norm": lambda x, f, gamma, beta: F.layer_norm(x + drop(f), width, gamma, beta, EPS),
        "add_norm": add_norm,
        "feed_forward": lambda x, w1, b1, w2, b2: F.linear(drop(F.relu(F.linear(x, w1, b1))), w2, b2),
        "cross_entropy": lambda z, targets: F.cross_entropy(z.flatten(0, 1), targets.flatten(), ignore_index=0),
    }
