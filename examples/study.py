# %% [markdown]
# # A gradient, a model, a run
#
# Five things that npformer shows in a notebook: a check, claims, a model, a trace and the report of a run.
# `pip install -e '.[notebook]'` brings a kernel. This notebook is made of `examples/study.py`.

# %%
import tempfile
from pathlib import Path

import numpy as np

import npformer as npf
from npformer.cli.main import main as npformer

npf.get_backend()

# %% [markdown]
# ## A gradient of your own
#
# A norm that only divides: $y = x / \sqrt{\mathrm{mean}(x^2)}$, over the last axis. Its backward is derived by hand.
# The check holds it against the complex step and the central difference.


# %%
def rms_norm(x):
    r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True))
    return r * x, (r * x, r)


def rms_norm_backward(dy, cache):
    y, r = cache
    return r * (dy - y * np.mean(dy * y, axis=-1, keepdims=True))


x = np.random.default_rng(0).normal(size=(2, 3, 4))
npf.gradcheck((rms_norm, rms_norm_backward), x)

# %% [markdown]
# The second term is what $y$ loses because $r$ depends on $x$. Forget a factor in it, and the check says which one.


# %%
def forgetful_backward(dy, cache):
    y, r = cache
    return r * (dy - y * np.mean(dy, axis=-1, keepdims=True))


npf.gradcheck((rms_norm, forgetful_backward), x)

# %% [markdown]
# ## A model
#
# Its parts, with the shapes of their parameters. Equal layers stand there once.

# %%
sizes = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 2, "num_decoder_layers": 2, "max_seq_len": 6}
config = npf.TransformerConfig(src_vocab_size=11, tgt_vocab_size=11, **sizes)
model = npf.Transformer(config, backend=npf.get_backend("numpy", dtype="float64"))
model

# %% [markdown]
# A gradient check cannot see whether a position looks ahead, or whether padding leaks. `certify` asks for such
# properties.

# %%
src, tgt_in = np.array([[3, 4, 5], [6, 7, 0]]), np.array([[1, 5, 4], [1, 7, 0]])
npf.certify(model, src, tgt_in)

# %% [markdown]
# ## A trace
#
# Every number of one forward and one backward. Point at a gradient: it is a sum, and its terms are shown. The arrow
# keys step through the calls.

# %%
npf.trace((rms_norm, rms_norm_backward), x, name="a norm that only divides")

# %% [markdown]
# ## A run
#
# In a cell, `!npformer train reverse` does the same as the call below. The run's report is the page that
# `npformer report` writes.

# %%
folder = Path(tempfile.mkdtemp(), "study")
sizes = ("d_model=32", "d_ff=64", "num_heads=2", "num_encoder_layers=1", "steps=300")
code = npformer(["train", "reverse", "--out", str(folder), *(f"--set={size}" for size in sizes)])

# %%
npf.read_run(folder)
