"""Wrong kernels that are right ones with one mistake. Those of kernels/wrong are files of their own."""

from pathlib import Path
from typing import NamedTuple

KERNELS = Path(__file__).parent / "kernels"


class Edit(NamedTuple):
    """A mistake: ``old``, which the source of the right kernel has once, is ``new``."""

    kernel: str  # the name of a file of kernels/right
    name: str
    what: str
    old: str
    new: str

    @property
    def file(self):
        """The name of the wrong kernel's file: its operation, what is wrong, its precision."""
        operation, *_, precision = self.kernel.split("--")
        return f"{operation}--{self.name}--{precision}.py"

    def source(self):
        """The wrong kernel. Raises ValueError unless the right one has ``old`` once."""
        right = (KERNELS / "right" / f"{self.kernel}.py").read_text(encoding="utf-8")
        if right.count(self.old) != 1:
            raise ValueError(
                f"{self.kernel}: expected {self.old!r} once in its source, got it {right.count(self.old)} times"
            )
        return right.replace(self.old, self.new)


EDITS = (
    Edit("softmax--plain--float32", "no_sum", "the row sum is missing",
         "(dy - (dy * y).sum(-1, keepdims=True))", "dy"),
    Edit("softmax--rows--float32", "last_row", "the last row is never written", "for row in range(len(y)):",
         "for row in range(len(y) - 1):"),
    Edit("softmax--online--float32", "tail", "the last block is left out of the row sum",
         "for start in range(0, y.shape[1], BLOCK):", "for start in range(0, y.shape[1] - BLOCK + 1, BLOCK):"),
    Edit("softmax--inside--bfloat16", "no_sum", "the row sum is missing",
         "(dy - (dy * y).sum(-1, keepdims=True))", "dy"),
    Edit("log_softmax--plain--float32", "not_exp", "the logarithm instead of the probability",
         "np.exp(y) * dy.sum", "y * dy.sum"),
    Edit("log_softmax--probabilities--float32", "first_column", "the first column is never written",
         "for column in range(dy", "for column in range(1, dy"),
    Edit("log_softmax--inside--bfloat16", "one_term", "Σdy is taken as dy", "dy.sum(-1, keepdims=True)", "dy"),
    Edit("layer_norm--plain--float32", "no_mean", "the mean of γ·dy is missing", "g - g.mean(-1, keepdims=True) -",
         "g -"),
    Edit("layer_norm--inside--bfloat16", "no_second", "x̂ times the mean of γ·dy·x̂ is missing",
         " - h * (g * h).mean(-1, keepdims=True)", ""),
    Edit("layer_norm--rows--float32", "not_cleared", "γ and β are added to what the buffers hold",
         "    dgamma[:] = 0\n    dbeta[:] = 0\n", ""),
    Edit("layer_norm--kept--bfloat16", "no_gain", "the gain is left out of dx", "g = gamma * dy", "g = dy"),
    Edit("layer_norm--sums--float32", "divided_twice", "dx is divided by N twice", "r / n *", "r / n / n *"),
    Edit("layer_norm--welford--float32", "gain_of_x", "dγ with x − μ instead of x̂", "(dy * h).sum(0)",
         "(dy * (x - mean)).sum(0)"),
    Edit("rms_norm--cubed--float32", "squared", "r² instead of r³", "r**3", "r**2"),
    Edit("rms_norm--inside--bfloat16", "no_second", "the second term is missing",
         " - h * (g * h).mean(-1, keepdims=True)", ""),
    Edit("rms_norm--blocks--float32", "whole_blocks", "what does not fill a block is left out, in the backward",
         "row_sum(g * h)", "row_sum((g * h)[:, : x.shape[1] // BLOCK * BLOCK])"),
    Edit("cross_entropy--plain--float32", "sum", "not divided by the number of rows", " * (dy / np.float32(len(p)))",
         " * dy"),
    Edit("cross_entropy--fused--float32", "no_dy", "dy is ignored, since it is 1 in a training", "return dx * dy",
         "return dx * np.ones_like(dy)"),
    Edit("cross_entropy--inside--bfloat16", "no_class", "the one-hot class is not subtracted", "(p - hot)", "p"),
    Edit("gelu--plain--float32", "cubic", "3·0.044715 became 0.044715", "1 + 3 * CUBIC", "1 + CUBIC"),
    Edit("gelu--inside--bfloat16", "twice", "the first term twice", "(1 + t) / 2 + x / 2 * (1", "(1 + t) + x / 2 * (1"),
    Edit("gelu--flat--float32", "tail", "the last block, which is not full, is not written",
         "for start in range(0, source.size, BLOCK):\n        where",
         "for start in range(0, source.size - BLOCK + 1, BLOCK):\n        where"),
    Edit("swiglu--plain--float32", "swapped", "da and db in the wrong order",
         "dy * b * s * (1 + a * (1 - s)), dy * a * s", "dy * a * s, dy * b * s * (1 + a * (1 - s))"),
    Edit("swiglu--kept--bfloat16", "plain_sigmoid", "the derivative of the sigmoid is missing",
         "(s + a * s * (1 - s))", "s"),
    Edit("linear--plain--float32", "scaled", "dW is a hundredth too large", "x.T @ dy", "x.T @ dy * 1.01"),
    Edit("linear--inside--bfloat16", "mean", "the bias gets the mean over rows", "dy.sum(0)", "dy.mean(0)"),
    Edit("attention--plain--float32", "no_scale", "ds without 1/√d", " * scale\n    return ds", "\n    return ds"),
    Edit("attention--inside--bfloat16", "swapped", "dq and dk in the wrong order",
         "bfloat16(ds @ k), bfloat16(ds.T @ q)", "bfloat16(ds.T @ q), bfloat16(ds @ k)"),
    Edit("embedding--add_at--float32", "last_wins", "of repeated ids the last one counts",
         "np.add.at(dtable, ids, dy)", "dtable[ids] += dy"),
    Edit("rope--plain--float32", "forward_again", "turned on instead of back",
         "[a * cos + b * sin, b * cos - a * sin]", "[a * cos - b * sin, a * sin + b * cos]"),
    Edit("l2_normalise--inside--bfloat16", "no_projection", "the part along y stays",
         "(dy - y * (dy * y).sum(-1, keepdims=True))", "dy"),
    Edit("huber--inside--bfloat16", "not_clipped", "the slope grows on beyond 1", "np.clip(d, -1, 1)", "d"),
)  # fmt: skip
