"""The glossary: the letters that shapes are written in, and the names of array types.

    B  batch                     C  model width (d_model), C = H·D
    T  query or target time      H  heads
    S  key or source time        D  head width
    N  tokens: B·T, or those     F  feed-forward width (d_ff)
       that count, no padding
    L  layers                    V  vocabulary

A trailing comment such as ``# (B, H, T, D)`` gives the shape of the value on its line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

#: An array of any array-API library (NumPy, CuPy, array-api-strict), on any device.
Array: TypeAlias = Any
#: An array-API namespace: the module whose functions work on an Array.
Namespace: TypeAlias = ModuleType | Any
#: A NumPy array of any dtype: data on the host.
HostArray: TypeAlias = np.ndarray[Any, Any]
#: Such arrays by name.
HostArrays: TypeAlias = dict[str, HostArray]
#: The same, only to be read.
Tensors: TypeAlias = Mapping[str, HostArray]
#: A function of any arguments.
Function: TypeAlias = Callable[..., Any]
#: Values by name: inputs, options, variables.
Values: TypeAlias = dict[str, Any]
#: The same, only to be read.
Named: TypeAlias = Mapping[str, Any]
#: The lengths of an array along its axes.
Shape: TypeAlias = tuple[int, ...]
