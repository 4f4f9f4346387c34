"""A compiled kernel is stale once something has changed that its machine code is made of, and nothing else."""

import pytest

from npformer.engine.numba import attention, compiling, dropout, exponential, kernel_files, linear, philox, products

#: Kernel -> a file of its parts; the module of one, with a constant, of its own or of functional.
FILES = [("linear.map_rows", products), ("dropout.add_dropped", philox), ("attention.attend", exponential),
         ("adam.update", compiling), ("attention.attend_newest", linear)]  # fmt: skip
CONSTANTS = [("dropout.add_dropped", philox, "M0"), ("attention.attend", exponential, "TOP_1"),
             ("linear.map_rows", products, "SHARED_FROM"), ("attention.attend", attention, "UNLIMITED")]  # fmt: skip


def made_of(name):
    return kernel_files.made_of(compiling.named(name).dispatcher.py_func)


@pytest.fixture
def others():
    """All kernels, and what each is made of."""
    return {kernel.name: made_of(kernel.name) for kernel in compiling._kernels}


@pytest.mark.parametrize(("kernel", "part"), FILES, ids=lambda x: getattr(x, "__name__", x))
def test_a_part_s_file_decides_whether_kernels_made_of_it_are_stale(kernel, part, others, monkeypatch):
    digest_of = kernel_files._digest_of
    changed = lambda path: "" if str(path) == part.__file__ else digest_of(path)  # noqa: E731
    monkeypatch.setattr(kernel_files, "_digest_of", changed)
    assert made_of(kernel) != others[kernel]
    assert (made_of("adam.update") == others["adam.update"]) == (part is not compiling)


@pytest.mark.parametrize(("kernel", "module", "name"), CONSTANTS)
def test_a_constant_s_value_decides_it_too(kernel, module, name, others, monkeypatch):
    """Wherever it is computed."""
    monkeypatch.setattr(module, name, (1.5,))
    assert made_of(kernel) != others[kernel]
    assert made_of("adam.update") == others["adam.update"]


def test_what_python_alone_computes_does_not_count(others, monkeypatch):
    monkeypatch.setattr(dropout, "_dropped", None)
    assert {kernel.name: made_of(kernel.name) for kernel in compiling._kernels} == others
