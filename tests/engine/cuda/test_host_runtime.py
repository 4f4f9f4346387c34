"""The device runtime of the tests detects errors that a GPU would make silently."""

import ctypes

import numpy as np
import pytest

KERNELS = """
typedef double real;
typedef long long whole;
extern "C" __global__ void turned(const real *x, real *y, whole n) {
    __shared__ real kept[64];
    if (threadIdx.x < n) kept[threadIdx.x] = x[threadIdx.x];
    BARRIER
    if (threadIdx.x < n) y[threadIdx.x] = kept[n - 1 - threadIdx.x];
}
extern "C" __global__ void added(const real *x, real *y, whole lanes) {
    real sum = threadIdx.x < lanes ? x[threadIdx.x] : 0;
    for (int far = 16; far > 0; far /= 2) {
        const real other = __shfl_down_sync((1ull << lanes) - 1, sum, far);
        if (int(threadIdx.x) + far < lanes) sum += other;
    }
    if (threadIdx.x == 0) *y = sum;
}
extern "C" __global__ void blind(const real *x, real *y, whole lanes) {
    *y = __shfl_down_sync((1ull << lanes) - 1, x[threadIdx.x], 16);
}
extern "C" __global__ void reversed_lanes(const real *x, real *y) {
    const unsigned odd = __ballot_sync(~0u, threadIdx.x % 2);
    y[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 31) + __shfl_sync(~0u, x[threadIdx.x], 3) + odd;
}
extern "C" __global__ void outside(real *y, whole at) { y[at] = 1; }
extern "C" __global__ void read_outside(const real *x, real *y, whole at) { *y = x[at]; }
extern "C" __global__ void unwritten(real *y) {
    __shared__ real kept[2];
    *y = kept[1];
    kept[1] = 3;
}
extern "C" __global__ void parted() {
    if (threadIdx.x < 5) __syncthreads();
}
extern "C" __global__ void two_barriers() {
    if (threadIdx.x < 5) __syncthreads();
    else
        __syncthreads();
}
extern "C" __global__ void too_far(real *y, whole at) {
    __shared__ real kept[2];
    for (int i = 0; i < 2; ++i) kept[i] = 0;
    *y = kept[at];
}
struct alignas(16) Two { real a, b; };
extern "C" __global__ void crooked(const real *x, real *y) { *y = reinterpret_cast<const Two *>(x + 1)->a; }
"""
NAMES = ["turned", "added", "blind", "reversed_lanes", "outside", "read_outside", "unwritten", "parted", "two_barriers",
         "too_far", "crooked"]  # fmt: skip
X = np.arange(1.0, 65.0)


def library(runtimes, barrier):
    built = runtimes.build_text("tried", runtimes.wrapped(KERNELS.replace("BARRIER", barrier), NAMES))
    loaded = ctypes.PyDLL(str(built))
    for name in NAMES:
        getattr(loaded, f"launch_{name}").restype = ctypes.c_char_p
    return loaded


@pytest.fixture
def run(runtimes, monkeypatch):
    """run(kernel, *arguments, threads, backwards, barrier): y, of 64 numbers, after the kernel above."""

    def launch(name, *arguments, threads, backwards=False, barrier="__syncthreads();"):
        monkeypatch.setattr(runtimes, "library", lambda file, dtype: library(runtimes, barrier))
        runtime = runtimes.HostRuntime(block=threads, backwards=backwards)
        y = runtime.empty((64,), "float64")
        runtime.launch(f"tried.{name}", "float64", 1, 1, *[y if a is None else a for a in arguments])
        return y

    return launch


@pytest.mark.parametrize("threads", [5, 32, 40, 64])
@pytest.mark.parametrize("backwards", [False, True])
def test_threads_meet_at_a_barrier(run, threads, backwards):
    y = run("turned", X, None, threads, threads=threads, backwards=backwards)
    np.testing.assert_array_equal(y[:threads], X[:threads][::-1])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_barrier_that_is_missing_is_seen(run, backwards):
    y = run("turned", X, None, 40, threads=40, backwards=backwards, barrier="")
    assert np.isnan(y[:40]).any()  # what others had not written yet


def test_lanes_hear_each_other(run):
    assert run("added", X, None, 7, threads=7)[0] == sum(range(1, 8))
    assert run("added", X, None, 32, threads=32)[0] == sum(range(1, 33))
    y = run("reversed_lanes", X, None, threads=32)
    np.testing.assert_array_equal(y[:32], X[:32][::-1] + X[3] + 0xAAAAAAAA)


def test_an_absent_lane_says_nothing(run):
    assert np.isnan(run("blind", X, None, 7, threads=7)[0])


def test_reading_outside_an_array_gives_nan(run):
    assert np.isnan([run("read_outside", X, None, at, threads=1)[0] for at in (-1, 64)]).all()
    assert run("read_outside", X, None, 63, threads=1)[0] == 64


def test_writes_into_the_caller_s_memory_stay(run):
    wide = np.zeros((3, 4))
    run("outside", wide[:, 1:], 4, threads=1)
    assert wide.nonzero() == (1, 1)
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises(AssertionError, match=r"outside: wrote into a read-only array of shape \(4,\)"):
        run("outside", frozen, 1, threads=1)
    assert not frozen.any()


def test_shared_memory_begins_without_numbers(run):
    for _ in range(2):
        assert np.isnan(run("unwritten", None, threads=1)[0])


BARRIER = r"block 0, thread 0: waits for ever at the barrier of line \d+"


@pytest.mark.parametrize(
    ("kernel", "given", "words"),
    [
        ("outside", (None, -1), "wrote before an array of 512 bytes"),
        ("outside", (None, 64), "wrote behind an array of 512 bytes"),
        ("outside", (None, 100), "wrote behind an array of 512 bytes"),
        ("outside", (np.zeros(4), -1), "wrote before an array of 32 bytes"),  # memory that the GPU did not give
        ("outside", (np.zeros(4), 4), "wrote behind an array of 32 bytes"),  # is lent with zones, too
        ("parted", (), BARRIER),
        ("two_barriers", (), BARRIER),
        ("too_far", (None, 2), r"block 0, thread 0: an index outside its array, in line \d+"),
        ("crooked", (X, None), "block 0, thread 0: a pointer that is null or not aligned"),
        ("turned", (X,), "3 arguments, got 1"),
    ],
)
def test_what_is_wrong_is_reported(run, kernel, given, words):
    with pytest.raises(AssertionError, match=f"{kernel}: {words}"):
        run(kernel, *given, threads=1 if given else 8)


def test_a_launch_is_checked(runtimes, run):
    with pytest.raises(AssertionError, match="an argument that no kernel takes: <class 'str'>"):
        run("outside", X, "1", threads=1)
    with pytest.raises(AssertionError, match="1025 threads in a block"):
        runtimes.HostRuntime().launch("tried.turned", "float64", 1, 1025)
