"""The command ``python -m benchmarks.gpu``: it runs parts one by one within a time limit, and saves what they found."""

import importlib.metadata
import json
import time
from dataclasses import replace
from pathlib import Path

from benchmarks import machine, report
from benchmarks.gpu.parts import Setting, parts
from benchmarks.gpu.targets import targets
from benchmarks.options import UsageError, bare_parser, installed, numbers
from npformer.backend import cupy_problem

LEAST = 5.0  # seconds; no part begins with less time left
VERDICTS = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}
EXAMPLES = """examples:
  python -m benchmarks.gpu                            about nine minutes on one H200
  python -m benchmarks.gpu --only tests,train --minutes 5
  python -m benchmarks.gpu --against none --out alone

Exit code: 0 all targets hold, 1 a target does not hold or was not measured, 2 it cannot run here."""


def main():
    """Parse, check, run."""
    what = "Run the tests marked gpu and all benchmarks on this GPU, and report which targets hold."
    parser = bare_parser("gpu", what, EXAMPLES, json=False)
    add = parser.add_argument
    add("--minutes", type=numbers(1e-9, 1e9), default=[9.0], help="minutes for everything (default: 9)")
    add("--out", type=Path, default=Path("gpu-results"), help="folder for the results (default: gpu-results)")
    add("--only", default="", help="parts whose names begin with these words, separated by commas (default: all)")
    add("--against", choices=("torch", "none"), default="torch", help="the peer (default: torch)")
    args = parser.parse_args()
    try:
        chosen = wanted(args.only, args.against == "torch")
        check(args.against == "torch")
        make_folder(args.out)
    except UsageError as error:
        parser.error(str(error))
    environment, removed = machine.contenders_environment()
    about = machine.describe(removed, "cupy", ["float32", "tf32"])
    setting = Setting(60 * args.minutes[0], args.out, environment, args.against == "torch")
    document = run(chosen, setting, about, lambda text: print(text, flush=True))
    print(f"\n{targets_table(document['targets'])}\n\nwritten: {args.out / 'results.json'}")
    return 0 if all(target["holds"] for target in document["targets"]) else 1


def wanted(only, torch):
    """The requested parts. Raises UsageError for unknown names."""
    beginnings = tuple(name.strip() for name in only.split(","))
    known = [part for part in parts() if torch or not part.name.startswith("against ")]
    for name in beginnings:
        if not any(part.name.startswith(name) for part in known):
            names = ", ".join(part.name for part in known)
            raise UsageError(f"--only: expected beginnings of {names}, separated by commas, got {name!r}")
    return [part for part in known if part.name.startswith(beginnings)]


def check(torch):
    """Raise UsageError with the missing part unless a GPU is usable; PyTorch, if wanted, must be built for CUDA."""
    if problem := cupy_problem():
        raise UsageError(problem)
    if torch and (not installed("torch") or "+cpu" in importlib.metadata.version("torch")):
        raise UsageError("--against torch: expected a build of PyTorch for CUDA; or use --against none")


def make_folder(path):
    """Create the folder. Raises UsageError if it holds results."""
    if (path / "results.json").exists():
        raise UsageError(
            f"--out: expected a folder without results, got {path}; choose another folder, since nothing is overwritten"
        )
    path.mkdir(parents=True, exist_ok=True)


def run(parts, setting, about, say, now=time.monotonic):
    """Do parts in setting.seconds; results.json in setting.folder is whole after each.

    A part that fails or exceeds its time limit does not stop the next ones.
    """
    start, results = now(), dict(setting.results)
    states = [{"part": part.name, "state": "NOT BEGUN", "seconds": 0.0, "said": ""} for part in parts]
    document = {"benchmark": "gpu", "machine": dict(about), "parts": states, "results": results, "targets": []}
    write(document, setting.folder)
    for part, state in zip(parts, states, strict=True):
        began, left = now(), setting.seconds - (now() - start)
        if left < LEAST:
            continue
        allowed = min(part.seconds, left)
        state |= {"state": "OUT OF TIME", "said": "interrupted"}  # stays in the file if this process ends here
        write(document, setting.folder)
        try:
            results[part.name] = part.do(replace(setting, seconds=allowed, results=results))
            state |= {"state": "done", "said": ""}
        except Exception as error:
            late = now() - began >= allowed
            state |= {"state": "OUT OF TIME" if late else "FAILED", "said": f"{type(error).__name__}: {error}"}
        state["seconds"] = now() - began
        write(document, setting.folder)
        last = state["said"].rpartition("\n")[2].strip()
        say(f"{part.name:<22} {state['state']:<12} {state['seconds']:6.1f} s  {last}".rstrip())
    return document


def write(document, folder):
    """Write the file atomically, with the targets judged again."""
    document["targets"] = [target._asdict() for target in targets(document["results"])]
    half = folder / "results.json.new"
    half.write_text(json.dumps(document, indent=1), encoding="utf-8")
    half.replace(folder / "results.json")


def targets_table(targets):
    """The table of targets: wanted, found, and whether each holds."""
    rows = [[target["what"], target["wanted"], target["found"] or "–", VERDICTS[target["holds"]]] for target in targets]
    held = sum(bool(target["holds"]) for target in targets)
    return f"{report.table(('target', 'wanted', 'found', ''), rows)}\n{held} of {len(targets)} targets hold"


if __name__ == "__main__":
    raise SystemExit(main())
