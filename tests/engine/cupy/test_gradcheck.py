"""gradcheck of pairs whose arrays are on the device, wherever they are given."""

import numpy as np
import pytest

from npformer.backend.select import cupy_backend
from npformer.check import gradcheck, subject
from npformer.functional import AttentionMask
from tests.engine.cuda.device_array import NAMESPACE, DeviceArray
from tests.engine.cuda.host_runtime import compiler_problem
from tests.engine.cupy import emulated

pytestmark = pytest.mark.skipif(compiler_problem() is not None, reason=str(compiler_problem()))


@pytest.fixture
def there(monkeypatch):
    """there(array): on the emulated device, which gradcheck finds by the name of the arrays' module."""
    emulated.installed(monkeypatch)
    monkeypatch.setattr(DeviceArray, "__module__", "cupy")
    monkeypatch.setattr(DeviceArray, "get", lambda x: np.array(x._read()), raising=False)
    backend = cupy_backend("float64", "plain")

    def chosen(name, kernels):
        assert name == "cupy", "arrays of the device go to the device"
        return backend

    monkeypatch.setattr(subject, "get_backend", chosen)
    return lambda x: backend.device.array(np.asarray(x), np.asarray(x).dtype.name)


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3)), RNG.normal(size=3)


def product_forward(parts, scale=1.0, mask=None):
    hidden = 1.0 if mask is None else NAMESPACE.astype(mask.key_visible, parts["x"].dtype)
    factor = scale[0] if isinstance(scale, list) else scale
    return parts["x"] * parts["y"][0] * factor * hidden, (parts, factor, hidden)


def product_backward(dy, cache):
    parts, factor, hidden = cache
    dy = dy * factor * hidden
    return ({"x": dy * parts["y"][0], "y": [NAMESPACE.sum(dy * parts["x"], axis=0)]},)


PRODUCT = (product_forward, product_backward)


def test_in_a_dict_and_in_a_list_in_it(there):
    report = gradcheck(PRODUCT, {"x": there(X), "y": [there(Y)]}, complex_step=False)
    assert report.ok, str(report)
    assert {row.tensor for row in report.rows} == {"parts['x']", "parts['y'][0]"}


@pytest.mark.parametrize("name", ["scale", "mask"])
def test_in_an_option(name, there):
    """In a list or a mask: the inputs are on the host; the option says where to compute."""
    option = [there(Y + 1)] if name == "scale" else AttentionMask(there(X > 0))
    assert gradcheck(PRODUCT, {"x": X, "y": [Y]}, complex_step=False, **{name: option}).ok


def test_a_constant_on_the_device(there):
    pair = (lambda x, c: (x * c, c), lambda dy, c: (dy * c, None))
    report = gradcheck(pair, there(X), there(X + 1), constant="c", complex_step=False, names=["x", "c"])
    assert report.ok
    assert [row.tensor for row in report.rows] == ["x"]
