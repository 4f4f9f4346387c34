"""What rounding explains, and what it does not.

``low_precision`` decides the verdict on a kernel in float32 and less (``row_of``, ``by_own_forward``), beside
``reference``. ``float64`` says what is lost in float64, at a point and in a regime. ``budget`` compares npformer's own
float32 kernels with float64, ``tolerance`` says what a test may allow. All draw their roundings by ``stochastic``;
``formats`` has the precisions, bfloat16 among them.
"""
