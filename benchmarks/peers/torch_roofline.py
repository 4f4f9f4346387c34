"""A GPU's peak rates as PyTorch measures them: one large product in each precision, one large copy."""

import time

import torch

from benchmarks.peers.torch_device import about, place, waiting
from benchmarks.tasks import Contender

LARGE = 8192  # square products of this size reach the peak rate
COPIED = 1 << 30  # bytes, many times the size of a cache
ROUNDS = 20


def ceilings(device, precisions, large=LARGE, copied=COPIED):
    """Task "ceilings", as in ``own.roofline``."""
    at = place(device, "float32")

    def measure():
        products = {name: 2.0 * large**3 / _best(_product(device, name, large), waiting(at)) for name in precisions}
        source = torch.ones(copied // 4, device=at)
        target = torch.empty_like(source)
        return {"products": products, "memory": 2.0 * copied / _best(lambda: target.copy_(source), waiting(at))}

    return Contender(about(), {"ceilings": lambda: measure}, synchronize=waiting(at))


def _product(device, precision, large):
    at = place(device, precision)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    a, b = (torch.randn(large, large, device=at).to(dtype) for _ in range(2))
    return lambda: a @ b


def _best(work, wait):
    """Seconds of the fastest of several rounds; the first round, which may set things up, does not count."""
    seconds = []
    for _ in range(1 + ROUNDS):
        wait()
        start = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])
