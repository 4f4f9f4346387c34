"""The commands as a page, made from what their --help says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType

from npformer.cli.main import name_of


def page(commands: Sequence[ModuleType]) -> str:
    """What each command does, and those of its examples that say what they do, in Markdown."""
    texts = []
    for module in commands:
        shown = re.findall(r"^  (npformer [^|\n]*?)  +(.+)$", module.EXAMPLES.partition("\n\n")[0], re.MULTILINE)
        lines = "".join(f"- `{command}`: {meaning}\n" for command, meaning in shown).replace("<", "\\<")
        texts.append(f"## npformer {name_of(module)}\n\n{module.SUMMARY}\n\n{lines}")
    return "\n".join(texts)
