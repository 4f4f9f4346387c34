"""custom_vjp rules in JAX as people write them."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def layer_norm(x, gamma, beta):
    return layer_norm_fwd(x, gamma, beta)[0]


def layer_norm_fwd(x, gamma, beta):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    r = jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)
    x_hat = (x - mean) * r
    return gamma * x_hat + beta, (x_hat, r, gamma)


def layer_norm_bwd(res, dy):
    x_hat, r, gamma = res
    tokens = tuple(range(dy.ndim - 1))
    dgamma, dbeta = jnp.sum(dy * x_hat, axis=tokens), jnp.sum(dy, axis=tokens)
    g = dy * gamma
    along_one = jnp.mean(g, axis=-1, keepdims=True)
    along_x_hat = jnp.mean(g * x_hat, axis=-1, keepdims=True)
    return r * (g - along_one - x_hat * along_x_hat), dgamma, dbeta


layer_norm.defvjp(layer_norm_fwd, layer_norm_bwd)


@jax.custom_vjp
def softmax(x):
    return jax.nn.softmax(x, axis=-1)


def softmax_fwd(x):
    y = softmax(x)
    return y, y


def softmax_bwd(y, dy):
    inner = jnp.sum(y * dy, axis=-1, keepdims=True)
    return (y * (dy - inner),)


softmax.defvjp(softmax_fwd, softmax_bwd)


@jax.custom_vjp
def rms_norm(x, weight):
    return rms_norm_fwd(x, weight)[0]


def rms_norm_fwd(x, weight):
    rms = jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6)
    return x / rms * weight, (x, weight, rms)


def rms_norm_bwd(res, g):
    x, weight, rms = res
    gw = g * weight
    dx = gw / rms - x * jnp.mean(gw * x, axis=-1, keepdims=True) / rms**3
    dw = jnp.sum(g * x / rms, axis=tuple(range(g.ndim - 1)))
    return dx, dw


rms_norm.defvjp(rms_norm_fwd, rms_norm_bwd)


@jax.custom_vjp
def attention(q, k, v):
    return attention_fwd(q, k, v)[0]


def attention_fwd(q, k, v):
    scale = q.shape[-1] ** -0.5
    p = jax.nn.softmax(jnp.einsum("td,sd->ts", q, k) * scale, axis=-1)
    return p @ v, (q, k, v, p)


def attention_bwd(res, do):
    q, k, v, p = res
    dv = p.T @ do
    dp = do @ v.T
    ds = p * (dp - jnp.sum(dp * p, axis=-1, keepdims=True)) * q.shape[-1] ** -0.5
    return ds @ k, ds.T @ q, dv


attention.defvjp(attention_fwd, attention_bwd)


@jax.custom_vjp
def swish(x, beta):
    return x * jax.nn.sigmoid(beta * x)


def swish_fwd(x, beta):
    s = jax.nn.sigmoid(beta * x)
    return x * s, (x, s, beta)


def swish_bwd(res, dy):
    x, s, beta = res
    dx = dy * (s + beta * x * s * (1 - s))
    dbeta = jnp.sum(dy * x * x * s * (1 - s))
    return dx, dbeta


swish.defvjp(swish_fwd, swish_bwd)
