"""The page: MicroPython, numpy-ts, the grader's own files, every exercise with its cases and mutants, and an editor."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from docs.site import places
from docs.site.here.libraries import Libraries, fetched
from docs.site.here.rewrite import rewritten
from docs.site.places import write
from npformer.check.causes.mutants import mutants
from npformer.io.printable import escaped
from npformer.lab.grader import EXERCISES, Exercise
from npformer.lab.grader.exercises import HINTS, cases_of
from npformer.lab.grader.parts import TEXTS, imports
from npformer.lab.grader.templates import template
from npformer.see.page.document import Pack

HERE = Path(__file__).parent
PACKAGE = HERE.parents[2] / "npformer"
#: The package's files that run in the page, and which of their names where not all.
FILES: dict[str, tuple[str, ...]] = {
    "check/measures": ("max_abs", "largest", "scale_of", "worst_at"),
    "check/report": ("RIGHT", "WRONG", "NOT_BEGUN", "Judged", "Claim"),
    "check/causes/patterns": ("Clues", "agree", "by_pattern", "by_shape", "names_of"),
    "io/percent": ("percent", "finite"), "lab/grader/tree": (),
    "lab/grader/source": ("LearnerFile", "BANNED", "refusal"),
    "lab/grader/grading": (), "lab/grader/diagnosis": (),
    "lab/grader/grade": ("grade_exercise",),
    "lab/grader/report": ("verdict", "to_dict", "folded"), "io/child/slopes": (),
}  # fmt: skip
_KEPT = (
    "name", "title", "formula", "arguments", "wrt", "gradients", "upstream", "outputs", "functions", "hints",
    "mistakes",
)  # fmt: skip


#: Where the page is in the site.
PLACE = "run-it-here.html"


def write_all() -> None:
    """Write the page, or say why there is none."""
    libraries = fetched()
    if isinstance(libraries, str):
        print(f"docs: {PLACE} is left out: {libraries}", file=sys.stderr)
    else:
        write(f"_extra/{PLACE}", page(libraries))


def link(exercise: str = "") -> str:
    """A link to it from a page of the course; in a build that has no such page, that it has none."""
    if places.SOURCES / "_extra" / PLACE not in places.written:
        return "This build of the site has no page to run it in: `npm` was missing."
    asked = f"?exercise={exercise}" if exercise else ""
    return f'<p class="beside"><a href="../{PLACE}{asked}">Run it here</a>, without installing anything</p>'


def page(libraries: Libraries) -> str:
    """The whole page."""
    pack = Pack()
    files = _modules() | {f"data/{each.name}.json": json.dumps(_exercise(each, pack)) for each in EXERCISES}
    script = (HERE / "web" / "page.js").read_text(encoding="utf-8")
    style = (HERE / "web" / "page.css").read_text(encoding="utf-8")
    shown = [{"name": e.name, "title": f"{i}. {e.title}", "text": template(e)} for i, e in enumerate(EXERCISES, 1)]
    blocks = {
        "wasm": base64.b64encode(zlib.compress(libraries.wasm, 9)).decode(),
        "worker": _packed(worker(libraries)), "files": _packed(json.dumps(files)), "numbers": pack.text(),
        "exercises": _packed(json.dumps(shown)),
    }  # fmt: skip
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; script-src {_hash(script)} 'wasm-unsafe-eval'; "
    policy += f"style-src {_hash(style)}; worker-src blob:"
    body = (HERE / "web" / "page.html").read_text(encoding="utf-8")
    data = "\n".join(f'<script type="text/plain" id="{name}">{text}</script>' for name, text in blocks.items())
    for name, text in {
        "LICENCE": escaped(libraries.licence),
        "POLICY": policy,
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }.items():
        body = body.replace(f"{{{name}}}", text)
    return body


def worker(libraries: Libraries) -> str:
    """The text of the worker, one module."""
    own = [(HERE / "web" / f"{name}.js").read_text(encoding="utf-8") for name in ("arrays", "worker")]
    return "\n".join([libraries.script, *own])


def _modules() -> dict[str, str]:
    """Every Python file that runs in the page, and the hints."""
    theirs = {path: (PACKAGE / f"{path}.py").read_text(encoding="utf-8") for path in FILES}
    files = {f"npformer/{path}.py": rewritten(theirs[path], only) for path, only in FILES.items()}
    files["npformer/lab/grader/leaves.py"] = rewritten((PACKAGE / "lab/grader/runner.py").read_text(), ("_leaves",))
    whole = "\n\n".join(TEXTS.values())
    files["npformer/lab/grader/parts.py"] = rewritten(f"{imports(whole)}\n\n{whole}\n\nFUNCTIONS = globals()")
    files["data/hints.json"] = json.dumps(HINTS)
    folder = HERE / "python"
    return files | {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.py"))}


def _exercise(exercise: Exercise, pack: Pack) -> dict[str, Any]:
    """What the page's judge has to know of an exercise."""
    cases = [
        {"label": c.label, "arguments": _placed(c.arguments, pack), "upstream": _placed(c.upstream, pack),
         "sizes": dict(c.sizes), "gaps": c.gaps}
        for c in cases_of(exercise)
    ]  # fmt: skip
    told = {name: getattr(exercise, name) for name in _KEPT} | {"available": sorted(exercise.available)}
    return told | {"cases": cases, "mutants": list(_mutants(exercise))}


def _mutants(exercise: Exercise) -> Iterator[dict[str, Any]]:
    for each in mutants(exercise.backward):
        named = {name: getattr(each, name) for name in ("operator", "function", "line", "before", "after")}
        yield named | {"source": rewritten(each.source)}


def _placed(value: Any, pack: Pack) -> Any:
    """A nested value in which an array is its place among the page's numbers."""
    if isinstance(value, np.ndarray | np.generic):
        kind, shape, start = pack.places[pack.add(np.asarray(value))]
        return {"at": start, "shape": shape, "dtype": {"f": "float64", "i": "int32", "b": "bool"}[kind]}
    if isinstance(value, tuple):
        return {"tuple": [_placed(part, pack) for part in value]}
    return {"dict": {key: _placed(part, pack) for key, part in value.items()}} if isinstance(value, dict) else value


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
