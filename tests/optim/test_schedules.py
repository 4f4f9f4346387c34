"""Learning rates at the steps that can be worked out by hand."""

import re

import pytest

from npformer.errors import ConfigError
from npformer.optim import Constant, Noam, WarmupCosine

NOAM = Noam(d_model=64, warmup_steps=4)
COSINE = WarmupCosine(peak=1.0, warmup_steps=4, total_steps=12, floor=0.2)


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        (Constant(0.3), 1, 0.3),
        (Constant(0.3), 10**6, 0.3),
        (NOAM, 0, 0.0),
        (NOAM, 1, 1 / 64),  # 1/√64 · 1/√4³
        (NOAM, 2, 2 / 64),
        (NOAM, 4, 4 / 64),  # both arms meet: 1/√64 · 1/√4
        (NOAM, 16, 2 / 64),
        (NOAM, 1600, 1 / 320),
        (Noam(d_model=64, warmup_steps=4, factor=3.0), 4, 12 / 64),
        (Noam(d_model=1, warmup_steps=1), 1, 1.0),
        (COSINE, 0, 0.0),
        (COSINE, 1, 0.25),
        (COSINE, 3, 0.75),
        (COSINE, 4, 1.0),
        (COSINE, 6, 0.2 + 0.8 * (1 + 0.5**0.5) / 2),
        (COSINE, 8, 0.6),
        (COSINE, 12, 0.2),
        (COSINE, 16, 0.2),
        (COSINE, 1000, 0.2),
        (WarmupCosine(peak=2.0, warmup_steps=0, total_steps=2), 0, 2.0),
        (WarmupCosine(peak=2.0, warmup_steps=0, total_steps=0), 0, 2.0),
        (WarmupCosine(peak=2.0, warmup_steps=0, total_steps=2), 1, 1.0),
        (WarmupCosine(peak=2.0, warmup_steps=0, total_steps=2), 2, 0.0),
        (WarmupCosine(peak=2.0, warmup_steps=3, total_steps=3, floor=0.5), 3, 2.0),
        (WarmupCosine(peak=2.0, warmup_steps=3, total_steps=3, floor=0.5), 4, 0.5),
    ],
)
def test_the_rate_at_a_step(schedule, step, rate):
    assert schedule(step) == pytest.approx(rate, rel=1e-14, abs=1e-16)


@pytest.mark.parametrize(("d_model", "warmup_steps"), [(0, 4), (4, 0)])
def test_noam_without_width_or_warm_up_is_refused(d_model, warmup_steps):
    text = (
        "Noam: expected d_model >= 1 and warmup_steps >= 1, got "
        f"Noam(d_model={d_model}, warmup_steps={warmup_steps}, factor=1.0)"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        Noam(d_model, warmup_steps)


@pytest.mark.parametrize("warmup_steps", [-1, 11])
def test_a_warm_up_longer_than_all_is_refused(warmup_steps):
    text = f"warmup_steps: expected 0 <= warmup_steps <= total_steps=10, got {warmup_steps}"
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        WarmupCosine(1.0, warmup_steps, 10)
