"""The checkers: each takes an Item and says "right", "wrong" or "cannot tell", with a few words.

A checker that raises another error than its own "wrong" is counted as raised: somebody's test would fail.
"""

import importlib.metadata
import time
import warnings
from contextlib import closing
from functools import partial

import numpy as np

from benchmarks.checkers.listed import items
from benchmarks.checkers.problem import upstream
from npformer.check.report import WRONG

#: Name -> (what runs, the packages whose versions count).
CHECKERS = {
    "npformer": ("npf.gradcheck", ("npformer",)),
    "npformer cause": ("npf.gradcheck, and why", ("npformer",)),
    "torch": ("torch.autograd.gradcheck", ("torch",)),
    "torch fast": ("torch.autograd.gradcheck, fast_mode=True", ("torch",)),
    "jax": ("jax.test_util.check_grads", ("jax",)),
    "autograd": ("autograd.test_util.check_grads", ("autograd",)),
    "torch assert_close": ("torch.testing.assert_close", ("torch",)),
    "numpy assert_allclose": ("numpy.testing.assert_allclose", ("numpy",)),
}
#: The error that says "wrong", beside AssertionError.
TORCH_SAYS = "GradcheckError"


def versions(name):
    """The versions of a checker's packages. Raises PackageNotFoundError if one is missing."""
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in CHECKERS[name][1])


def told(name, number):
    """[the verdict of a checker on an item, the processor's seconds, words unless it is "wrong"]."""
    quiet()
    began = time.process_time()
    verdict, words = judge(name, items()[number])
    seconds = round(time.process_time() - began, 3)
    return [verdict, seconds, *([words] if words and verdict != "wrong" else [])]


def judge(name, item):
    """(verdict, words): "right", "wrong", "cannot tell" or "raised"; of "npformer cause" that on the cause."""
    try:
        if name == "npformer cause":
            return cause_of(item), ""
        if name == "npformer":
            return by_npformer(item)
        with closing(item.problems()) as problems:
            for problem in problems:
                CHECKS[name](problem)
    except AssertionError as error:
        return "wrong", words(error)
    except Exception as error:
        return ("wrong" if type(error).__name__ == TORCH_SAYS else "raised"), words(error)
    return "right", ""


def words(error):
    """The beginning of an error."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def by_npformer(item):
    """npformer's check: no verdict but "right" if a report is ok."""
    unclear = ""
    with closing(item.reports(explain=False)) as reports:
        for report in reports:
            if report.problems or any(one.verdict == WRONG for one in (*report.rows, *report.regimes)):
                return "wrong", "; ".join(report.problems)[:160]
            if not report.ok:
                unclear = unclear or next(row.verdict for row in report.rows if row.verdict != "right")
    return ("cannot tell", unclear) if unclear else ("right", "")


def cause_of(item):
    """Whether npformer names the cause of a wrong pair: "right", "false" or "unknown"."""
    with closing(item.reports()) as reports:
        return item.cause_is(next(reports))


def by_torch(problem, fast=False):
    """gradcheck of a torch.autograd.Function around the pair."""
    import torch

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.arrays = [x.detach().numpy().copy() for x in tensors]
            outputs = tuple(torch.from_numpy(np.array(y)) for y in problem.call(ctx.arrays))
            return outputs if len(outputs) > 1 else outputs[0]

        @staticmethod
        def backward(ctx, *dys):
            gradients = problem.pull(ctx.arrays, [dy.detach().numpy().copy() for dy in dys])
            return tuple(torch.from_numpy(np.array(gradient)) for gradient in gradients)

    torch.manual_seed(0)
    tensors = [torch.from_numpy(np.array(x)).requires_grad_() for x in problem.arrays]
    torch.autograd.gradcheck(Pair.apply, tensors, fast_mode=fast)


def by_jax(problem):
    """check_grads of a custom_vjp whose rules call back to the pair, in reverse mode, in 64 bits."""
    import jax
    from jax.test_util import check_grads

    def like(arrays):
        return tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays)

    def host(arrays):
        return [np.array(x) for x in arrays]

    @jax.custom_vjp
    def pair(*xs):
        return jax.pure_callback(lambda *a: tuple(problem.call(host(a))), like(problem.call(problem.arrays)), *xs)

    def pulled(xs, dys):
        return tuple(problem.pull(host(xs), host(dys)))

    pair.defvjp(lambda *xs: (pair(*xs), xs), lambda xs, dys: jax.pure_callback(pulled, like(problem.arrays), xs, dys))
    with jax.enable_x64(True):
        check_grads(pair, tuple(map(jax.numpy.asarray, problem.arrays)), order=1, modes=("rev",))


def by_autograd(problem):
    """check_grads of a primitive with the pair's backward, in reverse mode, over all of its arguments."""
    from autograd.extend import defvjp, primitive
    from autograd.test_util import check_grads

    shapes = [y.shape for y in problem.call(problem.arrays)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    @primitive
    def pair(*xs):
        outputs = problem.call([np.array(x) for x in xs])
        return outputs[0] if len(outputs) == 1 else np.concatenate([np.ravel(y) for y in outputs])

    def rule(place):
        def of(ans, *xs):
            def pull(g):
                parts = [g] if len(shapes) == 1 else np.split(g, ends)
                dys = [np.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
                return problem.pull([np.array(x) for x in xs], dys)[place]

            return pull

        return of

    defvjp(pair, *map(rule, range(len(problem.arrays))))
    np.random.seed(0)
    every = tuple(range(len(problem.arrays)))
    check_grads(pair, every if len(every) > 1 else 0, modes=["rev"], order=1)(*problem.arrays)


def compared(problem):
    """(claimed, expected) of each gradient, for one random upstream gradient."""
    dys = upstream(problem.call(problem.arrays))
    return zip(problem.pull(problem.arrays, dys), problem.truth(problem.arrays, dys), strict=True)


def by_assert_close(problem):
    """PyTorch's default tolerances for the dtype."""
    import torch

    kind = torch.bfloat16 if problem.is_bfloat16 else None
    for claimed, expected in compared(problem):
        both = (torch.from_numpy(np.array(x)).to(kind) for x in (claimed, expected))
        torch.testing.assert_close(*both)


def by_assert_allclose(problem):
    """NumPy's default tolerances."""
    for claimed, expected in compared(problem):
        np.testing.assert_allclose(claimed, expected)


CHECKS = {
    "torch": by_torch, "torch fast": partial(by_torch, fast=True), "jax": by_jax, "autograd": by_autograd,
    "torch assert_close": by_assert_close, "numpy assert_allclose": by_assert_allclose,
}  # fmt: skip


def quiet():
    """Warnings of the checkers, and of pairs that divide by 0, are not told."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
