"""NumPy's names over numpy-ts, for MicroPython: operators, subscripts, keywords, and its errors as Python's.

A name that is not here is numpy-ts's own function, called by position. Integers are int32, or float64 where an array is
made of a list.
"""

import math

import js

nts = js.nts
inf, nan, pi, newaxis = math.inf, math.nan, math.pi, None


class dtype:
    def __init__(self, name):
        self.name = name
        self.kind = name[0] if name[0] in "fiu" else "b"
        self.itemsize = int("0" + "".join([c for c in name if c in "0123456789"]) or 8) // 8 or 1

    def __eq__(self, other):
        return self.name == _dtype(other).name

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return self.name

    __str__ = __repr__




def number(x):
    """float(x) for the files of the page: a __float__ would turn 2.0 * x into a number."""
    return float(x.item() if isinstance(x, ndarray) else x)


_KINDS = {number: "float64", float: "float64", int: "int32", bool: "bool", "float": "float64", "int": "int32", "int64": "int32"}


def _dtype(kind):
    return kind if isinstance(kind, dtype) else dtype(_KINDS.get(kind, kind))


float64, float32, int64, int32, bool_ = dtype("float64"), dtype("float32"), dtype("int32"), dtype("int32"), dtype("bool")
integer = intp = int64
floating = float64


class ndarray:
    def __init__(self, js_array):
        self.js = js_array

    @property
    def shape(self):
        return tuple(self.js.shape)

    @property
    def ndim(self):
        return self.js.ndim

    @property
    def size(self):
        return self.js.size

    @property
    def dtype(self):
        return dtype(self.js.dtype)

    @property
    def T(self):
        return permute_dims(self)

    @property
    def real(self):
        return self

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __bool__(self):
        if self.size != 1:
            raise ValueError("the truth value of an array with more than one element is ambiguous: use any() or all()")
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return str(self.js.copy().toString())

    def __abs__(self):
        return abs(self)

    def __neg__(self):
        return negative(self)

    def __invert__(self):
        return logical_not(self)

    def __getitem__(self, key):
        arrays = _arrays(key)
        return _wrap(nts.picked(self.js, arrays) if arrays else nts.view(self.js, _keys(key)))

    def __setitem__(self, key, value):
        arrays = _arrays(key)
        if arrays:
            _wrap(nts.put(self.js, arrays, _js(value), False))
        else:
            _wrap(nts.assign(_wrap(nts.view(self.js, _keys(key))).js, _js(value)))

    def item(self):
        if self.size != 1:
            raise TypeError("only an array with one element can be a number")
        number = nts.flat(self.js)[0]
        return bool(number) if self.js.dtype == "bool" else int(number) if self.dtype.kind == "i" else number

    def tolist(self):
        return [x.tolist() for x in self] if self.ndim else self.item()

    def copy(self):
        return ndarray(self.js.copy())

    def astype(self, kind, copy=True):
        return _wrap(self.js.astype(_dtype(kind).name))

    def reshape(self, *shape):
        return reshape(self, shape[0] if len(shape) == 1 else shape)

    def ravel(self):
        return reshape(self, -1)

    flatten = ravel

    def transpose(self, *axes):
        return permute_dims(self, axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, a, b):
        return _call("swapaxes", self.js, a, b)


def _wrap(x):
    """What numpy-ts returned. Raises ValueError with its words, which arrive as a text."""
    if isinstance(x, str):
        raise (IndexError if "ind" in x and "bound" in x else ValueError)(x)
    return x if x is None else ndarray(_js(x) if isinstance(x, (bool, int, float)) else x)


def _js(x):
    if isinstance(x, ndarray):
        return x.js
    if isinstance(x, bool):
        return nts.made(nts.listed(int(x)), nts.listed(), "bool")
    return stack(x).js if isinstance(x, (list, tuple)) and x else nts.array(nts.listed() if isinstance(x, (list, tuple)) else x)


def _listed(x):
    return nts.listed(*x) if isinstance(x, (tuple, list)) else x


_theirs = {}


def _call(name, *arguments):
    if name not in _theirs:
        _theirs[name] = getattr(nts, name)
    return _wrap(_theirs[name](*arguments))


def _of_arrays(name):
    return lambda *arguments: _call(name, *[_js(x) for x in arguments])


def _arrays(key):
    """The arrays of a subscript on the first axes, for JavaScript; None if it has none."""
    keys = key if isinstance(key, tuple) else (key,)
    if not [k for k in keys if isinstance(k, list) or isinstance(k, ndarray) and (k.ndim or k.js.dtype == "bool")]:
        return None
    if any_([k is None or k is Ellipsis or isinstance(k, slice) for k in keys]):
        raise IndexError("a subscript that mixes arrays with slices is not in this page; npformer grade has it")
    return nts.listed(*[_js(k) for k in keys])


def _keys(key):
    """A subscript as numpy-ts writes it, axis by axis."""
    words = {None: "newaxis", Ellipsis: "..."}
    out = []
    for k in key if isinstance(key, tuple) else (key,):
        if isinstance(k, slice):
            parts = (k.start, k.stop, k.step)
            out.append(":".join(["" if part is None else str(int(part)) for part in parts]).rstrip(":") or ":")
            out[-1] += "" if ":" in out[-1] else ":"
        else:
            out.append(words[k] if k is None or k is Ellipsis else str(int(k)))
    return nts.listed(*out)


any_ = any
_PAIRS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "pow": "power",
    "matmul": "matmul", "mod": "remainder", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "and": "logical_and", "or": "logical_or", "xor": "logical_xor",
}  # fmt: skip


def _in_place(f):
    def operator(self, other):
        _wrap(nts.assign(self.js, f(self, other).js))
        return self

    return operator


def _swapped(f):
    return lambda self, other: f(other, self)


for _name, _function in _PAIRS.items():
    _f = _of_arrays(_function)
    setattr(ndarray, "__" + _name + "__", _f)
    setattr(ndarray, "__r" + _name + "__", _swapped(_f))
    setattr(ndarray, "__i" + _name + "__", _in_place(_f))


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
abs, generic = absolute, ndarray  # noqa: F821  a number is an array of shape ()


class _Add:
    def __call__(self, a, b):
        return asarray(a) + b

    def at(self, x, index, values):
        arrays = _arrays(index) or nts.listed(_js(index))
        _wrap(nts.put(x.js, arrays, _js(values), True))


add = _Add()


def var(x, axis=None, keepdims=False):
    return mean(square(x - mean(x, axis, True)), axis, keepdims)  # noqa: F821


def std(x, axis=None, keepdims=False):
    return sqrt(var(x, axis, keepdims))  # noqa: F821


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
    return _call("reshape", x.js, nts.listed(*((int(shape),) if not isinstance(shape, tuple) else shape)))


def permute_dims(x, axes=()):
    return _call("permute_dims", x.js, nts.listed(*(axes or reversed(range(x.ndim)))))


transpose = permute_dims


def matrix_transpose(x):
    return x.swapaxes(-1, -2)


def zeros(shape, dtype=float):
    return _call("zeros", nts.listed(*((shape,) if isinstance(shape, int) else shape)), _dtype(dtype).name)


def full(shape, number, dtype=float):
    return zeros(shape, dtype) + number


def ones(shape, dtype=float):
    return full(shape, 1.0).astype(dtype)


def zeros_like(x, dtype=None):
    return zeros(shape(x), dtype or x.dtype)


def full_like(x, number, dtype=None):
    return full(shape(x), number).astype(dtype or x.dtype)


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
    return where(isnan(x), nan, x)  # noqa: F821


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
