"""A user's model, from a Python file: FILE.py or FILE.py:NAME."""

from __future__ import annotations

import inspect
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npformer.backend import Backend
from npformer.check.cases.case import Case
from npformer.check.check import gradcheck
from npformer.check.checkable import described
from npformer.check.report import Report
from npformer.check.subject import name_of
from npformer.errors import ConfigError, DataError, NpformerError
from npformer.typing import Values

FORM = "a function that returns (target, inputs) or (target, inputs, options), inputs a tuple, options a dict"

#: Options with these names are gradcheck's own; all others go to the target's forward.
CHECK_OPTIONS = {p.name for p in inspect.signature(gradcheck).parameters.values() if p.kind is p.KEYWORD_ONLY}


@dataclass(frozen=True)
class UserCase(Case):
    """A check of the user's target, on its own device; large tensors are checked along directions."""

    how: Values = field(default_factory=dict)  # options of gradcheck, such as ``complex_step=False``

    def check(self, backend: Backend, **more: Any) -> Report:
        return gradcheck(self.build(backend), *self.inputs, **{"name": self.name} | self.how | more, **self.options)


def user_case(spec: str) -> UserCase:
    """Run the file and call its function NAME (default ``build``) without arguments: see FORM.

    Raises DataError if the file cannot be read or run, ConfigError if its result has another form.
    """
    path, _, name = spec.partition(".py:")
    path, name = (f"{path}.py", name) if name else (spec, "build")
    if not Path(path).is_file():
        raise DataError(f"expected a Python file, or FILE.py:NAME, got {spec!r}; there is no file {path!r}")
    made = _call(path, name)
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise _other_form(path, name, f"it returned {_kind(made)}")
    target, inputs, options = made if len(made) == 3 else (*made, {})
    if not isinstance(inputs, tuple) or not isinstance(options, dict):
        raise _other_form(path, name, f"it returned ({', '.join(['target', *map(_kind, made[1:])])})")
    parts = target if isinstance(target, tuple) else [getattr(target, m, None) for m in ("forward", "backward")]
    if len(parts) != 2 or not all(map(callable, parts)) or isinstance(target, type):
        raise ConfigError(
            f"{path}: expected of {name} a target with the methods forward and backward, or a pair of such functions, "
            f"got {_kind(target)}"
        )
    how = {key: value for key, value in options.items() if key in CHECK_OPTIONS}
    rest = {key: value for key, value in options.items() if key not in CHECK_OPTIONS}
    return UserCase("user", name_of(target), lambda backend: target, inputs, rest, how=how)


def _call(path: str, name: str) -> Any:
    """The result of the file's function NAME."""
    with running(path):
        function = runpy.run_path(path).get(name)
        parameters = inspect.signature(function).parameters.values() if inspect.isfunction(function) else ()
        needed = [str(p) for p in parameters if p.default is p.empty and not str(p).startswith("*")]
        if callable(function) and not needed:
            return function()
    other = f"{name}({', '.join(needed)}) is a function with inputs" if needed else f"it is {_kind(function)}"
    raise _other_form(path, name, "there is no such function" if function is None else other)


@contextmanager
def running(path: str) -> Iterator[None]:
    """Within this context code of the file runs, as when Python runs it: it can import its neighbours.

    Its errors become DataErrors that name the line.
    """
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    except NpformerError:
        raise
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        place = f"{path}, line {lines[-1]}" if lines else path
        raise DataError(f"{place}: expected a file that runs, got {type(error).__name__}: {error}") from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _other_form(path: str, name: str, problem: str) -> ConfigError:
    return ConfigError(f"{path}: expected {name}, {FORM}; {problem}")


def _kind(x: Any) -> str:
    if isinstance(x, tuple):
        return f"a tuple of {len(x)}"
    return "None" if x is None else described(x)
