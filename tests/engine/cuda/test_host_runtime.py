"""The device runtime of the tests detects errors that a GPU would make silently."""

import ctypes

import numpy as np
import pytest

KERNELS = """
typedef double real;
typedef long long whole;
extern "C" __global__ void turned(const real *x, real *y) {
    __shared__ real kept[64];
    kept[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = kept[39 - threadIdx.x];  // a barrier is missing
}
extern "C" __global__ void blind(const real *x, real *y) { *y = __shfl_down_sync(127, x[threadIdx.x], 16); }
extern "C" __global__ void read_outside(const real *x, real *y) { *y = x[64]; }
extern "C" __global__ void outside(real *y, whole at) { y[at] = 1; }
extern "C" __global__ void parted() {
    if (threadIdx.x < 5) __syncthreads();
}
extern "C" __global__ void too_far(real *y, whole at) {
    __shared__ real kept[2];
    *y = kept[at];
}
"""
NAMES = ["turned", "blind", "read_outside", "outside", "parted", "too_far"]
X = np.arange(1.0, 65.0)


@pytest.fixture
def run(runtimes, monkeypatch):
    """run(kernel, *arguments, threads, backwards): y, of 64 numbers, after the kernel above."""
    loaded = ctypes.PyDLL(str(runtimes.build_text("tried", runtimes.wrapped(KERNELS, NAMES))))
    for name in NAMES:
        getattr(loaded, f"launch_{name}").restype = ctypes.c_char_p
    monkeypatch.setattr(runtimes, "library", lambda file, dtype: loaded)

    def launch(name, *arguments, threads, backwards=False):
        runtime = runtimes.HostRuntime(block=threads, backwards=backwards)
        y = runtime.empty((64,), "float64")
        runtime.launch(f"tried.{name}", "float64", 1, 1, *[y if a is None else a for a in arguments])
        return y

    return launch


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("kernel", ["turned", "blind", "read_outside"])
def test_what_nobody_wrote_is_nan(run, kernel, backwards):
    """What other threads had not written yet, what an absent lane says, what lies behind an array."""
    threads = {"turned": 40, "blind": 7}.get(kernel, 1)
    assert np.isnan(run(kernel, X, None, threads=threads, backwards=backwards)[:threads]).any()


@pytest.mark.parametrize(
    ("kernel", "given", "words"),
    [
        ("outside", (None, -1), "wrote before an array of 512 bytes"),
        ("outside", (np.zeros(4), 4), "wrote behind an array of 32 bytes"),  # memory that the GPU did not give
        ("parted", (), r"block 0, thread 0: waits for ever at the barrier of line \d+"),
        ("too_far", (None, 2), r"block 0, thread 0: an index outside its array, in line \d+"),
    ],
)
def test_what_is_wrong_is_reported(run, kernel, given, words):
    with pytest.raises(AssertionError, match=f"{kernel}: {words}"):
        run(kernel, *given, threads=1 if given else 8)
