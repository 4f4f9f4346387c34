"""Cross-entropy: the mean negative log-probability of the target tokens, with label smoothing.

    p_n = softmax(z_n)                              over the V classes
    q_n = (1 − smoothing)·onehot(target_n) + smoothing/V
    loss = (1/N) Σ_n −Σ_v q_nv log p_nv             over the N tokens that count

Names in the code: z is logits, N is num_counted.

A token whose target is ignore_index (padding) does not count, neither in the sum nor in N. If
nothing counts the loss is 0, and so is every gradient.

Backward. With log p_nv = z_nv − lse_n, lse_n = log Σ_v exp z_nv and Σ_v q_nv = 1, a token's loss is
lse_n − Σ_v q_nv z_nv. Since ∂lse_n/∂z_nv = p_nv,

    dz_nv = dloss/N·(p_nv − q_nv) for tokens that count, 0 for the others

Softmax and logarithm meet here. Alone, the logarithm sends back dp = −q/p, which is huge where p is small, and
softmax's Jacobian is as small there. Their product is plain: (diag(p) − p pᵀ)(−q/p) = −q + p·Σ_v q_v = p − q. Each
entry lies between −1 and 1, and it fades only as p comes to q: a model that is sure and wrong still gets a gradient
near 1.

The mean is over counted tokens, in the forward and in the backward. A gradient that is divided by another
number (B, B·T) is wrong, but a falling loss would not show it.

Source: Szegedy et al. 2015, arXiv:1512.00567, section 7 (label smoothing).
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.errors import ConfigError
from npformer.functional.arrays import device_of, expect_integers, expect_shape, namespace, real_part
from npformer.functional.operation import Operation
from npformer.typing import Array


class CrossEntropyCache(NamedTuple):
    p: Array  # (..., V)  kept: softmax of the logits
    q: Array  # (..., V)  kept: what p should have been
    counted: Array  # (..., 1)  1 where the token counts, else 0
    num_counted: Array  # ()  N, at least 1


def cross_entropy_forward(
    logits: Array, targets: Array, ignore_index: int | None = 0, label_smoothing: float = 0.0
) -> tuple[Array, CrossEntropyCache]:
    """Mean loss, in nats per counted token, of logits (..., V) at targets (...). Returns a scalar array ().

    targets are integers in [0, V) or ignore_index (None: every token counts). Their range is checked where
    they enter a model, not here. Raises ShapeError, DTypeError, or ConfigError unless
    0 ≤ label_smoothing < 1.
    """
    expect_loss(logits, targets, label_smoothing)
    xp = namespace(logits)
    shifted = logits - xp.max(real_part(logits), axis=-1, keepdims=True)  # 1. so that exp cannot overflow
    powers = xp.exp(shifted)
    power_sum = xp.sum(powers, axis=-1, keepdims=True)  # (..., 1)
    q = _target_distribution(logits, targets, label_smoothing)
    shifted = xp.where(real_part(q) > 0, shifted, xp.zeros_like(shifted))  # 0·(−∞), of a class ruled out, is no number
    token_loss = xp.log(power_sum) - xp.sum(q * shifted, axis=-1, keepdims=True)  # 2. the shift cancels
    counted, num_counted = _counted(targets, ignore_index, logits)
    loss = xp.sum(counted * token_loss) / num_counted  # 3. ()
    return loss, CrossEntropyCache(powers / power_sum, q, counted, num_counted)


def cross_entropy_backward(dloss: Array | float, cache: CrossEntropyCache) -> tuple[Array]:
    """Gradient (dlogits (..., V),) of cross_entropy_forward; dloss is a scalar, 1.0 for the loss itself."""
    p, q, counted, num_counted = cache
    return ((p - q) * (counted * (dloss / num_counted)),)


def _target_distribution(logits: Array, targets: Array, label_smoothing: float) -> Array:
    """q (..., V) of the formulas above; smoothing/V everywhere if the target is outside [0, V)."""
    xp = namespace(logits)
    num_classes = logits.shape[-1]
    # int64, not targets.dtype: in uint8 the classes would wrap at 256
    classes = xp.arange(num_classes, dtype=xp.int64, device=device_of(logits))
    one_hot = xp.astype(xp.astype(targets, xp.int64)[..., None] == classes, logits.dtype)
    return (1 - label_smoothing) * one_hot + label_smoothing / num_classes


def _counted(targets: Array, ignore_index: int | None, logits: Array) -> tuple[Array, Array]:
    """Which tokens count, (..., 1) of 0 and 1, and their number (), at least 1, so that 0 tokens give loss 0."""
    xp = namespace(logits)
    everything = ignore_index is None
    counts = xp.ones_like(targets, dtype=xp.bool) if everything else targets != ignore_index
    counted = xp.astype(counts[..., None], logits.dtype)
    num_counted = xp.sum(counted)
    return counted, xp.where(real_part(num_counted) > 0, num_counted, xp.ones_like(num_counted))


def expect_loss(logits: Array, targets: Array, label_smoothing: float) -> None:
    """Raise ShapeError, DTypeError or ConfigError for what cross_entropy_forward cannot take."""
    if not 0 <= label_smoothing < 1:
        raise ConfigError(f"label_smoothing: expected 0 <= label_smoothing < 1, got {label_smoothing}")
    expect_integers("targets", targets)
    expect_shape("targets", targets, "the shape of logits without V", *logits.shape[:-1])


CROSS_ENTROPY = Operation(cross_entropy_forward, cross_entropy_backward, ids="targets")
