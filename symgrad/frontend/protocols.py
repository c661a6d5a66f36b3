"""NumPy's protocols on tensors, and the text and the views of graphs: bound to their methods here.

What functions of NumPy do with tensors is in `numpy_dispatch`.
"""

from __future__ import annotations

from types import ModuleType

from symgrad.errors import GraphError, user_source
from symgrad.frontend.container import leafwise
from symgrad.frontend.inspection import __array_api_version__
from symgrad.frontend.publication import is_op, published
from symgrad.graph.late_binding import provide, provide_from, wrap_provided
from symgrad.graph.ops import methods as methods  # which provides
from symgrad.graph.ops import subscript as subscript  # likewise
from symgrad.graph.text.print import print_graph


@provide
def array_namespace(api_version: str | None) -> ModuleType:
    """Do what `x.__array_namespace__` is asked for."""
    newest = __array_api_version__
    if api_version is not None and api_version > newest:
        raise GraphError(
            "array namespace",
            f"version {api_version} was asked for, this is {newest}",
            source=user_source(),
        )
    from symgrad.frontend import namespace  # made of all public ops: few programs ask for it

    return namespace


# `tensor + container` is a container.
wrap_provided(lambda function: published(function) if is_op(function) else leafwise(function))
provide(print_graph)
provide_from("symgrad.frontend.numpy_dispatch", "array_ufunc", "array_function")
provide_from("symgrad.graph.ops.complex_arithmetic", "direction", "modulus")
provide_from("symgrad.graph.ops.writing", "at")
provide_from("symgrad.graph.text.parse", "parse_graph")
provide_from("symgrad.graph.networkx_view", "to_networkx")
provide_from("symgrad.graph.panels", "graph_panel", "tensor_panel")
