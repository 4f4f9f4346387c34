"""PyTorch's training step: forward, loss, backward, Adam, and the loss read back.

On a GPU several steps are queued before the host waits, and their losses are read together. The batch is
already on the device. Each step's loss is copied, since a captured graph overwrites it in the next step.

A whole step as one CUDA graph, as PyTorch's notes on CUDA say: the first steps run on a stream of their own, gradients
are None when the capture begins, so that backward makes them in the graph's memory, and Adam is capturable, which keeps
its count of steps on the device.

Several processes, of one thread and some rows of the batch each, are DistributedDataParallel over gloo: the gradients
are views of the buckets that are reduced, and the order in which gradients come is known after the first step, as
PyTorch's notes advise for speed.
"""

import itertools
import os
import time
from functools import partial

import torch
import torch._dynamo  # the first optimiser imports it; here it counts as an import, not as memory in use
import torch.distributed
import torch.nn.functional as F  # noqa: N812
from safetensors.numpy import load_file
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import PREPARED, TOGETHER, Contender
from benchmarks.own.model import take_core
from benchmarks.peers.torch_device import about, place, seen, waiting
from benchmarks.peers.torch_model import Fused, Textbook, Transformer
from npformer.models.presets import PRESETS

GRAPH = "one graph"  # in place of a mode of torch.compile
EAGER = 3  # steps before a capture, in which libraries set themselves up


def _contender(form, fused, mode, size, dropout, device, weights, precision="float32", meeting=None):
    """A network that trains on one batch; mode: torch.compile's mode, GRAPH, None for eager.

    meeting: the file by which several processes find each other.
    """
    rank, count = (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])) if meeting else (0, 1)
    if meeting:
        take_core(rank)
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=count)
    torch.manual_seed(rank)
    at, together = place(device, precision), TOGETHER[device]
    net = Transformer(PRESETS[size], dropout, form).load(load_file(weights)).to(at)
    adam = torch.optim.Adam(
        net.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused, capturable=mode == GRAPH
    )
    rows = slice(rank * PRESETS[size].batch // count, (rank + 1) * PRESETS[size].batch // count)
    src, tgt_in, tgt_out = (torch.from_numpy(each[rows]).to(at) for each in PRESETS[size].example_batch())

    def loss(of):
        return F.cross_entropy(of(src, tgt_in).flatten(0, 1), tgt_out.flatten(), ignore_index=0)

    net.eval()
    with torch.inference_mode():
        facts = {"loss": loss(net).item(), "rank": rank}
    net.train()
    trained = DistributedDataParallel(net, gradient_as_bucket_view=True, static_graph=True) if meeting else net
    forward = loss if mode in (None, GRAPH) else torch.compile(loss, mode=mode)

    def step():
        if mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        adam.zero_grad(set_to_none=meeting is None)
        value = forward(trained)
        value.backward()
        adam.step()
        return value.detach().clone()

    if mode == GRAPH:
        step = captured(step, adam)

    def steps():
        return torch.stack([step() for _ in range(together)]).tolist()

    if together > 1:
        start = time.perf_counter()
        for _ in range(PREPARED):
            steps()  # compiles, captures
        facts["ready_seconds"] = time.perf_counter() - start
    task = steps if together > 1 else lambda: step().item()
    return Contender(about(), {"step": lambda: task}, facts, waiting(at), together, lambda: seen(at, step))


def captured(step, adam):
    """The step: EAGER times as it is, on a stream of its own, and from then on as the replay of one CUDA graph."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    losses = []  # of the graph: one, once it is captured

    def eager():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = step()
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def replayed():
        if not losses:
            adam.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph):
                losses.append(step())
        graph.replay()
        return losses[0].clone()

    ways = itertools.chain(itertools.repeat(eager, EAGER), itertools.repeat(replayed))
    return lambda: next(ways)()


#: Attention written out, Adam with its defaults.
textbook = partial(_contender, Textbook, False, None)
#: The fastest eager form: few products, scaled_dot_product_attention, fused Adam.
fast = partial(_contender, Fused, True, None)
#: The same through torch.compile with mode="reduce-overhead": forward and backward as CUDA graphs.
reduce_overhead = partial(_contender, Fused, True, "reduce-overhead")
#: The same as one CUDA graph of the whole step, Adam included.
graph = partial(_contender, Fused, True, GRAPH)
