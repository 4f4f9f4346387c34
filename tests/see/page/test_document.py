"""A page asks for nothing, runs only its own script, and shows texts as texts; its arrays come back to the last bit."""

import base64
import hashlib
import json
import re
import zlib

import numpy as np

from npformer.see.page.document import Pack, html_page

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 & \" ' \u202e"


def page(**changes):
    parts = {"style": "p { color: red }", "script": 'console.log("ü")', "data": {"numbers": [1.5, HOSTILE]}}
    return html_page(HOSTILE, **parts | changes)


def test_the_policy_names_the_one_script_and_the_one_style_by_their_hashes():
    text = page()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    for kind, tag in (("script", '<script type="module">'), ("style", "<style>")):
        inside = text.partition(tag)[2].partition(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_no_text_ends_its_block():
    text = page()
    block = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', text, re.DOTALL)
    assert json.loads(block[1]) == [1.5, HOSTILE]
    assert text.count("</script>") == 2
    assert "<title>&lt;/script&gt;" in text
    assert "\u202e" not in text.partition("</title>")[0]


def unpacked(pack, name):
    by_place = np.frombuffer(zlib.decompress(base64.b64decode(pack.text())), dtype=np.uint8).reshape(8, -1)
    numbers = np.ascontiguousarray(by_place.T).view("<f8").reshape(-1)
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
        unpacked_array = unpacked(pack, name)
        assert unpacked_array.shape == array.shape
        assert unpacked_array.tobytes() == np.ascontiguousarray(array, dtype="<f8").tobytes()
    assert [pack.places[name][0] for name in names] == ["f", "f", "f", "f", "i", "b"]


def test_an_array_is_stored_once_under_all_its_names():
    pack, array = Pack(), np.arange(4.0)
    assert pack.add(array, "a0") == "a0"
    assert pack.add(array) == "a0"
    assert pack.add(array, "a1") == "a1"
    assert pack.places["a0"] == pack.places["a1"]
    assert len(zlib.decompress(base64.b64decode(pack.text()))) == 32
