"""PyTorch and Triton code in float64, though it asks for float32: buffers of statistics, ``x.float()``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from npformer.check.adapters.triton_kernels import interpreted


@contextmanager
def in_float64(numbers: Any) -> Iterator[None]:
    """Within this context what asks for float32 gets float64, if one of these tensors has it.

    Triton's kernels keep to their arrays in any case.
    """
    is_asked = any(str(getattr(x, "dtype", "")) == "torch.float64" for x in numbers)
    with interpreted(is_asked):
        if is_asked:
            with _mode()():
                yield
        else:
            yield


def rule_in_float64(backward: Callable[..., Any], with_copies: bool) -> Callable[..., Any]:
    """A Function's backward, for gradients in float64: autograd's engine calls it outside of such a context.

    with_copies: it gets copies of what the forward saved, for it may be changed and run often.
    """

    def rule(ctx: Any, *gradients: Any) -> Any:
        with in_float64(gradients):
            return backward(_Copies(ctx) if with_copies else ctx, *gradients)

    return rule


class _Copies:
    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._ctx, name)
        return tuple(map(_copied, value)) if isinstance(value, tuple) else _copied(value)


def _copied(x: Any) -> Any:
    return x.clone() if hasattr(x, "requires_grad") else x


@cache
def _mode() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    class Float64(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args = tuple(torch.float64 if x is torch.float32 else x for x in args)
            kwargs = {key: torch.float64 if x is torch.float32 else x for key, x in (kwargs or {}).items()}
            return (torch.Tensor.double if func is torch.Tensor.float else func)(*args, **kwargs)

    return Float64
