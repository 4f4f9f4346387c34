"""Options: frozen dataclasses in the program, sections of TOML on disk, `section.key=value` in a shell.

A dataclass is the one place that says which options exist and what type each has; a wrong name or a
wrong type never passes silently. TOML has no word for "no value", so an option that may be None takes
the text "none"; it is written only where the default is something else.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from npformer.errors import ConfigError
from npformer.training.atomic import describe

#: How a missing value is spelled, in a file and in a shell.
NONE = "none"

#: A larger file is none of ours: npformer writes 2 kB.
MOST_BYTES = 1 << 18
_MOST_BITS = 128  # of a whole number: more fit nowhere, and Python would not print the longest


def read_toml(path: Path, sections: Mapping[str, type]) -> dict[str, dict[str, Any]]:
    """The values that the file gives, by section and key; each section is there, if only empty.

    `sections` maps a section's name to the dataclass of its options. Raises ConfigError for a missing or
    malformed file, an unknown name or a value of the wrong type; the message names file, line and remedy.
    """
    text = _read_text(path)
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # beside its own: a number of too many digits, too many brackets
        at = re.search(r"at line (\d+)", str(error))
        line = at[1] if at else text.rstrip().count("\n") + 1
        raise ConfigError(f"{path}, line {line}: expected TOML, found something else: {error}") from None
    place = partial(_place, path, text)
    values: dict[str, dict[str, Any]] = {section: {} for section in sections}
    for section, entries in given.items():
        _check_section(section, entries, sections, place)
        kinds = _kinds(sections[section])
        for key, value in entries.items():
            if key not in kinds:
                raise ConfigError(_unknown(f"{place(section, key)}: option", key, kinds, sections))
            try:
                values[section][key] = _fit(value, kinds[key], f"{section}.{key}")
            except ConfigError as error:
                raise ConfigError(f"{place(section, key)}: {error}") from None
    return values


def fitted(given: Mapping[str, Any], options: type) -> dict[str, Any]:
    """Values as the annotations of a dataclass want them, by option.

    Raises ConfigError for an unknown option (naming the nearest) or a value of the wrong type.
    """
    kinds = _kinds(options)
    if unknown := [key for key in given if key not in kinds]:
        raise ConfigError(_unknown("option", unknown[0], kinds, {}))
    return {key: _fit(value, kinds[key], key) for key, value in given.items()}


def parse_assignment(text: str, sections: Mapping[str, type]) -> tuple[str, str, Any]:
    """(section, key, value) of `section.key=value`, or of `key=value` if one section alone has that key.

    Raises ConfigError for an unknown or ambiguous name (naming the nearest) or a value of the wrong type.
    """
    name, equals, given = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise ConfigError(f"{text!r}: expected SECTION.KEY=VALUE, such as {_example(sections)}")
    known = {f"{section}.{key}": kind for section in sections for key, kind in _kinds(sections[section]).items()}
    matches = [full for full in known if name in (full, full.partition(".")[2])]
    if len(matches) > 1:
        raise ConfigError(f"{text!r}: {name!r} is in several sections: expected {' or '.join(matches)}")
    if not matches:
        raise ConfigError(_unknown(f"{text!r}: option", name, known, sections))
    section, _, key = matches[0].partition(".")
    return section, key, _fit(_from_shell(given, known[matches[0]]), known[matches[0]], matches[0])


def write_toml(sections: Mapping[str, Any]) -> str:
    """The TOML of these dataclass instances, by section; read_toml gives equal values back.

    An option that is None, as its default is, is left out. Raises ConfigError for a value that would not
    come back: of another type than its annotation, or the text "none" where None is possible as well.
    """
    lines: list[str] = []
    for section, options in sections.items():
        lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        kinds = _kinds(type(options))
        for field in dataclasses.fields(options):
            value = getattr(options, field.name)
            if field.name not in kinds or (value is None and _default(field) is None):
                continue
            place = f"{section}.{field.name}"
            plain = NONE if value is None else list(value) if isinstance(value, tuple) else value
            if _fit(plain, kinds[field.name], place) is None and value is not None:
                raise ConfigError(f"{place}: the text {value!r} means no value: choose another text, or None")
            lines.append(f"{field.name} = {_spell(plain, place)}")
    return "\n".join(lines) + "\n"


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: expected an options file, found nothing: check the name") from None
    except OSError as error:
        raise ConfigError(f"{path}: expected an options file to read, got: {describe(error)}") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path}: expected an options file of at most {MOST_BYTES:,} bytes, found more: is it one?")
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}, line {line}: expected UTF-8, found byte 0x{data[error.start]:02x}: save it as UTF-8"
        ) from None


def _check_section(section: str, entries: Any, sections: Mapping[str, type], place: Callable[..., str]) -> None:
    if section in sections and isinstance(entries, dict):
        return
    if section in sections:
        raise ConfigError(f"{place(section)}: expected a section [{section}], got {shown(entries)}")
    if isinstance(entries, dict):
        raise ConfigError(_unknown(f"{place(section)}: section", section, sections, {}))
    owners = [name for name in sections if section in _kinds(sections[name])]
    below = f"[{owners[0]}]" if owners else " or ".join(f"[{name}]" for name in sections)
    raise ConfigError(f"{place(section)}: {shown(section)} stands outside any section: expected it below {below}")


def _place(path: Path, text: str, section: str, key: str | None = None) -> str:
    """The file and, if it is written in the usual way, the line where a section or a key of it stands."""
    current = None
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        is_header = line.startswith("[") and "]" in line
        name = re.match(r"[\"']?([\w-]+)[\"']?\s*[.=]", line)
        current = line[1:].partition("]")[0].strip(" \t\"'") if is_header else current
        wanted = key if current == section else section if current is None else None
        if (is_header and key is None and current == section) or (name and name[1] == wanted):
            return f"{path}, line {number}"
    return str(path)


def _unknown(what: str, name: str, valid: Iterable[str], sections: Mapping[str, type]) -> str:
    """The message for a name that is not there: the nearest that is, and all of them."""
    names = list(valid)
    full = [f"{section}.{key}" for section in sections for key in _kinds(sections[section])]
    keys = {option.partition(".")[2]: option for option in full}
    near = [keys[key] for key in keys if key == name.rpartition(".")[2]]  # right, but in another section
    near = near or difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(name, full, n=1)
    near = near or [keys[key] for key in difflib.get_close_matches(name, keys, n=1)]
    guess = f"; did you mean {near[0]!r}?" if near else "."
    return f"{what} {shown(name)} is unknown{guess} Expected one of: {', '.join(names)}"


def _example(sections: Mapping[str, type]) -> str:
    return next(
        (f"{section}.{key}=…" for section in sections for key in _kinds(sections[section])),
        "training.steps=…",
    )


def _kinds(options: type) -> dict[str, Any]:
    """The annotation of each option, in order."""
    hints = get_type_hints(options)
    return {field.name: hints[field.name] for field in dataclasses.fields(options) if field.init}


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _fit(value: Any, kind: Any, name: str) -> Any:
    """The value as its annotation wants it. Raises ConfigError, with name in front, if it does not fit."""
    try:
        return _convert(value, kind)
    except (ValueError, OverflowError):
        raise ConfigError(f"{name}: expected {_describe(kind)}, got {shown(value)}") from None


def shown(value: Any) -> str:
    """What a file holds, for a message: the beginning of it if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of more than 4,300 digits
        return "a whole number of too many digits"
    return text if len(text) <= 100 else f"{text[:80]}… ({len(text):,} characters)"


def _convert(value: Any, kind: Any) -> Any:
    """The value if it is of that kind (an int is good for a float, a bool is no int). Raises ValueError."""
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


def _from_shell(text: str, kind: Any) -> Any:
    """The text as TOML would give it, if it can be read as that kind; the text itself if not."""
    origin, args, bare = get_origin(kind), get_args(kind), text.strip()
    if origin in (Union, UnionType):
        if NoneType in args and bare == NONE:
            return NONE
        readings = [_from_shell(text, arg) for arg in args if arg is not NoneType]
        return next((reading for reading in readings if not isinstance(reading, str)), readings[0])
    if origin is Literal:
        return next((arg for arg in args if str(arg) == bare), bare)
    if origin is tuple:
        inner = bare[1:-1] if bare[:1] + bare[-1:] in ("[]", "()") else bare
        entries = [entry.strip() for entry in inner.split(",") if entry.strip()]
        kinds = [arg for arg in args if arg is not Ellipsis]
        return [_from_shell(entry, kinds[min(i, len(kinds) - 1)]) for i, entry in enumerate(entries)]
    if kind is bool:
        return {"true": True, "false": False}.get(bare, bare)
    if kind in (int, float):
        try:
            return kind(bare)
        except ValueError:
            return bare
    return text


def _spell(value: Any, place: str) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_spell(entry, place) for entry in value)}]"
    if not isinstance(value, str):
        return (float if isinstance(value, float) else int).__repr__(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{place}: expected text that UTF-8 can hold, got {value!r}") from None
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


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
