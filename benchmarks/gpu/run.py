"""Runs parts one by one within a time limit, and saves all results after each part."""

import json
import time
from dataclasses import replace

from benchmarks.gpu.targets import targets
from benchmarks.gpu.text import markdown

LEAST = 5.0  # seconds; no part begins with less time left
DONE, FAILED, STOPPED, NOT_BEGUN = "done", "FAILED", "OUT OF TIME", "NOT BEGUN"


def run(parts, setting, about, say, now=time.monotonic):
    """Do parts in setting.seconds; results.json and results.md in setting.folder are whole after each.

    A part that fails or exceeds its time limit does not stop the next ones.
    """
    start, results = now(), dict(setting.results)
    states = [{"part": part.name, "state": NOT_BEGUN, "seconds": 0.0, "said": ""} for part in parts]
    document = {"machine": dict(about), "parts": states, "results": results, "targets": []}
    write(document, setting.folder)
    for part, state in zip(parts, states, strict=True):
        left = setting.seconds - (now() - start)
        if left < LEAST:
            continue
        began, allowed = now(), min(part.seconds, left)
        state["state"], state["said"] = STOPPED, "interrupted"  # stays in the file if this process ends here
        write(document, setting.folder)
        try:
            results[part.name] = part.do(replace(setting, seconds=allowed, results=results))
            state["state"], state["said"] = DONE, ""
        except Exception as error:
            late = now() - began >= allowed
            state["state"], state["said"] = STOPPED if late else FAILED, f"{type(error).__name__}: {error}"
        state["seconds"] = now() - began
        write(document, setting.folder)
        say(line(state))
    return document


def line(state):
    """The message about a finished part."""
    first = state["said"].splitlines()[-1].strip() if state["said"] else ""
    return f"{state['part']:<22} {state['state']:<12} {state['seconds']:6.1f} s  {first}".rstrip()


def write(document, folder):
    """Write both files atomically, with the targets judged again."""
    document["targets"] = [target._asdict() for target in targets(document["results"])]
    for name, text in (("results.json", json.dumps(document, indent=1)), ("results.md", markdown(document))):
        half = folder / f"{name}.new"
        half.write_text(text, encoding="utf-8")
        half.replace(folder / name)
