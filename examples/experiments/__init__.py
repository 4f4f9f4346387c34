"""What is claimed of Transformers and their rivals, shown by experiment.

In reading order: ``cost_and_length``, ``step_time``, ``first_token``, ``norms``, ``dropout_place``, ``norm_order``,
``heads``, ``embeddings``, ``beside_pytorch``. They share ``common`` (settings, tables, a training loop), ``tagger``
(an encoder with interchangeable parts) and ``rivals`` (translators without attention).
"""
