"""A compiled kernel is stale once a file has changed that its machine code is made of: no such file is forgotten."""

import ast
import dis
import sys
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

import npformer
from npformer.engine.numba import compiling

ROOT = Path(npformer.__file__).parent


def file_of(module):
    return Path(sys.modules[module].__file__ or "").resolve()


def names_in(code, way):
    """Every name that a function, or one inside it, loads in this way: LOAD_GLOBAL, LOAD_ATTR."""
    inner = [names_in(each, way) for each in code.co_consts if isinstance(each, CodeType)]
    own = {each.argval for each in dis.get_instructions(code) if each.opname in (way, way.replace("ATTR", "METHOD"))}
    return own.union(*inner)


@cache
def imported(module):
    """What a module of npformer imports by name, and from where."""
    tree = ast.parse(file_of(module).read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("npformer")
        for alias in node.names
        if node.module
    }


@cache
def assigned(module):
    """The names that a module assigns, and those that stand on the right side."""
    tree = ast.parse(file_of(module).read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            asked = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            for name in (each.id for each in ast.walk(node) if isinstance(each, ast.Name)):
                found.setdefault(name, set()).update(asked - {name})
    return found


def made_of(function, seen):
    """The modules whose text the machine code of a function depends on, its own among them."""
    if function not in seen:
        seen.add(function)
        yield function.__module__
        names, attributes = (names_in(function.__code__, f"LOAD_{way}") for way in ("GLOBAL", "ATTR"))
        bound = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name in names | set(bound):
            value = bound[name].cell_contents if name in bound else function.__globals__.get(name)
            yield from behind(value, name, function.__module__, attributes, seen)


def behind(value, name, module, attributes, seen):
    """The modules behind one name that code in a module asks for."""
    value = getattr(value, "py_func", value)
    if isinstance(value, ModuleType) and value.__name__.startswith("npformer"):
        yield value.__name__
        for attribute in attributes & set(vars(value)):
            yield from behind(getattr(value, attribute), attribute, value.__name__, attributes, seen)
    elif isinstance(value, FunctionType) and value.__module__.startswith("npformer"):
        yield from made_of(value, seen)
    elif (module, name) not in seen:
        seen.add((module, name))
        if name in imported(module):  # a number, a tuple, an intrinsic
            home = imported(module)[name]
            yield home
            yield from behind(value, name, home, attributes, seen)
        for other in assigned(module).get(name, ()):
            yield from behind(None, other, module, attributes, seen)


def forgotten(kernel, parts):
    """Files that the kernel is made of and that nobody looks at to say whether it is stale."""
    function = kernel.dispatcher.py_func
    files = {file_of(module) for module in made_of(function, set())} - {file_of(function.__module__)}
    return {str(file.relative_to(ROOT)) for file in files - parts}


def listed():
    return {path.resolve() for path in compiling._parts}


@pytest.mark.parametrize("kernel", compiling._kernels, ids=lambda kernel: kernel.name)
def test_every_file_that_a_kernel_is_made_of_decides_whether_it_is_stale(kernel):
    assert forgotten(kernel, listed()) == set()


def test_every_part_is_there():
    assert all(path.is_file() for path in listed())
    assert ROOT / "engine/numba/compiling.py" in listed(), "it says how kernels are compiled"


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        ("linear.map_rows", "engine/numba/products.py"),
        ("dropout.add_dropped", "engine/numba/philox.py"),
        ("dropout.add_dropped", "functional/philox.py"),
    ],
)
def test_a_part_that_is_missing_would_be_seen(kernel, part):
    assert forgotten(compiling.named(kernel), listed() - {ROOT / part}) >= {part}
