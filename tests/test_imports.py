"""Who may import whom, read from the source itself; and what every module owes its reader."""

import ast
import graphlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import npformer
from npformer import functional, late

ROOT = Path(npformer.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

#: The storeys of the house, the ground floor first. A part may import the parts of lower storeys and itself.
STOREYS = [
    {"errors", "extras", "late", "typing", "_version"},
    {"io"},
    {"functional"},
    {"backend"},
    {"layers", "optim"},
    {"models"},
    {"engine"},
    {"check", "decoding"},
    {"training", "see", "see.record"},
    {"run"},
    {"lab"},
    {"see.explain"},
    {"see.plot", "interop", "see.page"},
    {"cli", "pytest_plugin"},
]
#: Parts that live beside the house: all that they may import.
ASIDE = {
    "data": {"errors", "extras", "io", "typing"},
    "see.plot": {"errors", "io", "typing"},
}
#: Parts that use what lives beside the house.
USERS_OF = {"data": {"layers", "models", "run", "training", "cli", "lab"}, "see.plot": {"cli", "see.page"}}
#: Foreign packages that these places alone import.
ALONE = {
    "babel": "data/real/date_phrases.py",
    "cupy": ("backend/cupy.py", "engine/cupy/"),
    "cupyx": "engine/cupy/",
    "hypothesis": "check/cases/strategies.py",
    "jax": "check/adapters/jax_pair.py",
    "llvmlite": "engine/numba/",
    "mpi4py": "engine/mpi.py",
    "num2words": "data/real/numbers.py",
    "numba": "engine/numba/",
    "pytest": "pytest_plugin.py",
    "safetensors": ("interop/", "run/"),
    "tensorboardX": "run/sinks.py",
    "torch": "check/adapters/torch_pair.py",
    "tqdm": ("engine/numba/", "io/progress_bar.py"),
}
#: What npformer hands on as parts, not as names of parts.
PARTS = {"errors", "functional", "interop", "layers"}
FOREIGN = {"numpy", "array_api_compat", *ALONE}


def place_of(path):
    """Where a file is in the package."""
    return path.relative_to(ROOT).as_posix()


def part_of(path):
    """The top-level part that a file belongs to; in ``see`` the door."""
    return _part(path.relative_to(ROOT).with_suffix("").parts)


def _part(names):
    return ".".join(names[: 2 if names[0] == "see" else 1]).removesuffix(".__init__")


@cache
def tree_of(path):
    """A file as Python reads it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path):
    """(dotted module, whether at the top of the file) of every import in a file."""
    tree, names = tree_of(path), []
    for node in ast.walk(tree):
        at_top = node in tree.body
        if isinstance(node, ast.Import):
            names += [(alias.name, at_top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            names += [(f"{module}.{alias.name}" if module == "npformer" else module, at_top) for alias in node.names]
    return names


def own_parts(path):
    """The parts of npformer that a file imports."""
    return {_part(name.split(".")[1:]) for name, _ in imports(path) if name.startswith("npformer.")}


def allowed(part):
    """What a part may import of npformer."""
    if part in ASIDE:
        return {part, *ASIDE[part]}
    storey = next(i for i, parts in enumerate(STOREYS) if part in parts)
    below = {other for parts in STOREYS[:storey] for other in parts}
    below |= {part} | set(ASIDE)
    return {other for other in below if other not in USERS_OF or part in USERS_OF[other] | {other}}


def wrong(found_in):
    """Place -> what a function finds wrong with a file, for the files in which it finds something."""
    return {place_of(path): imported for path in FILES if (imported := found_in(path))}


def test_imports_run_downwards():
    def upwards(path):
        part = part_of(path)
        if part == "__init__":
            return own_parts(path) & {"cli", "see.plot", "data"}
        return own_parts(path) - ({"cli"} if part == "__main__" else allowed(part))

    assert wrong(upwards) == {}


def test_own_modules_are_imported_by_name_in_one_place_alone():
    """By a text that begins with npformer, that is; a folder may look up files by the names of operations."""

    def by_name(path):
        calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call) and node.args]
        asked = {ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func).endswith("import_module")}
        own = f"npformer.{part_of(path)}."
        return {text for text in asked if "npformer." in text and own not in text}

    assert set(wrong(by_name)) == {"late.py"}
    for asking, names in late.HIGHER.items():
        assert "late" in own_parts(ROOT.parent / f"{asking.replace('.', '/')}.py")
        for name in names:
            home = ROOT.parent / name.replace(".", "/")
            assert home.is_dir() or home.with_suffix(".py").is_file()
            assert _part(name.split(".")[1:]) not in allowed(asking.split(".")[1]), (
                f"{name} stands below: a statement does"
            )


def needed(path):
    """The files of npformer that a file imports, also late, but for types alone."""
    types = [
        node for node in ast.walk(tree_of(path)) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    ]
    for_types = {id(node) for block in types for statement in block.body for node in ast.walk(statement)}
    names = set()
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("npformer")
            and id(node) not in for_types
        ):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    files = [ROOT.parent.joinpath(*name.split(".")) for name in names]
    files = [file.with_suffix(".py") if file.with_suffix(".py").exists() else file / "__init__.py" for file in files]
    return {file if file.exists() else _holder(file) for file in files} - {path}


def _holder(file):
    """The file that holds a name which is no module."""
    module = file.parent.parent
    return module.with_suffix(".py") if module.with_suffix(".py").exists() else module / "__init__.py"


def test_no_files_import_each_other_in_a_circle():
    graphlib.TopologicalSorter({path: needed(path) for path in FILES}).prepare()


def test_foreign_packages_are_imported_where_they_belong():
    def elsewhere(path):
        foreign = {name.split(".")[0] for name, _ in imports(path)} - {"npformer"} - set(sys.stdlib_module_names)
        if (path.parent / "__main__.py").exists() and path.parent != ROOT:  # a program of its own, run by its path
            foreign -= {sibling.stem for sibling in path.parent.glob("*.py")}
        return {name for name in foreign if name not in FOREIGN or not place_of(path).startswith(ALONE.get(name, ""))}

    assert wrong(elsewhere) == {}


def test_cupy_and_other_extras_are_imported_when_they_are_needed():
    late = ("babel", "cupy", "cupyx", "hypothesis", "jax", "mpi4py", "num2words", "tensorboardX", "torch")

    def too_early(path):
        at_top = {name for name, is_at_top in imports(path) if is_at_top}
        return {name for name in at_top if name.split(".")[0] in late}

    assert wrong(too_early) == {}


def added_by(statement):
    """The modules that a statement adds to those of NumPy and pytest, in a process of its own."""
    code = f"import sys, numpy, pytest; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.split()


def test_importing_npformer_imports_nothing_else():
    """Every run of pytest where npformer is installed loads its plugin."""
    code = "import sys; import npformer; print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["False"]
    added = [name for name in added_by("import npformer.pytest_plugin") if not name.startswith("__editable__")]
    assert sorted(name for name in added if name.partition(".")[0] not in sys.stdlib_module_names) == [
        "npformer",
        "npformer._version",
        "npformer.pytest_plugin",
    ]


def test_names_imported_late_are_those_of_the_types_and_of_all():
    written = tree_of(ROOT / "__init__.py")
    block = next(node for node in written.body if isinstance(node, ast.If))
    typed = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    late_names = {name for names in late.HOMES["npformer"].values() for name in names}
    assert typed | {"__version__"} == set(npformer.__all__) == {*late_names, "__version__", *PARTS}
    assert set(npformer.__all__) <= set(dir(npformer))
    with pytest.raises(AttributeError, match="module 'npformer' has no attribute 'gradchekc'"):
        npformer.gradchekc  # noqa: B018


def test_each_part_can_be_the_first_that_is_asked_for():
    """So late an import can begin anywhere: no part may rely on another that somebody imported before it."""
    parts = sorted(late.PARTS)
    code = (
        "import sys\n"
        f"for part in {parts}:\n"
        "    assert getattr(__import__('npformer'), part).__name__ == f'npformer.{part}'\n"
        "    for name in [name for name in sys.modules if name.split('.')[0] == 'npformer']: del sys.modules[name]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_all_of_npformer_is_quick():
    """Counted in modules: 271 are added to NumPy's, 18 of them the data of ``read_run``."""
    added = added_by("from npformer import *")
    packages = {name.partition(".")[0] for name in added} - sys.stdlib_module_names
    packages = {name for name in packages if "cython" not in name and not name.startswith("__editable__")}
    assert packages == {"array_api_compat", "npformer", "numpy", "safetensors"}
    assert not [name for name in added if name.startswith(("npformer.cli", "npformer.lab", "npformer.see.plot"))]
    assert len(added) < 280


@pytest.mark.skipif(not hasattr(np, "cumulative_sum"), reason="NumPy follows the array API from 2.1 on")
def test_a_training_step_imports_no_wrapper_of_numpy():
    """Its modules, numpy.testing and numpy.f2py among them, would take 12 MB."""
    step = (
        "from npformer import *; from npformer.models.presets import PRESETS; tiny = PRESETS['tiny']; "
        "model = Transformer(tiny.config(0.1), backend=get_backend('numpy', kernels='numpy')); "
        "TrainStep(model, Adam(model.arena))(*tiny.example_batch())"
    )
    added = added_by(step)
    assert "npformer.training.step" in added
    assert not {"array_api_compat.numpy", "numpy.testing", "numpy.f2py"} & set(added)


def test_every_file_of_functional_is_named_in_its_table_of_contents():
    listed = set((functional.__doc__ or "").split("``")[1::2])
    files = {path.stem for path in (ROOT / "functional").glob("*.py")} - {"__init__", "arrays"}
    assert files <= listed
