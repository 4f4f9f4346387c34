"""PyTorch's own operations, in float32, bfloat16 and float16."""

import npformer as npf
from benchmarks.precision import references as of
from benchmarks.precision import references_of_products as also
from benchmarks.precision.draws import classified, headed, normal, normed
from benchmarks.precision.kernel import RIGHT, Kernel

try:
    from torch.nn import functional
except ImportError:
    functional = None

EPS = 1e-5


def right(name, call, reference, draw, precision="float32"):
    """The kernel that calls PyTorch."""
    return Kernel(RIGHT, f"torch {name}", precision, npf.from_torch(call), reference, draw)


def in_bfloat16(call):
    """call on tensors cast to bfloat16; what it returns is cast back."""
    return lambda *tensors: call(*(t.bfloat16() for t in tensors)).float()


def kernels():
    """All of them."""
    return (
        right("gelu, float32", lambda x: functional.gelu(x), of.gelu, normal((4, 16))),
        right("gelu, float32, scale 6", lambda x: functional.gelu(x), of.gelu, normal((4, 16), scale=6)),
        right(
            "tanh-GELU, float32, scale 3",
            lambda x: functional.gelu(x, approximate="tanh"),
            of.gelu_tanh,
            normal((4, 16), scale=3),
        ),
        right(
            "tanh-GELU, float32, scale 6",
            lambda x: functional.gelu(x, approximate="tanh"),
            of.gelu_tanh,
            normal((4, 16), scale=6),
        ),
        right("silu, float32, scale 6", lambda x: functional.silu(x), of.silu, normal((6, 32), scale=6)),
        right("tanh, float32, scale 3, offset 2", lambda x: x.tanh(), of.tanh, normal((3, 10), scale=3, offset=2)),
        right("tanh, float32, scale 6", lambda x: x.tanh(), of.tanh, normal((3, 10), scale=6)),
        right("softmax, float32", lambda x: functional.softmax(x, -1), of.softmax, normal((4, 64))),
        right(
            "softmax, float32, scale 6, 2×3", lambda x: functional.softmax(x, -1), of.softmax, normal((2, 3), scale=6)
        ),
        right("logsumexp, float32, offset 30", lambda x: x.logsumexp(-1), of.logsumexp, normal((4, 50), offset=30)),
        right(
            "cross_entropy, float32",
            lambda x, classes: functional.cross_entropy(x, classes),
            of.cross_entropy,
            classified(6, 100, scale=2),
        ),
        right(
            "layer_norm, float32, offset 30",
            lambda x, w, b: functional.layer_norm(x, w.shape, w, b, EPS),
            of.layer_norm(EPS),
            normed(8, 64, offset=30),
        ),
        right(
            "rms_norm, float32, scale 3",
            lambda x, w: functional.rms_norm(x, w.shape, w, EPS),
            of.rms_norm(EPS),
            normed(8, 64, scale=3, bias=False),
        ),
        right(
            "scaled_dot_product_attention, float32",
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v),
            also.attention,
            headed(1, 2, tokens=8, width=16),
        ),
        right(
            "scaled_dot_product_attention, float32, scale 6",
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v),
            also.attention,
            headed(tokens=5, width=8, scale=6),
        ),
        right("gelu, bfloat16", in_bfloat16(lambda x: functional.gelu(x)), of.gelu, normal((4, 32)), "bfloat16"),
        right(
            "layer_norm, bfloat16",
            in_bfloat16(lambda x, w, b: functional.layer_norm(x, w.shape, w, b, EPS)),
            of.layer_norm(EPS),
            normed(8, 64, offset=2),
            "bfloat16",
        ),
        right("silu, float16, scale 3", lambda x: functional.silu(x), of.silu, normal((4, 32), scale=3), "float16"),
        right(
            "rms_norm, float16",
            lambda x, w: functional.rms_norm(x, w.shape, w, EPS),
            of.rms_norm(EPS),
            normed(8, 48, bias=False),
            "float16",
        ),
    )


KERNELS = kernels() if functional else ()
