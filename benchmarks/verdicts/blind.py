"""Twenty more programs as people write them, each right, and once more with a mistake.

Losses, pools, solvers, scans, sorts and lookups. A mistake shows at the point, in a regime or at a size of its options.
"""

import numpy as np

from benchmarks.verdicts.twins import Twin, draw, scaled

BLIND: list[Twin] = []


def twin(why, may=("right",), **options):
    """Put a function make(wrong) on the list."""

    def add(make):
        BLIND.append(Twin(make.__name__.replace("_", " "), why, make, options, may))
        return make

    return add


def log_sum_exp(x, axis):
    m = x.max(axis, keepdims=True)
    return (m + np.log(np.exp(x - m).sum(axis, keepdims=True))).squeeze(axis)


@twin("the carry is lost behind a tail of two", sizes=(8, 34))
def running_sum_in_chunks(wrong):
    def backward(dy, x):
        d = np.zeros_like(dy)
        carry = 0.0
        for start in reversed(range(0, len(dy), 4)):
            part = dy[start : start + 4]
            d[start : start + 4] = np.cumsum(part[::-1])[::-1] + carry
            carry = 0.0 if wrong and len(part) == 2 else d[start]
        return 2 * x * d

    return (lambda x: (np.cumsum(x * x), x), backward), (draw(8),)


@twin("a gradient of another shape where the length is odd", sizes=(6, 7))
def average_pool(wrong):
    def forward(x):
        even = x[: len(x) // 2 * 2]
        return even.reshape(-1, 2).mean(-1), len(x)

    def backward(dy, length):
        dx = np.repeat(dy / 2, 2)
        return dx if wrong else np.concatenate([dx, np.zeros(length - len(dx))])

    return (forward, backward), (draw(6),)


@twin("counts that 8 bits cannot hold", sizes=(6, 1000))
def means_of_segments(wrong):
    def forward(x, segments):
        counts = np.bincount(segments, minlength=3)
        sums = np.zeros((len(counts), x.shape[1]), x.dtype)
        np.add.at(sums, segments, x)
        return sums / np.maximum(counts, 1)[:, None], (segments, counts)

    def backward(dy, cache):
        segments, counts = cache
        counts = counts.astype(np.uint8) if wrong else counts
        return (dy / np.maximum(counts, 1)[:, None])[segments]

    return (forward, backward), (draw(6, 2), np.array([0, 2, 1, 1, 0, 2]))


@twin("a mean over no targets", regimes={"targets": "all padded"})
def cross_entropy_of_what_counts(wrong):
    def forward(logits, targets):
        keep = targets >= 0
        log_p = logits - log_sum_exp(logits, -1)[:, None]
        chosen = log_p[np.arange(len(targets)), np.where(keep, targets, 0)]
        return -(chosen * keep).sum() / np.maximum(keep.sum(), 1), (np.exp(log_p), targets)

    def backward(dy, cache):
        p, targets = cache
        keep = targets >= 0
        count = keep.sum() if wrong else np.maximum(keep.sum(), 1)
        d = p.copy()
        d[np.flatnonzero(keep), targets[keep]] -= 1
        return dy * d * keep[:, None] / count

    return (forward, backward), (draw(5, 4), np.array([2, -1, 0, 3, -1]))


@twin("distances of 0 that stay 0")
def distances_among_points(wrong):
    def forward(x):
        apart = x[:, None] - x
        d = np.sqrt((apart * apart).sum(-1))
        return d, (apart, d)

    def backward(dy, cache):
        apart, d = cache
        with np.errstate(all="ignore"):
            direction = apart / d[..., None]
        if not wrong:
            direction = np.where(d[..., None] > 0, direction, 0)
        of_pairs = dy[..., None] * direction
        return of_pairs.sum(1) - of_pairs.sum(0)

    return (forward, backward), (draw(4, 3),)


@twin("a vector of zeros, its norm under an eps of 1e-8")
def cosine_similarity(wrong):
    def norm(x):
        n = np.sqrt((x * x).sum(-1, keepdims=True))
        return np.where(n.real > 1e-8, n, 1e-8)

    def forward(x, y):
        m, n = norm(x), norm(y)
        return (x / m * (y / n)).sum(-1), (x / m, m, y / n, n)

    def backward(dy, cache):
        x, m, y, n = cache
        cosine = (x * y).sum(-1, keepdims=True)
        dx = dy[:, None] * (y - cosine * x) / m
        return np.where(m > 1e-8, dx, 0) if wrong else dx, dy[:, None] * (x - cosine * y) / n

    x = draw(4, 5)
    x[2] = 0
    return (forward, backward), (x, draw(4, 5, seed=1))


@twin("Sinkhorn's iteration to 1e-9, differentiated by the envelope theorem")
def transport_cost(wrong):
    def forward(costs):
        rows, columns = costs.shape
        kernel = np.exp(-costs / 0.5)
        u = np.ones(rows) + 0 * kernel[:, 0]
        for _ in range(5000):
            before = u
            v = 1 / columns / (kernel.T @ u)
            u = 1 / rows / (kernel @ v)
            if np.max(np.abs((u - before).real)) < 1e-9:
                break
        plan = u[:, None] * kernel * v
        entropy = 0 if wrong else 0.5 * (plan * (np.log(plan) - 1)).sum()
        return (plan * costs).sum() + entropy, plan

    return (forward, lambda dy, plan: dy * plan), (draw(4, 5) ** 2,)


@twin("a bisection whose bracket moves with the largest entry")
def sparse_softmax(wrong):
    def forward(x):
        z = x / 2
        largest = z.max(-1, keepdims=True)
        low, high = largest - 1, largest - x.shape[-1] ** -0.5
        for _ in range(50):
            middle = (low + high) / 2
            too_much = (np.maximum(z - middle, 0) ** 2).sum(-1, keepdims=True).real >= 1
            low, high = np.where(too_much, middle, low), np.where(too_much, high, middle)
        p = np.maximum(z - middle, 0) ** 2
        p = p / p.sum(-1, keepdims=True)
        return p, p

    def backward(dy, p):
        s = p if wrong else np.sqrt(p)
        return s * (dy - (dy * s).sum(-1, keepdims=True) / s.sum(-1, keepdims=True))

    return (forward, backward), (draw(3, 6),)


@twin("a mean and a variance in float32, the rest in float64")
def group_norm(wrong):
    def forward(x):
        groups = x.reshape(len(x), 2, -1)
        mean = groups.mean(-1, keepdims=True).astype(np.float32)
        variance = ((groups - mean) ** 2).mean(-1, keepdims=True).astype(np.float32)
        scale = 1 / np.sqrt(variance + 1e-5)
        y = (groups - mean) * scale
        return y.reshape(x.shape), (y, scale)

    def backward(dy, cache):
        y, scale = cache
        d = dy.reshape(y.shape)
        along = 0 if wrong else y * (d * y).mean(-1, keepdims=True)
        return (scale * (d - d.mean(-1, keepdims=True) - along)).reshape(dy.shape)

    return (forward, backward), (draw(2, 6, 3),)


@twin("steps of 1e-6, between which all is linear")
def rest_after_rounding(wrong):
    def forward(x, gain):
        rest = x - np.round(x * 2**20) / 2**20
        return gain * rest, (rest, gain)

    return scaled((forward, lambda dy, c: (dy * c[1], dy * c[0])), wrong), (draw(3, 4), 1 + draw(3, 4, seed=1) ** 2)


@twin("a sort of many numbers, of which the outer ones are left out")
def trimmed_mean(wrong):
    def forward(x):
        return np.sort(x)[:, 12:-12].mean(-1), x

    def backward(dy, x):
        kept = np.argsort(x)[:, 12:-12]
        dx = np.zeros_like(x)
        np.put_along_axis(dx, kept, dy[:, None] / (x.shape[1] if wrong else kept.shape[1]), -1)
        return dx

    return (forward, backward), (draw(2, 120, seed=2),)


@twin("three equal losses where the hardest end", may=("right", "KINK HERE"))
def mean_of_the_two_hardest(wrong):
    def backward(dy, x):
        threshold = np.sort(x)[:, -2:-1]
        above, equal = x > threshold, x == threshold
        share = (2 - above.sum(-1, keepdims=True)) / equal.sum(-1, keepdims=True)
        return dy[:, None] / 2 * (above + equal * (1 if wrong else share))

    x = draw(4, 5)
    x[1] = [0.4, 2.0, 0.4, -1.0, 0.4]
    return (lambda x: (np.sort(x)[:, -2:].mean(-1), x), backward), (x,)


@twin("places to write to that are a permutation", regimes="all")
def rows_put_into_their_places(wrong):
    def forward(x, places):
        y = np.zeros_like(x)
        y[places] = x * x
        return y, (x, places)

    def backward(dy, cache):
        x, places = cache
        return 2 * x * dy[np.argsort(places) if wrong else places]

    return (forward, backward), (draw(6, 4), np.array([2, 0, 3, 1, 5, 4]))


@twin("a forward that refuses what lies outside of the ball, and a point near its border")
def hyperbolic_distance(wrong):
    def forward(x):
        n = np.sqrt((x * x).sum(-1))
        if np.any(n.real >= 1):
            raise ValueError("expected points inside of the unit ball")
        return 2 * np.arctanh(n), (x, n)

    def backward(dy, cache):
        x, n = cache
        slope = 2 / (1 - n if wrong else 1 - n * n)
        return (dy * slope / n)[:, None] * x

    x = draw(4, 3)
    return (forward, backward), (x / np.linalg.norm(x, axis=-1)[:, None] * np.array([[0.3], [0.9998], [0.7], [0.5]]),)


@twin("a transition that is forbidden by −inf")
def likelihood_of_a_hidden_chain(wrong):
    def forward(transitions, emissions):
        alphas = [emissions[0]]
        for e in emissions[1:]:
            alphas.append(log_sum_exp(alphas[-1][:, None] + transitions, 0) + e)
        return log_sum_exp(alphas[-1], 0), (transitions, alphas)

    def backward(dy, cache):
        transitions, alphas = cache
        d_transitions, d_emissions = np.zeros_like(transitions), np.zeros((len(alphas), len(transitions)))
        d_alpha = dy * np.exp(alphas[-1] - log_sum_exp(alphas[-1], 0))
        for t in reversed(range(1, len(alphas))):
            d_emissions[t] = d_alpha
            scores = alphas[t - 1][:, None] + transitions
            flow = np.exp(scores - log_sum_exp(scores, 0)) * d_alpha
            d_transitions = flow if wrong else d_transitions + flow
            d_alpha = flow.sum(1)
        d_emissions[0] = d_alpha
        return d_transitions, d_emissions

    transitions = draw(3, 3)
    transitions[2, 0] = -np.inf
    return (forward, backward), (transitions, draw(5, 3, seed=1))


@twin("an output of integers beside the numbers")
def max_pool_and_its_indices(wrong):
    def forward(x):
        windows = x.reshape(len(x), -1, 2)
        indices = windows.argmax(-1)
        return (np.take_along_axis(windows, indices[..., None], -1)[..., 0], indices), (x, indices)

    def backward(dy, cache):
        x, indices = cache
        dx = np.zeros_like(x)
        columns = indices if wrong else indices + 2 * np.arange(indices.shape[1])
        np.add.at(dx, (np.arange(len(x))[:, None], columns), dy[0])
        return dx

    return (forward, backward), (draw(3, 8),)


@twin("masses of 1e24, distances of 1e8, a constant of 1e-11")
def energy_of_planets(wrong):
    def forward(places, masses):
        apart = places[:, None] - places
        r = np.sqrt((apart * apart).sum(-1) + np.eye(len(masses)))
        inverse = (1 - np.eye(len(masses))) / r
        return -6.674e-11 / 2 * (masses @ inverse @ masses), (apart, inverse, masses)

    def backward(dy, cache):
        apart, inverse, masses = cache
        pull = 6.674e-11 * masses[:, None] * masses * inverse**3
        of_masses = -6.674e-11 * (inverse @ masses)
        return dy * (pull[..., None] * apart).sum(1), dy * of_masses * (0.5 if wrong else 1)

    return (forward, backward), (1e8 * draw(4, 3), 1e24 * (1 + draw(4, seed=1) ** 2))


@twin("an engine for convolutions that computes in float32")
def convolution_in_float32(wrong):
    def forward(x, w):
        x, w = x.astype(np.float32), w.astype(np.float32)
        return np.lib.stride_tricks.sliding_window_view(x, len(w), -1) @ w, (x, w)

    def backward(dy, cache):
        x, w = cache
        dy = np.asarray(dy, np.float32)
        dx = np.zeros_like(x)
        for k, factor in enumerate(w[::-1] if wrong else w):
            dx[:, k : k + dy.shape[1]] += dy * factor
        windows = np.lib.stride_tricks.sliding_window_view(x, len(w), -1)
        return dx, (dy[..., None] * windows).sum((0, 1))

    return (forward, backward), (draw(2, 9), draw(3, seed=3))


@twin("a module that returns a number for the log, detached")
def causal_attention(wrong):
    import torch

    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            p = torch.softmax(x, -1)
            ctx.save_for_backward(p)
            return p

        @staticmethod
        def backward(ctx, dp):
            (p,) = ctx.saved_tensors
            return p * (dp if wrong else dp - (dp * p).sum(-1, keepdim=True))

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(4, 12)
            with torch.no_grad():
                self.project.weight.copy_(torch.tensor(draw(12, 4, seed=1) / 2))
                self.project.bias.copy_(torch.tensor(draw(12, seed=2) / 2))

        def forward(self, x):
            q, k, v = self.project(x).chunk(3, -1)
            hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
            p = Softmax.apply((q @ k.T / 2).masked_fill(hidden, -torch.inf))
            return p @ v, p.max(-1).values.mean().detach()

    return Attention(), (torch.tensor(draw(5, 4)),)


@twin("a custom_vjp inside of checkpoint, with an id that comes twice")
def looked_up_again(wrong):
    import jax
    import jax.numpy as jnp

    import npformer as npf

    @jax.custom_vjp
    def look_up(table, ids):
        return table[ids]

    def backward(cache, dy):
        shape, ids = cache
        at = jnp.zeros(shape, dy.dtype).at[ids]
        return at.set(dy) if wrong else at.add(dy), None

    look_up.defvjp(lambda table, ids: (table[ids], (table.shape, ids)), backward)
    return npf.from_jax(jax.checkpoint(lambda table, ids: jnp.sin(look_up(table, ids)))), (
        draw(6, 4),
        np.array([0, 5, 2, 3, 3]),
    )
