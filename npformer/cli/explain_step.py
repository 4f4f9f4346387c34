"""npformer explain adam, step and sizes, and of a run --step: what an update does, and how large gradients are."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from npformer.cli.common import tell
from npformer.errors import ConfigError
from npformer.explain.again import ready
from npformer.explain.change import change_of
from npformer.explain.change_text import change_document, change_lines
from npformer.explain.made import Made, made
from npformer.explain.place import find_parameter
from npformer.explain.sizes import sizes
from npformer.explain.sizes_text import sizes_lines
from npformer.explain.text import WIDEST
from npformer.explain.update import Update
from npformer.explain.update_text import course_lines, number_lines
from npformer.io import progress_bar
from npformer.io.printable import visible
from npformer.io.terminal import columns, counted
from npformer.optim import Adam
from npformer.tracing.showcase import PIECES, showcase_model
from npformer.training.step import TrainStep

#: The number that ``explain adam`` shows unless another is asked for, and the updates of its course.
PLACE = "decoder.layers.0.self_attention.query.weight[3,1]"
COURSE = (1, 2, 3, 4, 5, 10, 20, 40)
RATE, CLIP_NORM = 1e-2, 1.0


def _expect_alone(args: argparse.Namespace, also: str = "") -> None:
    """Raise ConfigError for options that have no meaning here."""
    odd = [f"--{name}" for name in ("html", "up", "text", "answer", "best", also) if name and getattr(args, name)]
    if odd:
        raise ConfigError(f"{', '.join(odd)}: expected none beside adam, step, sizes or --step; leave it out")


def explain_adam(args: argparse.Namespace) -> int:
    """One number through the second update, and its course over many."""
    _expect_alone(args)
    step, batch = _showcase()
    shown = [one for one in (made(step, batch) for _ in range(COURSE[-1])) if one.number in COURSE]
    name, place = _place(shown[0], args.at or PLACE)
    course = [one.update.at(place) for one in shown]
    lines = [
        "the showcase's model, trained on its one batch",
        *_number(shown[1], course[1], name),
        "",
        *course_lines(course, columns(WIDEST)),
    ]
    _show(args, lines, {"format": "npformer-adam", "at": name, "updates": [u._asdict() for u in course]})
    return 0


def explain_step(args: argparse.Namespace) -> int:
    """The first step of the showcase's model."""
    _expect_alone(args)
    step, batch = _showcase()
    return _explain(args, made(step, batch), "the showcase's model", PIECES)


def explain_sizes(args: argparse.Namespace) -> int:
    """How large gradients are, and what makes them vanish or explode."""
    _expect_alone(args, "at")
    found = sizes()
    _show(args, sizes_lines(found, columns(WIDEST)), {"format": "npformer-sizes", **found._asdict()})
    return 0


SUBJECTS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "adam": explain_adam, "step": explain_step, "sizes": explain_sizes,
}  # fmt: skip


def explain_step_of_run(args: argparse.Namespace) -> int:
    """A step of a run, made again."""
    _expect_alone(args)
    path = Path(args.target or "")
    if not args.target or not path.is_dir():
        raise ConfigError(f"--step: expected the folder of a run as TARGET, got {args.target or 'none'}")
    begun = ready(path, args.step)
    steps = counted(begun.number - begun.begins, "step")
    takes = "" if begun.seconds is None else f", which takes about {max(1, round(begun.seconds))} s"
    progress_bar.say(f"step {begun.number} is made again: {steps} from step {begun.begins}{takes}", sys.stderr)
    return _explain(args, begun.make(), str(path), begun.pieces)


def _showcase() -> tuple[TrainStep, tuple[Any, ...]]:
    """A training step of the showcase's model, and the one batch on which it is trained."""
    model, inputs, targets, _ = showcase_model()
    return TrainStep(model, Adam(model.arena, RATE), clip_norm=CLIP_NORM), (*inputs, targets)


def _explain(args: argparse.Namespace, one: Made, name: str, pieces: tuple[str, ...]) -> int:
    place = _place(one, args.at) if args.at else None
    change, width = change_of(one), columns(WIDEST)
    lines, document = [*change_lines(change, visible(name), pieces, width)], change_document(change, pieces)
    if place:
        number = one.update.at(place[1])
        lines += ["", *_number(one, number, place[0])]
        document["number"] = {"at": place[0], **number._asdict()}
    _show(args, lines, document)
    return 0


def _number(one: Made, update: Update, name: str) -> list[str]:
    return [*number_lines(update, name, one.twin.clip_norm, one.twin.optimizer.eps, columns(WIDEST))]


def _place(one: Made, text: str) -> tuple[str, int]:
    name, index = find_parameter({name: p.data for name, p in one.twin.model.named_parameters()}, text)
    return f"{name}[{','.join(map(str, index))}]", one.place_of(name, index)


def _show(args: argparse.Namespace, lines: Iterable[str], document: Mapping[str, Any]) -> None:
    if args.json:
        print(json.dumps(document))
    else:
        tell("\n".join(lines))
