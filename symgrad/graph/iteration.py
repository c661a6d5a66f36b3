"""Loops as users write them: `while_loop`, `fori_loop`, `scan` and `map`.

This reads arguments and traces the functions; the op they all become is in
`symgrad/graph/ops/control.py`. What a loop needs beside the loop variables of the user, such as a
counter, is a loop variable behind them, so that the numbers in messages are those of the user.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import CompileError, GraphError, user_source
from symgrad.graph import dtypes
from symgrad.graph.build import name_scope
from symgrad.graph.control import (
    Function,
    require_bool,
    require_callables,
    scalar_tensor,
)
from symgrad.graph.nests import flatten, unflatten
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, constant
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import less, logical_and
from symgrad.graph.ops.conversion import stop_gradient


def while_loop(
    cond: Function,
    body: Function,
    loop_vars: Any,
    shape_invariants: Any = None,
    maximum_iterations: Any = None,
    back_prop: bool = True,
    checkpoint: Any = None,
    name: str | None = None,
) -> Any:
    """Return the loop variables after `body` was applied to them for as long as `cond` holds.

    `loop_vars` is a list or tuple, whose entries are the arguments of both functions, or a single
    other nest. `body` returns new ones of the same nest, dtypes and shapes, and the result is a
    nest like `loop_vars`. A loop that is to be differentiated needs `maximum_iterations` as an
    int. Without `back_prop` the results are constants to a gradient.
    """
    require_callables("while_loop", cond=cond, body=body)
    if checkpoint is not None:
        raise CompileError(
            "while_loop", f"checkpoint is {checkpoint!r} and must be None", source=user_source()
        )
    arguments, nest = _as_arguments(loop_vars)
    initial = [as_tensor(leaf) for leaf in flatten(arguments)[0]]
    if not initial:
        raise GraphError("while_loop", "there are no loop variables", source=user_source())
    _check_invariants(shape_invariants, loop_vars, initial)
    bound, capacity = _read_bound(maximum_iterations)
    count = len(initial)

    def condition(*params: Tensor) -> Tensor:
        test = scalar_tensor("while_loop", "cond", cond(*unflatten(nest, params[:count])))
        require_bool("while_loop", "cond", test)
        return test if bound is None else logical_and(test, less(params[count], bound))

    def step(*params: Tensor) -> list[Tensor]:
        result = body(*unflatten(nest, params[:count]))
        following = _following("while_loop", _as_arguments(result)[0], nest, initial)
        return following if bound is None else [*following, add(params[count], _INT64_ONE())]

    hidden = [] if bound is None else [constant(0, dtypes.int64)]
    with name_scope(name) if name else _NO_SCOPE():
        node = _iterate(condition, step, [*initial, *hidden], capacity)
    results = node.outputs[1 : 1 + count]
    if not back_prop:
        results = tuple(stop_gradient(t) if t.dtype.is_trainable else t for t in results)
    return unflatten(flatten(loop_vars)[1], results)
