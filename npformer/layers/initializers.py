"""Initial values of parameters, drawn on the host from a seeded generator, so equal on every backend."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from npformer.typing import HostArray

#: An integer, or the generator that a parent passes to its parts.
Seed: TypeAlias = int | np.random.Generator


def xavier_uniform(seed: Seed, fan_in: int, fan_out: int) -> HostArray:
    """(fan_in, fan_out), uniform in ±√(6/(fan_in + fan_out)), so of variance 2/(fan_in + fan_out).

    x W keeps the variance of activations if that of W is 1/fan_in, dy Wᵀ that of gradients if it is 1/fan_out. This
    lies between the two, and is both if W is square. Source: Glorot & Bengio 2010, eq. 16."""
    limit = math.sqrt(6 / (fan_in + fan_out))
    return np.random.default_rng(seed).uniform(-limit, limit, (fan_in, fan_out))


def small_normal(seed: Seed, fan_in: int, fan_out: int) -> HostArray:
    """(fan_in, fan_out), normal with deviation 0.02: an output projection that starts so predicts almost uniformly, so
    the first loss is near ln V and no step is spent on unlearning. Source: Radford et al. 2018 (GPT), section 4.1."""
    return np.random.default_rng(seed).normal(0.0, 0.02, (fan_in, fan_out))


def scaled_normal(seed: Seed, rows: int, width: int, std: float = 1.0) -> HostArray:
    """(rows, width), normal with deviation std/√width: scaled by √width, an embedding starts with entries of deviation
    std, and as a tied output projection it starts with logits of deviation about std.
    Source: Vaswani et al. 2017, section 3.4, for the scale; Press & Wolf 2017, arXiv:1608.05859, for the tie."""
    return np.random.default_rng(seed).normal(0.0, std / math.sqrt(width), (rows, width))


def scaled_uniform(seed: Seed, rows: int, width: int, std: float = 1.0) -> HostArray:
    """(rows, width), uniform in ±std·√(3/width): the deviation of ``scaled_normal``, without outliers."""
    limit = std * math.sqrt(3 / width)
    return np.random.default_rng(seed).uniform(-limit, limit, (rows, width))
