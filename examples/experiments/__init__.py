"""Experiments that test well-known claims about Transformers and their rivals.

In reading order: ``cost_and_length``, ``step_time``, ``first_token``, ``norms``, ``dropout_place``, ``norm_order``,
``gradient_sizes``,
``initialisation``, ``heads``, ``embeddings``, ``beside_pytorch``. They share ``common`` (settings, tables, a training
loop), ``tagger`` (an encoder with interchangeable parts) and ``rivals`` (translators without attention).
"""
