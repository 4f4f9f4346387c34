"""Twenty formulas with their references, their inputs, and right kernels for each in a precision."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.foreign.pair import is_float
from benchmarks.precision import kernel as casts
from benchmarks.precision import references as of
from benchmarks.precision import references_of_products as also
from benchmarks.precision.draws import causal, classified, headed, looked_up, normal, normed, weighted
from benchmarks.tolerance import in_turn
from npformer import functional

try:
    import torch

    from benchmarks.tolerance import in_torch
except ImportError:
    torch = None

PRECISIONS = ("float32", "bfloat16", "float16")
#: Kernels of PyTorch on the CPU that add up in what they store, in less than float32: npf.tolerance(accumulate=…).
ADD_UP_LOW = {("layer_norm", "PyTorch's own"), ("embedding", "PyTorch's own"), ("embedding", "PyTorch, elementary")}
#: A kernel that is less exact than its precision, and why: it is no right kernel there.
NOT_RIGHT = {("gelu", "PyTorch's own", "float32"): "oneDNN approximates erf to 1.5e-7"}


class Formula(NamedTuple):
    """A reference pair, what draws its inputs, and a right kernel in NumPy."""

    name: str
    reference: Any
    draw: Callable[[np.random.Generator], Any]
    in_numpy: Callable[[in_turn.Storage], Any]

    def inputs(self, seed, precision):
        """The inputs that this seed draws, in numbers of the precision, in float64."""
        drawn = self.draw(np.random.default_rng([seed, 21]))
        return tuple(stored(x, precision) if is_float(x) else x for x in drawn)

    def upstream(self, y, seed, precision):
        """dy: normal numbers of the precision, or 1 for a single number, such as a loss."""
        drawn = np.random.default_rng([seed, 22]).normal(size=np.shape(y))
        return np.ones(()) if np.ndim(y) == 0 else stored(drawn, precision)

    def kernels(self, precision):
        """Name -> kernel(inputs, dy), which returns the output and the gradients in float64."""
        storage = in_turn.Storage(
            partial(casts.rounded, precision=precision) if precision != "float16" else _float16,
            in_turn.product if precision != "tf32" else lambda a, b: in_turn.product(casts.tf32(a), casts.tf32(b)),
        )
        found = {"NumPy, sums in turn": partial(by_pair, self.in_numpy(storage), dtype=np.float32)}
        if torch is not None and precision in PRECISIONS:
            names = ("PyTorch's own", "PyTorch, elementary", "PyTorch, with sigmoid", "PyTorch, backward by hand")
            for name, call in zip(names, in_torch.KERNELS[self.name], strict=False):
                found[name] = partial(by_torch, call, dtype=getattr(torch, precision))
        return found

    def exact(self, inputs, dy):
        """The output and the gradients of the reference in float64."""
        return by_pair(self.reference, inputs, dy, dtype=np.float64)


def stored(x, precision):
    """x in numbers of the precision, in float64."""
    return casts.rounded(x, precision).astype(np.float64)


def _float16(x):
    return casts.float32(casts.float16(x))


def by_pair(pair, inputs, dy, dtype):
    """[y, gradients …] of a pair in NumPy, in float64."""
    forward, backward = pair
    y, cache = forward(*(x.astype(dtype) if is_float(x) else x for x in inputs))
    gradients = backward(dy.astype(dtype), cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    return [np.asarray(x, dtype=np.float64) for x in (y, *gradients)]


def by_torch(call, inputs, dy, dtype):
    """[y, gradients …] of a function of tensors, in float64."""
    tensors = [torch.tensor(x, dtype=dtype) if is_float(x) else torch.tensor(x) for x in inputs]
    wanted = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    y = call(*tensors)
    gradients = torch.autograd.grad(y, wanted, torch.tensor(dy, dtype=dtype))
    return [x.detach().double().numpy() for x in (y, *gradients)]


def _logsumexp(x):
    top = x.real.max(-1, keepdims=True)
    y = (np.log(np.exp(x - top).sum(-1, keepdims=True)) + top)[..., 0]
    return y, (x, y)


def _logsumexp_backward(dy, cache):
    x, y = cache
    return np.exp(x - y[..., None]) * dy[..., None]


def _loss(x, target):
    d = x - target
    return (d * d).sum() / d.size, d


def _loss_backward(dy, d):
    dx = dy * 2 * d / d.size
    return dx, -dx


def _cross_entropy(logits, targets):
    return functional.cross_entropy_forward(logits, targets, ignore_index=None)


def _own(name):
    return getattr(functional, f"{name}_forward"), getattr(functional, f"{name}_backward")


FORMULAS = (
    Formula("softmax", _own("softmax"), normal((8, 64)), in_turn.softmax),
    Formula("log_softmax", of.log_softmax, normal((8, 50), scale=2), in_turn.log_softmax),
    Formula("logsumexp", (_logsumexp, _logsumexp_backward), normal((16, 64)), in_turn.logsumexp),
    Formula("cross_entropy", (_cross_entropy, functional.cross_entropy_backward), classified(32, 100),
            in_turn.cross_entropy),
    Formula("layer_norm", _own("layer_norm"), normed(16, 128), in_turn.layer_norm),
    Formula("rms_norm", of.rms_norm(), normed(16, 128, bias=False), in_turn.rms_norm),
    Formula("batch_norm", _own("batch_norm"), normed(64, 24), in_turn.batch_norm),
    Formula("unit", of.unit, normal((8, 48)), in_turn.unit),
    Formula("gelu", _own("gelu"), normal((16, 32)), in_turn.gelu),
    Formula("gelu_tanh", of.gelu_tanh, normal((16, 32)), in_turn.gelu_tanh),
    Formula("silu", of.silu, normal((16, 32), scale=2), in_turn.silu),
    Formula("swiglu", of.swiglu, normal((8, 32), (8, 32)), in_turn.swiglu),
    Formula("tanh", of.tanh, normal((16, 32)), in_turn.tanh),
    Formula("linear", _own("linear"), weighted(32, 64, 48), in_turn.linear),
    Formula("attention", _own("attention"), headed(2, 3, tokens=12, width=16), in_turn.attention),
    Formula("causal attention", also.attention, causal(12, 16), in_turn.attention),
    Formula("mlp", also.mlp, normal((16, 32), (32, 48), (48, 32), scale=0.5), in_turn.mlp),
    Formula("embedding", also.embedding, looked_up(20, 16, 64), in_turn.embedding),
    Formula("rotary", also.rotary, normal((16, 32)), in_turn.rotary),
    Formula("squared_error", (_loss, _loss_backward), normal((16, 32), (16, 32)), in_turn.squared_error),
)  # fmt: skip
