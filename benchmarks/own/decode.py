"""npformer's greedy decoding of a fixed number of tokens, and both searches of a trained run."""

from pathlib import Path

import npformer as npf
from benchmarks.harness import Contender
from benchmarks.own.gpu import noted_launches, of_a_token
from benchmarks.own.model import NO_END, about, backend, decoding_model, sources
from npformer.models import Transformer
from npformer.models.presets import PRESETS
from npformer.run import RunDirectory
from npformer.run.assemble import assemble
from npformer.run.config_file import read_toml
from npformer.run.options import SECTIONS
from npformer.run.trained import read_trained


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


def trained(run, beam, batches, texts, max_len):
    """Tasks "batch 1" and so on: decode held-out texts of a run, batch by batch; beam: hypotheses, or None for greedy.

    Raises ValueError for a run whose model does not translate.
    """
    place = RunDirectory.open(Path(run))
    model = read_trained(place, "numpy").model
    if not isinstance(model, Transformer):
        raise ValueError(f"{run}: expected a run whose model translates, such as numbers, got {type(model).__name__}")
    task = assemble(read_toml(place.config_path, SECTIONS)).task
    src = task.collate(task.held_out(texts))[0]

    def make(batch):
        def run():
            for start in range(0, len(src), batch):
                part = src[start : start + batch]
                if beam:
                    npf.beam_search(model, part, max_len, beam=beam)
                else:
                    npf.greedy(model, part, max_len)

        return run

    return Contender({}, {f"batch {batch}": lambda batch=batch: make(batch) for batch in batches})
