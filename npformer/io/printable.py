"""Text from files and users, made safe to print: invisible and control characters are shown as escapes.

A control character moves the cursor, clears the screen or ends a line. A direction mark reverses the text
beside it. A character without width is not seen at all. So a path, an error or a decoded text could look like
another one, or like a message of npformer. Letters, marks and signs of every script are printed unchanged.
"""

from __future__ import annotations

import html
import os
import shlex
import unicodedata

#: Zero-width joiner and non-joiner. Persian, the scripts of India and emoji need them between two letters or signs.
_JOINERS = "\u200c\u200d"
#: Format characters that are visible: the signs of numbers, verses and abbreviations in Arabic, Syriac and Kaithi.
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_NAMES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: object, keep: str = "") -> str:
    r"""The text with these characters as Python's escapes (\x1b, \u202e): C0 and C1 controls, DEL, line and paragraph
    separators, format characters (directions, zero width) and lone surrogates. Characters in keep are not escaped.

    Joiners stay between two letters, marks or signs outside ASCII, and are escaped anywhere else, where they join
    nothing. A backslash is not doubled, so the original cannot be recovered from the result. Applying the function
    again changes nothing.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        character
        if character in keep or _is_seen(character) or _joins(shown, i)
        else character.encode("unicode_escape").decode()
        for i, character in enumerate(shown)
    )


def escaped(thing: object) -> str:
    """A text of anybody, as it stands in HTML, in SVG and in an attribute."""
    return html.escape(visible(thing))


def shell_words(*words: object) -> str:
    r"""The words as a line for a shell, each quoted where it needs it; printable as it is, so ``visible`` keeps it.

    A word with characters that ``visible`` escapes is written as $'…', which bash, zsh and ksh read: a line feed as
    \n, any other one as its bytes in octal. The rest is for every POSIX shell.
    """
    return " ".join(shlex.quote(word) if visible(word) == word else _quoted(word) for word in map(str, words))


def _quoted(word: str) -> str:
    text = word.replace("\\", "\\\\").replace("'", "\\'")
    seen = (c if _is_seen(c) or _joins(text, i) else _NAMES.get(c) or _octal(c) for i, c in enumerate(text))
    return f"$'{''.join(seen)}'"


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp") or character in _DRAWN


def _joins(text: str, i: int) -> bool:
    around = text[max(i - 1, 0) : i] + text[i + 1 : i + 2]
    return (
        text[i] in _JOINERS
        and len(around) == 2
        and all(not c.isascii() and unicodedata.category(c)[0] in "LMS" for c in around)
    )
