"""Faster execution of training and decoding steps: threads, recording and fused kernels. Readers may skip it.

``steps`` and ``shards`` split a training step over threads, each with a ``replica`` of the model, and record it.
``fused_encode`` and ``fused_decode`` compute in one call what the models compute layer by layer; ``fused_parts``
collects their inputs. ``compile_ahead`` compiles kernels before their first call. ``static`` tells which models may be
recorded.
"""
