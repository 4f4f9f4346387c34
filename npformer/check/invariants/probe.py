"""A target that can run repeatedly in float64, with changed inputs, options or parameters; and what its masks govern.

Each run starts from new copies of the inputs and parameters, and from gradients of 0. So a
target that changes its inputs fails only the check for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device, NumpyDevice
from npformer.check.checkable import unpacked
from npformer.check.inputs import as_tuple, host64, host_copies, is_float, like, parameter_names, place
from npformer.check.invariants.violation import DoesNotApply
from npformer.errors import ShapeError
from npformer.functional import AttentionMask, Draw
from npformer.layers import INFERENCE, Context, RandomKey
from npformer.typing import HostArray, HostArrays, Tensors

POISON = 1e3  # finite, since 0·∞ and 0·NaN are NaN in every product, whatever the mask
#: Inputs, options or parameters by name.
Named = Mapping[str, Any]
NOTHING: Named = {}


class ProbeRun(NamedTuple):
    """One forward and one backward. Everything is a copy on the host."""

    outputs: HostArrays  # "output", or "output 0", "output 1", …
    upstream: HostArrays  # the gradient of each output
    gradients: HostArrays  # of the float inputs, in order, then of the parameters


class Probe:
    """A pair (forward, backward), or anything with forward, backward and perhaps named_parameters()."""

    def __init__(
        self,
        target: Any,
        inputs: Sequence[Any],
        options: Named,
        device: Device | None = None,
        seed: int = 0,
    ) -> None:
        self.target, self.seed = target, seed
        self.is_pair = isinstance(target, tuple)
        of_target = getattr(getattr(target, "backend", None), "device", None)
        self.device: Device = device or of_target or NumpyDevice()
        self.parameters = {} if self.is_pair else dict(getattr(target, "named_parameters", dict)())
        self.owners = {id(owner): owner for owner in map(owner_of, self.parameters.values())}
        self.takes_context = isinstance(options.get("context"), Context)
        self.options = {name: self._fetched(value) for name, value in unpacked(options).items()}
        self._values = {key: host64(owner.data, self.device) for key, owner in self.owners.items()}
        names = parameter_names(self.function("forward"), len(inputs))
        names = [f"input {name}" if name in self.parameters else name for name in names]
        self.inputs = {
            name: host64(x, self.device) if is_float(x) else self._fetched(x)
            for name, x in zip(names, inputs, strict=True)
        }
        self.float_inputs = [name for name, x in zip(names, inputs, strict=True) if is_float(x)]

    def _fetched(self, value: Any) -> Any:
        """Token ids and masks on the host, where checks change them."""
        if isinstance(value, AttentionMask):
            return replace(value, key_visible=self._fetched(value.key_visible))
        return np.array(self.device.host(value)) if self.device.owns(value) else value

    @property
    def tensors(self) -> HostArrays:
        """float64 copies of the float inputs and the parameters, as they were given."""
        self.reset()
        parameters = {name: np.array(self.device.host(p.data)) for name, p in self.parameters.items()}
        return {name: self.inputs[name].copy() for name in self.float_inputs} | parameters

    def rng(self, use: int) -> np.random.Generator:
        """Random numbers for one use, equal in every run."""
        return np.random.default_rng([self.seed, use])

    def reset(self, changed: Named = NOTHING) -> None:
        """Set every parameter to a new float64 copy of its value, or to its value in changed; gradients become 0."""
        for key, owner in self.owners.items():
            owner.data = self.device.array(self._values[key], "float64")
            owner.grad = self.device.zeros(owner.data.shape, "float64")
        for name in changed.keys() & self.parameters.keys():
            self.parameters[name].data[...] = self.device.array(changed[name], "float64")

    def placed(self, changed: Named = NOTHING) -> list[Any]:
        """The inputs, as fresh copies on the device."""
        values = [changed.get(name, value) for name, value in self.inputs.items()]
        return [self.device.array(x, "float64") if is_float(x) else place(x, self.device) for x in values]

    def forward(self, changed: Named = NOTHING, options: Named | None = None) -> Any:
        """(y, cache), as the target returns them, with the present parameters."""
        return self.function("forward")(*self.placed(changed), **self.placed_options(options))

    def placed_options(self, options: Named | None = None) -> dict[str, Any]:
        """The options, or others, on the device."""
        chosen = self.options if options is None else options
        placed = {name: place(value, self.device) for name, value in chosen.items()}
        if not self.takes_context:
            return placed
        context = Context(**{name: placed.pop(name) for name in vars(INFERENCE).keys() & placed.keys()})
        return placed | {"context": context}

    def backward(self, y: Any, cache: Any, upstream: Tensors) -> HostArrays:
        """The gradients of the float inputs. Raises ShapeError if their number does not fit."""
        parts = [self.device.array(part, "float64") for part in upstream.values()]
        returned = self.function("backward")(like(y, parts), cache)
        gradients = () if returned is None else as_tuple(returned)
        if len(gradients) != len(self.float_inputs) or any(gradient is None for gradient in gradients):
            raise ShapeError(
                f"backward: expected {len(self.float_inputs)} gradients, of "
                f"{', '.join(self.float_inputs) or 'no input'}, in this order, got {len(gradients)}, "
                f"{sum(gradient is None for gradient in gradients)} of them None"
            )
        return {name: np.array(self.device.host(g)) for name, g in zip(self.float_inputs, gradients, strict=True)}

    def parameter_gradients(self) -> HostArrays:
        """Copies of the gradients that have been added up since the last reset."""
        return {name: np.array(self.device.host(p.grad)) for name, p in self.parameters.items()}

    def outputs_of(self, y: Any) -> HostArrays:
        """Copies of the outputs, by name."""
        copies = host_copies(y, self.device)
        return {"output": copies[0]} if len(copies) == 1 else {f"output {i}": part for i, part in enumerate(copies)}

    def outputs(self, changed: Named = NOTHING, options: Named | None = None) -> HostArrays:
        """A forward alone."""
        self.reset(changed)
        return self.outputs_of(self.forward(changed, options)[0])

    def random_upstream(self, outputs: Tensors, use: int = 1) -> HostArrays:
        """A random gradient for each output, equal in every run of one use."""
        rng = self.rng(use)
        return {name: np.asarray(rng.normal(size=y.shape)) for name, y in outputs.items()}

    def run(
        self,
        changed: Named = NOTHING,
        *,
        options: Named | None = None,
        upstream: Tensors | None = None,
    ) -> ProbeRun:
        """A forward and a backward. changed replaces inputs and parameters by name; upstream is random by default."""
        self.reset(changed)
        y, cache = self.forward(changed, options)
        outputs = self.outputs_of(y)
        dy = dict(upstream) if upstream is not None else self.random_upstream(outputs)
        gradients = self.backward(y, cache, dy)
        return ProbeRun(outputs, dy, gradients | self.parameter_gradients())

    def without_dropout(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(inputs to change, options) without dropout. Raises DoesNotApply if key cannot be left out."""
        needed = inspect.signature(self.function("forward")).parameters
        for name, value in self.options.items():
            if isinstance(value, RandomKey) and name in needed and needed[name].default is inspect.Parameter.empty:
                raise DoesNotApply(f"forward cannot be run without {name}, so dropout cannot be switched off")
        options = {name: None if isinstance(value, RandomKey) else value for name, value in self.options.items()}
        return {name: None for name, value in self.inputs.items() if isinstance(value, (Draw, RandomKey))}, options

    def function(self, which: str) -> Any:
        """forward or backward, as the target has it now."""
        return self.target[which == "backward"] if self.is_pair else getattr(self.target, which)


def owner_of(parameter: Any) -> Any:
    """The object that holds a parameter's arrays: the block that a view is a part of, or itself."""
    return getattr(parameter, "owner", parameter)


def taken(value: Any, rows: Any) -> Any:
    """Some rows of a batch: of an array, or of a mask's key_visible."""
    if isinstance(value, AttentionMask):
        return value if value.key_visible is None else replace(value, key_visible=value.key_visible[rows])
    return value[rows]


class Governed(NamedTuple):
    """A mask, the inputs (..., S, C) whose steps are its keys, and whether the queries are those same steps."""

    mask: AttentionMask
    inputs: tuple[str, ...]
    is_self: bool


def governed(probe: Probe) -> list[Governed]:
    """Every mask of the probe's target, with the inputs to which it applies."""
    values = {**probe.inputs, **probe.options}
    masks = [_inputs_of(name, mask, probe) for name, mask in values.items() if isinstance(mask, AttentionMask)]
    if not masks and getattr(probe.target, "causal", False) is True and probe.float_inputs:
        return [Governed(AttentionMask(causal=True), (probe.float_inputs[0],), True)]
    return [one for one in masks if one.inputs]


def _inputs_of(name: str, mask: AttentionMask, probe: Probe) -> Governed:
    """Keys and values; the memory; or the layer's own input, which then holds the queries as well."""
    if {"k", "v"} <= set(probe.float_inputs):
        return Governed(mask, ("k", "v"), False)
    has_memory = "memory" in probe.float_inputs
    if name == "memory_mask" or (has_memory and not _tells_masks_apart(probe)):
        return Governed(mask, ("memory",) if has_memory else (), False)
    return Governed(mask, tuple(probe.float_inputs[:1]), True)


def _tells_masks_apart(probe: Probe) -> bool:
    """Whether forward has a memory_mask of its own; if not, the one mask of a cross-attention is the memory's."""
    if probe.takes_context:
        return True
    parameters = inspect.signature(probe.function("forward")).parameters
    return "memory_mask" in parameters or any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def poisoned(x: HostArray, hidden: HostArray, rng: np.random.Generator) -> HostArray:
    """x (B, ..., S, C) with random numbers of size 1e3 wherever hidden (B, S)."""
    return with_steps(x, hidden, POISON * rng.normal(size=x.shape))


def with_steps(x: HostArray, hidden: HostArray, others: Any = 0.0) -> HostArray:
    """x (B, ..., T, C) with other numbers, or zeros, wherever hidden (B, T)."""
    return np.where(hidden.reshape((x.shape[0], *(1,) * (x.ndim - 3), x.shape[-2], 1)), others, x)


def token_inputs(probe: Probe) -> tuple[str, str] | None:
    """The names of (src, tgt_in) if the target is a model of batches of token ids, else None.

    If a model takes a single batch, src and tgt_in are the same.
    """
    names = [name for name, x in probe.inputs.items() if _is_tokens(x)]
    if probe.is_pair or probe.float_inputs or len(names) not in (1, 2) or pad_id_of(probe.target) is None:
        return None
    return names[0], names[-1]


def _is_tokens(x: Any) -> bool:
    return hasattr(x, "dtype") and getattr(x, "ndim", 0) == 2 and str(x.dtype).startswith(("int", "uint"))


def other_tokens(tokens: HostArray) -> HostArray:
    """Each token replaced by another one that occurs, so that it is in the vocabulary."""
    known = np.unique(tokens)
    return np.asarray(known[(np.searchsorted(known, tokens) + 1) % len(known)])


def pad_id_of(target: Any) -> int | None:
    """config.pad_id or pad_id of a model, if it has one."""
    pad_id = getattr(getattr(target, "config", target), "pad_id", None)
    return None if pad_id is None else int(pad_id)
