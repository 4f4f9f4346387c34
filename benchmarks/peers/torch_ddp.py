"""PyTorch's training step in several processes of one thread each: DistributedDataParallel over gloo.

Each process has its rows of the batch. The gradients are views of the buckets that are reduced, and the order in which
gradients come is known after the first step, as PyTorch's notes advise for speed.
"""

import os
import tempfile
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed
import torch.nn.functional as F  # noqa: N812
from safetensors.numpy import load_file
from torch.nn.parallel import DistributedDataParallel

from benchmarks.group import take_core, together
from benchmarks.peers.torch_model import Fused, Textbook, Transformer
from npformer.models.presets import PRESETS

FORMS = {"textbook": (Textbook, False), "fast": (Fused, True)}


def train(form, size, dropout, weights, processes):
    """A contender of so many processes."""
    meeting = str(Path(tempfile.mkdtemp(prefix="group-")) / "ranks")
    options = {"form": form, "size": size, "dropout": dropout, "weights": weights, "meeting": meeting}
    about = {"backend": f"torch {torch.__version__}, gloo", "threads": f"{processes} of 1"}
    return together(processes, [], "benchmarks.peers.torch_ddp:rank", options, about)


def rank(form, size, dropout, weights, meeting):
    """One of them; see ``group``."""
    number, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    take_core(number)
    torch.set_num_threads(1)
    torch.manual_seed(number)
    wait = timedelta(seconds=600)
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=number, world_size=count, timeout=wait)
    kind, fused = FORMS[form]
    net = Transformer(PRESETS[size], dropout, kind).load(load_file(weights))
    width = PRESETS[size].batch // count
    own = slice(number * width, (number + 1) * width)
    src, tgt_in, tgt_out = (torch.from_numpy(each[own]) for each in PRESETS[size].example_batch())

    def loss(of):
        return F.cross_entropy(of(src, tgt_in).flatten(0, 1), tgt_out.flatten(), ignore_index=0)

    net.eval()
    with torch.inference_mode():
        first = loss(net).item()
    net.train()
    parallel = DistributedDataParallel(net, gradient_as_bucket_view=True, static_graph=True)
    adam = torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)

    def step():
        adam.zero_grad(set_to_none=False)
        value = loss(parallel)
        value.backward()
        adam.step()
        return value.item()

    return number, {"loss": first}, step, dict


textbook, fast = partial(train, "textbook"), partial(train, "fast")
