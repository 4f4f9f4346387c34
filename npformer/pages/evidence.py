"""What the page shows beside each gradient of an operation: the terms that add up to it, and two numerical witnesses.

Terms come from the pair's own backward (``proof/jacobian.py``), fed one entry of the upstream gradient at a time.
Witnesses come from the pair's forward alone (``proof/oracles.py``): L = Σ dy·y is moved by each entry, once by an
imaginary step and once up and down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from npformer.errors import NpformerError
from npformer.proof.fitness import fitness
from npformer.proof.inputs import as_tuple
from npformer.proof.jacobian import terms
from npformer.proof.listening import Call
from npformer.proof.oracles import Evidence, Oracle
from npformer.proof.recording import Seen
from npformer.proof.subject import subject
from npformer.typing import HostArray

#: The gradients of a call with more terms than this (entries times entries of dy) are shown without evidence.
MOST_TERMS = 100_000


class Shown(NamedTuple):
    """What stands beside one gradient."""

    terms: tuple[HostArray, ...]  # (gradient's entries…, dy's entries…) for each output
    by_complex: HostArray | None  # None: the forward cannot be asked with complex numbers
    by_central: HostArray | None  # None: it cannot be asked at all


def evidence_of(call: Call, seen: Seen, names: Mapping[str, str]) -> dict[str, Shown]:
    """Gradient's name -> what stands beside it, for a recorded call of an operation whose backward ran.

    seen: the call's arrays. names: of the gradients shown, with the input that each belongs to.
    """
    if not isinstance(call.target, tuple) or seen.upstream is None:
        return {}
    upstream = tuple(np.asarray(part, dtype=np.float64) for part in as_tuple(seen.upstream))
    checked = subject(call.target, seen.inputs, call.options, None)
    sizes = {name: checked.tensors[of].size for name, of in names.items() if of in checked.tensors}
    if sum(sizes.values()) * sum(part.size for part in upstream) > MOST_TERMS:
        return {}
    split = terms(call.target, seen.cache, seen.upstream)
    oracle = Oracle(checked, [upstream], fitness(checked, [upstream], 0).is_fit)
    shown = {}
    for name in sizes:
        found = _asked(oracle, names[name])
        by_complex = None if found is None or found.by_complex is None else found.by_complex[0]
        shown[name] = Shown(split.get(names[name], ()), by_complex, None if found is None else found.by_central[0])
    return shown


def _asked(oracle: Oracle, of: str) -> Evidence | None:
    """Both witnesses of one input's gradient; None if the forward fails where they ask."""
    try:
        return oracle.every_element(of)
    except (NpformerError, ArithmeticError, ValueError, TypeError):
        return None
