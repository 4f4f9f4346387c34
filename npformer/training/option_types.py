"""Checks values against the annotations of their options, wherever the values come from.

An int is accepted for a float, a bool is no int, and an optional value may be None or the text "none".
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

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


def near(name: str, valid: Iterable[str]) -> list[str]:
    """The valid names that are closest to a wrong one, at most four, compared by what follows their last dot."""
    wanted = name.rpartition(".")[2].lower()
    keys: dict[str, str] = {}
    for full in valid:
        keys.setdefault(full.rpartition(".")[2], full)
    if wanted in keys:
        return [keys[wanted]]
    found = difflib.get_close_matches(wanted, keys, n=3)
    found += [key for key in keys if key not in found and len(wanted) > 2 and wanted in key]
    return [keys[key] for key in found[:4]]


def did_you_mean(names: Sequence[str]) -> str:
    """A question with these names, to follow an error; nothing without names."""
    *others, last = [repr(name) for name in names] or [""]
    return last and f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def fitted(given: Mapping[str, Any], options: type) -> dict[str, Any]:
    """Values converted to the annotations of a dataclass, by option.

    Raises ConfigError for an unknown option (naming the nearest) or a value of the wrong type.
    """
    kinds = kinds_of(options)
    if unknown := [key for key in given if key not in kinds]:
        guess = did_you_mean(near(unknown[0], kinds)) or f". Expected one of: {', '.join(kinds)}"
        raise ConfigError(f"option {shown(unknown[0])} is unknown{guess}")
    return {key: fit(value, kinds[key], key) for key, value in given.items()}


def fit(value: Any, kind: Any, name: str) -> Any:
    """The value converted to its annotation. Raises ConfigError, with name in front, if it does not fit."""
    try:
        return _convert(value, kind)
    except (ValueError, OverflowError):
        raise ConfigError(f"{name}: expected {_describe(kind)}, got {shown(value)}") from None


def shown(value: Any) -> str:
    """A value from a file, for a message; a long value is cut."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of more than 4,300 digits
        return "a whole number of too many digits"
    return text if len(text) <= 100 else f"{text[:80]}… ({len(text):,} characters)"


def _convert(value: Any, kind: Any) -> Any:
    """The value if it is of that kind (an int is accepted for a float, a bool is no int). Raises ValueError."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in args and (value is None or value == NONE):
            return None
        return _first_that_fits(value, [arg for arg in args if arg is not NoneType])
    if origin is Literal:
        fits = any(type(value) is type(arg) and value == arg for arg in args)
    elif origin is tuple:
        return _convert_tuple(value, args)
    elif kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if fits else _refuse()
    elif kind in (bool, int, str):
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        fits = fits and (kind is not int or value.bit_length() <= _MOST_BITS)
    else:
        raise TypeError(f"options of type {kind} are not supported: use bool, int, float, str, Literal or a tuple")
    return value if fits else _refuse()


def _refuse() -> Any:
    raise ValueError


def _first_that_fits(value: Any, kinds: list[Any]) -> Any:
    for kind in kinds:
        try:
            return _convert(value, kind)
        except ValueError:
            continue
    return _refuse()


def _convert_tuple(value: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError
    kinds = [args[0]] * len(value) if args[1:] == (Ellipsis,) else list(args)
    if len(kinds) != len(value):
        raise ValueError
    return tuple(_convert(entry, kind) for entry, kind in zip(value, kinds, strict=True))


def from_shell(text: str, kind: Any) -> Any:
    """The text parsed like TOML, if it can be read as that kind; else the text itself."""
    origin, args, bare = get_origin(kind), get_args(kind), text.strip()
    if origin in (Union, UnionType):
        if NoneType in args and bare == NONE:
            return NONE
        readings = [from_shell(text, arg) for arg in args if arg is not NoneType]
        return next((reading for reading in readings if not isinstance(reading, str)), readings[0])
    if origin is Literal:
        return next((arg for arg in args if str(arg) == bare), bare)
    if origin is tuple:
        inner = bare[1:-1] if bare[:1] + bare[-1:] in ("[]", "()") else bare
        entries = [entry.strip() for entry in inner.split(",") if entry.strip()]
        kinds = [arg for arg in args if arg is not Ellipsis]
        return [from_shell(entry, kinds[min(i, len(kinds) - 1)]) for i, entry in enumerate(entries)]
    if kind is bool:
        return {"true": True, "false": False}.get(bare, bare)
    if kind in (int, float):
        try:
            return kind(bare)
        except ValueError:
            return bare
    return text


def in_shell(value: Any) -> str:
    """An option's value as ``from_shell`` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return NONE if value is None else str(value)


def _describe(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(_describe(arg) for arg in args)
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin is tuple:
        length = "" if args[1:] == (Ellipsis,) else f"{len(args)} "
        return f"a list of {length}values, each {_describe(args[0])}"
    names = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "a text",
        NoneType: f'"{NONE}"',
    }
    return names[kind]
