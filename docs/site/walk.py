"""The walk: one batch through the whole Transformer, forward and back, with every operation's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from docs.site import operations, recordings, traces
from docs.site.formulas import FORMULAS
from docs.site.matrices import tables
from docs.site.places import write
from docs.site.plain_text import sentences
from npformer.tracing.showcase import PIECES, WORDS
from npformer.tracing.trace import Trace

Call = dict[str, Any]


def write_all() -> None:
    """The page."""
    write("walk.md", page())


@cache
def walked() -> Trace:
    """The recorded pass."""
    return recordings.right(recordings.model(recordings.SHOWCASE))


@cache
def steps() -> list[Call]:
    """The calls of operations, in the order of the forward."""
    return [call for call in map(dict, walked().calls) if call["kind"] == "operation"]


def page() -> str:
    """The whole walk."""
    parts = [
        "# The walk: one batch, forward and back",
        "{.lead}\nA Transformer of one encoder layer and one decoder layer reads the words "
        f"{' and '.join(f'“{word}”' for word in WORDS)} and is to write them backwards. It is so small that each of "
        "its numbers fits on this page.",
        f"There are {len(PIECES)} tokens ({', '.join(f'`{piece}`' for piece in PIECES)}), the model is 4 numbers wide "
        f"and has 2 heads. The forward makes {len(steps())} calls of operations; the backward goes through the same "
        "calls from the last to the first. Red numbers are positive, blue ones negative. Every gradient below is "
        "made by the backward that stands on the operation's page.",
        traces.frame(recordings.model(recordings.SHOWCASE), ""),
        f"## Forward\n\n{''.join(forward())}",
        f"## Backward\n\n{loss()}\n\n{''.join(backward())}",
        f"## The gradients of the parameters\n\n{parameters()}",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def loss() -> str:
    """Where the backward begins."""
    return (
        f"The loss is {walked().document['loss']:.4f} nats per token. Backward begins with its gradient with respect "
        "to itself, 1, and goes up the list: each step gets the gradient of its output, and returns those of its "
        "inputs. Where a value was used twice, its gradients add up."
    )


def forward() -> Iterator[str]:
    """The steps in their order, under the names of the layers that call them."""
    layer = None
    for number, call in enumerate(steps(), 1):
        if layer_of(call) != layer:
            layer = layer_of(call)
            yield f"### {heading(layer)}\n\n"
        yield step(number, call, "forward", shown(call, "outputs"))


def backward() -> Iterator[str]:
    """The steps from the last to the first."""
    layer = None
    for number, call in reversed(list(enumerate(steps(), 1))):
        if call["backward"] is None:
            continue
        if layer_of(call) != layer:
            layer = layer_of(call)
            yield f"### Back through {heading(layer)}\n\n"
        yield step(number, call, "backward", shown(call, "upstream") + shown(call, "gradients"))


def step(number: int, call: Call, way: str, numbers: str) -> str:
    """One call: its operation, the formula and the arrays."""
    name = call["type"]
    home = operations.file_of(name)
    formula = "\n\n".join(f"$${line}$$" for line in getattr(FORMULAS[name], way))
    said = f"{sentences(operations.lead(home))}\n\n" if way == "forward" else ""
    head = f"**{number}. [{name.replace('_', ' ')}](operations/{home}.md)**\n\n{said}{formula}"
    return f'::::{{container}} step {way}\n{head}\n\n<div class="arrays">{numbers}</div>\n::::\n\n'


def shown(call: Call, which: str) -> str:
    """The arrays of a call as tables; a single number as one, too."""
    arrays = walked().arrays
    found = [(each["name"], arrays[each["value"]]) for each in call[which] if isinstance(each["value"], str)]
    return "".join(tables(x, name, labels(call, name, x)) for name, x in found if x.dtype.kind == "f" and x.size)


def labels(call: Call, name: str, x: Any) -> list[list[str]] | None:
    """The tokens at the rows of an array, if it has a row for each token of one of the texts."""
    layer = layer_of(call)
    if "cross_attention" in layer:  # keys and values are of the source, queries of the target
        which = {"q": "target_in", "out": "target_in", "k": "source", "v": "source"}.get(name.removeprefix("d"))
    else:
        which = "source" if layer.startswith(("src", "encoder")) else "target_in"
    rows = (walked().document["tokens"] or {}).get(which or "")
    return rows if rows and x.ndim >= 3 and x.shape[0] == len(rows) and x.shape[-2] == len(rows[0]) else None


def layer_of(call: Call) -> str:
    """The dotted name of the layer that calls an operation."""
    calls = {each["id"]: each for each in walked().calls}
    return "loss" if call["parent"] is None else str(calls[call["parent"]]["name"] or walked().document["target"])


def heading(layer: str) -> str:
    """A layer's name, as a title."""
    return f"`{layer}`"


def parameters() -> str:
    """Each parameter's gradient, once all of its uses are added up."""
    arrays = walked().arrays
    shown = "".join(tables(arrays[each["gradient"]], each["name"]) for each in walked().document["parameters"])
    return f'<div class="arrays">{shown}</div>'
