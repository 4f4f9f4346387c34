"""MicroPython and numpy-ts, compiled for a page: fetched by npm in the versions, with the hashes, of package-lock."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

HERE = Path(__file__).parent
#: Where npm unpacks them; all of it may be deleted.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npformer" / "site"
MICROPYTHON = "@micropython/micropython-webassembly-pyscript"


class Libraries(NamedTuple):
    """The two libraries: what MicroPython is compiled to, and both scripts as one text without imports or exports."""

    wasm: bytes
    script: str
    licence: str


@cache
def fetched() -> Libraries | str:
    """The libraries; or why they are not to be had here."""
    if shutil.which("npm") is None:
        return "npm is missing: apt-get install npm"
    lock = (HERE / "package-lock.json").read_bytes()
    folder = CACHE / hashlib.sha256(lock).hexdigest()[:16]
    if not folder.exists() and (problem := _install(folder)):
        return problem
    modules = folder / "node_modules"
    python = (modules / MICROPYTHON / "micropython.mjs").read_text(encoding="utf-8")
    arrays = (modules / "numpy-ts" / "dist" / "numpy-ts.browser.js").read_text(encoding="utf-8")
    # a page from a disk may start no module as a worker: both become functions of a script
    python = python.replace("export default _createMicroPythonModule;", "").replace("export async", "async")
    python = python.replace("let Module={", "let Module={wasmBinary:options.wasmBinary,")  # nothing is fetched
    python = python.replace("import.meta.url", '(globalThis.location?.href ?? "file:///page")')
    script = f"const micropython = (async () => {{{python}\nreturn loadMicroPython;}})();\n"
    script += f"const nts = (() => {{{_returning(arrays)}}})();\n"
    licence = "MicroPython: Copyright (c) 2013-2025 Damien P. George and others. numpy-ts, and the terms of both:\n\n"
    licence += (modules / "numpy-ts" / "LICENSE").read_text(encoding="utf-8")
    return Libraries((modules / MICROPYTHON / "micropython.wasm").read_bytes(), script, licence)


def _install(folder: Path) -> str:
    """Fetch them into a new folder, which is whole or absent; returns why that failed, or an empty text."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE) as made:
        whole = Path(made) / "whole"
        whole.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, whole)
        words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=0"]
        done = subprocess.run(words, cwd=whole, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"npm could not fetch them: {(done.stderr.strip() or done.stdout.strip())[:500]}"
        with suppress(OSError):  # another process was faster
            whole.rename(folder)
    return ""


def _returning(module: str) -> str:
    """A module that exports {a as b} at its end, as the body of a function that returns {b: a}."""
    body, _, exported = module.rpartition("export{")
    names = re.findall(r"([\w$]+)(?: as ([\w$]+))?", exported.partition("}")[0])
    return body + "return {" + ",".join(f"{there or here}:{here}" for here, there in names) + "};"
