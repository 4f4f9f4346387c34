"""What runs a step elsewhere than as it is written; a reader of training and decoding can leave it out.

``steps`` and ``shards`` share a training step out to threads, whose ``replica`` each has, and record it;
``fused_encode`` and ``fused_decode`` decode in one call what the models compute layer by layer, ``fused_parts`` says
what they are given; ``compile_ahead`` compiles kernels before they are called. ``static`` says which models may be
recorded at all.
"""
