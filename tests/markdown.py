"""The pages of docs as tests read them: their text, the blocks of a language, and the names that blocks leave."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def text_of(page):
    """The text of a page, by its path from the root."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(language, text):
    """The fenced blocks of a language, in order; if it is a pattern with groups, what these found comes before each."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


def commands(text):
    """The lines of all blocks for a shell."""
    return [line for block in blocks("sh", text) for line in block.splitlines()]


def names_after(page, folder):
    """The names that are there after all Python blocks of a page ran in a folder, one after the other."""
    names = {"__name__": "page"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in blocks("python", text_of(page)):
            exec(compile(block, page, "exec"), names)
    return names
