"""What makes training and decoding steps faster than they are written. Readers of the mathematics may skip it.

``engine`` is what a backend holds; ``host`` and ``gpu`` build it for NumPy and CuPy. ``numba`` and ``cuda`` have the
kernels, ``cupy`` a GPU's products, launches and graphs. Everything else is asked for by way of ``backend.engine``: the
rest of npformer imports nothing from here, and runs without it.

``replica`` is the model of a thread that makes a part of a training step (``training/runner.py``). ``recorded_decode``
and ``host_decode`` record the step of decoding, on a GPU and on the host. ``compile_ahead`` compiles kernels before
their first call. ``static`` tells which models may be recorded.
"""
