"""Compiled bodies."""

from npformer.backend.numpy.bodies import BODIES as OPS

adam_update = None
