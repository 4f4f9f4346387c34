"""Inputs that are symmetric matrices by convention, as for Cholesky factors and symmetric eigenvalues.

NumPy reads one triangle of such a matrix, so a gradient may be spread over both triangles in any way; only its
symmetric part is meaningful. With structure="symmetric" the matrix stays symmetric when it is moved, and
gradients are compared after (dX + dXᵀ)/2.
"""

from __future__ import annotations

from collections.abc import Mapping

from npformer.check.subject import Called
from npformer.errors import ConfigError, ShapeError


def with_structure(checked: Called, structure: str | Mapping[str, str] | None) -> Called:
    """The subject with the declared structure of its inputs: "symmetric", for all or by name.

    Raises ConfigError for another structure or an unknown name, ShapeError for a matrix that is not square.
    """
    if structure is None:
        return checked
    square = [name for name, x in checked.tensors.items() if x.ndim > 1 and x.shape[-1] == x.shape[-2]]
    wanted = dict.fromkeys(square, structure) if isinstance(structure, str) else dict(structure)
    for name, kind in wanted.items():
        if kind != "symmetric" or name not in checked.tensors:
            raise ConfigError(
                f'structure: expected "symmetric" or {{name: "symmetric"}} with names among '
                f"{', '.join(checked.tensors)}, got {structure!r}"
            )
        if name not in square:
            raise ShapeError(
                f"{name}: expected square matrices, got {checked.tensors[name].shape}; it cannot be symmetric"
            )
    checked.which = frozenset(wanted)
    return checked
