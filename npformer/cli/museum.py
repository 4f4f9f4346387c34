"""npformer museum: real bugs, and others of their kind, put into the correct code; and the checks that find them."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from npformer.cli.common import expect_at_least_1, new_parser, say, tell
from npformer.errors import ConfigError
from npformer.io.printable import visible
from npformer.io.progress_bar import Bar
from npformer.io.seconds import now, since
from npformer.lab.mistake import Mistake
from npformer.lab.museum import text
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.checks import all_checks
from npformer.lab.museum.demonstration import Comparison
from npformer.lab.museum.detections import TEST_GUARD, Detections, detection_table
from npformer.lab.museum.stored import made, stored
from npformer.lab.mutation_testing import SURVIVED, mutation_test, summary
from npformer.plotting.curves import draw_comparison
from npformer.plotting.svg import check_place

SUMMARY = "Show backward bugs, their effects, and which check finds each."
EXAMPLES = """examples:
  npformer museum                          every bug against every check, in about a minute
  npformer museum list                     the list of bugs
  npformer museum show causal-off          one bug explained, with a picture of its effect
  npformer museum --only dropout           the bugs with dropout in id, category or title
  npformer museum --without clipping       bugs that survive without that check
  npformer museum mutants --sample 60      a sample of all single mistakes

Each bug is a small change of npformer's own code, undone afterwards. Exit 1 if a bug survives."""

LIST_EXAMPLES = """examples:
  npformer museum list
  npformer museum list --only noam"""

SHOW_EXAMPLES = """examples:
  npformer museum show causal-off
  npformer museum show causal-off --picture effect.svg
  npformer museum show causal-off --fresh

The text says what is right, what is wrong and why, which checks notice the bug, and how short runs with it and without
it end, with three seeds. The picture compares the first two. All is stored; --fresh runs the checks and trains again.
Exit 1 if the bug survives."""

MUTANTS_EXAMPLES = """examples:
  npformer museum mutants                  every single mistake that syntax trees allow
  npformer museum mutants --sample 60      a random sample of them

A mutant is a backward with a single mistake, made from its syntax tree. Exit 1 if one survives the gradient check
although it changes a gradient."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options and its parts."""
    _add_only(parser, "")
    parser.add_argument("--without", metavar="CHECK", action="append", default=[], help="leave a check out")
    parts = parser.add_subparsers(
        dest="part", metavar="[list | show | mutants]", title="parts", description="each has its own --help"
    )
    one = new_parser(parts, "list", "List the bugs.", LIST_EXAMPLES)
    _add_only(one, argparse.SUPPRESS)
    show = new_parser(parts, "show", "Explain one bug, and draw its effect.", SHOW_EXAMPLES)
    show.add_argument("id", help="the bug; npformer museum list shows all")
    show.add_argument("--picture", metavar="FILE.svg", type=Path, help="where to draw (default: museum-ID.svg)")
    show.add_argument("--fresh", action="store_true", help="run the checks and train, instead of what is stored")
    mutants = new_parser(parts, "mutants", "Try generic mistakes in every backward.", MUTANTS_EXAMPLES)
    mutants.add_argument("--sample", metavar="N", type=int, help="try N of them, chosen at random")
    mutants.add_argument("--seed", type=int, default=0, help="the seed of --sample (default: 0)")
    for each in (one, show, mutants):
        each.set_defaults(parser=each)


def _add_only(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--only", metavar="TEXT", default=default, help="only bugs with TEXT in id, category or title")


def run(args: argparse.Namespace) -> int:
    """Exit 1 if a bug survives."""
    _expect_sense(args)
    if args.part == "show":
        return _show(bug(args.id), args)
    if args.part == "mutants":
        return _mutants(args)
    chosen = [one for one in BUGS if one.matches(args.only)]
    if not chosen:
        raise ConfigError(f"--only: expected a part of an id, category or title, such as softmax, got {args.only!r}")
    if args.part == "list":
        return _list(chosen, args.json)
    return _try_all(chosen, args.without, args.json)


def _expect_sense(args: argparse.Namespace) -> None:
    """Raise ConfigError for arguments that do not go together."""
    if args.without and args.part:
        raise ConfigError(
            f"--without: expected no {args.part} beside it; it belongs to npformer museum --without CHECK"
        )
    if args.only and args.part in ("show", "mutants"):
        raise ConfigError(f"--only: expected no {args.part} beside it; it chooses among the bugs to try or to list")
    if args.part == "mutants":
        expect_at_least_1(args, "sample")
    known = [check.name for check in all_checks()] + [TEST_GUARD] if args.without else []
    for name in args.without:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
            raise ConfigError(f"--without: expected the name of a check, got {name!r}; the nearest: {', '.join(near)}")


def _list(chosen: Sequence[Mistake], as_json: bool) -> int:
    rows = [
        {"id": one.id, "category": one.category, "title": one.title, "sources": list(one.sources)} for one in chosen
    ]
    print(json.dumps({"bugs": rows}) if as_json else text.listing(chosen))
    return 0


def _try_all(chosen: Sequence[Mistake], without: Sequence[str], as_json: bool) -> int:
    start = now()
    if not as_json:
        print(f"bugs to try: {len(chosen)}, with all checks that run the changed code", flush=True)
    table: list[Detections] = []
    with Bar("bugs", len(chosen)) as bar:
        bar.note("first the checks without a bug")
        for detections in detection_table(chosen):
            if not as_json:
                if not table or table[-1].bug.category != detections.bug.category:
                    tell(text.heading(detections.bug.category))
                tell(text.row(detections))
            table.append(detections)
            bar.move()
            bar.note(detections.bug.id)
    survivors = [detections.bug.id for detections in table if detections.survives(without)]
    if as_json:
        rows = [detections.to_dict() for detections in table]
        print(json.dumps({"ok": not survivors, "without": list(without), "survivors": survivors, "bugs": rows}))
    else:
        tell(text.verdict(table, without, since(start)))
    return 1 if survivors else 0


def _mutants(args: argparse.Namespace) -> int:
    """Every version of every backward with a single mistake, and its outcome."""
    start = now()
    outcomes = mutation_test(args.sample, args.seed)
    counts, seconds = summary(outcomes), since(start)
    survivors = [outcome for outcome in outcomes if outcome.fate == SURVIVED]
    if args.json:
        rows = [asdict(outcome) | {"judgement": outcome.judgement} for outcome in outcomes]
        print(json.dumps({"ok": not survivors, "summary": counts, "mutants": rows}, ensure_ascii=False))
    else:
        tell(text.mutation_table(outcomes, counts, seconds))
    return 1 if survivors else 0


def _show(one: Mistake, args: argparse.Namespace) -> int:
    place = None if one.run is None else args.picture or Path(f"museum-{one.id}.svg")
    if place is not None:
        check_place(place)  # before the work, not after it
    if not args.json:
        tell(text.label(one) + "\n")
    known = None if args.fresh else stored(one)
    if known is None and not args.fresh:
        say(f"{one.id}: nothing is stored of this bug as it is now, so the checks and the two runs begin")
    detections, comparison = known or made(one)
    if not args.json:
        tell(text.findings(one, detections, comparison))
    if place is not None and comparison is not None:
        _draw(one, comparison, place)
    if args.json:
        shown = {"training": comparison and comparison.to_dict(), "picture": place and str(place), "story": one.story}
        formulas = {"right": one.right, "wrong": one.wrong, "seen": one.seen, "instead": one.instead}
        print(json.dumps(detections.to_dict() | formulas | shown | {"stored": known is not None}))
    elif place is not None:
        print(f"  picture {visible(place)}")
    return 1 if detections.survives() else 0


def _draw(one: Mistake, comparison: Comparison, place: Path) -> None:
    ends = f"after {len(comparison.right.losses)} steps"
    notes = [f"right: {one.right}", f"wrong: {one.wrong}"]
    notes += [f"{ends}, {name}: {told}" for name, told in zip(("right", "wrong"), comparison.told, strict=True)]
    draw_comparison(comparison.right.losses, comparison.wrong.losses, place, one.heading, notes)
