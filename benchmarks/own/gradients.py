"""Every gradient of a model against NumPy's in float64, tensor by tensor, with float32's error budget."""

import npformer as npf
from benchmarks.own.model import about, backend
from benchmarks.tasks import Contender
from npformer.models.presets import Preset
from npformer.proof import against_float64

SIZE = Preset(vocab_size=40, d_model=64, num_heads=4, num_layers=2, d_ff=256, length=12, batch=8)


def gradients(device, kernels):
    """Task "gradients": {"rows": [{"tensor", "shape", "error", "note", "holds"}], "wrong": how many fail}."""
    chosen = backend(device, kernels)
    src, tgt_in, _ = SIZE.example_batch()
    src[:2, 8:] = 0  # padding
    config = SIZE.config(0.1)

    def compare():
        found = against_float64(
            lambda on: npf.Transformer(config, backend=on, seed=0), (src, tgt_in), {"key": npf.RandomKey(0, 1)}, chosen
        )
        rows = [
            {"tensor": row.tensor, "shape": list(row.shape), "error": row.scaled_error, "note": row.note,
             "holds": row.ok}
            for row in found.rows
        ]  # fmt: skip
        return {"rows": rows, "wrong": sum(not row["holds"] for row in rows)}

    return Contender(about(chosen), {"gradients": lambda: compare})
