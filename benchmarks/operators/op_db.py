"""PyTorch's operator database: the first and the last sample of each differentiable operator, in float64.

The samples are the database's own, drawn after ``torch.manual_seed(0)``; so are the hooks by which it leaves out what
an operator's gradient does not determine: the sign of a singular vector, the triangle that a factorisation reads.
Complex outputs are checked as their real and imaginary parts.
"""

from collections import Counter
from functools import cache, partial

from benchmarks.operators.case import Case

#: Operators that are left out, and why.
NAMED = dict.fromkeys(
    ("as_strided", "as_strided.partial_views", "as_strided_copy", "as_strided_scatter"),
    "it reads the storage of its input, not its numbers",
) | dict.fromkeys(("bfloat16", "half", "chalf"), "it returns numbers of fewer digits")


@cache
def cases():
    """(every case, how many operators are left out for which reason)."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    seed = torch.manual_seed
    torch.manual_seed = torch.default_generator.manual_seed  # operators that draw set it at every call; this is faster
    found, left_out = [], Counter()
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}".rstrip(".")
        seed(0)
        samples, why = ([], NAMED[name]) if name in NAMED else samples_of(op)
        left_out[why] += not samples
        for which, sample in zip(("first", "last"), samples[:: max(len(samples) - 1, 1)], strict=False):
            make, peer = partial(function_of, op, sample), partial(own, op, sample)
            found.append(Case(f"{name} {which}", make, {}, peer))
    return found, +left_out


def samples_of(op):
    """(the samples that have numbers that want a gradient, why there are none)."""
    from torch import float64

    if not op.supports_autograd:
        return [], "no gradient"
    if not op.supports_dtype(float64, "cpu"):
        return [], "no float64"
    try:
        drawn = list(op.sample_inputs("cpu", float64, requires_grad=True))
    except Exception as error:  # the database has a few that this build cannot draw
        return [], f"its samples cannot be drawn: {type(error).__name__}"
    return [sample for sample in drawn if _wanted(_leaves(sample))], "no sample with numbers that want a gradient"


def function_of(op, sample):
    """(the operator as a function of the numbers that want a gradient, these as arrays)."""
    import npformer as npf

    leaves = _leaves(sample)
    return npf.from_torch(tensors_function(op, sample)), tuple(leaves[i].detach().numpy() for i in _wanted(leaves))


def own(op, sample):
    """Whether PyTorch's own gradcheck finds the gradients right."""
    from torch.autograd import gradcheck

    leaves = _leaves(sample)
    wanted = _wanted(leaves)
    inputs = tuple(leaves[i].detach().clone().requires_grad_() for i in wanted)
    try:
        return bool(gradcheck(tensors_function(op, sample), inputs, check_undefined_grad=False))
    except Exception:
        return False


def _leaves(sample):
    from torch.utils._pytree import tree_flatten

    return tree_flatten((sample.input, sample.args, sample.kwargs))[0]


def _wanted(leaves):
    """The positions of the tensors that want a gradient; none if one of them is empty or complex."""
    import torch

    wanted = [i for i, x in enumerate(leaves) if torch.is_tensor(x) and x.requires_grad]
    usable = all(leaves[i].numel() and leaves[i].layout is torch.strided and not leaves[i].is_complex() for i in wanted)
    return wanted if usable else []


def outputs(returned):
    """The tensors of floating-point numbers in what an operator returns."""
    import torch
    from torch.utils._pytree import tree_flatten

    return [y for y in tree_flatten(returned)[0] if torch.is_tensor(y) and y.is_floating_point()]


def tensors_function(op, sample):
    """The operator as a function of the tensors that want a gradient."""
    from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

    leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
    wanted = _wanted(leaves)

    def operator(*tensors):
        import torch

        parts = [x.detach().clone() if torch.is_tensor(x) else x for x in leaves]
        for i, x in zip(wanted, tensors, strict=True):
            parts[i] = x
        first, args, kwargs = tree_unflatten(parts, structure)
        returned = sample.output_process_fn_grad(op.gradcheck_wrapper(op.op, first, *args, **kwargs))
        return tree_map(
            lambda y: torch.view_as_real(y.resolve_conj()) if torch.is_tensor(y) and y.is_complex() else y, returned
        )

    return operator
