"""npformer's greedy decoding of a fixed number of tokens."""

import npformer as npf
from benchmarks.own.model import NO_END, about, backend, decoding_model, sources
from benchmarks.own.on_gpu import noted_launches, of_a_token
from benchmarks.tasks import Contender
from npformer.models.presets import PRESETS


def decode(size, tokens, batches, device, kernels, precision="float32"):
    """Tasks "batch 1" and so on; each returns the output tokens, (B, T) as lists."""
    chosen = backend(device, kernels, precision)
    model = decoding_model(PRESETS[size], chosen)

    graphs = noted_launches(chosen.engine.capture(None, None)._driver) if device == "cupy" else []

    def make(batch):
        src = sources(PRESETS[size], batch)

        def run():
            graphs.clear()  # those of the last texts are counted
            return npf.greedy(model, src, max_len=tokens, eos_id=NO_END).tolist()

        return run

    tasks = {f"batch {batch}": lambda batch=batch: make(batch) for batch in batches}
    return Contender(
        about(chosen), tasks, synchronize=chosen.device.synchronize, on_device=lambda: of_a_token(graphs, tokens)
    )
