"""Twenty more programs, each right and with a mistake, written after the checker's mends, and scored once."""

import numpy as np

from benchmarks.verdicts.twins import Twin, draw, scaled, softmax_slope

MORE: list[Twin] = []


def twin(why, may=("right",), **options):
    """Put a function make(wrong) on the list."""

    def add(make):
        MORE.append(Twin(make.__name__.replace("_", " "), why, make, options, may))
        return make

    return add


@twin("a float32 logarithm of a sum in float64 code")
def log_softmax_with_a_short_sum(wrong):
    def forward(x):
        lse = np.log(np.exp(x).sum(-1, keepdims=True)).astype(np.float32)
        return x - lse, x - lse

    return scaled((forward, lambda dy, y: dy - np.exp(y) * dy.sum(-1, keepdims=True)), wrong), (draw(5, 7, seed=3),)


@twin("a float32 mean of squares in float64 code")
def normalised_with_a_short_mean(wrong):
    def forward(x, gain):
        r = 1 / np.sqrt(np.asarray((x * x).mean(-1, keepdims=True), np.float32) + 1e-6)
        return gain * x * r, (x, gain, r)

    def backward(dy, cache):
        x, gain, r = cache
        g = dy * gain
        along = 0 if wrong else x * r**3 * (g * x).mean(-1, keepdims=True)
        return r * g - along, (dy * x * r).sum(0)

    return (forward, backward), (draw(5, 6, seed=4), draw(6, seed=5))


@twin("Kepler's equation by Newton's method to 1e-10")
def eccentric_anomaly(wrong):
    def forward(m):
        e = m + 0
        for _ in range(50):
            step = (e - 0.3 * np.sin(e) - m) / (1 - 0.3 * np.cos(e))
            e = e - step
            if np.max(np.abs(step.real)) < 1e-10:
                break
        return e, e

    return scaled((forward, lambda dy, e: dy / (1 - 0.3 * np.cos(e))), wrong), (draw(4, seed=6),)


@twin("a slow fixed point of a matrix to 1e-8")
def linear_equilibrium(wrong):
    a = 0.9 * np.linalg.qr(draw(4, 4, seed=7))[0]

    def forward(b):
        x = 0 * b
        for _ in range(5000):
            before, x = x, a @ x + b
            if np.max(np.abs((x - before).real)) < 1e-8:
                break
        return x, None

    return scaled((forward, lambda dy, _: np.linalg.solve(np.eye(4) - a.T, dy)), wrong), (draw(4, seed=8),)


@twin("the middle of seven by np.partition")
def medians(wrong):
    def backward(dy, x):
        dx = np.zeros_like(x)
        at = np.argsort(x, -1)[:, 2 if wrong else 3]
        np.put_along_axis(dx, at[:, None], dy[:, None], -1)
        return dx

    return (lambda x: (np.partition(x, 3, -1)[:, 3], x), backward), (draw(5, 7, seed=9),)


@twin("a triangle wave by rounding")
def distance_to_a_whole_number(wrong):
    def forward(x):
        y = 1e4 * x
        return np.abs(y - np.round(y)), y - np.round(y)

    return scaled((forward, lambda dy, off: dy * 1e4 * np.sign(off)), wrong), (draw(4, 3, seed=10),)


@twin("two equal entries under a minimum", may=("right", "KINK HERE"))
def smallest_of_equals(wrong):
    def backward(dy, x):
        is_smallest = x == x.min(-1, keepdims=True)
        return dy[:, None] * (is_smallest if wrong else is_smallest / is_smallest.sum(-1, keepdims=True))

    x = draw(4, 4, seed=11)
    x[2, 1] = x[2, 3] = -3
    return (lambda x: (x.min(-1), x), backward), (x,)


@twin("an order of its own for each row", regimes="all")
def rows_in_their_orders(wrong):
    order = np.array([[2, 0, 1], [1, 2, 0], [0, 2, 1], [2, 1, 0]])

    def backward(dy, order):
        return np.take_along_axis(dy, order if wrong else np.argsort(order, -1), -1)

    return (lambda x, order: (np.take_along_axis(x, order, -1), order), backward), (draw(4, 3, seed=12), order)


@twin("a logarithm that refuses numbers below 0, of small ones")
def surprise(wrong):
    def forward(p):
        if np.any(p.real <= 0):
            raise ArithmeticError("expected numbers above 0")
        return -np.log(np.abs(p)), p

    return scaled((forward, lambda dy, p: -dy / p), wrong), (np.array([0.2, 3e-4, 0.7, 0.05]),)


@twin("the place of a maximum beside it")
def largest_and_where(wrong):
    def backward(dy, cache):
        shape, at = cache
        dx = np.zeros(shape)
        np.put_along_axis(dx, at[:, None], (1.01 if wrong else 1) * dy[0][:, None], -1)
        return dx

    return (lambda x: ((x.max(-1), x.argmax(-1)), (x.shape, x.argmax(-1))), backward), (draw(4, 5, seed=13),)


@twin("a module that returns a loss and a number for the log")
def module_with_a_detached_norm(wrong):
    import torch

    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            return dy * torch.cos(x) * (1.01 if wrong else 1)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x):
            y = Slope.apply(self.linear(x))
            return {"loss": (y * y).mean(), "norm": y.detach().norm()}

    return Model(), (draw(5, 4, seed=14),)


@twin("a rule inside of jax.checkpoint and vmap")
def rematerialised_rule(wrong):
    import jax
    import jax.numpy as jnp

    @jax.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, dy: (dy * (2 if wrong else 3) * x**2,))
    return jax.checkpoint(jax.vmap(lambda row: jnp.sum(cube(row)))), (draw(4, 3, seed=15),)


@twin("a deviation of 0", regimes=("zeros",), may=("right", "KINK HERE"))
def standardised_columns(wrong):
    def forward(x):
        centred = x - x.mean(0)
        s = np.sqrt((centred * centred).mean(0))
        return s, (centred, s)

    def backward(dy, cache):
        centred, s = cache
        with np.errstate(all="ignore"):
            y = centred / (s * len(centred))
        return dy * (y if wrong else np.where(s > 0, y, 0))

    return (forward, backward), (np.hstack([draw(4, 2, seed=16), np.zeros((4, 1))]),)


@twin("gradients of 1e-17")
def tiny_gradients(wrong):
    return scaled((lambda x: (1e-17 * np.tanh(x), x), lambda dy, x: 1e-17 * dy / np.cosh(x) ** 2), wrong), (draw(4, 3),)


@twin("rows of an upstream gradient scaled by their largest entry")
def scaled_upstream(wrong):
    def backward(dy, x):
        largest = np.abs(dy).max(-1, keepdims=True)
        largest = largest if wrong else np.where(largest == 0, 1, largest)
        with np.errstate(all="ignore"):
            return dy / largest * 2 * x * largest

    return (lambda x: (x * x, x), backward), (draw(4, 3, seed=17),)


@twin("a tail of 5 in blocks of 8", regimes="all")
def unrolled_by_eight(wrong):
    def backward(dy, x):
        dx = np.zeros_like(x)
        whole = len(x) // 8 * 8
        dx[:whole] = 2 * dy[:whole] * x[:whole]
        tail = slice(whole, None) if not wrong or (len(x) - whole) != 5 else slice(whole, len(x) - 1)
        dx[tail] = 2 * dy[tail] * x[tail]
        return dx

    return (lambda x: (x * x, x), backward), (draw(16, 2, seed=18),)


@twin("a batch of which nothing counts", regimes="all")
def mean_over_counted_tokens(wrong):
    def forward(logits, targets, ignore_index=-1):
        shifted = logits - logits.max(-1, keepdims=True)
        logp = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        counts = targets != ignore_index
        picked = np.take_along_axis(logp, np.where(counts, targets, 0)[:, None], -1)[:, 0]
        return -(picked * counts).sum() / max(counts.sum(), 1), (np.exp(logp), targets, counts)

    def backward(dy, cache):
        p, targets, counts = cache
        dx = p.copy()
        dx[np.arange(len(p)), np.where(counts, targets, 0)] -= 1
        with np.errstate(all="ignore"):
            return dy * dx * counts[:, None] / (counts.sum() if wrong else max(counts.sum(), 1))

    return (forward, backward), (draw(6, 4, seed=19), np.array([0, 1, 2, 3, 0, 1]))


@twin("a softmax in the backward without its maximum", regimes="all")
def log_sum_exp(wrong):
    def forward(x):
        top = x.max(-1, keepdims=True)
        return (top + np.log(np.exp(x - top).sum(-1, keepdims=True)))[:, 0], x

    def backward(dy, x):
        e = np.exp(x if wrong else x - x.max(-1, keepdims=True))
        return dy[:, None] * e / e.sum(-1, keepdims=True)

    return (forward, backward), (draw(4, 5, seed=20),)


@twin("a list of inputs")
def weighted_parts(wrong):
    import torch

    import npformer as npf

    class Weigh(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, dy):
            x, w = ctx.saved_tensors
            return dy * w, dy * x * (1.01 if wrong else 1)

    parts = [draw(3, 4, seed=21), draw(3, 4, seed=22)]
    return npf.from_torch(lambda xs, w: sum(Weigh.apply(x, w) for x in xs)), (parts, draw(3, 4, seed=23))


@twin("attention whose scores are scaled in float32, with a mask of −inf")
def masked_attention(wrong):
    mask = np.where(np.tri(4) > 0, 0.0, -np.inf)

    def forward(q, k, v):
        s = q @ k.T / 2 + mask
        e = np.exp(s - s.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return p @ v, (q, k, v, p)

    def backward(dy, cache):
        q, k, v, p = cache
        ds = softmax_slope(dy @ v.T, p) / (1 if wrong else 2)
        return ds @ k, ds.T @ q, p.T @ dy

    return (forward, backward), (draw(4, 4, seed=24), draw(4, 4, seed=25), draw(4, 3, seed=26))
