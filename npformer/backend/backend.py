"""A backend: where arrays live, in which precision, and which kernels compute.

A backend is composed of parts, without inheritance: a table of operations, a device, a dtype, and
``capture``, which may turn a function of device arrays into something cheaper to call again (a
CUDA graph). On NumPy capture returns the function unchanged.

``capture(function, static_arguments)``: function(subject, given) computes arrays, or None, from ``given``: lists and
tuples, nested to any depth, of host arrays and Python numbers. It may use their values only in array
computations, not in Python's control flow. When captured, it receives them as arrays in device memory:

    a host array         the same numbers
    a whole number       () of uint64
    a fraction           () of the backend's dtype
    a tuple of numbers   (n,) of float64

static_arguments(subject) lists everything else that function depends on. If it changes, the captures are dropped.
``capture_part`` is the same for the work of one thread on its shard of a batch; each thread has its own capture.
A captured function returns new arrays. It runs uncaptured the first time it sees new shapes,
so it must reset any state that an interrupted call may have left incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from npformer.backend.ops import Ops
from npformer.errors import ConfigError
from npformer.typing import Array, HostArray

Function = TypeVar("Function", bound=Callable[..., Any])

PRECISIONS = ("float32", "tf32", "bfloat16")  # of matrix products; see get_backend in select.py
DTYPES = ("float32", "float64", "complex128")

#: (p, g, m, v, lr, betas, eps, t, decay): one update of flat arrays, in place, as in ``optim/adam.py``.
AdamUpdate = Callable[[Array, Array, Array, Array, float, tuple[float, float], float, int, float], None]
#: (decoder, threads) -> a function that makes a state's DecoderSteps; None: this model, or this state, does not fit.
PrepareSteps = Callable[[Any, int], "Callable[[Any], DecoderSteps | None] | None"]
#: encoder -> a fused encoder: (x (B, S, C), visible (B, S)) -> memory (B, S, C); None: this encoder does not fit.
PrepareEncoder = Callable[[Any], Callable[[Array, Array], Array | None] | None]
#: (logits, log P, greedy, room, width, pad_id) -> as in ``decoding/choice.py``; None: this case does not fit.
BeamChoice = Callable[
    [Array, HostArray, HostArray, HostArray, int, int], tuple[HostArray, HostArray, HostArray, HostArray] | None
]
#: (the names of kernels: "linear.forward", "linear.backward", "adam", …) -> None; compiles those not compiled yet.
CompileAhead = Callable[[Iterable[str]], Any]
Jobs = Sequence[Callable[[], Any]]


class Device(Protocol):
    """Where arrays live. ``NumpyDevice`` and ``CupyDevice`` implement it; another device needs only these methods."""

    name: str

    def array(self, host: HostArray, dtype: str) -> Array:
        """A copy of host on this device, as dtype."""

    def host(self, x: Array) -> HostArray:
        """x as a NumPy array on the host (waits for the device)."""

    def owns(self, x: Any) -> bool:
        """Whether x is an array of this device already."""

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Zeros, starting on a 64-byte boundary."""

    def synchronize(self) -> None:
        """Wait until all work of this device is done."""


class DecoderSteps(Protocol):
    """Decoding steps of a whole model in one call. A method returns None if it cannot do them.

    See ``runtime/fused_decode.py``.
    """

    def __call__(self, tokens: Array, position: int) -> Array | None:
        """From tokens (B, 1) at a position to logits (B, 1, V)."""

    def write(self, tokens: Array, position: int, going: Array, ends: tuple[int, int], count: int) -> Array | None:
        """Up to count greedy steps from tokens (B, 1) on. Returns the chosen tokens, (n, B) integers.

        going (B,) marks the unfinished rows; the others are fed pads. The steps stop once an unfinished row chooses
        eos; ends are (eos_id, pad_id). Every token that was fed and is no pad is marked as visible.
        """

    def search(
        self, tokens: Array, position: int, beams: tuple[Array, ...], ends: tuple[int, int], count: int
    ) -> tuple[Array, Array] | None:
        """Up to count steps of beams of width w, from tokens (n·w, 1) on. Returns rows and tokens, both (steps, n·w).

        beams are log P (n, w) and greedy (n,), both updated; room, the best finished score and the longest
        penalty (n,), as in ``decoding/beams.py``. The steps stop once a hypothesis chooses eos, or once all hypotheses
        of a source are worse than its best finished one; the caller reorders the rows after that. Also returns None
        if more hypotheses may continue than a beam is wide.
        """


def run_eagerly(function: Function, static_arguments: Callable[[Any], Sequence[Any]] | None = None) -> Function:
    """The capture of NumPy: it returns the function unchanged."""
    return function


def one_after_the_other(jobs: Jobs) -> None:
    """Run the jobs on a single thread."""
    for job in jobs:
        job()


class ArenaUpdates(Protocol):
    """The end of a training step over a whole arena, with all scalars in device memory."""

    def gradient_norm(self, arena: Any, longest: float | None) -> tuple[Array, Array | None]:
        """The norm () of the trainable gradients, and the factor () that clips it to longest; None without longest."""

    def adam(
        self, arena: Any, m: Array, v: Array, rates: Array, betas: tuple[float, float], eps: float,
        weight_decay: float, shrink: Array | None,
    ) -> None:  # fmt: skip
        """Adam's update of all trainable segments, with gradients times shrink (); rates (3,) as in ``Adam.rates``."""


@dataclass(frozen=True)
class Backend:
    """See the module's docstring. Build one with ``get_backend`` (``select.py``).

    ``kernels`` names the table of operations. ``precision`` is the precision of float32 matrix products.
    ``threads`` is the largest number of shards of a training batch, each of at least ``least_part`` numbers
    (see ``parts_of``), and ``in_threads(jobs)`` runs that many jobs at the same time. Within ``on_one_thread()``
    products use only the caller's thread, so that BLAS threads do not disturb the work that follows. ``adam_update`` is
    a faster version of Adam's formula, or None. ``updates`` clips and updates within a captured function.
    ``decoder_steps`` and ``encoder_of_texts`` prepare a model for fused decoding, and ``beam_choice`` is a faster
    version of a beam search's choice. ``compile_ahead`` compiles kernels before their first call; it is None
    if there is nothing to compile. ``own_ops`` are the operations the backend was built with. If a user replaces one,
    fused kernels and recordings, which would bypass the replacement, are not used.
    """

    name: str
    ops: Ops
    device: Device
    dtype: str = "float32"
    capture: Callable[..., Any] = run_eagerly
    capture_part: Callable[..., Any] = run_eagerly
    kernels: str = "plain"
    threads: int = 1
    least_part: int = 1
    in_threads: Callable[[Jobs], None] = one_after_the_other
    on_one_thread: Callable[[], AbstractContextManager[None]] = nullcontext
    adam_update: AdamUpdate | None = None
    updates: ArenaUpdates | None = None
    decoder_steps: PrepareSteps | None = None
    encoder_of_texts: PrepareEncoder | None = None
    beam_choice: BeamChoice | None = None
    compile_ahead: CompileAhead | None = None
    precision: str = "float32"
    own_ops: Ops | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype: expected one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.precision not in PRECISIONS:
            raise ConfigError(f"precision: expected one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.precision != "float32" and self.dtype != "float32":
            raise ConfigError(
                f"precision: expected float32 for arrays of {self.dtype}, got {self.precision}: it applies to float32 "
                "products only; leave it out, or use dtype float32"
            )

    @property
    def has_own_ops(self) -> bool:
        """Whether the backend computes with the operations it was built with: no user has replaced one."""
        return self.own_ops is None or self.ops is self.own_ops

    def __copy__(self) -> Backend:
        return self

    def __deepcopy__(self, memo: Any) -> Backend:
        """The backend itself: a copied model computes on the same backend."""
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a backend, and so a model, cannot be pickled: it holds functions and threads of this process; "
            "keep models with npf.save(model, path), and read them where they are needed with npf.load(path)"
        )

    def array(self, host: HostArray | Sequence[Any] | float) -> Array:
        """Host numbers as an array of this backend's dtype on its device."""
        return self.device.array(np.asarray(host), self.dtype)

    def integers(self, host: HostArray) -> Array:
        """Host integers as int64 on the device."""
        return self.device.array(host, "int64")

    def on_device(self, x: HostArray | Array) -> Array:
        """x itself if it is on the device already, else a copy there with the same dtype."""
        return x if self.device.owns(x) else self.device.array(x, x.dtype.name)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros of this backend's dtype on its device."""
        return self.device.zeros(shape, self.dtype)

    def parts_of(self, numbers: int) -> int:
        """Into how many shards, one per thread, to split a batch of this many numbers, B·T·C."""
        return max(1, min(self.threads, numbers // self.least_part))

    def host(self, x: Array) -> HostArray:
        """x as a NumPy array."""
        return self.device.host(x)

    def __str__(self) -> str:
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.name} ({self.kernels}) on {self.device.name}, {self.dtype}{self._products()}{threads}"

    def _products(self) -> str:
        """The precision of products, where there is a choice."""
        return f", products in {self.precision}" if self.name == "cupy" and self.dtype == "float32" else ""
