"""What only a GPU can show; skipped, with the reason, where none answers."""

from __future__ import annotations

import numpy as np
import pytest

from npformer import Adam, TrainStep, Transformer, TransformerConfig, functional
from npformer.backend import Backend
from npformer.proof import Case, catalogue

pytestmark = pytest.mark.gpu

CONFIG = TransformerConfig(9, 9, d_model=16, num_heads=4, num_encoder_layers=2, num_decoder_layers=2, d_ff=24)


@pytest.mark.parametrize("case", catalogue(), ids=lambda case: case.name)
def test_every_gradient_is_right_on_the_gpu(case: Case, cupy64: Backend) -> None:
    case.check(cupy64).raise_if_failed()


def test_dropout_bits_are_those_of_the_host(cupy64: Backend) -> None:
    draw = functional.Draw(seed=2**64 - 1, step=2**63, micro=3, site=12345678901234567890, rate=0.5)
    on_host = functional.philox_bits(draw, 1003, np.zeros(1))
    on_gpu = functional.philox_bits(draw, 1003, cupy64.zeros((1,)))
    np.testing.assert_array_equal(cupy64.host(on_gpu), on_host)


def test_training_follows_the_host(cupy64: Backend, numpy64: Backend) -> None:
    rng = np.random.default_rng(0)
    batches = [rng.integers(1, 9, size=(3, 4, 6)) for _ in range(20)]
    losses = []
    for backend in (cupy64, numpy64):
        model = Transformer(CONFIG, backend=backend, seed=1)
        step = TrainStep(model, Adam(model.arena, lr=1e-3), clip_norm=1.0, accumulate=2)
        losses.append([float(step(*batch)) for batch in batches])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-10)


def test_two_runs_are_bit_equal(cupy64: Backend) -> None:
    rng = np.random.default_rng(0)
    batches = [rng.integers(1, 9, size=(3, 4, 6)) for _ in range(5)]
    values = []
    for _ in range(2):
        model = Transformer(CONFIG, backend=cupy64, seed=1)
        step = TrainStep(model, Adam(model.arena, lr=1e-3))
        for batch in batches:
            step(*batch)
        values.append(cupy64.host(model.arena.values))
    np.testing.assert_array_equal(values[0], values[1])
