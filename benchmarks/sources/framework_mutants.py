"""Mistakes in the Functions of torch_functions.py and in the rules of jax_rules.py."""

from benchmarks.foreign.pair import wrong

TORCH = {
    "LayerNorm": (
        wrong("README's", "dx = r * (g - along_one - x_hat * along_x_hat)", "dx = r * (g - along_one)", "missing term"),
        wrong(
            "no mean",
            "dx = r * (g - along_one - x_hat * along_x_hat)",
            "dx = r * (g - x_hat * along_x_hat)",
            "missing term",
        ),
        wrong(
            "a sum",
            "along_x_hat = (g * x_hat).mean(dim=-1, keepdim=True)",
            "along_x_hat = (g * x_hat).sum(dim=-1, keepdim=True)",
            "summed axis",
            "factor",
        ),
        wrong("no gamma", "g = dy * gamma", "g = dy", "missing factor"),
        wrong(
            "an axis",
            "along_one = g.mean(dim=-1, keepdim=True)",
            "along_one = g.mean(dim=0, keepdim=True)",
            "summed axis",
        ),
        wrong("dgamma of dy", "dgamma = (dy * x_hat).sum(dim=tokens)", "dgamma = dy.sum(dim=tokens)", "missing factor"),
    ),
    "Softmax": (
        wrong(
            "no subtraction", "return y * (grad_output - inner), None", "return y * grad_output, None", "missing term"
        ),
        wrong(
            "dim",
            "torch.sum(grad_output * y, dim=ctx.dim, keepdim=True)",
            "torch.sum(grad_output * y, dim=0, keepdim=True)",
            "summed axis",
        ),
        wrong(
            "y left out", "return y * (grad_output - inner), None", "return grad_output - inner, None", "missing factor"
        ),
        wrong("a mean", "torch.sum(grad_output * y", "torch.mean(grad_output * y", "summed axis", "factor"),
    ),
    "Linear": (
        wrong("not transposed", "grad_output.t().mm(input)", "input.t().mm(grad_output)", "transposed"),
        wrong("a mean", "grad_bias = grad_output.sum(0)", "grad_bias = grad_output.mean(0)", "summed axis", "factor"),
        wrong("the wrong weight", "grad_output.mm(weight)", "grad_output.mm(weight.t())", "transposed"),
        wrong("a factor", "grad_output.t().mm(input)", "grad_output.t().mm(input) / len(input)", "factor"),
    ),
    "Gelu": (
        wrong("no second term", "return dy * (cdf + x * pdf)", "return dy * cdf", "missing term"),
        wrong("no x", "cdf + x * pdf", "cdf + pdf", "missing factor"),
        wrong("no half", "torch.exp(-0.5 * x * x)", "torch.exp(-x * x)", "factor", "missing factor"),
        wrong(
            "no root",
            "torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)",
            "torch.exp(-0.5 * x * x) / (2 * math.pi)",
            "factor",
            "wrong constant",
        ),
    ),
    "Attention": (
        wrong("no scale", "        ds = ds * ctx.scale\n", "", "factor"),
        wrong(
            "no subtraction",
            "ds = probs * (dp - (dp * probs).sum(dim=-1, keepdim=True))",
            "ds = probs * dp",
            "missing term",
        ),
        wrong(
            "not transposed",
            "dv = torch.matmul(probs.transpose(-2, -1), do)",
            "dv = torch.matmul(probs, do)",
            "transposed",
        ),
        wrong(
            "an axis", "(dp * probs).sum(dim=-1, keepdim=True)", "(dp * probs).sum(dim=-2, keepdim=True)", "summed axis"
        ),
        wrong("swapped", "return dq, dk, dv", "return dk, dq, dv", "swapped outputs"),
    ),
    "Embedding": (
        wrong("assigned", "dw.index_add_(0, ids.reshape(-1), flat)", "dw[ids.reshape(-1)] = flat", "not accumulated"),
        wrong("padding has one", "        dw[ctx.padding] = 0\n", "", "wrong branch", "wrong place"),
        wrong("copied", "dw.index_add_(0,", "dw.index_copy_(0,", "not accumulated"),
    ),
    "LeakyReLU": (
        wrong(
            "assigned", "grad_x[x <= 0] *= ctx.slope", "grad_x[x <= 0] = ctx.slope", "missing factor", "not accumulated"
        ),
        wrong("zero", "grad_x[x <= 0] *= ctx.slope", "grad_x[x <= 0] = 0", "missing factor", "zero", "wrong branch"),
        wrong("the other side", "grad_x[x <= 0] *=", "grad_x[x > 0] *=", "wrong branch"),
    ),
    "CrossEntropy": (
        wrong("no mean", "        grad /= len(labels)\n", "", "factor"),
        wrong("added", "labels] -= 1", "labels] += 1", "sign"),
        wrong("no label", "        grad[torch.arange(len(labels)), labels] -= 1\n", "", "missing term"),
        wrong("every row", "grad[torch.arange(len(labels)), labels] -= 1", "grad[:, labels] -= 1", "wrong place"),
    ),
}

JAX = {
    "layer_norm": (
        wrong(
            "README's",
            "return r * (g - along_one - x_hat * along_x_hat), dgamma",
            "return r * (g - along_one), dgamma",
            "missing term",
        ),
        wrong("no mean", "r * (g - along_one - x_hat * along_x_hat)", "r * (g - x_hat * along_x_hat)", "missing term"),
        wrong("a sum", "along_x_hat = jnp.mean(", "along_x_hat = jnp.sum(", "summed axis", "factor"),
        wrong("no gamma", "g = dy * gamma", "g = dy", "missing factor"),
    ),
    "softmax": (
        wrong("no subtraction", "return (y * (dy - inner),)", "return (y * dy,)", "missing term"),
        wrong("an axis", "inner = jnp.sum(y * dy, axis=-1,", "inner = jnp.sum(y * dy, axis=0,", "summed axis"),
        wrong("a sign", "return (y * (dy - inner),)", "return (y * (dy + inner),)", "sign"),
    ),
    "rms_norm": (
        wrong("rms squared", "/ rms**3", "/ rms**2", "wrong factor", "missing factor", "wrong constant"),
        wrong("no weight", "gw = g * weight", "gw = g", "missing factor"),
        wrong("no weight in the mean", "jnp.mean(gw * x", "jnp.mean(g * x", "missing factor", "wrong factor"),
        wrong("dw not divided", "jnp.sum(g * x / rms,", "jnp.sum(g * x,", "missing factor"),
    ),
    "attention": (
        wrong("no scale", " * q.shape[-1] ** -0.5\n    return ds @ k", "\n    return ds @ k", "factor"),
        wrong("not transposed", "return ds @ k, ds.T @ q, dv", "return ds @ k, ds @ q, dv", "transposed"),
        wrong("swapped", "return ds @ k, ds.T @ q, dv", "return ds.T @ q, ds @ k, dv", "swapped outputs"),
    ),
    "swish": (
        wrong("no beta", "s + beta * x * s * (1 - s)", "s + x * s * (1 - s)", "missing factor"),
        wrong("no s", "s + beta * x * s * (1 - s)", "beta * x * s * (1 - s)", "missing term"),
        wrong("x once", "jnp.sum(dy * x * x * s * (1 - s))", "jnp.sum(dy * x * s * (1 - s))", "missing factor"),
    ),
}
