"""A learner's answer: Cross-entropy."""

import numpy as np


def cross_entropy_forward(logits, targets, ignore_index=0, label_smoothing=0.0):
    """logits (B, T, V), targets (B, T) integers. Returns the mean loss over counted tokens, (), and a cache.

    A token whose target is ignore_index does not count; if none counts, the loss is 0.
    """
    num_classes = logits.shape[-1]
    shifted = logits - np.max(logits, axis=-1, keepdims=True)  # 1. (B, T, V), so that exp cannot overflow
    log_p = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))  # 2. (B, T, V)
    one_hot = targets[..., None] == np.arange(num_classes)  # (B, T, V)
    q = (1.0 - label_smoothing) * one_hot + label_smoothing / num_classes  # 3. what p should be
    token_loss = -np.sum(q * log_p, axis=-1)  # 4. (B, T)
    counted = targets != ignore_index  # (B, T)
    num_counted = max(int(np.sum(counted)), 1)
    loss = np.sum(np.where(counted, token_loss, 0.0)) / num_counted  # 5. ()
    return loss, (np.exp(log_p), q, counted, num_counted)


def cross_entropy_backward(dloss, cache):
    """dloss, a number. Returns dlogits (B, T, V)."""
    p, q, counted, num_counted = cache
    dlogits = dloss * (p - q) / num_counted
    dlogits[~counted] = 0.0
    return dlogits
