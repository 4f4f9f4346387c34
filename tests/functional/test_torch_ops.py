"""Every operation beside PyTorch's, by autograd."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.functional import OPERATIONS
from npformer.models.presets import Preset

pytest.importorskip("torch", reason="PyTorch is not installed")
import torch

from tests.functional.torch_ops import TRANSPOSED, case, spellings, tensors

SMALL = Preset(11, 12, 3, 2, 20, 6, 4)


def as_tuple(x):
    return () if x is None else x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_the_same(name):
    arrays, options = case(name, SMALL)
    inputs, rng = tensors(name, arrays), np.random.default_rng(1)
    outputs = as_tuple(spellings(SMALL)[name](*inputs))
    dys = [rng.standard_normal(y.shape).astype(np.float32) for y in outputs]
    wanted = [x for x in inputs if x.requires_grad]
    theirs = [x.numpy() for x in torch.autograd.grad(outputs, wanted, [torch.from_numpy(np.array(dy)) for dy in dys])]
    for i in TRANSPOSED.get(name, ()):
        theirs[i] = theirs[i].T

    pair = getattr(PLAIN, name)
    y, cache = pair.forward(*arrays, *options)
    into = [np.zeros_like(x) for x in arrays[len(arrays) - OPERATIONS[name].parameters :]]
    ours = [*as_tuple(pair.backward(tuple(dys) if isinstance(y, tuple) else dys[0], cache, into=into)), *into]
    for mine, other in zip(as_tuple(y), outputs, strict=True):
        np.testing.assert_allclose(mine, other.detach().numpy(), rtol=1e-4, atol=1e-4)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)
