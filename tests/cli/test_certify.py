"""npformer certify: claims that hold, claims that fail, and the list of claims."""

import json
from dataclasses import replace

from npformer.backend import PLAIN, Pair
from npformer.backend.numpy import kernels as numpy_kernels
from npformer.cli.main import main
from npformer.proof import catalogue

LEAKY = """
import numpy as np
import npformer as npf


class Leaky(npf.layers.Linear):
    def backward(self, dy, cache):
        dx = super().backward(dy, cache)
        self.bias.grad[...] = dy.sum(axis=(0, 1))   # assigned, not added
        return dx


def build():
    return Leaky(4, 5, backend=npf.get_backend("numpy")), (np.random.default_rng(0).normal(size=(2, 3, 4)),)
"""


def test_every_claim_holds_for_what_is_selected(capsys):
    assert main(["certify", "--only", "MultiHeadAttention"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("all ")
    assert f"claims that apply to {len(catalogue('MultiHeadAttention'))} targets hold" in out


def test_it_computes_with_plain_kernels_by_default(capsys):
    for options, kernels in (([], "plain"), (["--kernels", "numpy"], "numpy")):
        assert main(["certify", "--only", "softmax", "--json", *options]) == 0
        assert json.loads(capsys.readouterr().out)["backend"].startswith(f"numpy ({kernels}) on CPU, float64")


def test_the_chosen_kernels_are_certified(monkeypatch, capsys):
    def shifted(dy, cache, into=()):
        return PLAIN.softmax.backward(dy, cache) + 1

    wrong = replace(numpy_kernels.KERNELS, softmax=Pair(PLAIN.softmax.forward, shifted))
    monkeypatch.setattr(numpy_kernels, "KERNELS", wrong)
    for kernels, code in (("plain", 0), ("numpy", 1)):
        assert main(["certify", "--only", "softmax", "--kernels", kernels]) == code
        capsys.readouterr()


def test_a_claim_that_fails_is_named(tmp_path, capsys):
    (tmp_path / "leaky.py").write_text(LEAKY)
    assert main(["certify", "--model", str(tmp_path / "leaky.py")]) == 1
    out = capsys.readouterr().out
    assert "Leaky: accumulation" in out
    assert max(map(len, out.splitlines())) <= 80
    assert main(["certify", "--model", str(tmp_path / "leaky.py"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_the_list_gives_every_claim_a_meaning(capsys):
    assert main(["certify", "--list", "--json"]) == 0
    meanings = json.loads(capsys.readouterr().out)
    assert len(meanings) >= 50
    assert all(len(meaning) > 10 for meaning in meanings.values())
    assert main(["certify", "--list"]) == 0
    assert "causality\n    " in capsys.readouterr().out


def test_nothing_selected_is_bad_input(capsys):
    assert main(["certify", "--only", "no such thing"]) == 2
    assert "--only: expected a part of a target's name" in capsys.readouterr().err
