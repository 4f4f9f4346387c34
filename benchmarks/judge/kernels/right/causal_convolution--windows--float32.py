"""By windows of the padded input, and one product for each gradient."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def forward(x, w):
    behind = np.concatenate([np.zeros((len(w) - 1, x.shape[1]), x.dtype), x])
    windows = sliding_window_view(behind, len(w), 0)[..., ::-1]  # (T, C, K), the newest first
    return np.einsum("tck,kc->tc", windows, w), (windows, w)


def backward(dy, cache):
    windows, w = cache
    ahead = np.concatenate([dy, np.zeros((len(w) - 1, dy.shape[1]), dy.dtype)])
    return np.einsum("tck,kc->tc", sliding_window_view(ahead, len(w), 0), w), np.einsum("tck,tc->kc", windows, dy)
