"""PyTorch on a device: the device, the precision of products, a step's use of the GPU, and its peak rates.

The rates are those of one large product in each precision, and of one large copy.
"""

import time

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.tasks import Contender, nothing_to_wait_for

DEVICES = {"numpy": "cpu", "cupy": "cuda"}
LARGE = 8192  # square products of this size reach the peak rate
COPIED = 1 << 30  # bytes, many times the size of a cache
ROUNDS = 20


def place(device, precision):
    """The PyTorch device for npformer's device name; sets the precision of float32 products.

    Raises RuntimeError if PyTorch sees no such device.
    """
    at = torch.device(DEVICES[device])
    if at.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__}: expected a GPU that PyTorch sees, got none; use --against none")
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    return at


def waiting(at):
    """The function that waits for the device."""
    return torch.cuda.synchronize if at.type == "cuda" else nothing_to_wait_for


def seen(at, step=None):
    """Peak bytes of GPU memory held by the allocator, and the kernels that a step launches; {} on a CPU."""
    if at.type != "cuda":
        return {}
    held = {"device_bytes": torch.cuda.max_memory_reserved()}  # before the profiler allocates
    return held if step is None else held | {"kernels": kernels(step)}


def kernels(step):
    """The number of kernels that the profiler sees in a step; None if it sees nothing."""
    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        step()
        torch.cuda.synchronize()
    names = [event.name for event in watched.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(not name.startswith(("Memcpy", "Memset")) for name in names) or None


def about():
    """PyTorch's description for the report."""
    return {"backend": f"torch {torch.__version__}", "threads": str(torch.get_num_threads())}


def ceilings(device, precisions, large=LARGE, copied=COPIED):
    """Task "ceilings", as in ``own.once``."""
    at = place(device, "float32")

    def measure():
        products = {name: 2.0 * large**3 / _best(_product(device, name, large), waiting(at)) for name in precisions}
        source = torch.ones(copied // 4, device=at)
        target = torch.empty_like(source)
        return {"products": products, "memory": 2.0 * copied / _best(lambda: target.copy_(source), waiting(at))}

    return Contender(about(), {"ceilings": lambda: measure}, synchronize=waiting(at))


def _product(device, precision, large):
    at = place(device, precision)
    a, b = (torch.randn(large, large, device=at) for _ in range(2))
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
