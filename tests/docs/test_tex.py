"""Formulas of docstrings as TeX."""

import pytest

from docs.site.formulas import FORMULAS
from docs.site.tex import tex

latex2mathml = pytest.importorskip("docutils.utils.math.latex2mathml", reason="the extra docs brings docutils")


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("y_nj = Σ_i x_ni W_ij + b_j", r"y_{nj} = \sum_{i}\,x_{ni}\,W_{ij} + b_{j}"),
        ("r = 1/√(σ² + ε)", r"r = \frac{1}{\sqrt{\sigma^{2} + \varepsilon}}"),
        ("x̂_j = (x − μ)·r", r"\hat{x}_{j} = (x - \mu) \cdot r"),
        ("dK = dscoresᵀ Q/√D", r"dK = \frac{d\text{scores}^{\top}\,Q}{\sqrt{D}}"),
        ("p = (a + b)(c + d)/2", r"p = \frac{(a + b)(c + d)}{2}"),
        ("y = x where x > 0", r"y = x\;\text{where}\;x > 0"),
        ("Φ(x) = (1 + erf(x/√2))/2", r"\Phi(x) = \frac{1 + \mathrm{erf}\left( \frac{x}{\sqrt{2}} \right)}{2}"),
        ("ω_i = 10000^(−2i/C)", r"\omega_{i} = 10000^{- \frac{2i}{C}}"),
        ("dv'_j = [a, b₁]", r"dv'_{j} = [a ,\; b_{1}]"),
        ("n = ⌊a/2⌋", r"n = \left\lfloor \frac{a}{2} \right\rfloor"),
        ("y = (c_i/N)·Σ_{n: w_n = v} dy_n", r"y = \frac{c_{i}}{N} \cdot \sum_{n \,:\, w_{n} = v}\,dy_{n}"),
    ],
)
def test_a_formula_as_tex(formula, expected):
    assert tex(formula) == expected


@pytest.mark.parametrize("formula", ["y = ⌈x⌉", "y = (x", "y = x)", "y = /x", "y = x_[2]"])
def test_what_it_does_not_know_is_an_error(formula):
    with pytest.raises(ValueError, match="expected"):
        tex(formula)


@pytest.mark.parametrize("name", FORMULAS)
def test_every_formula_can_be_set(name):
    for side in FORMULAS[name]:
        assert side
        for line in side:
            assert "<math" in latex2mathml.tex2mathml(line, as_block=True)
