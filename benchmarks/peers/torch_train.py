"""PyTorch's training step: forward, loss, backward, Adam, and the loss read back.

On a GPU several steps are queued before the host waits, and their losses are read together. The batch is
already on the device. Each step's loss is copied, since a captured graph overwrites it in the next step.
"""

import time
from functools import partial

import torch
import torch._dynamo  # the first optimiser imports it; here it counts as an import, not as memory in use
import torch.nn.functional as F  # noqa: N812
from safetensors.numpy import load_file

from benchmarks.peers.torch_device import about, autocast, place, seen, waiting
from benchmarks.peers.torch_model import Fused, Textbook, Transformer
from benchmarks.tasks import PREPARED, TOGETHER, Contender
from npformer.models.presets import PRESETS


def _contender(form, fused, mode, size, dropout, device, weights, precision="float32") -> Contender:
    net = Transformer(PRESETS[size], dropout, form).load(load_file(weights))
    return _Training(net, size, device, precision, fused, mode).contender()


#: Attention written out, Adam with its defaults.
textbook = partial(_contender, Textbook, False, None)
#: The fastest eager form: few products, scaled_dot_product_attention, fused Adam.
fast = partial(_contender, Fused, True, None)
#: The same through torch.compile.
compiled = partial(_contender, Fused, True, "default")
#: The same through torch.compile with mode="reduce-overhead": forward and backward as CUDA graphs.
reduce_overhead = partial(_contender, Fused, True, "reduce-overhead")


class _Training:
    """A network that trains on one batch; mode: torch.compile's mode, None for eager."""

    def __init__(self, net, size, device, precision, fused, mode):
        self.at, self.precision, self.together = place(device, precision), precision, TOGETHER[device]
        self.net = net.to(self.at)
        self.adam = torch.optim.Adam(self.net.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)
        self.batch = tuple(torch.from_numpy(each).to(self.at) for each in PRESETS[size].example_batch())
        self.captured = mode == "reduce-overhead"
        self.forward = self.loss if mode is None else torch.compile(self.loss, mode=mode)

    def loss(self):
        src, tgt_in, tgt_out = self.batch
        with autocast(self.at, self.precision):
            return F.cross_entropy(self.net(src, tgt_in).flatten(0, 1), tgt_out.flatten(), ignore_index=0)

    def step(self):
        if self.captured:
            torch.compiler.cudagraph_mark_step_begin()
        self.adam.zero_grad(set_to_none=True)
        value = self.forward()
        value.backward()
        self.adam.step()
        return value.detach().clone()

    def steps(self):
        return torch.stack([self.step() for _ in range(self.together)]).tolist()

    def contender(self) -> Contender:
        self.net.eval()
        with torch.inference_mode():
            facts = {"loss": self.loss().item()}
        self.net.train()
        if self.together > 1:
            start = time.perf_counter()
            for _ in range(PREPARED):
                self.steps()  # compiles, captures
            facts["ready_seconds"] = time.perf_counter() - start
        task = self.steps if self.together > 1 else lambda: self.step().item()
        return Contender(
            about(), {"step": lambda: task}, facts, waiting(self.at), self.together,
            lambda: seen(self.at, self.step),
        )  # fmt: skip
