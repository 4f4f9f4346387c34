"""npformer museum: real bugs, and others of their kind, as changes of the correct code; and what finds them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npformer.cli.common import expect_at_least_1, finished, new_parser
from npformer.errors import ConfigError
from npformer.io.printable import visible
from npformer.io.seconds import now, since
from npformer.lab.mistake import Mistake
from npformer.lab.museum import text
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.stored import STEPS, Comparison, Exhibit, stored
from npformer.lab.mutation_testing import SURVIVED, mutation_test, summary
from npformer.see.plot.charts import draw_comparison

SUMMARY = "Show backward bugs, their effects, and what finds each."
EXAMPLES = """examples:
  npformer museum                          every bug, and what finds it
  npformer museum show causal-off          one bug explained, with a picture of its effect
  npformer museum --only dropout           the bugs with dropout in id, category or title
  npformer museum mutants --sample 60      a sample of all single mistakes

Each bug is a small change of npformer's own code. python -m benchmarks.museum puts it in, asks the gradient check, the
invariants of npformer certify and the numbers of the right program, and stores what each finds first."""

SHOW_EXAMPLES = """examples:
  npformer museum show causal-off
  npformer museum show causal-off --picture effect.svg

The text says what is right, what is wrong and why, what finds the bug, and how short runs with it and without it end,
with three seeds. The picture compares the first two. All is stored."""

MUTANTS_EXAMPLES = """examples:
  npformer museum mutants                  every single mistake that syntax trees allow
  npformer museum mutants --sample 60      a random sample of them

A mutant is a backward with a single mistake, made from its syntax tree. Exit 1 if one survives the gradient check
although it changes a gradient."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options and its parts."""
    parser.add_argument("--only", metavar="TEXT", default="", help="only bugs with TEXT in id, category or title")
    parts = parser.add_subparsers(
        dest="part", metavar="[show | mutants]", title="parts", description="each has its own --help"
    )
    show = new_parser(parts, "show", "Explain one bug, and draw its effect.", SHOW_EXAMPLES)
    show.add_argument("id", help="the bug; npformer museum lists all")
    show.add_argument("--picture", metavar="FILE.svg", type=Path, help="where to draw (default: museum-ID.svg)")
    mutants = new_parser(parts, "mutants", "Try generic mistakes in every backward.", MUTANTS_EXAMPLES)
    mutants.add_argument("--sample", metavar="N", type=int, help="try N of them, chosen at random")
    mutants.add_argument("--seed", type=int, default=0, help="the seed of --sample (default: 0)")
    for each in (show, mutants):
        each.set_defaults(parser=each)


def run(args: argparse.Namespace) -> int:
    """Exit 1 if a mutant survives."""
    if args.only and args.part:
        raise ConfigError(f"--only: expected no {args.part} beside it; it chooses among the bugs to list")
    if args.part == "show":
        return _show(bug(args.id), args)
    if args.part == "mutants":
        expect_at_least_1(args, "sample")
        return _mutants(args)
    chosen = [one for one in BUGS if one.matches(args.only)]
    if not chosen:
        raise ConfigError(f"--only: expected a part of an id, category or title, such as softmax, got {args.only!r}")
    exhibits = {one.id: stored(one) for one in chosen}
    bugs = [_named(one) | _found(exhibits[one.id]) for one in chosen]
    return finished(args, {"bugs": bugs}, text.listing(chosen, exhibits))


def _named(one: Mistake) -> dict[str, Any]:
    return {"id": one.id, "category": one.category, "title": one.title}


def _found(exhibit: Exhibit) -> dict[str, Any]:
    return {name: getattr(exhibit, name) for name in ("found_by", "says", "diagnosis")}


def _mutants(args: argparse.Namespace) -> int:
    """Every version of every backward with a single mistake, and its result."""
    start = now()
    results = mutation_test(args.sample, args.seed)
    counts, seconds = summary(results), since(start)
    survivors = [result for result in results if result.outcome == SURVIVED]
    rows = [asdict(result) | {"judgement": result.judgement} for result in results]
    told = {"ok": not survivors, "summary": counts, "mutants": rows}
    return finished(args, told, text.mutation_table(results, counts, seconds), not survivors)


def _show(one: Mistake, args: argparse.Namespace) -> int:
    exhibit, place = stored(one), None
    runs = exhibit.comparison
    if runs is not None:
        place = args.picture or Path(f"museum-{one.id}.svg")
        _draw(one, runs, place)
    said = {name: getattr(one, name) for name in ("right", "wrong", "seen", "story", "instead")}
    training = runs and {name: course.to_dict() for name, course in runs._asdict().items()}
    told = _named(one) | _found(exhibit) | said | {"training": training, "picture": place and str(place)}
    picture = "" if place is None else f"\n  picture {visible(place)}"
    return finished(args, told, f"{text.label(one)}\n\n{text.findings(one, exhibit)}{picture}")


def _draw(one: Mistake, runs: Comparison, place: Path) -> None:
    notes = [f"right: {one.right}", f"wrong: {one.wrong}"]
    notes += [f"after {STEPS} steps, {name}: {course}" for name, course in runs._asdict().items()]
    draw_comparison(runs.right.losses, runs.wrong.losses, place, one.heading, notes)
