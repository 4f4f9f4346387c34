"""The tests of every table of kernels, on a real GPU: blocks as large as asked for, and of odd sizes."""

import ctypes
import dataclasses

import numpy as np
import pytest

from npformer.backend import Ops, Pair, cupy_problem, get_backend
from npformer.engine.cuda import cuda_ops
from npformer.functional import AttentionMask
from tests.backend import conftest as agreement
from tests.backend import test_kernels as kernels
from tests.backend import test_not_a_number as not_a_number
from tests.backend import test_rows_of_a_batch as rows_of_a_batch

#: Threads in every block, whatever was asked for: a warp and one more; an odd number of warps, the last one not full.
BLOCKS = {"as asked": None, "33 threads": 33, "331 threads": 331}


def hosted(ops, upload, host):
    """ops behind copies to the GPU (upload(x), with the gaps of x) and back."""

    def there(x):
        if isinstance(x, AttentionMask) and x.key_visible is not None:
            return dataclasses.replace(x, key_visible=upload(x.key_visible))
        if type(x) is tuple:
            return tuple(map(there, x))
        return upload(x) if isinstance(x, np.ndarray) else x

    def back(x):
        return tuple(map(back, x)) if isinstance(x, tuple) else None if x is None else host(x)

    def hosted_pair(pair):
        def forward(*inputs, **options):
            y, cache = pair.forward(*map(there, inputs), **{name: there(x) for name, x in options.items()})
            return back(y), cache

        def backward(dy, cache, into=()):
            places = [there(total) for total in into]
            found = pair.backward(there(dy), cache, into=places)
            for total, place in zip(into, places, strict=True):
                if total is not None:
                    total[...] = host(place)
            return back(found)

        return Pair(forward, backward)

    return Ops(**{field.name: hosted_pair(getattr(ops, field.name)) for field in dataclasses.fields(Ops)})


def bytes_between(x):
    """A copy of all bytes that x (not empty) stretches over, and where among them its first number begins."""
    low, high = np.lib.array_utils.byte_bounds(x)
    return np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8).copy(), x.ctypes.data - low


def upload_to_cupy(x):
    """The same on CuPy's current device."""
    import cupy

    if x.size == 0:
        return cupy.zeros(x.shape, x.dtype)
    raw, start = bytes_between(x)
    on_device = cupy.asarray(raw)
    return cupy.ndarray(x.shape, x.dtype, memptr=on_device.data + start, strides=x.strides)


def on_gpu(threads):
    """The kernels on CuPy's current device, in blocks of so many threads (None: as asked)."""
    from npformer.engine.cupy.cupy_runtime import CupyRuntime

    class Runtime(CupyRuntime):
        def launch(self, kernel, dtype, blocks, asked, *arguments):
            super().launch(kernel, dtype, blocks, threads or asked, *arguments)

    return hosted(cuda_ops(Runtime()), upload_to_cupy, get_backend("cupy").device.host)


@pytest.fixture(params=BLOCKS)
def table(request):
    return on_gpu(BLOCKS[request.param])


@pytest.fixture
def any64(table, numpy64):
    return dataclasses.replace(numpy64, ops=table)


# fixtures that these tests ask for
agree, normal, lay_out = agreement.agree, kernels.normal, agreement.lay_out

HELD = [
    kernels.test_linear, kernels.test_dropout_and_residual, kernels.test_norms, kernels.test_feed_forward,
    kernels.test_gelu, kernels.test_gelu_near_0_where_its_pieces_meet_and_far_out, kernels.test_positions,
    kernels.test_embedding,
    kernels.test_a_gradient_of_another_kind_is_taken,
    kernels.test_bad_input_is_refused_in_the_plain_kernels_words,
    rows_of_a_batch.test_parts_of_a_batch_are_parts_of_the_whole, not_a_number.test_no_number_where_there_is_none,
    not_a_number.test_a_class_that_cannot_be_does_not_count,
]  # fmt: skip
PROBLEM = cupy_problem()
if PROBLEM is None:  # else one line of skips stands for all of them
    globals().update({test.__name__: pytest.mark.gpu(test) for test in HELD})


@pytest.mark.gpu
def test_a_gpu_is_there_for_the_tests_of_kernels():
    if PROBLEM is not None:
        pytest.skip(f"no GPU, so none of {len(HELD)} tests of kernels in blocks of {len(BLOCKS)} sizes: {PROBLEM}")
    assert {test.__name__ for test in HELD} <= globals().keys()
