"""The experiments: what is claimed of Transformers, what came out, the table and the picture of the full setting."""

from __future__ import annotations

import ast
import re
from functools import cache

from benchmarks.measured import COMMANDS, Command
from benchmarks.page_tables import origin
from benchmarks.pages import Document, load
from docs.site import places
from docs.site.links import for_site
from docs.site.operations import contents
from docs.site.places import DOCS, RESULTS, ROOT, text_page, write
from docs.site.plain_text import blocks, sentences, shown

#: Name of an experiment, as in its module -> its command.
EXPERIMENTS: dict[str, Command] = {name: COMMANDS[stored] for name, stored in places.EXPERIMENTS.items()}


def write_all() -> None:
    """A page for each experiment, and the list of them."""
    for name in EXPERIMENTS:
        write(f"experiments/{name}.md", page(name))
    write("experiments/index.md", index())


def index() -> str:
    """The questions."""
    rows = "\n".join(f"| [{each.what}]({name}.md) | {asked(name)} |" for name, each in EXPERIMENTS.items())
    return f"""# Experiments

{{.lead}}
What is said of Transformers and their rivals, tried on a small scale. Each experiment is one command.

| experiment | asks |
|---|---|
{rows}

{contents(list(EXPERIMENTS))}"""


def page(name: str) -> str:
    """The page of one experiment."""
    first, *rest = blocks(docstring(name))
    parts = [
        f"# {EXPERIMENTS[name].what}",
        f"{{.lead}}\n{sentences(first.text)}",
        *map(shown, rest),
        f"## What came out\n\n{came_out(name)}" if came_out(name) else "",
        picture(name),
        table(name),
        "## Run it\n\n"
        f"```sh\npython -m examples.experiments.{name} --small    # a few seconds; shows the procedure\n"
        f"python -m examples.experiments.{name}            # the full setting\n```\n\n"
        f"The code is one file: [{name}.py](/{text_page(f'examples/experiments/{name}.py')}.md).",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def docstring(name: str) -> str:
    """What the file of an experiment says of itself."""
    text = (ROOT / "examples" / "experiments" / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text)) or ""


@cache
def _readme() -> str:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    return for_site(text, "examples/README.md")


def asked(name: str) -> str:
    """The question of an experiment, from the table in examples/README.md."""
    (found,) = re.findall(rf"^\| `{name}` \| (.*) \|$", _readme(), re.MULTILINE)
    return str(found)


def came_out(name: str) -> str:
    """The answer, from the list in examples/README.md; "" if it is not written yet."""
    found = re.findall(rf"^- \*\*`{name}`\*\*\. (.*?)(?=^- |\Z)", _readme(), re.MULTILINE | re.DOTALL)
    return " ".join("".join(found).split())


def picture(name: str) -> str:
    """The picture of the full setting, where it is kept."""
    kept = sorted((DOCS / "pictures").glob(f"{places.EXPERIMENTS[name]}.*"))
    if not kept:
        return ""
    alt = f"{EXPERIMENTS[name].what}: what the table below says, drawn"
    return f"```{{image}} /../../docs/pictures/{kept[-1].name}\n:alt: {alt}\n:class: paper\n```"


@cache
def _kept() -> dict[str, Document]:
    return {document["file"]: document for document in load(RESULTS.glob("experiment-*.json"))}


def table(name: str) -> str:
    """The output of the full setting, and where it was made."""
    file = f"{places.EXPERIMENTS[name]}.json"
    if file not in _kept():
        return f"No result of the full setting is committed yet: `python -m benchmarks.measured {file[:-5]}` makes one."
    found = _kept()[file]
    output = "\n".join(found["output"])
    return f"```text\n{output}\n```\n\n{for_site(origin(found), 'docs/measured.md')}"
