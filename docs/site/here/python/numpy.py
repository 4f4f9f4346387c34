"""NumPy's names over numpy-ts, for MicroPython; a name that is not here is numpy-ts's own function, by position."""

import math

from ndarray import _arrays, _call, _dtype, _js, _listed, _of_arrays, _wrap, dtype, ndarray, nts, number  # noqa: F401

inf, nan, pi, newaxis = math.inf, math.nan, math.pi, None
float64, float32, int64, bool_ = [dtype(name) for name in ("float64", "float32", "int32", "bool")]
int32 = integer = int64


def _reduction(name):
    def reduce(x, axis=None, keepdims=False, initial=None):
        x = asarray(x)
        if initial is not None and not x.size:
            return asarray(initial)
        axes = tuple(range(x.ndim)) if axis is None else axis
        if axes == ():
            return x
        return _call(name, x.js, _listed(axes), keepdims) if keepdims or axis is not None else _call(name, x.js)

    return reduce


_REDUCTIONS = "sum mean max min any all prod"
sum, mean, max, min, any, all, prod = [_reduction(name) for name in _REDUCTIONS.split()]
for _name, _f in zip(_REDUCTIONS.split(), (sum, mean, max, min, any, all, prod)):
    setattr(ndarray, _name, _f)
_WHOLE = "absolute exp log sqrt sin cos tanh square sign isfinite isnan negative logical_not logical_and logical_or"
_WHOLE += " where matmul maximum minimum outer add subtract multiply divide power"
for _name in _WHOLE.split():
    globals()[_name] = _of_arrays(_name)
abs, generic = absolute, ndarray


class _Add:
    def __call__(self, a, b):
        return asarray(a) + b

    def at(self, x, index, values):
        arrays = _arrays(index) or nts.listed(_js(index))
        _wrap(nts.put(x.js, arrays, _js(values), True))


add = _Add()


def var(x, axis=None, keepdims=False):
    return mean(square(x - mean(x, axis, True)), axis, keepdims)


def std(x, axis=None, keepdims=False):
    return sqrt(var(x, axis, keepdims))


for _name, _f in {"var": var, "std": std}.items():
    setattr(ndarray, _name, _f)


def asarray(x, dtype=None):
    x = x if isinstance(x, ndarray) else ndarray(_js(x))
    return x if dtype is None else x.astype(dtype)


def array(x, dtype=None):
    return asarray(x, dtype).copy()


def shape(x):
    return asarray(x).shape


def reshape(x, shape):
    return asarray(x).reshape(shape)


def permute_dims(x, axes=()):
    return asarray(x).transpose(*axes)


transpose = permute_dims


def matrix_transpose(x):
    return x.swapaxes(-1, -2)


def zeros(shape, dtype=float):
    return _call("zeros", nts.listed(*((shape,) if isinstance(shape, int) else shape)), _dtype(dtype).name)


def full(shape, value, dtype=float):
    return zeros(shape, dtype) + value


def ones(shape, dtype=float):
    return full(shape, 1.0).astype(dtype)


def zeros_like(x, dtype=None):
    return zeros(shape(x), dtype or x.dtype)


def full_like(x, value, dtype=None):
    return full(shape(x), value).astype(dtype or x.dtype)


def ones_like(x, dtype=None):
    return full_like(x, 1.0, dtype)


empty, empty_like = zeros, zeros_like


def arange(*limits, dtype=int):
    return _call("arange", *limits).astype(dtype)


def concat(parts, axis=0):
    return _call("concat", nts.listed(*[_js(part) for part in parts]), axis)


concatenate = concat


def stack(parts, axis=0):
    return _call("stack", nts.listed(*[_js(part) for part in parts]), axis)


def broadcast_to(x, shape):
    return _call("broadcast_to", _js(x), nts.listed(*shape))


def take(x, indices, axis=None):
    x = x.ravel() if axis is None else _call("moveaxis", x.js, axis, 0)
    taken, n = x[asarray(indices)], asarray(indices).ndim
    return taken if not axis else _call("moveaxis", taken.js, nts.listed(*range(n)), nts.listed(*range(axis, axis + n)))


def einsum(rule, *operands):
    inputs, arrow, output = rule.replace(" ", "").partition("->")
    parts = inputs.split(",")
    for i, x in enumerate(operands):  # numpy-ts has no ...
        if "..." in parts[i]:
            letters = "ZYXWVU"[: x.ndim - len(parts[i]) + 3]
            parts[i], output = parts[i].replace("...", letters), output.replace("...", letters)
    return _call("einsum", ",".join(parts) + arrow + output, *[_js(x) for x in operands])


def vectorize(function, otypes=None):
    return lambda x: _call("mapped", _js(x), function)


def nan_to_num(x, nan=0.0):
    return where(isnan(x), nan, x)


def array_equal(a, b):
    return shape(a) == shape(b) and bool(all(asarray(a) == b))


def argmax(x, axis=None):
    return _call("argmax", x.js) if axis is None else _call("argmax", x.js, axis)


def unravel_index(index, shape):
    out = []
    for n in reversed(shape):
        out.append(index % n)
        index //= n
    return tuple(reversed(out))


def ndindex(*shape):
    out = [()]
    for size in shape[0] if shape and isinstance(shape[0], tuple) else shape:
        out = [i + (k,) for i in out for k in range(size)]
    return iter(out)


class errstate:
    def __init__(self, **kinds):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def __getattr__(name):
    """A function of numpy-ts, by position: arrays, numbers, tuples of numbers, then the axis."""
    if not hasattr(nts, name):
        raise AttributeError("the NumPy of this page has no " + name + "; npformer grade uses all of NumPy")

    def by_position(*arguments, axis=None):
        given = [x.js if isinstance(x, ndarray) else _listed(x) for x in arguments]
        return _call(name, *given + ([] if axis is None else [_listed(axis)]))

    return by_position
