"""npformer certify: claims that hold, claims that fail, and the list of claims."""

from dataclasses import replace

from npformer.backend import PLAIN, Pair
from npformer.backend.numpy import kernels as numpy_kernels
from npformer.check import INVARIANTS, catalogue

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


def test_every_claim_holds_for_what_is_selected(cli):
    out = cli("certify --only MultiHeadAttention").fine().out
    assert out.startswith("all ")
    assert f"claims that apply to {len(catalogue('MultiHeadAttention'))} targets hold" in out


def test_the_chosen_kernels_are_certified(monkeypatch, cli):
    def shifted(dy, cache, into=()):
        return PLAIN.softmax.backward(dy, cache) + 1

    wrong = replace(numpy_kernels.KERNELS, softmax=Pair(PLAIN.softmax.forward, shifted))
    monkeypatch.setattr(numpy_kernels, "KERNELS", wrong)
    for kernels, code in (("plain", 0), ("numpy", 1)):
        assert cli(f"certify --only softmax --kernels {kernels}").code == code


def test_a_claim_that_fails_is_named(tmp_path, cli):
    (tmp_path / "leaky.py").write_text(LEAKY)
    outcome, document = cli("certify --model leaky.py"), cli("certify --model leaky.py --json")
    assert (outcome.code, document.code, document.document["ok"]) == (1, 1, False)
    assert "Leaky: accumulation" in outcome.out
    assert outcome.width <= 80


def test_the_list_gives_every_claim_a_meaning(cli):
    meanings = cli("certify --list --json").fine().document
    assert list(meanings) == list(INVARIANTS)
    assert all(len(meaning) > 10 for meaning in meanings.values())
    assert "causality\n    " in cli("certify --list").fine().out
