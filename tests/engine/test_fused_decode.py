"""Fused decoding against the model's own step, where a part is of a class that no kernel knows."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.engine.fused_decode import step
from npformer.layers import Embedding, Linear


class Doubled(Embedding):
    """An embedding that says that it may be recorded, and computes something else than npformer's."""

    static = True

    def forward(self, tokens):
        x, cache = super().forward(tokens)
        return 2 * x, cache


class Shifted(Linear):
    static = True

    def forward(self, x):
        y, cache = super().forward(x)
        return y + np.arange(y.shape[-1]), cache


@pytest.mark.parametrize(("place", "kind"), [("tgt_embedding", Doubled), ("generator", Shifted)])
def test_a_static_subclass_decodes_as_the_model_s_own_step(place, kind, small_model, batch):
    pytest.importorskip("numba")
    model = small_model(get_backend("numpy", dtype="float64", kernels="numba"))
    src, tgt_in, _ = batch
    usual, mine = [], []
    for texts in (usual, mine):
        states = [model.start(src, tgt_in.shape[1]) for _ in range(2)]
        for tokens in tgt_in.T:
            logits = step(model, tokens, states[0])
            np.testing.assert_allclose(logits, model.step(tokens, states[1]), rtol=1e-10, atol=1e-12)
            texts.append(logits)
        assert (states[0].fused[1] is None) == (texts is mine)
        getattr(model, place).__class__ = kind
    assert all((np.abs(one - other) > 1e-3).any() for one, other in zip(usual, mine, strict=True))
