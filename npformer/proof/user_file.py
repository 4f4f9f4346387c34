"""A model of the user's own, from a file of theirs: FILE.py or FILE.py:NAME."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from npformer.errors import ConfigError, DataError, NpformerError
from npformer.proof.catalogue import Case

FORM = "a function that returns (target, inputs) or (target, inputs, options), inputs a tuple, options a dict"


def user_case(spec: str) -> Case:
    """Run the file and call its function NAME (default ``build``) without arguments: see FORM.

    Raises DataError if the file cannot be read or run, ConfigError if what it gives is of another form.
    """
    path, _, name = spec.partition(".py:")
    path, name = (f"{path}.py", name) if name else (spec, "build")
    if not Path(path).is_file():
        raise DataError(f"--model: expected a Python file, or FILE.py:NAME, got {spec!r}; there is no file {path!r}")
    try:
        names = runpy.run_path(path)
        made = names[name]() if callable(names.get(name)) else None
    except NpformerError:
        raise
    except Exception as error:
        raise DataError(f"{path}: expected a file that runs, got {type(error).__name__}: {error}") from error
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], tuple):
        given = "no such function" if name not in names else f"{type(made).__name__} of another form"
        raise ConfigError(f"{path}: expected {name}, {FORM}; got {given}")
    target, inputs = made[:2]
    options: dict[str, Any] = made[2] if len(made) == 3 else {}
    return Case("user", type(target).__name__, lambda backend: target, inputs, options)
