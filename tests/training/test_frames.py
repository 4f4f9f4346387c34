"""With plain kernels a step is what it looks like: few calls lie between it and the model, and none of the engine."""

import sys

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


def new_step():
    config = TransformerConfig(9, 9, d_model=8, num_heads=2, d_ff=12, num_encoder_layers=1, num_decoder_layers=1)
    model = Transformer(config, backend=get_backend("numpy", kernels="plain"))
    return TrainStep(model, Adam(model.arena), clip_norm=1.0)


@pytest.mark.parametrize(("function", "most"), [(Transformer.forward, 4), (linear_forward, 14)])
def test_the_way_of_a_batch_is_short(function, most):
    """Between the step and the function there are at most so many frames of npformer's own."""
    step, between, files = new_step(), [], set()

    def trace(frame, event, _):
        if frame is not None and event == "call":
            files.add(frame.f_code.co_filename)
        if frame is not None and frame.f_code is function.__code__ and not between:
            while (frame := frame.f_back) is not None and frame.f_code is not TrainStep.__call__.__code__:
                if frame.f_code.co_filename.startswith(PACKAGE):
                    between.append(frame.f_code.co_qualname)

    sys.setprofile(trace)
    try:
        step(IDS, IDS, IDS)
    finally:
        sys.setprofile(None)
    assert 0 < len(between) <= most, between[::-1]
    assert not [file for file in files if file.startswith(f"{PACKAGE}/engine/")], "nothing that runs it elsewhere"
