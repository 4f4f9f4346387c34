"""The engine of the CuPy backend: CUDA kernels, and steps of training and decoding recorded as CUDA graphs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from npformer.backend.backend import Backend
from npformer.backend.fallback import with_fallback
from npformer.engine import recorded_decode
from npformer.engine.capture import MOST, Captured, Uncaptured, with_room
from npformer.engine.cuda import cuda_ops
from npformer.engine.cuda.adam import DeviceUpdates
from npformer.engine.cuda.sums import DeviceBranches, backward_pass
from npformer.engine.cupy.cupy_runtime import CupyRuntime
from npformer.engine.cupy.graph_driver import CupyDriver
from npformer.engine.cupy.namespace import with_products
from npformer.engine.cupy.nccl import between_cards
from npformer.engine.engine import FastEngine


class RecordingEngine(FastEngine):
    """An engine whose decoding steps are recorded."""

    start = staticmethod(lambda model, src, max_len: model.start(src, max_len))  # no threads share its sources
    step = staticmethod(recorded_decode.step)
    likeliest = staticmethod(recorded_decode.likeliest)


def with_engine(plain: Backend) -> Backend:
    """The backend with its engine, and with CUDA's operations unless its kernels are plain."""
    driver = CupyDriver(plain.device.name)
    if plain.kernels == "plain":  # nothing is recorded, since CuPy refuses its own products during recording
        engine = FastEngine(
            capture=lambda function, static_arguments, times=1, changes=None: Uncaptured(function, driver, changes),
            with_room=partial(with_room, driver),
            ranks_on_device=between_cards,
        )
        return replace(plain, engine=engine)
    gpu = CupyRuntime(plain.precision)
    table = with_fallback(cuda_ops(gpu), plain.ops, arrays=driver.cupy.ndarray)
    ops = with_products(table, gpu, driver.cupy.empty(0))
    updates = DeviceUpdates(gpu, plain.device.array)
    capture = partial(Captured, driver=driver, dtype=plain.dtype)
    engine = RecordingEngine(
        adam_update=updates.by_host_numbers, updates=updates, backward_pass=partial(backward_pass, gpu),
        branches=DeviceBranches(gpu), with_room=partial(with_room, driver), ranks_on_device=between_cards,
        capture=lambda *given, times=1, changes=None: capture(*given, most=times * MOST, changes=changes),
        rooms=lambda: recorded_decode.Rooms(gpu, capture, driver),
    )  # fmt: skip
    return replace(plain, ops=ops, own_ops=ops, engine=engine)
