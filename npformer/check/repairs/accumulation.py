"""Changes of what is written: a contribution that was kept alone is added to the others."""

from __future__ import annotations

import ast

from npformer.check.diagnosis.mutants import called
from npformer.check.repairs.nodes import Found, Known, Site, parsed, renamed

_NP = "__import__('numpy')"


def accumulation(site: Site, known: Known) -> Found:
    match site.get():
        case ast.Assign([target], value):
            if not isinstance(target, ast.Tuple):
                is_once = isinstance(target, ast.Name) and isinstance(site.parent, ast.FunctionDef)
                added = ast.AugAssign(target, ast.Add(), value)  # type: ignore[arg-type]
                yield "missing term" if is_once else "not accumulated", added
            if isinstance(target, ast.Subscript):
                yield "missing factor", ast.AugAssign(target, ast.Mult(), value)
        case ast.AugAssign(target, _, value):
            pass
        case ast.Expr(ast.Call() as store) if called(store) == "store":  # in a kernel
            yield "not accumulated", ast.Expr(renamed(store, "atomic_add"))
            return
        case _:
            return
    if isinstance(target, ast.Subscript):
        has_slices = any(isinstance(part, ast.Slice) for part in ast.walk(target.slice))
        where = ast.Subscript(parsed(f"{_NP}.s_"), target.slice, ast.Load()) if has_slices else target.slice
        call = f"{_NP}.add.at({ast.unparse(target.value)}, {ast.unparse(where)}, {ast.unparse(value)})"
        yield "not accumulated", ast.parse(call).body[0]
