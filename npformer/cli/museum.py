"""npformer museum: real bugs, and others of their kind, put into the correct code; and the checks that find them."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npformer.cli.common import new_parser
from npformer.errors import ConfigError
from npformer.lab.museum import text
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.checks import all_checks
from npformer.lab.museum.demonstration import Comparison, compare
from npformer.lab.museum.detections import TEST_GUARD, Detections, detection_table, examine
from npformer.lab.mutation_testing import SURVIVED, mutation_test, summary
from npformer.seconds import now, since
from npformer.visible import visible

EXAMPLES = """examples:
  npformer museum                                every bug against every check, in minutes
  npformer museum list                           the list of bugs
  npformer museum show causal-off                one bug explained, with a picture of its effect
  npformer museum --only dropout                 the bugs with dropout in id, category or title
  npformer museum --without causality            bugs that survive without that check
  npformer museum mutants                        every single mistake that a change of the syntax tree makes, 760 in all
  npformer museum mutants --sample 60            a random sample of them

Each bug is a small change of npformer's own code, undone afterwards. Exit 1 if a bug survives."""

ACTIONS = ("list", "show", "mutants")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add this command's parser."""
    parser = new_parser(commands, "museum", "Show backward bugs, their effects, and which check finds each.", EXAMPLES)
    parser.add_argument(
        "action",
        nargs="?",
        choices=ACTIONS,
        help="list the bugs, show one, or try generic mistakes; default: run all checks on all bugs",
    )
    parser.add_argument("id", nargs="?", help="the bug to show")
    parser.add_argument("--only", metavar="TEXT", default="", help="only bugs with TEXT in id, category or title")
    parser.add_argument("--without", metavar="CHECK", action="append", default=[], help="leave a check out")
    parser.add_argument("--sample", metavar="N", type=int, help="with `mutants`: try N of them, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="the seed of --sample")
    parser.add_argument("--picture", metavar="FILE.png", type=Path, help="picture of show (default: museum-ID.png)")
    return parser


def run(args: argparse.Namespace) -> int:
    """Exit 1 if a bug survives."""
    _expect_sense(args)
    if args.action == "show":
        return _show(bug(args.id), args.picture, args.json)
    if args.action == "mutants":
        return _mutants(args)
    chosen = [one for one in BUGS if one.matches(args.only)]
    if not chosen:
        raise ConfigError(f"--only: expected a part of an id, category or title, such as softmax, got {args.only!r}")
    if args.action == "list":
        return _list(chosen, args.json)
    return _try_all(chosen, args.without, args.json)


def _expect_sense(args: argparse.Namespace) -> None:
    """Raise ConfigError for arguments that do not go together."""
    if args.action == "show" and args.id is None:
        raise ConfigError("show: expected the id of a bug, got none; npformer museum list shows them")
    if args.action != "show" and (args.id is not None or args.picture is not None):
        raise ConfigError("an id and --picture: expected only with `show`; try npformer museum show ID")
    if args.action != "mutants" and args.sample is not None:
        raise ConfigError("--sample: expected only with `mutants`; try npformer museum mutants --sample 60")
    if args.action == "mutants" and (args.only or args.without):
        raise ConfigError("mutants: expected neither --only nor --without, which choose among the bugs")
    if args.sample is not None and args.sample < 1:
        raise ConfigError(f"--sample: expected an integer >= 1, got {args.sample}")
    known = [check.name for check in all_checks()] + [TEST_GUARD]
    for name in args.without:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
            raise ConfigError(f"--without: expected the name of a check, got {name!r}; the nearest: {', '.join(near)}")


def _list(chosen: Sequence[Bug], as_json: bool) -> int:
    rows = [
        {"id": one.id, "category": one.category, "title": one.title, "sources": list(one.sources)} for one in chosen
    ]
    print(json.dumps({"bugs": rows}) if as_json else text.listing(chosen))
    return 0


def _try_all(chosen: Sequence[Bug], without: Sequence[str], as_json: bool) -> int:
    start = now()
    if not as_json:
        print(
            f"bugs to try: {len(chosen)}, each with all checks that run the changed code",
            flush=True,
        )
    table: list[Detections] = []
    for detections in detection_table(chosen):
        if not as_json:
            if not table or table[-1].bug.category != detections.bug.category:
                print(text.heading(detections.bug.category))
            print(text.row(detections), flush=True)
        table.append(detections)
    survivors = [detections.bug.id for detections in table if detections.survives(without)]
    if as_json:
        rows = [detections.to_dict() for detections in table]
        print(json.dumps({"ok": not survivors, "without": list(without), "survivors": survivors, "bugs": rows}))
    else:
        print(text.verdict(table, without, since(start)))
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
        print(text.mutation_table(outcomes, counts, seconds))
    return 1 if survivors else 0


def _show(one: Bug, picture: Path | None, as_json: bool) -> int:
    place = None if one.run is None else picture or Path(f"museum-{one.id}.png")
    if place is not None:
        from npformer.plotting.canvas import check_place  # matplotlib: only when needed

        check_place(place)  # before the work, not after it
    detections = examine(one)
    comparison = None if place is None else _draw(one, place)
    if as_json:
        shown = {"training": comparison and comparison.to_dict(), "picture": place and str(place), "story": one.story}
        formulas = {"right": one.right, "wrong": one.wrong, "seen": one.seen, "instead": one.instead}
        print(json.dumps(detections.to_dict() | formulas | shown))
    else:
        print(text.label(one, detections, comparison, None if place is None else visible(place)))
    return 1 if detections.survives() else 0


def _draw(one: Bug, place: Path) -> Comparison:
    from npformer.plotting.comparison import draw_comparison

    comparison = compare(one)
    ends = f"after {len(comparison.right.losses)} steps"
    notes = [f"right: {one.right}", f"wrong: {one.wrong}"]
    notes += [f"{ends}, right: {comparison.right}", f"{ends}, wrong: {comparison.wrong}"]
    title = one.title[0].upper() + one.title[1:]
    draw_comparison(comparison.right.losses, comparison.wrong.losses, place, title, notes)
    return comparison
