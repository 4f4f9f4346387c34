"""A hundred mistakes planted into the gradients of operators that are called right: 1 %, 10 % and all of them.

An operator gets one of its inputs through an identity whose backward spoils the gradient: everywhere, in one row, or in
one entry that is at least a thousandth of the largest.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.operators import op_db
from benchmarks.operators.case import Case
from npformer.check.report import RIGHT

COUNT, STRENGTHS, PLACES = 100, (1.01, 1.1, 0.0), ("everywhere", "one row", "one entry")
OUTCOME = Path(__file__).parents[1] / "results" / "operators-op_db.json"


def cases():
    """(a hundred cases, nothing left out): every case that was called right may be drawn."""
    verdicts = {row["name"]: row["verdict"] for row in json.loads(OUTCOME.read_text())["results"]}
    right = [case for case in op_db.cases()[0] if verdicts.get(case.name) == RIGHT]
    rng, found = np.random.default_rng(0), []
    for i in rng.permutation(len(right)):
        strength, place = STRENGTHS[len(found) % 3], PLACES[len(found) // 3 % 3]
        spoiled = partial(_spoiled, right[i].make.args, strength, place, int(rng.integers(1 << 30)))
        if spoiled() is not None:
            found.append(Case(f"{right[i].name}: {place} times {strength}", spoiled))
        if len(found) == COUNT:
            break
    return found, {}


def _spoiled(sample, strength, place, seed):
    """(the operator with a mistake, its inputs); None if no input has a gradient."""
    import torch

    import npformer as npf

    _, inputs = op_db.function_of(*sample)
    call, rng = op_db.tensors_function(*sample), np.random.default_rng(seed)
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    returned = [y for y in op_db.outputs(call(*tensors)) if y.requires_grad]
    gradients = torch.autograd.grad(returned, tensors, [torch.randn_like(y) for y in returned], allow_unused=True)
    moved = [i for i, g in enumerate(gradients) if g is not None and g.abs().max() > 1e-6]
    if not moved:
        return None
    which = int(rng.choice(moved))
    size = gradients[which].abs()
    at = np.argwhere(np.atleast_1d((size > 1e-3 * size.max()).numpy()))
    index = tuple(int(i) for i in at[rng.integers(len(at))][: size.ndim])
    factor = torch.ones_like(size)
    factor[{"everywhere": ..., "one row": index[:1], "one entry": index}[place]] = strength

    class Spoil(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            return dy * factor

    def wrong(*given):
        return call(*(Spoil.apply(x) if i == which else x for i, x in enumerate(given)))

    return npf.from_torch(wrong), inputs
