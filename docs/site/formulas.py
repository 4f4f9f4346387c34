"""The formula of each operation, typeset above its page: what the forward computes, and what the backward.

It is that of the docstring of the operation's file, translated (``tex.py``). Written by hand are those of operations
whose docstring says some of it in sentences, refers to another file, or is that of two operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from docs.site.tex import tex
from npformer.explain.derivation import for_page
from npformer.functional import OPERATIONS


class Formula(NamedTuple):
    """TeX, one line for each string."""

    forward: tuple[str, ...]
    backward: tuple[str, ...]


_ATTENTION_BACK = (
    r"dV = \mathrm{Drop}(A)^\top\, dO, \qquad dA = (dO\,V^\top)\odot\text{keep}\cdot s",
    r"dZ = A\odot\Bigl(dA - \sum\nolimits_S dA\odot A\Bigr)",
    r"dQ = \frac{dZ\,K}{\sqrt{D}}, \qquad dK = \frac{dZ^\top Q}{\sqrt{D}}",
)

BY_HAND: dict[str, Formula] = {
    "sinusoidal_positions": Formula(
        (
            r"y_p = x_p + P_p, \qquad \omega_i = 10000^{-2i/C}",
            r"P_{p,\,2i} = \sin(p\,\omega_i), \qquad P_{p,\,2i+1} = \cos(p\,\omega_i)",
        ),
        (r"dx = dy",),
    ),
    "learned_positions": Formula(
        (r"y_{bt} = x_{bt} + E_t",),
        (r"dx = dy, \qquad dE_t = \sum_b dy_{bt}",),
    ),
    "rotary": Formula(
        (
            r"y_p = R_p\,x_p, \qquad \omega_i = \text{base}^{-2i/D}",
            r"R_p \text{ turns each pair } (x_{2i},\, x_{2i+1}) \text{ by the angle } p\,\omega_i",
        ),
        (r"dx_p = R_p^\top\,dy_p = R_{-p}\,dy_p",),
    ),
    "relative_bias": Formula(
        (r"\text{bias}_{hts} = E_{b(s-t),\,h}",),
        (r"dE_{kh} = \sum_{t,s\,:\,b(s-t)=k} d\text{bias}_{hts}",),
    ),
    "batch_norm_inference": Formula(
        (
            r"r = \frac{1}{\sqrt{\sigma^2+\varepsilon}}, \qquad \hat{x} = r\,(x-\mu)",
            r"y = \gamma\,\hat{x}+\beta",
        ),
        (
            r"dx = r\,g, \qquad d\mu = -\sum r\,g",
            r"d\sigma^2 = -\tfrac12\,r^2\sum g\odot\hat{x}, \qquad g = \gamma\,dy",
        ),
    ),
    "biased_attention": Formula(
        (
            r"Z = \frac{QK^\top}{\sqrt{D}} + \text{bias}",
            r"A = \mathrm{softmax}(Z), \qquad O = \mathrm{Drop}(A)\,V",
        ),
        (*_ATTENTION_BACK, r"d\text{bias} = \sum_b dZ_b"),
    ),
    "local_attention": Formula(
        (
            r"z_{tj} = \frac{q_t\cdot k_j}{\sqrt{D}} \quad\text{for the few keys } j \text{ that } t \text{ may see}",
            r"o_t = \sum_j \mathrm{Drop}(a)_{tj}\,v_j, \qquad a_t = \mathrm{softmax}(z_t)",
        ),
        (
            r"dv_j = \sum_t \mathrm{Drop}(a)_{tj}\,do_t",
            r"dz_{tj} = a_{tj}\Bigl(da_{tj} - \sum_i da_{ti}\,a_{ti}\Bigr)",
            r"dq_t = \sum_j \frac{dz_{tj}\,k_j}{\sqrt{D}}, \qquad dk_j = \sum_t \frac{dz_{tj}\,q_t}{\sqrt{D}}",
        ),
    ),
    "linear_attention": Formula(
        (
            r"o_t = \frac{\sum_j \bigl(\varphi(q_t)\cdot\varphi(k_j)\bigr)\,v_j}{\sum_j \varphi(q_t)\cdot\varphi(k_j)}",
            r"\varphi(x) = \mathrm{elu}(x)+1",
        ),
        (
            r"dn_t = \Bigl[\frac{do_t}{n_D},\; -\frac{do_t\cdot o_t}{n_D}\Bigr], \qquad d\varphi(q_t) = A_t\,dn_t",
            r"G_j = \sum_{t\,\geq\,j}\varphi(q_t)\,dn_t^\top",
            r"d\varphi(k_j) = G_j\,v'_j, \qquad dv'_j = G_j^\top\varphi(k_j)",
        ),
    ),
    "feed_forward": Formula(
        (
            r"h = xW_1 + b_1, \qquad a = \mathrm{act}(h)",
            r"y = \mathrm{Drop}(a)\,W_2 + b_2",
        ),
        (
            r"da = (dy\,W_2^\top)\cdot\text{keep}\cdot s",
            r"dh = da\odot\mathrm{act}'(h), \qquad dx = dh\,W_1^\top",
            r"dW_2 = \mathrm{Drop}(a)^\top dy, \qquad dW_1 = x^\top dh",
            r"db_2 = \sum_n dy_n, \qquad db_1 = \sum_n dh_n",
        ),
    ),
    "gru": Formula(
        (
            r"r = \sigma(a_r+u_r), \qquad z = \sigma(a_z+u_z)",
            r"n = \tanh(a_n + r\odot u_n)",
            r"h_t = (1-z)\odot n + z\odot h_{t-1}, \qquad a_t = x_tW+b",
            r"u_t = h_{t-1}U+c",
        ),
        (
            r"dn = dh\odot(1-z), \qquad dz = dh\odot(h_{t-1}-n), \qquad dp_n = dn\odot(1-n^2)",
            r"dp_r = dp_n\odot u_n\odot r\odot(1-r), \qquad dp_z = dz\odot z\odot(1-z)",
            r"dh_{t-1} = dy_{t-1} + dh\odot z + [\,dp_r,\; dp_z,\; dp_n\odot r\,]\,U^\top",
        ),
    ),
}


def formula_of(name: str) -> Formula:
    """The formula of an operation. Raises ValueError if its docstring has one that cannot be translated."""
    if name in BY_HAND:
        return BY_HAND[name]
    shown = for_page(import_module(OPERATIONS[name].forward.__module__).__doc__ or "")
    return Formula(*(tuple(_lines("\n".join(shown[side]))) for side in Formula._fields))


def _lines(text: str) -> Iterator[str]:
    """Each line of formulas; what stands beside them in words is left out."""
    for line in text.splitlines():
        parts = (" ".join(part.split()) for part in re.split(r"\s{3,}(?![\s=])", line.strip()))
        formulas = [tex(part) for part in parts if " = " in part and ";" not in part]
        if formulas:
            yield r", \qquad ".join(formulas)


FORMULAS: dict[str, Formula] = {name: formula_of(name) for name in OPERATIONS}
