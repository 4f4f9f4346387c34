"""Checks values against the annotations of their options, wherever the values come from.

An int is accepted for a float, a bool is no int, and an optional value may be None or the text "none".
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from npformer.backend.backend import NO_PRECISIONS
from npformer.errors import ConfigError

#: How None is written in a file and in a shell.
NONE = "none"
_MOST_BITS = 128  # larger whole numbers are never valid, and Python does not print the longest


def kinds_of(options: type) -> dict[str, Any]:
    """The annotation of each option, in order."""
    hints = get_type_hints(options)
    return {field.name: hints[field.name] for field in dataclasses.fields(options) if field.init}


def meanings_of(options: type) -> dict[str, str]:
    """The text that ``Annotated[kind, text]`` puts beside an option; none for an option without one."""
    hints = get_type_hints(options, include_extras=True)
    notes = {name: get_args(hint)[1] for name, hint in hints.items() if get_origin(hint) is Annotated}
    return {name: note for name, note in notes.items() if isinstance(note, str)}


def expect_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise ConfigError, with the nearest known names, or with all of them, for one that is not known."""
    known = list(known)
    for name in names:
        if name not in known:
            ends = {full.rpartition(".")[2]: full for full in known}
            wanted = name.rpartition(".")[2].lower()
            nearest = difflib.get_close_matches(wanted, ends, n=3)
            nearest += [end for end in ends if end not in nearest and len(wanted) > 2 and wanted in end]
            *others, last = [repr(ends[end]) for end in nearest[:4]] or [""]
            guess = f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
            every = f". Expected one of: {', '.join(known)}"
            raise ConfigError(f"{what} {shown(name)} is unknown{guess if last else every}")


def fitted(values: Mapping[str, Any], options: type, before: str = "") -> dict[str, Any]:
    """Values converted to the annotations of a dataclass, by option; before: what messages put before a name.

    Raises ConfigError for an unknown option (naming the nearest) or a value of the wrong type.
    """
    kinds = kinds_of(options)
    expect_known("option", [before + key for key in values], [before + key for key in kinds])
    return {key: fit(value, kinds[key], before + key) for key, value in values.items()}


def fit(value: Any, kind: Any, name: str) -> Any:
    """The value converted to its annotation. Raises ConfigError, with name in front, if it does not fit."""
    bare, is_optional = bare_kind(kind)
    if is_optional and (value is None or value == NONE):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if get_origin(bare) is Literal:
        fits = isinstance(value, str) and value in get_args(bare)
    elif bare is float:
        fits = is_number
    elif bare is int:
        fits = is_number and isinstance(value, int) and value.bit_length() <= _MOST_BITS
    elif bare in (bool, str):
        fits = isinstance(value, bare)
    else:
        raise TypeError(f"options of type {bare} are not supported: use bool, int, float, str or a Literal of texts")
    with suppress(OverflowError):  # a whole number that is too large for a float
        if fits:
            return float(value) if bare is float else value
    why = f"; {NO_PRECISIONS[value]}" if get_origin(bare) is Literal and str(value) in NO_PRECISIONS else ""
    raise ConfigError(f"{name}: expected {_describe(bare, is_optional)}, got {shown(value)}{why}")


def bare_kind(kind: Any) -> tuple[Any, bool]:
    """An annotation without None, and whether it had one."""
    args = get_args(kind)
    return (next(arg for arg in args if arg is not NoneType), True) if NoneType in args else (kind, False)


def shown(value: Any) -> str:
    """A value from a file, for a message; a long value is cut."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of more than 4,300 digits
        return "a whole number of too many digits"
    return text if len(text) <= 100 else f"{text[:80]}… ({len(text):,} characters)"


def from_shell(text: str, kind: Any) -> Any:
    """The text parsed like TOML, if it can be read as that kind; else the text itself."""
    (kind, is_optional), bare = bare_kind(kind), text.strip()
    if is_optional and bare == NONE:
        return NONE
    if kind is bool:
        return {"true": True, "false": False}.get(bare, bare)
    if kind in (int, float):
        try:
            return kind(bare)
        except ValueError:
            return bare
    return text if kind is str else bare


def in_shell(value: Any) -> str:
    """An option's value as ``from_shell`` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return NONE if value is None else str(value)


def _describe(kind: Any, is_optional: bool) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    words = names.get(kind) or f"one of {', '.join(map(repr, get_args(kind)))}"
    return f'{words} or "{NONE}"' if is_optional else words
