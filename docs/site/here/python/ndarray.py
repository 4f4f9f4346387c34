"""An array of numpy-ts for MicroPython: operators, subscripts, and JavaScript's errors as Python's.

Integers are int32, or float64 where an array is made of a list.
"""

import js

nts = js.nts


class dtype:
    def __init__(self, name):
        self.name = name
        self.kind = name[0] if name[0] in "fiu" else "b"
        self.itemsize = 8 if "64" in name else 4

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


_KINDS = {number: "float64", float: "float64", int: "int32", bool: "bool", "float": "float64", "int": "int32"}
_KINDS["int64"] = "int32"


def _dtype(kind):
    return kind if isinstance(kind, dtype) else dtype(_KINDS.get(kind, kind))


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
        return self.transpose()

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
        return _call("absolute", self.js)

    def __neg__(self):
        return _call("negative", self.js)

    def __invert__(self):
        return _call("logical_not", self.js)

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
        return _wrap(self.js.copy().astype(_dtype(kind).name))

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 else shape
        return _call("reshape", self.js, nts.listed(*(shape if isinstance(shape, (tuple, list)) else (int(shape),))))

    def ravel(self):
        return self.reshape(-1)

    flatten = ravel

    def transpose(self, *axes):
        axes = axes[0] if len(axes) == 1 else axes or tuple(reversed(range(self.ndim)))
        return _call("permute_dims", self.js, nts.listed(*axes))

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
    if isinstance(x, (list, tuple)):
        return _call("stack", nts.listed(*[_js(part) for part in x]), 0).js if x else nts.array(nts.listed())
    return nts.array(x)


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
    if not [k for k in keys if isinstance(k, list) or (isinstance(k, ndarray) and (k.ndim or k.js.dtype == "bool"))]:
        return None
    if any([k is None or k is Ellipsis or isinstance(k, slice) for k in keys]):
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
