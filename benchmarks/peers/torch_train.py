"""PyTorch's training step: forward, loss, backward, Adam, and the loss read back."""

from __future__ import annotations

import torch
import torch._dynamo  # the first optimiser imports it; here it counts as an import, not as memory in use
import torch.nn.functional as F  # noqa: N812
from safetensors.numpy import load_file

from benchmarks.peers.torch_model import Fused, Textbook, Transformer
from benchmarks.tasks import Contender, Task, nothing_to_wait_for
from npformer.models.presets import PRESETS

DEVICES = {"numpy": "cpu", "cupy": "cuda"}


def textbook(size: str, dropout: float, device: str, weights: str) -> Contender:
    """Attention written out, Adam as it comes."""
    net = Transformer(PRESETS[size], dropout, Textbook).load(load_file(weights))
    return _train(net, size, device, fused=False)


def fast(size: str, dropout: float, device: str, weights: str) -> Contender:
    """The fastest eager form: few products, scaled_dot_product_attention, fused Adam."""
    net = Transformer(PRESETS[size], dropout, Fused).load(load_file(weights))
    return _train(net, size, device, fused=True)


def _train(net: Transformer, size: str, device: str, fused: bool) -> Contender:
    place = torch.device(DEVICES[device])
    net = net.to(place)
    adam = torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)
    src, tgt_in, tgt_out = (torch.from_numpy(each).to(place) for each in PRESETS[size].example_batch())

    def loss() -> torch.Tensor:
        return F.cross_entropy(net(src, tgt_in).flatten(0, 1), tgt_out.flatten(), ignore_index=0)

    def step() -> float:
        adam.zero_grad(set_to_none=True)
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        adam.step()
        return value.item()

    net.eval()
    with torch.inference_mode():
        first = loss().item()
    net.train()

    def make() -> Task:
        return step

    wait = torch.cuda.synchronize if place.type == "cuda" else nothing_to_wait_for
    return Contender(about(), {"step": make}, {"loss": first}, wait)


def about() -> dict[str, str]:
    """What a reader wants to know of PyTorch."""
    return {"backend": f"torch {torch.__version__}", "threads": str(torch.get_num_threads())}
