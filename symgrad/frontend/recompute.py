"""Activation checkpointing: `recompute` has results computed again for the gradient, not kept.

What that costs is the time of the function once more; what it saves is the memory of all that its
gradient reads. The op is in `symgrad/graph/ops/stand_in.py`.
"""

from __future__ import annotations

import functools
from typing import Any

from symgrad.frontend.call_arguments import CallArguments
from symgrad.frontend.control import require_callables
from symgrad.frontend.nests import Nest, flatten, unflatten
from symgrad.frontend.user_functions import AnyFunction
from symgrad.graph.nested import Traced, inline
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.stand_in import recompute_node
from symgrad.suggestions import known_as


@known_as("checkpoint", "remat")
def recompute_grad(f: AnyFunction, *, keep_results: bool = False) -> AnyFunction:
    """Return a function with the values and the gradients of `f` that keeps no intermediates.

    They are computed again from the arguments once the gradient of the results is there. `f` may
    use tensors and variables from around, which have their gradients too; what it computes from
    those alone is kept. With `keep_results`, so are the results of `f`, where its gradient reads
    them: that saves what comes last in `f`, and costs memory where nothing else keeps them.

    >>> block = sg.recompute_grad(lambda x: sg.tanh(sg.tanh(x)))
    >>> x = sg.placeholder((), name="x")
    >>> sg.run(sg.gradients(block(x), x), {x: 0.5})
    [array(0.639808, dtype=float32)]
    """
    require_callables("recompute_grad", f=f)

    @functools.wraps(f)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        given = CallArguments("recompute_grad", f, args, kwargs)
        nests: list[Nest] = []

        def outputs_of(*params: Tensor) -> list[Tensor]:
            leaves, nest = flatten(f(*given.with_tensors(params)))
            nests.append(nest)
            return [as_tensor(leaf) for leaf in leaves]

        traced = Traced("recomputed", [t.type for t in given.tensors])
        traced.run(outputs_of)
        captures = traced.captures
        forward = traced.graph(captures)
        ys = inline(forward, [*given.tensors, *captures])
        node = recompute_node(given.tensors, captures, ys, forward, keeps_results=keep_results)
        return unflatten(nests[0], node.outputs)

    return recomputed
