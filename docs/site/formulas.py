"""The formula of each operation, typeset above its page: what the forward computes, and what the backward.

The derivation in the docstring of the operation's file is the whole story; this is its first and its last line, in TeX.
"""

from __future__ import annotations

from typing import NamedTuple


class Formula(NamedTuple):
    """TeX, one line for each string."""

    forward: tuple[str, ...]
    backward: tuple[str, ...]


_ATTENTION_BACK = (
    r"dV = \mathrm{Drop}(A)^\top\, dO, \qquad dA = (dO\,V^\top)\odot\text{keep}\cdot s",
    r"dZ = A\odot\Bigl(dA - \sum\nolimits_S dA\odot A\Bigr)",
    r"dQ = \frac{dZ\,K}{\sqrt{D}}, \qquad dK = \frac{dZ^\top Q}{\sqrt{D}}",
)
_NORM = (r"\hat{x} = r\,(x-\mu), \qquad y = \gamma\,\hat{x}+\beta",)

FORMULAS: dict[str, Formula] = {
    "linear": Formula(
        (r"y = xW + b",),
        (r"dx = dy\,W^\top, \qquad dW = x^\top dy, \qquad db = \sum_n dy_n",),
    ),
    "relu": Formula((r"y = \max(x, 0)",), (r"dx = \begin{cases} dy & x > 0 \\ 0 & \text{else} \end{cases}",)),
    "gelu": Formula(
        (r"y = x\,\Phi(x), \qquad \Phi(x) = \tfrac12\Bigl(1+\mathrm{erf}\frac{x}{\sqrt2}\Bigr)",),
        (r"dx = dy\,\bigl(\Phi(x) + x\,\varphi(x)\bigr), \qquad \varphi(x) = \frac{e^{-x^2/2}}{\sqrt{2\pi}}",),
    ),
    "softmax": Formula(
        (r"y_j = \frac{e^{x_j-m}}{\sum_k e^{x_k-m}}, \qquad m = \max_k x_k",),
        (r"dx_i = y_i\,\Bigl(dy_i - \sum_j dy_j\,y_j\Bigr)",),
    ),
    "dropout": Formula(
        (
            r"y = x\cdot\text{keep}\cdot s, \qquad s = \frac{2^{16}}{2^{16}-t}",
            r"t = \mathrm{round}(2^{16}\cdot\text{rate})",
        ),
        (r"dx = dy\cdot\text{keep}\cdot s",),
    ),
    "embedding": Formula(
        (r"y_n = s\,E_{w_n}",),
        (r"dE_v = s\sum_{n\,:\,w_n = v} dy_n",),
    ),
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
    "layer_norm": Formula(
        (
            r"\mu = \frac1C\sum_i x_i, \qquad \sigma^2 = \frac1C\sum_i (x_i-\mu)^2",
            r"r = \frac{1}{\sqrt{\sigma^2+\varepsilon}}",
            *_NORM,
        ),
        (
            r"dx = r\,\Bigl(g - \frac1C\sum_j g_j - \hat{x}\,\frac1C\sum_j g_j\,\hat{x}{}_j\Bigr)",
            r"g = \gamma\,dy",
            r"d\gamma = \sum_n dy_n\odot\hat{x}{}_n, \qquad d\beta = \sum_n dy_n",
        ),
    ),
    "batch_norm": Formula(
        (
            r"\mu = \frac1n\sum_j m_j x_j",
            r"\sigma^2 = \frac1n\sum_j m_j(x_j-\mu)^2",
            r"r = \frac{1}{\sqrt{\sigma^2+\varepsilon}}",
            *_NORM,
        ),
        (
            r"dx_i = r\,\Bigl(g_i - \frac{m_i}{n}\sum_j g_j - \frac{m_i}{n}\,\hat{x}{}_i\sum_j g_j\hat{x}{}_j\Bigr)",
            r"g = \gamma\,dy",
            r"d\gamma = \sum_j dy_j\,\hat{x}{}_j, \qquad d\beta = \sum_j dy_j",
        ),
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
    "attention": Formula(
        (
            r"Z = \frac{QK^\top}{\sqrt{D}}, \qquad A = \mathrm{softmax}(Z)",
            r"O = \mathrm{Drop}(A)\,V",
        ),
        _ATTENTION_BACK,
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
    "residual": Formula((r"y = x + \mathrm{Drop}(f)",), (r"dx = dy, \qquad df = dy\cdot\text{keep}\cdot s",)),
    "post_norm": Formula(
        (r"u = x + \mathrm{Drop}(f), \qquad y = \mathrm{LayerNorm}(u)",),
        (
            r"du = \mathrm{LayerNorm}'(dy), \qquad dx = du",
            r"df = du\cdot\text{keep}\cdot s",
        ),
    ),
    "add_norm": Formula(
        (r"u = x + \mathrm{Drop}(f), \qquad v = \mathrm{LayerNorm}(u)",),
        (
            r"dt = du + \mathrm{LayerNorm}'(dv), \qquad dx = dt",
            r"df = dt\cdot\text{keep}\cdot s",
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
    "cross_entropy": Formula(
        (
            r"p_n = \mathrm{softmax}(z_n), \qquad q_n = (1-\varepsilon)\,\text{onehot}(w_n) + \frac{\varepsilon}{V}",
            r"L = -\frac1N\sum_{n\text{ counted}}\;\sum_v q_{nv}\log p_{nv}",
        ),
        (r"dz_n = \frac{dL}{N}\,(p_n - q_n) \quad\text{for counted tokens, 0 for the others}",),
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
    "conv1d": Formula(
        (r"y_t = \sum_{k=0}^{K-1} x_{t+k-\ell}\,W_k + b, \qquad \ell = \text{left}",),
        (
            r"dx_s = \sum_k dy_{s-k+\ell}\,W_k^\top",
            r"dW_k = \sum_t x_{t+k-\ell}^\top\,dy_t, \qquad db = \sum_t dy_t",
        ),
    ),
}
