"""Import paths of before that documents or plugins name: each is refused with the new one."""

from __future__ import annotations

import sys

MOVED = {
    "npformer.proof": "npformer.check (its strategies: npformer.check.cases.strategies) or npformer.tracing",
    "npformer.training.model_arrays": "npformer.run.model_arrays",
    "npformer.training.model_file": "npformer.run.model_file",
    "npformer.training.checkpoint": "npformer.run.checkpoint",
    "npformer.training.options": "npformer.run.options",
    "npformer.training.run_directory": "npformer.run.directory",
    "npformer.percent": "npformer.io.percent",
    "npformer.printable": "npformer.io.printable",
    "npformer.progress_bar": "npformer.io.progress_bar",
}


class _Moved:
    """Asked before anybody looks for a module: a folder of before may still be there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in MOVED:
            raise ModuleNotFoundError(f"{name}: it has moved; import {MOVED[name]} instead", name=name)


sys.meta_path.insert(0, _Moved)
