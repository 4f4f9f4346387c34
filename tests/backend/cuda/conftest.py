"""The kernels for GPUs, on a card that is none."""

from __future__ import annotations

import dataclasses

import pytest

from npformer.backend import Backend, get_backend
from npformer.backend.cuda import cuda_ops
from npformer.backend.fallback import with_fallback
from tests.backend.cuda import host_card

#: (threads in every block, whether they and the blocks run last to first): alone, and a warp and a part of one.
BLOCKS = {"1 thread": (1, False), "40 threads": (40, True)}


@pytest.fixture
def cards():
    """The module host_card; skips, visibly, without a compiler."""
    problem = host_card.compiler_problem()
    if problem is not None:
        pytest.skip(problem)
    return host_card


@pytest.fixture(params=BLOCKS)
def card(request, cards):
    """Kernels compiled as C++, in blocks of each size."""
    block, backwards = BLOCKS[request.param]
    return cards.HostCard(block=block, backwards=backwards)


def backend_on(card, dtype: str) -> Backend:
    """A backend whose operations are those for GPUs, on a card, with fall-back to plain ones."""
    plain = get_backend("numpy", dtype=dtype, kernels="plain")
    return dataclasses.replace(plain, ops=with_fallback(cuda_ops(card), plain.ops), kernels="cuda")


@pytest.fixture
def on_card():
    """on_card(card, dtype): the backend above."""
    return backend_on


@pytest.fixture
def table(card):
    """The kernels on that card, bare."""
    return cuda_ops(card)


@pytest.fixture
def card64(card):
    return backend_on(card, "float64")
