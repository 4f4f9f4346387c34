"""The contract of every pair, layer and model, and of every table of kernels, with a device runtime on the host."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.backend.ops import kernels_in
from npformer.check.cases.random_cases import usual_inputs
from npformer.check.report import RIGHT
from npformer.engine.cuda import cuda_ops
from npformer.engine.cuda.source import files, kernels
from npformer.functional import OPERATIONS, AttentionMask
from tests import test_contract as contract
from tests.backend import conftest as kernels_agree
from tests.backend import test_kernels as bad_input
from tests.backend import test_not_a_number as not_a_number
from tests.backend import test_rows_of_a_batch as rows_of_a_batch


@pytest.fixture
def any64(runtime, on_gpu):
    return on_gpu(runtime, "float64")


@pytest.fixture
def any32(runtimes, on_gpu):
    return on_gpu(runtimes.HostRuntime(block=40, backwards=True), "float32")


@pytest.fixture
def whole64(runtimes, on_gpu):
    """For layers and models: blocks of one size, since every operation is tried in both."""
    return on_gpu(runtimes.HostRuntime(block=40, backwards=True), "float64")


normal, lay_out = bad_input.normal, kernels_agree.lay_out  # fixtures that these tests ask for
refuses_wrong_shapes = kernels_agree.refuses_wrong_shapes
test_purity = contract.test_a_pair_is_pure_and_repeatable
test_parts_of_a_batch = rows_of_a_batch.test_parts_of_a_batch_are_parts_of_the_whole
test_no_number = not_a_number.test_no_number_where_there_is_none
test_a_class_that_cannot_be = not_a_number.test_a_class_that_cannot_be_does_not_count
test_wrong_gradients = bad_input.test_gradients_of_another_shape_are_refused
test_bad_input = bad_input.test_bad_input_is_refused_in_the_plain_kernels_words
test_another_precision = bad_input.test_a_gradient_of_another_kind_is_taken


@contract.EVERY_PAIR
def test_equality(case, any64):
    contract.expect_plain(case, any64)


@contract.EVERY_LAYER
def test_equality_of_layers_and_models(case, whole64):
    contract.expect_plain(case, whole64)


@contract.EVERY_LAYER
def test_adding(case, whole64):
    contract.test_a_layer_writes_nothing_but_gradients_and_those_by_adding(case, whole64)


@contract.EVERY_CASE
def test_promotion(case, any32):
    contract.expect_one_precision(case, any32)


@contract.EVERY_PAIR
def test_promotion_in_float64(case, any64):
    contract.expect_one_precision(case, any64)


#: Of the layers and models, whose values and gradients equal the plain ones' above, some that use every operation.
TRIED = (
    "MultiHeadAttention: cross",
    "DecoderLayer: post, relu",
    "EncoderLayer: pre, gelu",
    "Transformer: learned positions",
)


@pytest.mark.parametrize(
    "case", [c for c in contract.CASES if c.group == "op" or c.name in TRIED], ids=lambda c: c.name
)
def test_gradients_are_right(case, runtimes, on_gpu):
    """Along random directions: a forward takes its time here, and each element equals the plain pair's above."""
    report = dataclasses.replace(case, along_directions=True).check(on_gpu(runtimes.HostRuntime(), "float64"))
    assert report.ok, f"\n{report}"
    assert {row.verdict for row in report.rows} == {RIGHT}


#: What few rows take, one kernel each way as a rule: forward; backward that adds all parameters' gradients; backward
#: where all are frozen; and the matrix products of each.
LAUNCHES = {
    "linear": ([], ["sums.add_rows"], [], [1, 2, 1]),
    "embedding": (["embedding.take_rows"], ["embedding.sort_tokens", "embedding.add_chunks"], [], [0, 0, 0]),
    "learned_positions": (["positions.add_positions"], ["sums.add_rows"], [], [0, 0, 0]),
    "residual": (["dropout.drop"], ["dropout.drop"], ["dropout.drop"], [0, 0, 0]),
    "add_norm": (["layer_norm.norm_rows"], ["layer_norm.norm_rows_backward", "sums.add_rows"],
                 ["layer_norm.norm_rows_backward"], [0, 0, 0]),
    **{f"feed_forward {name}": ([f"feed_forward.{name}_rows"],
                                ["sums.add_rows", f"feed_forward.{name}_rows_backward", "sums.add_rows"],
                                [f"feed_forward.{name}_rows_backward"], [2, 4, 2]) for name in ("relu", "gelu")},
    "cross_entropy": (["cross_entropy.token_losses", "cross_entropy.mean_loss"],
                      *[["cross_entropy.token_losses_backward"]] * 2, [0, 0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("case", LAUNCHES)
def test_kernels_and_products(case, runtime, table):
    op, *activation = case.split()
    *launches, products = LAUNCHES[case]
    inputs = [activation[0] if isinstance(x, str) else x for x in usual_inputs(op)]
    pair, count = getattr(table, op), OPERATIONS[op].parameters
    parameters = [x for x in inputs if contract.is_float(x)][-count:] if count else []
    found = []

    def note():
        found.append(
            (runtime.launched[:], sum("Gemm" in name or name == "cublasLtMatmul" for name, _ in runtime.cublas.calls))
        )
        runtime.launched.clear(), runtime.cublas.calls.clear()

    y, cache = pair.forward(*inputs)
    note()
    for into in ([*map(np.zeros_like, parameters)], [None] * count):
        pair.backward(y, cache, into=into)
        note()
    assert found == [*zip(launches, products, strict=True)]


#: Files of kernels that no operation calls in float64, and the tests that do.
ELSEWHERE = {"adam": "test_adam.py", "decoding": "test_recorded_decode.py", "products": "test_products.py"}


def test_the_gpu_is_handed_to_every_kernel_of_the_folder_and_to_no_plain_pair(runtimes):
    runtime = runtimes.HostRuntime()
    ops, found = cuda_ops(runtime), kernels_in("npformer.engine.cuda")
    for op, plain in vars(PLAIN).items():
        pair = getattr(ops, op)
        assert [half.func for half in pair] == list(found[op]) if op in found else pair is plain
        assert op not in found or all(half.args == (runtime,) for half in pair)


def test_every_kernel_runs_in_small_cases_or_large_ones_or_in_tests_of_its_own(runtimes, on_gpu):
    runtime = runtimes.HostRuntime()
    for case in contract.CASES:
        contract.computed(case, on_gpu(runtime, "float64"))
    rng = np.random.default_rng(0)
    agree = kernels_agree.Agreement(cuda_ops(runtime))
    assert agree("embedding", rng.integers(0, 5, size=(3, 900)), rng.normal(size=(5, 3)))
    for T, D, window in [(130, 40, None), (530, 3, 1)]:  # scores in memory; scores that a window mostly hides
        q, k, v = rng.normal(size=(3, 1, 2, T, D))
        assert agree(
            "attention", q, k, v, AttentionMask(causal=True, window=window), kernels_agree.Draw(3, 4, 1, 99, 0.3)
        )
    silent = {f"{file}.{name}" for file in files() for name in kernels(file)} - set(runtime.launched)
    assert {name.partition(".")[0] for name in silent} == set(ELSEWHERE), sorted(silent)
    assert all(Path(__file__).with_name(name).exists() for name in ELSEWHERE.values())
