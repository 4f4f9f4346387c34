"""What commands print, for the pages: they run in this process, without a terminal."""

import io
import shlex
from contextlib import redirect_stdout

from npformer.cli.main import main

NUMBER = ("explain", "transformer", "--at", "decoder.layers.0.self_attention.query.weight[3,1]")
WALK = ("explain", "transformer-tied", "--at", "src_embedding.weight[4,2]", "--up", "2")
ACTIVATION = ("explain", "transformer-deep", "--at", "encoder.layers.0@output[0,1,2]")
OPERATION = ("explain", "layer_norm")
#: Of an explained operation: where its backward begins and ends.
BACKWARD = ("── backward", "── the gradients")


def printed(words):
    """The output of a command. Raises RuntimeError if it fails."""
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(words)
    if code:
        raise RuntimeError(f"npformer {' '.join(words)}: expected exit code 0, got {code}")
    return out.getvalue()


def block(words, begin="", end="\n"):
    """A command and its output as a block of text: from the line that begins with ``begin`` to the one with ``end``.

    What rounding decides, such as the errors of a gradient check, is left out: it differs from machine to machine.
    """
    lines = printed(words).splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(begin)), 0)
    last = next((i for i, line in enumerate(lines) if line.startswith(end)), len(lines))
    skipped, left = ["…"] if first else [], ["…"] if last < len(lines) else []
    shown = shlex.join(words)
    return "\n".join(["```text", f"$ npformer {shown}", *skipped, *lines[first:last], *left, "```"]) + "\n"
