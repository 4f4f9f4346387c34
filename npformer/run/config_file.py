"""Options: frozen dataclasses in the program, sections of TOML on disk, `section.key=value` in a shell.

A dataclass is the only place that defines the options and their types; a wrong name or a
wrong type is always an error. TOML has no null value, so an option that may be None takes
the text "none"; it is written only where the default is something else.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from npformer.errors import ConfigError
from npformer.io.atomic_files import describe
from npformer.run.option_types import NONE, did_you_mean, fit, from_shell, kinds_of, meanings_of, near, shown

#: A larger file was not written by npformer, whose own have 6 kB.
MOST_BYTES = 1 << 18

COMMENTS = 34  # the column where meanings usually begin


def read_toml(path: Path, sections: Mapping[str, type]) -> dict[str, dict[str, Any]]:
    """The values in the file, by section and key. Every section is present, perhaps empty.

    `sections` maps a section's name to the dataclass of its options. Raises ConfigError for a missing or
    malformed file, an unknown name or a value of the wrong type; the message names file, line and remedy.
    """
    return parse_toml(_read_text(path), path, sections)


def parse_toml(text: str, path: Path, sections: Mapping[str, type]) -> dict[str, dict[str, Any]]:
    """As ``read_toml``, from a text; messages name path as its source."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its own error, too many digits, too many brackets
        at = re.search(r"at line (\d+)", str(error))
        line = at[1] if at else text.rstrip().count("\n") + 1
        raise ConfigError(f"{path}, line {line}: expected TOML, found something else: {error}") from None
    place = partial(_place, path, text)
    values: dict[str, dict[str, Any]] = {section: {} for section in sections}
    for section, entries in document.items():
        _check_section(section, entries, sections, place)
        kinds = kinds_of(sections[section])
        for key, value in entries.items():
            if key not in kinds:
                raise ConfigError(_unknown(f"{place(section, key)}: option", key, kinds, sections))
            try:
                values[section][key] = fit(value, kinds[key], f"{section}.{key}")
            except ConfigError as error:
                raise ConfigError(f"{place(section, key)}: {error}") from None
    return values


def parse_assignment(text: str, sections: Mapping[str, type]) -> tuple[str, str, Any]:
    """(section, key, value) of `section.key=value`, or of `key=value` if one section alone has that key.

    Raises ConfigError for an unknown or ambiguous name (naming the nearest) or a value of the wrong type.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    known = {f"{section}.{key}": kind for section in sections for key, kind in kinds_of(sections[section]).items()}
    if not equals or not name:
        raise ConfigError(f"{text!r}: expected SECTION.KEY=VALUE, such as {next(iter(known))}=…")
    matches = [full for full in known if name in (full, full.partition(".")[2])]
    if len(matches) > 1:
        raise ConfigError(f"{text!r}: {name!r} is in several sections: expected {' or '.join(matches)}")
    if not matches:
        raise ConfigError(_unknown(f"{text!r}: option", name, known, sections))
    section, _, key = matches[0].partition(".")
    return section, key, fit(from_shell(value, known[matches[0]]), known[matches[0]], matches[0])


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
    owners = [name for name in sections if section in kinds_of(sections[name])]
    below = f"[{owners[0]}]" if owners else " or ".join(f"[{name}]" for name in sections)
    raise ConfigError(f"{place(section)}: {shown(section)} stands outside any section: expected it below {below}")


def _place(path: Path, text: str, section: str, key: str | None = None) -> str:
    """The file and the line of a section or of a key; the file alone if the line is not found."""
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
    """The message for an unknown name, with the nearest names, or with all valid ones if none is near."""
    names = list(valid)
    elsewhere = [f"{section}.{key}" for section in sections for key in kinds_of(sections[section])]
    guess = did_you_mean(near(name, [*names, *elsewhere]))
    listed = f". Expected one of: {', '.join(names)}"
    every = f"{guess} npformer train TASK --options lists all" if guess and sections else guess
    return f"{what} {shown(name)} is unknown{every or listed}"


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
