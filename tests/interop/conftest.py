"""The other side of a comparison: the same network out of torch.nn.Transformer's own parts."""

import math
import warnings

import numpy as np
import pytest

import npformer as npf
from npformer.interop.torch import to_state_dict

ADAM = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-9}
SMOOTHING = 0.1


def core_of(torch, config, encoders, decoders, dtype):
    """PyTorch's Transformer of these numbers of layers, without final norms where ours has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nested tensors, an optimisation of inference, are off
        core = torch.nn.Transformer(
            config.d_model, config.num_heads, encoders, decoders, config.d_ff, dropout=0.0,
            activation=config.activation, batch_first=True, norm_first=config.norm_order == "pre",
            dtype=getattr(torch, dtype),
        )  # fmt: skip
    if not (config.final_norm or (config.final_norm is None and config.norm_order == "pre")):
        core.encoder.norm = core.decoder.norm = None
    return core


class Twin:
    """``net``, whose state dict has the names that npformer.interop.torch speaks; call it for the logits (B, T, V)."""

    def __init__(self, torch, config, dtype):
        nn, width, kind = torch.nn, config.d_model, {"dtype": getattr(torch, dtype)}
        core = core_of(torch, config, config.num_encoder_layers, config.num_decoder_layers, dtype)
        parts = {
            "encoder": core.encoder,
            "decoder": core.decoder,
            "src_embed": nn.Embedding(config.src_vocab_size, width, **kind),
            "tgt_embed": nn.Embedding(config.tgt_vocab_size, width, **kind),
            "generator": nn.Linear(width, config.tgt_vocab_size, **kind),
        }
        if config.tie_embeddings:
            parts["tgt_embed"].weight = parts["generator"].weight = parts["src_embed"].weight
        if config.positions == "learned":
            parts |= {f"{side}_positions": nn.Embedding(config.max_seq_len, width, **kind) for side in ("src", "tgt")}
        self.torch, self.config, self.net = torch, config, nn.ModuleDict(parts)
        self.sinusoids = torch.tensor(_sinusoids(config.max_seq_len, width), **kind)

    def __call__(self, src, tgt_in):
        """Token ids (B, S) and (B, T) to logits (B, T, V)."""
        no_src, no_tgt = src == self.config.pad_id, tgt_in == self.config.pad_id  # True = hidden
        length = tgt_in.shape[1]
        future = self.torch.ones(length, length, dtype=self.torch.bool).triu(1)
        memory = self.net["encoder"](self._embed("src", src), src_key_padding_mask=no_src)
        h = self.net["decoder"](
            self._embed("tgt", tgt_in),
            memory,
            tgt_mask=future,
            tgt_key_padding_mask=no_tgt,
            memory_key_padding_mask=no_src,
        )
        return self.net["generator"](h)

    def _embed(self, side, tokens):
        x = self.net[f"{side}_embed"](tokens)
        if self.config.scale_embedding:
            x = x * math.sqrt(self.config.d_model)
        learned = self.config.positions == "learned"
        return x + (self.net[f"{side}_positions"].weight if learned else self.sinusoids)[: tokens.shape[1]]

    def gradients(self):
        """Name -> gradient, as arrays, a tied parameter under each of its names."""
        return {n: p.grad.numpy().copy() for n, p in self.net.named_parameters(remove_duplicate=False)}


def _sinusoids(length, width):
    """The table (T, C) as the paper writes it, entry by entry."""
    return [
        [(math.cos if c % 2 else math.sin)(t / 10000 ** ((c - c % 2) / width)) for c in range(width)]
        for t in range(length)
    ]


def expect_right(report, *tensors):
    """Every gradient is right, and they are those of these tensors."""
    report.raise_if_failed()
    assert [row.tensor for row in report.rows] == list(tensors)


class Comparison:
    """What both sides of a comparison need."""

    def __init__(self, torch):
        self.torch = torch

    def model(self, config, backend):
        """Our side: a model whose gains are not 1 and whose biases are not 0."""
        model = npf.Transformer(config, backend=backend, seed=1)
        rng = np.random.default_rng(2)
        for _, parameter, _ in model.owned_parameters():
            parameter.data[...] += 0.1 * rng.normal(size=parameter.data.shape)
        return model

    def twin(self, model, state=None):
        """PyTorch's side, with the parameters of model, or of state."""
        twin = Twin(self.torch, model.config, model.backend.dtype)
        state = to_state_dict(model) if state is None else state
        twin.net.load_state_dict({name: self.torch.from_numpy(x) for name, x in state.items()}, strict=True)
        return twin

    def batches(self, config, count):
        """(src, tgt_in, tgt_out) of other lengths on each side, none fully masked; every second one has padding."""
        rng, rows, longest = np.random.default_rng(3), 5, config.max_seq_len
        batches = []
        for number in range(count):
            src = rng.integers(1, config.src_vocab_size, size=(rows, longest - number % 3))
            tgt = rng.integers(1, config.tgt_vocab_size, size=(rows, longest - 2 + number % 4))
            for row in range(rows if number % 2 == 0 else 0):
                src[row, rng.integers(1, src.shape[1] + 1) :] = 0
                tgt[row, rng.integers(2, tgt.shape[1] + 1) :] = 0
            batches.append((src, tgt[:, :-1], tgt[:, 1:]))
        return batches

    def tensors(self, batch):
        return [self.torch.tensor(np.ascontiguousarray(x)) for x in batch]

    def loss(self, logits, targets, smoothing=SMOOTHING):
        """PyTorch's mean cross-entropy over the targets that are not padding."""
        flat = logits.reshape(-1, logits.shape[-1])
        options = {"ignore_index": 0, "label_smoothing": smoothing}
        return self.torch.nn.functional.cross_entropy(flat, targets.reshape(-1), **options)

    def theirs(self, twin, batch, smoothing=SMOOTHING):
        """PyTorch's logits (B, T, V) and gradients by name."""
        src, tgt_in, tgt_out = self.tensors(batch)
        twin.net.zero_grad()
        logits = twin(src, tgt_in)
        self.loss(logits, tgt_out, smoothing).backward()
        return logits.detach().numpy(), twin.gradients()

    def ours(self, model, batch, smoothing=SMOOTHING):
        """Our logits (B, T, V) and gradients by PyTorch's names."""
        src, tgt_in, tgt_out = batch
        logits, cache = model.forward(src, tgt_in)
        _, loss_cache = npf.functional.cross_entropy_forward(logits, tgt_out, 0, smoothing)
        model.zero_grad()
        model.backward(npf.functional.cross_entropy_backward(1.0, loss_cache)[0], cache)
        return logits, to_state_dict(model, grads=True)

    def their_training(self, twin, data):
        """The loss of each step of PyTorch's Adam, one per batch."""
        optimizer, losses = self.torch.optim.Adam(twin.net.parameters(), **ADAM), []
        for batch in data:
            src, tgt_in, tgt_out = self.tensors(batch)
            optimizer.zero_grad()
            loss = self.loss(twin(src, tgt_in), tgt_out)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return np.array(losses)

    def our_training(self, model, data):
        """The loss of each step of our Adam, one per batch."""
        step = npf.TrainStep(model, npf.Adam(model.arena, **ADAM), label_smoothing=SMOOTHING)
        return np.array([float(step(*batch)) for batch in data])

    def worst_gradient(self, ours, theirs):
        """The largest scaled error, max|a − n| / max(max|n|, 1e-3·the largest entry of all), and where it is."""
        assert ours.keys() == theirs.keys()
        largest = max(float(np.abs(n).max()) for n in theirs.values())
        assert largest > 0.01, "a check in which all gradients are small proves nothing"
        scale = {name: max(float(np.abs(n).max()), 1e-3 * largest) for name, n in theirs.items()}
        return max((float(np.abs(ours[name] - n).max()) / scale[name], name) for name, n in theirs.items())


@pytest.fixture(scope="session")
def comparison():
    """Both sides of a comparison with PyTorch, where it is installed."""
    reason = "PyTorch is not installed: install its CPU build, torch 2.13.0+cpu, to run the parity tests"
    torch = pytest.importorskip("torch", reason=reason)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on matrices this small, threads that wait for each other cost ten times the work
    yield Comparison(torch)
    torch.set_num_threads(threads)
