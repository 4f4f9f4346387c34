"""PyTorch on a device: the device, the precision of products, and a step's use of the GPU."""

import torch
from torch.profiler import ProfilerActivity, profile

DEVICES = {"numpy": "cpu", "cupy": "cuda"}


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
    return torch.cuda.synchronize if at.type == "cuda" else lambda: None


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
