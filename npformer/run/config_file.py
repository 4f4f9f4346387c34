"""Options: frozen dataclasses in the program, sections of TOML on disk, `section.key=value` in a shell.

A dataclass is the only place that defines the options and their types; a wrong name or a
wrong type is always an error. TOML has no null value, so an option that may be None takes
the text "none"; it is written only where the default is something else.

Values are checked against the annotations, wherever they come from. An int is accepted for a float, a bool is no int,
and an optional value may be None or the text "none".
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from npformer.backend.backend import NO_PRECISIONS
from npformer.errors import ConfigError, meant
from npformer.io.atomic_files import describe

#: What follows from a task and its data. Older files say it, and it is read over.
FOLLOW = ("sha256", "src_vocab_size", "tgt_vocab_size", "vocab_size", "num_classes", "head", "pad_id")
MANY = 40  # names that no message lists
#: A larger file was not written by npformer, whose own have a few kB.
MOST_BYTES = 1 << 18
COMMENTS = 34  # the column where meanings usually begin


def read_toml(path: Path, sections: Mapping[str, type]) -> dict[str, dict[str, Any]]:
    """The values in the file, by section and key. Every section is present, perhaps empty.

    `sections` maps a section's name to the dataclass of its options. Raises ConfigError for a missing or
    malformed file, an unknown name or a value of the wrong type; the message names file, option and remedy.
    """
    return parse_toml(_read_text(path), path, sections)


def parse_toml(text: str, path: Path, sections: Mapping[str, type]) -> dict[str, dict[str, Any]]:
    """As ``read_toml``, from a text; messages name path as its source."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its own error, too many digits, too many brackets
        raise ConfigError(f"{path}: expected TOML, found something else: {error}") from None
    try:
        expect_known("section", document, sections)
        values = {section: document.get(section, {}) for section in sections}
        for section, entries in values.items():
            if not isinstance(entries, dict):
                raise ConfigError(f"expected a section [{section}], got {shown(entries)}")
            values[section] = {name: value for name, value in entries.items() if name not in FOLLOW}
        return {section: fitted(entries, sections[section], f"{section}.") for section, entries in values.items()}
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_assignment(text: str, sections: Mapping[str, type]) -> tuple[str, str, Any]:
    """(section, key, value) of `section.key=value`, or of `key=value`: no two sections share a key.

    Raises ConfigError for an unknown name (naming the nearest) or a value of the wrong type.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    known = {f"{section}.{key}": kind for section in sections for key, kind in kinds_of(sections[section]).items()}
    if not equals or not name:
        raise ConfigError(f"{text!r}: expected SECTION.KEY=VALUE, such as {next(iter(known))}=…")
    if name.rpartition(".")[2] in FOLLOW:
        raise ConfigError(f"{name}: expected no value, since it follows from the data; leave it out")
    full = next((full for full in known if name in (full, full.partition(".")[2])), name)
    expect_known("option", [full], known)
    section, _, key = full.partition(".")
    return section, key, fit(from_shell(value, known[full]), known[full], full)


def write_toml(sections: Mapping[str, Any], without: Container[str] = ()) -> str:
    """The TOML of these dataclass instances, by section, without some options; read_toml gives equal values back.

    The meaning of an option stands behind it. One whose value and default are None is a comment. Raises ConfigError
    for a text that UTF-8 cannot hold.
    """
    lines: list[str] = []
    for section, options in sections.items():
        lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        meanings = meanings_of(type(options))
        for field in (field for field in dataclasses.fields(options) if field.init and field.name not in without):
            value, meaning = getattr(options, field.name), meanings.get(field.name)
            unset = "# " * (value is None and field.default is None)
            line = f"{unset}{field.name} = {_spell(NONE if value is None else value, f'{section}.{field.name}')}"
            lines.append(f"{line:<{COMMENTS - 2}}  # {meaning}" if meaning else line)
    return "\n".join(lines) + "\n"


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: expected an options file, found nothing: check the name") from None
    except OSError as error:
        inside = path / "config.toml"
        hint = f"; did you mean {inside}?" if inside.is_file() else ""
        raise ConfigError(f"{path}: expected an options file to read, got: {describe(error)}{hint}") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path}: expected an options file of at most {MOST_BYTES:,} bytes, found more: is it one?")
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8, got: {error}: save it as UTF-8") from None


def _spell(value: Any, place: str) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return (float if isinstance(value, float) else int).__repr__(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{place}: expected text that UTF-8 can hold, got {value!r}") from None
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


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
            few = len(known) < MANY
            every = f". Expected one of: {', '.join(known)}" if few else "; npformer train --options lists all"
            raise ConfigError(f"{what} {shown(name)} is unknown{meant(name, known) or every}")


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
    why = ""
    if get_origin(bare) is Literal:
        why = f"; {NO_PRECISIONS[value]}" if str(value) in NO_PRECISIONS else meant(str(value), get_args(bare))
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
