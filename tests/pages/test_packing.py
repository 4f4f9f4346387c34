"""Arrays come back from a page's text to the last bit."""

import base64
import zlib

import numpy as np

from npformer.pages.packing import Pack


def unpacked(pack, name):
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(pack.text())), dtype="<f8")
    _, shape, start = pack.places[name]
    return numbers[start : start + int(np.prod(shape))].reshape(shape)


def test_every_bit_comes_back():
    pack = Pack()
    arrays = [
        np.random.default_rng(0).normal(size=(2, 3, 4)),
        np.array(-0.0),
        np.array([np.nan, np.inf, 5e-324]),
        np.zeros((0, 3)),
        np.arange(6).reshape(2, 3)[:, ::-1],
        np.array([True, False]),
    ]
    names = [pack.add(array) for array in arrays]
    for name, array in zip(names, arrays, strict=True):
        found = unpacked(pack, name)
        assert found.shape == array.shape
        assert found.tobytes() == np.ascontiguousarray(array, dtype="<f8").tobytes()
    assert [pack.places[name][0] for name in names] == ["f", "f", "f", "f", "i", "b"]


def test_an_array_is_stored_once_under_all_its_names():
    pack, array = Pack(), np.arange(4.0)
    assert pack.add(array, "a0") == "a0"
    assert pack.add(array) == "a0"
    assert pack.add(array, "a1") == "a1"
    assert pack.places["a0"] == pack.places["a1"]
    assert len(zlib.decompress(base64.b64decode(pack.text()))) == 32
