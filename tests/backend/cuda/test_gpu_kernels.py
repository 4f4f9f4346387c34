"""The tests of every table of kernels, on a real GPU: blocks as large as asked for, and of odd sizes."""

import dataclasses

import numpy as np
import pytest

from npformer.backend import cupy_problem, get_backend
from npformer.backend.cuda import cuda_ops
from tests.backend import conftest as agreement
from tests.backend import test_kernels as kernels
from tests.backend import test_not_a_number as not_a_number
from tests.backend import test_rows_of_a_batch as rows_of_a_batch
from tests.backend.cuda import hosted

#: Threads in every block, whatever was asked for: a warp and one more; an odd number of warps, the last one not full.
BLOCKS = {"as asked": None, "33 threads": 33, "331 threads": 331}


def on_gpu(threads):
    """The kernels on CuPy's current device, in blocks of so many threads (None: as asked)."""
    from npformer.backend.cupy.device_runtime import CupyRuntime

    class Runtime(CupyRuntime):
        def launch(self, kernel, dtype, blocks, asked, *arguments):
            super().launch(kernel, dtype, blocks, threads or asked, *arguments)

    ops = hosted.hosted(cuda_ops(Runtime()), hosted.upload_to_cupy, get_backend("cupy").device.host)
    return ops


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
    kernels.test_a_gradient_in_another_precision_is_taken,
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


def test_hosted_kernels_are_the_kernels(runtimes):
    """What stands between these tests and a GPU changes nothing: here, with a device runtime on the host."""
    ops = hosted.hosted(cuda_ops(runtimes.HostRuntime()), hosted.upload_to_numpy, np.array)
    agree = agreement.Agreement(ops)
    rng = np.random.default_rng(0)
    for layout in kernels.LAYOUTS:
        normal = lambda *shape: agreement.laid_out(rng.normal(size=shape), layout)  # noqa: E731, B023 - used at once
        assert agree("linear", normal(2, 3, 5), normal(5, 4), normal(4))
        assert agree("post_norm", normal(0, 3, 5), normal(0, 3, 5), normal(5), normal(5), 1e-5, kernels.DRAWS[2])
        assert agree("add_norm", normal(4, 3, 5), normal(4, 3, 5), normal(5), normal(5), 1e-5, kernels.DRAWS[2])
        assert agree("embedding", rng.integers(0, 5, size=(3, 4)), normal(5, 6), 1.5)
        spread = hosted.upload_to_numpy(normal(3, 4))
        assert spread.flags.c_contiguous == (layout == "read-only")
