"""Inputs that are symmetric matrices by convention, as for Cholesky factors and symmetric eigenvalues.

NumPy reads one triangle of such a matrix, so a gradient may be spread over both triangles in any way; only its
symmetric part is meaningful. With structure="symmetric" the matrix stays symmetric when it is moved, and
gradients are compared after (dX + dXᵀ)/2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from npformer.errors import ConfigError, ShapeError
from npformer.proof.subject import NOTHING_REPLACED, Subject, Upstream, Watcher
from npformer.typing import HostArray, HostArrays, Tensors


class SymmetricSubject:
    """A subject with some tensors that are symmetric over their last two axes."""

    def __init__(self, inner: Subject, tensors: Collection[str]) -> None:
        self.inner, self.which = inner, frozenset(tensors)
        self.inputs, self.input_names = inner.inputs, inner.input_names

    @property
    def tensors(self) -> HostArrays:
        return self._kept(self.inner.tensors)

    def outputs(self, replaced: Tensors) -> tuple[HostArray, ...]:
        return self.inner.outputs(self._kept({**self._points, **replaced}))

    def gradients(
        self,
        upstream: Upstream,
        replaced: Tensors = NOTHING_REPLACED,
        watcher: Watcher | None = None,
    ) -> HostArrays:
        return self._kept(self.inner.gradients(upstream, self._kept({**self._points, **replaced}), self._of(watcher)))

    def _of(self, watcher: Watcher | None) -> Watcher | None:
        """The watcher, which sees gradients of the second backward as it sees those of the first."""
        if watcher is None:
            return None
        return lambda placed, dy, again: watcher(placed, dy, lambda: self._kept(again()))

    @property
    def _points(self) -> HostArrays:
        return {name: self.tensors[name] for name in self.which}

    def _kept(self, tensors: Tensors) -> HostArrays:
        """These gradients, with symmetric ones made symmetric; a gradient of another shape is refused later."""
        return {
            name: (x + np.swapaxes(x, -1, -2)) / 2 if name in self.which and x.shape[-1:] == x.shape[-2:-1] else x
            for name, x in tensors.items()
        }


def with_structure(inner: Subject, structure: str | Mapping[str, str] | None) -> Subject:
    """The subject with the declared structure of its inputs: "symmetric", for all or by name.

    Raises ConfigError for another structure or an unknown name, ShapeError for a matrix that is not square.
    """
    if structure is None:
        return inner
    square = [name for name, x in inner.tensors.items() if x.ndim > 1 and x.shape[-1] == x.shape[-2]]
    wanted = dict.fromkeys(square, structure) if isinstance(structure, str) else dict(structure)
    for name, kind in wanted.items():
        if kind != "symmetric" or name not in inner.tensors:
            raise ConfigError(
                f'structure: expected "symmetric" or {{name: "symmetric"}} with names among '
                f"{', '.join(inner.tensors)}, got {structure!r}"
            )
        if name not in square:
            raise ShapeError(
                f"{name}: expected square matrices, got {inner.tensors[name].shape}; it cannot be symmetric"
            )
    return SymmetricSubject(inner, wanted) if wanted else inner
