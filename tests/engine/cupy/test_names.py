"""The names of CuPy and cuBLAS that npformer uses exist, with these parameters. No GPU is needed."""

import inspect
import re
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest

from npformer.engine.cuda.source import files, kernels, source
from npformer.engine.cupy import blas, blas_lt
from npformer.engine.cupy.cupy_runtime import OPTIONS
from tests.engine.cuda import fake_cublas
from tests.engine.cuda.host_runtime import compiler_problem
from tests.engine.cupy import emulated

REASON = "CuPy is not installed; in npformer's folder: pip install -e '.[cuda12]', which needs no GPU"


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy", reason=REASON)


@pytest.fixture
def there():
    """What the emulation has of CuPy."""
    if (problem := compiler_problem()) is not None:
        pytest.skip(problem)
    return emulated.emulated()


def signature(real):
    """That of a function of CuPy; of a compiled one by the first line of its docstring, without types."""
    try:
        found = inspect.signature(real)
    except ValueError:
        found = None
    if found is None or str(found).endswith("(self, /, *args, **kwargs)") or str(found) == "(*args, **kwargs)":
        first = re.match(r"[\w.]+\((.*)\)", (real.__doc__ or "").strip().splitlines()[0])
        assert first is not None, f"{real}: no signature"
        parts = [re.sub(r"=.*", "=None", part.strip()).split(" ")[-1] for part in first[1].split(",") if part.strip()]
        scope = {}
        exec(f"def function({', '.join(parts)}): pass", scope)
        found = inspect.signature(scope["function"])
    return found.replace(parameters=[each for name, each in found.parameters.items() if name != "self"])


def names_of(there, path=""):
    """(dotted name, function or class) of all that the emulation has."""
    for name, part in vars(there).items():
        if name in ("machine", "classes", "cublas", "ndarray", "uint8", "__version__"):
            continue
        if type(part).__name__ == "SimpleNamespace":
            yield from names_of(part, f"{path}{name}.")
        else:
            yield f"{path}{name}", part


#: Where CuPy has the classes that nobody asks for by name.
ELSEWHERE = {
    "Graph": "cuda.graph.Graph", "PinnedMemoryPool": "cuda.PinnedMemoryPool", "MemoryPointer": "cuda.MemoryPointer",
    "CompileException": "cuda.compiler.CompileException",
    "PinnedMemoryPointer": "cuda.PinnedMemoryPointer", "RawModule": "RawModule", "RawKernel": "RawKernel",
}  # fmt: skip
#: What the emulation has for itself.
OWN = {"ask", "run_until"}


def fits(own, real, name):
    """Fail unless whatever may be given to own may be given to real."""
    wanted, there = signature(own).parameters, signature(real).parameters
    places = list(there)
    for i, (parameter, kind) in enumerate(wanted.items()):
        assert parameter in there, f"{name}: CuPy has no parameter {parameter}: {signature(real)}"
        if kind.kind is not inspect.Parameter.KEYWORD_ONLY:
            assert places[i] == parameter, f"{name}: {parameter} has another place: {signature(real)}"
    missing = [
        each
        for each, kind in there.items()
        if kind.default is inspect.Parameter.empty
        and each not in wanted
        and kind.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]
    assert not missing, f"{name}: CuPy wants {missing}, too: {signature(real)}"


def real_part(cupy, path):
    for name in path.split("."):
        cupy = getattr(cupy, name)
    return cupy


def test_all_that_is_emulated_is_cupys(there, cupy):
    """Each name is there, and takes what the emulation takes; so test_runtime.py runs on CuPy's names."""
    for path, own in names_of(there):
        found = real_part(cupy, path)
        if not isinstance(own, type):
            fits(own, found, path)
    for name, own in vars(there.classes).items():
        kind = real_part(cupy, ELSEWHERE.get(name, f"cuda.{name}"))
        for method, function in vars(own).items():
            if (method.startswith("_") and method not in ("__enter__", "__exit__", "__call__")) or method in OWN:
                continue
            found = getattr(kind, method)
            if inspect.isfunction(function):
                fits(function, found, f"{name}.{method}")
    for name in ("Stream", "Event", "RawModule", "Memory", "MemoryPointer", "MemoryPool"):
        own, kind = getattr(there.classes, name), real_part(cupy, ELSEWHERE.get(name, f"cuda.{name}"))
        fits(own.__init__, kind.__init__ if name in ("Stream", "Event") else kind, name)
    assert "ptr" in cupy.cuda.Stream.__doc__, "each stream has its own, the class none"
    for name, attributes in {"Device": ["id"], "MemoryPointer": ["ptr"], "PinnedMemoryPointer": ["ptr"]}.items():
        assert all(hasattr(real_part(cupy, f"cuda.{name}"), each) for each in attributes), name
    assert isinstance(cupy.__version__, str)
    assert {"base", "data", "copy", "strides", "flags", "view", "reshape"} <= set(dir(cupy.ndarray))


def value(header, name):
    found = re.search(rf"\b{name} *= *(-?\d+)", header)
    assert found is not None, name
    return int(found[1])


@pytest.fixture
def header():
    """What cuBLAS declares."""
    for package in ("nvidia-cublas", "nvidia-cublas-cu12"):  # of CUDA 13, of CUDA 12
        with suppress(metadata.PackageNotFoundError):
            found = [file for file in metadata.files(package) if file.name in ("cublas_api.h", "cublasLt.h")]
            return "".join(Path(file.locate()).read_text(encoding="utf-8") for file in found)
    pytest.skip("cuBLAS is not installed: it comes with the extras cuda12 and cuda13")


def test_cublas_declares_what_is_called(header):
    """The parameters of each function, in their order, and the numbers of its names."""
    for name, types in blas.SIGNATURES.items():
        declared = re.search(rf"CUBLASWINAPI {name}(\(.*?\));", header, re.DOTALL)
        assert declared is not None, name
        assert tuple(fake_cublas.parameters(declared[1]).values()) == types, name
    assert {code: value(header, f"CUBLAS_STATUS_{said}") for code, said in blas.STATUS.items()} == {
        code: code for code in blas.STATUS
    }
    for name in ("COMPUTE_32F", "COMPUTE_64F", "COMPUTE_32F_FAST_TF32"):
        assert value(header, f"CUBLAS_{name}") == getattr(blas, name)
    for name in (*(name for name in vars(blas_lt) if name.startswith("MATMUL_")), "EPILOGUE_BIAS"):
        assert value(header, f"CUBLASLT_{name}") == getattr(blas_lt, name)
    fields = re.search(r"typedef struct \{([^}]*)\} cublasLtMatmulHeuristicResult_t;", header)[1]
    assert re.findall(r"^  (\w+) \w+(?:\[4\])?;", fields, re.MULTILINE) == [
        "cublasLtMatmulAlgo_t", "size_t", "cublasStatus_t", "float", "int",
    ]  # fmt: skip
    assert value(header, "CUBLAS_GEMM_DEFAULT") == blas.DEFAULT_ALGORITHM
    assert (value(header, "CUBLAS_OP_N"), value(header, "CUBLAS_OP_T")) == (int(False), int(True))


def test_cublas_is_found_through_cupy(cupy, header):
    library = blas.declared(blas.loaded_library())
    assert all(getattr(library, name).argtypes == types for name, types in blas.SIGNATURES.items())
    for name in ("R_32F", "R_64F"):
        assert getattr(cupy.cuda.runtime, f"CUDA_{name}") == getattr(blas, name)


@pytest.mark.parametrize("file", files())
def test_cupys_compiler_takes_every_kernel(cupy, file, monkeypatch):
    """With all the flags that CuPy adds by itself, but the architecture, for which it would ask the GPU."""
    from cupy.cuda import compiler

    monkeypatch.setattr(compiler, "_get_arch_for_options_for_nvrtc", lambda arch=None: ("-arch=sm_90", "cubin"))
    given = (*OPTIONS, "-ftz=true")
    code, _ = compiler._compile_using_nvrtc_no_warning(source(file, "float32"), given, "90", "", None, None, True)
    assert code.startswith(b"\x7fELF")
    assert all(name.encode() in code for name in kernels(file))
