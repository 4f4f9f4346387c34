"""Formulas with right kernels in several precisions, which the tolerances of ``npf.tolerance`` are scored on."""
