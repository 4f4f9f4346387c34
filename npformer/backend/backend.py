"""A backend: where arrays live, in which precision, and which kernels compute.

It is composed of parts, not inherited from: a table of operations, a device, a dtype, and
``capture``, which may turn a function of device arrays into something cheaper to call again (a
CUDA graph); on NumPy it is the identity.

``capture(function, static_arguments)``: function(subject, given) computes arrays, or None, from ``given``: lists and
tuples, however nested, of host arrays and Python's numbers. What it makes of them may depend on their
values only where it computes with them as arrays. Captured, it gets them as arrays in the device's memory:

    a host array         the same numbers
    a whole number       () of uint64
    a fraction           () of the backend's dtype
    a tuple of numbers   (n,) of float64

static_arguments(subject) lists all else that function depends on; if that changes, what was captured is forgotten.
``capture_part`` is the same for what one thread does with its part of a batch; each thread has one of its own.
What a captured function returns are fresh arrays. It is run as it is when it sees shapes for the first
time, so it must begin anew what an unfinished call may have left half done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from npformer.backend.device import Device
from npformer.backend.ops import Ops
from npformer.errors import ConfigError, DeviceError
from npformer.typing import Array, HostArray

Function = TypeVar("Function", bound=Callable[..., Any])

PRECISIONS = ("float32", "tf32", "bfloat16")  # of products; see get_backend
DTYPES = ("float32", "float64", "complex128")
KERNELS = ("auto", "plain", "numpy", "numba", "cuda")

#: (p, g, m, v, lr, betas, eps, t, decay): one update of flat arrays, in place, as in ``optim/adam.py``.
AdamUpdate = Callable[[Array, Array, Array, Array, float, tuple[float, float], float, int, float], None]
#: (decoder, threads) -> what makes steps of a whole model for a state; None: not this model, or not this state.
PrepareSteps = Callable[[Any, int], "Callable[[Any], DecoderSteps | None] | None"]
#: encoder -> what encodes whole texts: (x (B, S, C), visible (B, S)) -> memory (B, S, C); None: not this one.
PrepareEncoder = Callable[[Any], Callable[[Array, Array], Array | None] | None]
#: (logits, log P, greedy, room, width, pad_id) -> what ``decoding/choice.py`` says; None: not this case.
BeamChoice = Callable[
    [Array, HostArray, HostArray, HostArray, int, int], tuple[HostArray, HostArray, HostArray, HostArray] | None
]
#: (what calls kernels: "linear.forward", "linear.backward", "adam", …) -> nothing; compiles those that are not yet.
CompileAhead = Callable[[Iterable[str]], Any]
Jobs = Sequence[Callable[[], Any]]


class DecoderSteps(Protocol):
    """Steps of a whole model in one call; None is returned where they do not fit. See ``runtime/fused_decode.py``."""

    def __call__(self, tokens: Array, position: int) -> Array | None:
        """From tokens (B, 1) at a position to logits (B, 1, V)."""

    def write(self, tokens: Array, position: int, going: Array, ends: tuple[int, int], count: int) -> Array | None:
        """Up to count steps from tokens (B, 1) on, each row fed its likeliest token: those chosen, (n, B) integers.

        Rows that are not going (B,) are fed pads. The last step is one after which a row that is going chose to
        end; ends are (eos_id, pad_id). What was fed and was no pad is noted as visible.
        """

    def search(
        self, tokens: Array, position: int, beams: tuple[Array, ...], ends: tuple[int, int], count: int
    ) -> tuple[Array, Array] | None:
        """Up to count steps of beams of w places, from tokens (n·w, 1) on: rows and tokens (steps, n·w) of each choice.

        beams are log P (n, w) and greedy (n,), which change; room, the best score that has ended and the longest
        penalty (n,), as ``decoding/beams.py`` has them. The last step is one after which a hypothesis chose to end,
        or all of a source's are worse than its best; where its rows go on from is for the caller to see to. None, too,
        where more may go on than there are places.
        """


def run_eagerly(function: Function, static_arguments: Callable[[Any], Sequence[Any]] | None = None) -> Function:
    """The capture that captures nothing."""
    return function


def one_after_the_other(jobs: Jobs) -> None:
    """Doing jobs where there is one thread."""
    for job in jobs:
        job()


class ArenaUpdates(Protocol):
    """The end of a training step over a whole arena, by numbers that lie in the device's memory."""

    def gradient_norm(self, arena: Any, longest: float | None) -> tuple[Array, Array | None]:
        """The norm () of the trainable gradients, and by what to shorten them if it is not to exceed longest ()."""

    def adam(
        self, arena: Any, m: Array, v: Array, rates: Array, betas: tuple[float, float], eps: float,
        weight_decay: float, shrink: Array | None,
    ) -> None:  # fmt: skip
        """Adam's update of what is trainable, of the gradients times shrink (); rates (3,) as ``Adam.rates`` says."""


@dataclass(frozen=True)
class Backend:
    """See the module's docstring. Build one with ``get_backend``.

    ``kernels`` names the table of operations. ``precision`` says what products of float32 are made of.
    ``threads`` is into how many parts a training batch is shared out at most, each of ``least_part`` numbers at least
    (see ``parts_of``), and ``in_threads(jobs)`` does that many jobs at the same time; within ``on_one_thread()``
    products use no thread but their caller's, where others would be in the way of what follows. ``adam_update`` is a
    faster spelling of Adam's formula, or None, ``updates`` what clips and updates in a captured function,
    ``decoder_steps`` and ``encoder_of_texts`` prepare a model for decoding, and ``beam_choice`` is a faster spelling of
    what a beam search chooses. ``compile_ahead`` compiles what would else be compiled by its first call, or is None
    where nothing has to be. ``own_ops`` are the operations it came with: what computes several in one, or records them,
    is not asked where others stand.
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
                f"precision: expected float32 for arrays of {self.dtype}, got {self.precision}: it says what products "
                "of float32 are made of, and others have one way only; leave it out, or use dtype float32"
            )

    @property
    def has_own_ops(self) -> bool:
        """Whether it computes with the operations that it came with: nobody has put one of his own into the table."""
        return self.own_ops is None or self.ops is self.own_ops

    def __copy__(self) -> Backend:
        return self

    def __deepcopy__(self, memo: Any) -> Backend:
        """Itself: a copy of a model computes on the same backend."""
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
        """x itself if it is on the device already, else its numbers there, with their dtype."""
        return x if self.device.owns(x) else self.device.array(x, x.dtype.name)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros of this backend's dtype on its device."""
        return self.device.zeros(shape, self.dtype)

    def parts_of(self, numbers: int) -> int:
        """Into how many parts to cut a batch whose layers take so many numbers, B·T·C, for threads to share."""
        return max(1, min(self.threads, numbers // self.least_part))

    def host(self, x: Array) -> HostArray:
        """x as a NumPy array."""
        return self.device.host(x)

    def __str__(self) -> str:
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.name} ({self.kernels}) on {self.device.name}, {self.dtype}{self._products()}{threads}"

    def _products(self) -> str:
        """What products are made of, where there was a choice."""
        return f", products in {self.precision}" if self.name == "cupy" and self.dtype == "float32" else ""


def get_backend(
    name: str = "auto",
    dtype: str = "float32",
    *,
    kernels: str = "auto",
    threads: int | None = None,
    precision: str = "float32",
) -> Backend:
    """The backend called name: "numpy", "cupy", or "auto", which is cupy if a GPU answers, else numpy.

    dtype is "float32", "float64", or "complex128" (for checks). kernels says what computes: on both,
    "plain" (the text of ``functional``); on NumPy, "numpy" (faster, NumPy alone), "numba" (faster
    still, the extra ``fast``); on CuPy, "cuda" (kernels of our own); "auto" is the fastest that is
    installed; complex numbers are always plain. So many threads share a training batch on NumPy: None is
    one for each core, with kernels "numpy" fewer where a batch is so small that they would wait for each
    other, and with plain ones one: then a step is computed just as it is written. precision says what CuPy's
    products of float32 are made of: "float32", "tf32" (rounded to 10 bits) or "bfloat16" (to 7); sums are always
    float32. Raises DeviceError if what is asked for cannot
    run, saying what is missing; ConfigError for another name, dtype, or number.
    """
    if kernels not in KERNELS:
        raise ConfigError(f"kernels: expected one of {', '.join(KERNELS)}, got {kernels!r}")
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected an integer >= 1, or None for one for each core, got {threads}")
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: expected one of {', '.join(PRECISIONS)}, got {precision!r}")
    if name not in ("auto", "numpy", "cupy"):
        raise ConfigError(f"backend: expected auto, numpy or cupy, got {name!r}")
    from npformer.backend.cupy import cupy_backend, cupy_problem  # here, since both are built on this module

    problem = None if name == "numpy" else cupy_problem()
    if name == "cupy" and problem is not None:
        raise DeviceError(f"cupy: {problem}; or use --device numpy (in Python: get_backend('numpy'))")
    if name == "numpy" or problem is not None:
        return _numpy_backend(dtype, kernels, threads, precision, problem)
    return cupy_backend(dtype, kernels, precision)


def _numpy_backend(dtype: str, kernels: str, threads: int | None, precision: str, problem: str | None) -> Backend:
    """NumPy's backend; problem is why it is not CuPy's, if somebody would have taken that."""
    from npformer.backend.numpy import numpy_backend

    why = "" if problem is None else f" ({problem})"
    if kernels == "cuda":
        raise ConfigError(f"kernels: expected others than cuda on NumPy, since those run on a GPU{why}; try auto")
    if precision != "float32":
        raise ConfigError(
            f"precision: expected float32 on NumPy, got {precision}: a CPU multiplies what it is given, and nothing "
            f"would be gained{why}; leave it out, or use a GPU (device cupy)"
        )
    return numpy_backend(dtype, kernels, threads)
