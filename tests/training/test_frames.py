"""With plain kernels a step is what it looks like: few calls lie between it and the model, and none of the runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import npformer
from npformer.backend import get_backend
from npformer.functional import linear_forward
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam
from npformer.training import TrainStep

PACKAGE = npformer.__path__[0]
IDS = np.array([[3, 5, 4], [6, 8, 2]])


def new_step() -> TrainStep:
    config = TransformerConfig(9, 9, d_model=8, num_heads=2, d_ff=12, num_encoder_layers=1, num_decoder_layers=1)
    model = Transformer(config, backend=get_backend("numpy", kernels="plain"))
    return TrainStep(model, Adam(model.arena), clip_norm=1.0)


def frames_to(function: Callable[..., Any], call: Callable[[], Any]) -> list[str]:
    """npformer's own frames between call and the first call of function that it comes to, the outermost first."""
    found: list[str] = []

    def trace(frame: FrameType | None, event: str, _: Any) -> None:
        if frame is not None and frame.f_code is function.__code__ and not found:
            found.append("")
            while (frame := frame.f_back) is not None:
                if frame.f_code.co_filename.startswith(PACKAGE):
                    name = frame.f_code.co_filename.removeprefix(PACKAGE)
                    found.insert(0, f"{name}:{frame.f_code.co_name}")

    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found[:-1]


@pytest.mark.parametrize(("function", "most"), [(Transformer.forward, 4), (linear_forward, 14)])
def test_the_way_of_a_batch_is_short(function: Callable[..., Any], most: int) -> None:
    step = new_step()
    step(IDS, IDS, IDS)
    first, *between = frames_to(function, lambda: step(IDS, IDS, IDS))
    assert first == "/training/step.py:__call__"
    assert len(between) <= most, between
    assert not [frame for frame in between if frame.startswith("/runtime/")]


def test_nothing_of_the_runtime_is_called_but_what_describes_a_batch() -> None:
    step, called = new_step(), set[str]()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code.co_filename.startswith(PACKAGE + "/runtime"):
            called.add(frame.f_code.co_filename.removeprefix(PACKAGE + "/runtime/"))

    sys.setprofile(trace)
    try:
        step(IDS, IDS, IDS)
    finally:
        sys.setprofile(None)
    assert called <= {"inputs.py"}
