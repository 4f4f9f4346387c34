"""Options: frozen dataclasses in the program, sections of TOML on disk, `section.key=value` in a shell.

A dataclass is the only place that defines the options and their types; a wrong name or a
wrong type is always an error. TOML has no null value, so an option that may be None takes
the text "none"; it is written only where the default is something else.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npformer.errors import ConfigError
from npformer.io.atomic_files import describe
from npformer.run.option_types import NONE, expect_known, fit, fitted, from_shell, kinds_of, meanings_of, shown

#: A larger file was not written by npformer, whose own have 6 kB.
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
    full = next((full for full in known if name in (full, full.partition(".")[2])), name)
    expect_known("option", [full], known)
    section, _, key = full.partition(".")
    return section, key, fit(from_shell(value, known[full]), known[full], full)


def write_toml(sections: Mapping[str, Any]) -> str:
    """The TOML of these dataclass instances, by section; read_toml gives equal values back.

    The meaning of an option stands behind it. One whose value and default are None is a comment, or is left out if it
    has no meaning. Raises ConfigError for a value that could not be read back: one of another type than its
    annotation, or the text "none" for an option that may be None.
    """
    lines: list[str] = []
    for section, options in sections.items():
        lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        kinds, meanings = kinds_of(type(options)), meanings_of(type(options))
        for field in dataclasses.fields(options):
            value, meaning = getattr(options, field.name), meanings.get(field.name)
            if field.name not in kinds:
                continue
            if value is None and field.default is None:
                lines += [_explained(f'# {field.name} = "{NONE}"', meaning)] if meaning else []
                continue
            place = f"{section}.{field.name}"
            plain = NONE if value is None else value
            if fit(plain, kinds[field.name], place) is None and value is not None:
                raise ConfigError(f"{place}: the text {value!r} means no value: choose another text, or None")
            lines.append(_explained(f"{field.name} = {_spell(plain, place)}", meaning))
    return "\n".join(lines) + "\n"


def _explained(line: str, meaning: str | None) -> str:
    return f"{line:<{COMMENTS - 2}}  # {meaning}" if meaning else line


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
