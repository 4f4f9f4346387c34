"""Arrays of a fake device: host arrays behind a wrapper, so that every read by the host is noticed."""

import operator

import array_api_compat.numpy as compat
import numpy as np

PRODUCTS = ("matmul", "tensordot", "vecdot")  # CuPy's, which it refuses to record
#: What CuPy does for more than MOST_LISTED arrays by a list of their addresses, which it copies from the host.
LISTED, MOST_LISTED = ("concat", "stack"), 8


class Namespace:
    """The array API's functions for DeviceArrays."""

    def __getattr__(self, name):
        found = getattr(compat, name)
        if isinstance(found, type) or not callable(found) or name == "isdtype":
            return found
        return lambda *inputs, **options: call(name, found, inputs, options)

    def asarray(self, obj, *, device, dtype=None):
        """CuPy's copies what is the host's."""
        x, numbers = device.empty(np.shape(obj), dtype or np.asarray(obj).dtype), np.array(obj)
        device.expect_not_recording("a copy from the host")
        device.do(copying(x.bare, lambda: numbers))
        return x


NAMESPACE = Namespace()


def call(name, function, inputs, options):
    """function of arrays: a view, or an array of its own."""
    arrays = [x for x in flat((*inputs, *options.values())) if isinstance(x, DeviceArray)]
    machine = arrays[0].machine if arrays else options["device"]
    options = {key: bare(x) for key, x in options.items() if key != "device"}
    given = bare(inputs)
    if name == "asarray" and isinstance(given[0], np.ndarray) and not arrays:
        return machine.array(*given, **options)
    assert not any(isinstance(x, np.ndarray) for x in flat(inputs)), f"{name}: an array of the host among the device's"
    if machine.recorded is not None and name in PRODUCTS:
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
    if machine.recorded is not None and name in LISTED and len(inputs[0]) > MOST_LISTED:
        raise RuntimeError("the current stream is capturing, so synchronous API calls are disallowed")

    def compute(given=given):
        with np.errstate(all="ignore"):
            found = function(*given, **options)
        return np.asarray(found) if isinstance(found, np.generic) else found

    # indices may be garbage as yet: the result's shape is that of any
    found = compute((given[0], np.zeros_like(given[1]), *given[2:]) if name == "take" else given)
    if not isinstance(found, np.ndarray):
        return found
    for x in arrays:
        if np.shares_memory(found, x.bare):
            return x._view(found)
    out = machine.empty(found.shape, found.dtype)
    if name in LISTED and len(given[0]) <= MOST_LISTED:  # each by a kernel of its own
        for target, part in zip(parts_of(out.bare, name, given[0], **options), given[0], strict=True):
            machine.do(copying(target, lambda part=part: part))
        return out
    machine.do(copying(out.bare, compute))
    return out


def parts_of(joined, name, parts, axis=0):
    """Where each of the parts is in what they were joined to."""
    if name == "stack":
        return list(np.moveaxis(joined, axis, 0))
    return np.split(joined, np.cumsum([part.shape[axis] for part in parts[:-1]]), axis)


def copying(target, compute):
    """Work that holds on to the host's memory, and to no DeviceArray that would keep it taken."""
    return lambda: np.copyto(target, compute())


def bare(x):
    """x with the host's arrays in place of the device's."""
    if isinstance(x, DeviceArray):
        return x.bare
    return type(x)(map(bare, x)) if type(x) in (tuple, list) else x


def flat(x):
    if type(x) in (tuple, list):
        for part in x:
            yield from flat(part)
    else:
        yield x


class DeviceArray:
    """An array of the machine."""

    __array_ufunc__ = None  # NumPy leaves it alone
    __hash__ = None

    def __init__(self, machine, memory, array, base=None):
        self.machine, self.memory, self.bare, self.base = machine, memory, array, base

    def __array_namespace__(self, api_version=None):
        return NAMESPACE

    @property
    def device(self):
        return self.machine

    @property
    def T(self):  # noqa: N802
        return self._view(self.bare.T)

    def __getattr__(self, name):
        if name in ("shape", "dtype", "ndim", "size", "strides", "itemsize", "nbytes", "flags"):
            return getattr(self.bare, name)
        if name in ("astype", "copy", "sum", "reshape", "transpose", "swapaxes", "ravel", "view"):
            method = getattr(np.ndarray, name)
            return lambda *inputs, **options: call(name, method, (self, *inputs), options)
        if name in ("item", "tolist"):
            return getattr(self._read(), name)
        raise AttributeError(f"{name}: not an attribute that arrays of every library have")

    def __len__(self):
        return len(self.bare)

    def _view(self, array):
        return DeviceArray(self.machine, self.memory, array, self if self.base is None else self.base)

    def __getitem__(self, index):
        parts = index if isinstance(index, tuple) else (index,)
        from_host = any(isinstance(part, list | np.ndarray) for part in parts)
        assert not (from_host and self.machine.recorded is not None), "an index that is copied from the host"
        rest = () if any(part is Ellipsis for part in parts) else (Ellipsis,)  # a single number is a view, too
        return self._view(self.bare[*parts, *rest])

    def __setitem__(self, index, value):
        assert not isinstance(value, np.ndarray), "an array of the host put into the device's"
        given = bare(value)
        self.machine.do(copying(self[index].bare, lambda: given))

    def fill(self, value):
        self[...] = value

    @property
    def data(self):
        return self.machine.pointer(self.bare)

    def _read(self):
        return self.machine.read(self.bare)

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __index__(self):
        return int(self)


def _operators():
    names = ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "matmul", "and", "or", "xor", "lshift", "rshift")
    for name in (*names, "lt", "le", "gt", "ge", "eq", "ne"):
        function, change = getattr(operator, f"__{name}__"), getattr(operator, f"__i{name}__", None)

        def forward(self, other, f=function, n=name):
            return call(n, f, (self, other), {})

        def reverse(self, other, f=function, n=name):
            return call(n, f, (other, self), {})

        def in_place(self, other, f=change):
            target, given = self.bare, bare(other)
            assert not isinstance(other, np.ndarray), "an array of the host among the device's"
            self.machine.do(lambda: f(target, given))
            return self

        setattr(DeviceArray, f"__{name}__", forward)
        setattr(DeviceArray, f"__r{name}__", reverse)
        if change:
            setattr(DeviceArray, f"__i{name}__", in_place)
    for kind in (float, int, bool):
        setattr(DeviceArray, f"__{kind.__name__}__", lambda self, kind=kind: kind(self._read()))
    for function in (operator.neg, operator.invert, operator.abs):
        name = function.__name__
        setattr(DeviceArray, f"__{name}__", lambda self, f=function, n=name: call(n, f, (self,), {}))


_operators()
