"""Value and gradients in one call: results of a function, and the gradients that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from symgrad.arrays.differentiate import kept, require_arguments, require_float, with_array
from symgrad.arrays.storing import stop_gradient
from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.container import Container
from symgrad.frontend.control import require_callables
from symgrad.frontend.nests import describe, flatten, map_leaves, only, paths, unflatten
from symgrad.functional import Function
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.passes.gradients.reverse_mode import gradients

Chain = tuple[Any, ...]
Indices = Sequence[Sequence[str | int]] | None

_SUBJECT = "execute_with_gradients"
_FIRST: tuple[Chain, ...] = ((0,),)


def execute_with_gradients(
    func: Callable[[Any], Any],
    xs: Any,
    *,
    retain_grads: bool = False,
    xs_grad_idxs: Indices = _FIRST,
    ret_grad_idxs: Indices = _FIRST,
) -> tuple[Any, Any]:
    """Return `func(xs)` and its gradients; the function is traced once for each signature.

    `xs` is an array or a nest, and `func` takes it as its one argument. `xs_grad_idxs` holds the
    paths of what to differentiate by, such as `((0,), (1, "w"))`, and None is all of it; an array,
    a container or a dict is taken as a whole unless something else than the first entry is asked
    for. Integers among that become float32. `ret_grad_idxs` says in the same way which results to
    differentiate; the others are passed through.

    The gradients of one result are the nest of `xs`, without the entries that were not asked for,
    and zeros where the result depends on nothing. Of several results they are a dict by the keys
    or numbers of these, a container where the results are one. A result of several elements
    counts as their sum. With tensors among `xs` the results are tensors, and gradients flow through
    them only with `retain_grads`.

    Raises `GraphError` for a path that leads nowhere, `DTypeError` for what has no derivatives.

    >>> weights = {"w": np.float32([1.0, 2.0]), "b": np.float32(3.0)}
    >>> loss, grads = sg.execute_with_gradients(lambda p: sg.sum(p["w"] ** 2) * p["b"], weights)
    >>> loss, grads["w"]
    (array(15., dtype=float32), array([ 6., 12.], dtype=float32))
    """
    require_callables(_SUBJECT, func=func)
    by, of = _chains("xs_grad_idxs", xs_grad_idxs), _chains("ret_grad_idxs", ret_grad_idxs)
    traced = kept(_traced_execution, func, by, of, bool(retain_grads))
    results, grads = traced(with_array(xs))
    return results, grads


def _traced_execution(
    func: Callable[[Any], Any],
    by: tuple[Chain, ...] | None,
    of: tuple[Chain, ...] | None,
    is_retained: bool,
) -> Function:
    def execution(xs: Any) -> Any:
        sources = _Selection("xs", "xs_grad_idxs", xs, by)
        sources.convert()
        require_arguments(_SUBJECT, func, (sources.tree,), {})
        results = map_leaves(as_tensor, func(sources.tree))
        targets = _Selection("the result", "ret_grad_idxs", results, of)
        if not targets.chosen:
            raise GraphError(_SUBJECT, "the function returns nothing", source=user_source())
        found = {chain: sources.gradients_of(y) for chain, y in targets.chosen.items()}
        both = results, targets.arranged(found)
        return both if is_retained else stop_gradient(both)

    execution.__name__ = str(getattr(func, "__name__", _SUBJECT))
    return Function(execution)


class _Selection:
    """The leaves of a nest that were asked for, by their paths."""

    def __init__(
        self, label: str, argument: str, tree: Any, chains: tuple[Chain, ...] | None
    ) -> None:
        leaves, nest = flatten(tree)
        is_whole = not isinstance(tree, list | tuple)
        self._label = label
        self._given = None if chains == _FIRST and is_whole else chains
        self._nest = nest
        self._all = dict(zip(paths(tree), leaves, strict=True))
        self.tree = tree
        self.chosen = dict(self._all)
        if self._given is not None:
            missing = [c for c in self._given if not any(_begins(p, c) for p in self._all)]
            if missing:
                problem = f"{argument} has {missing[0]!r}, which leads nowhere in {label}: "
                raise GraphError(_SUBJECT, problem + describe(nest), source=user_source())
            self.chosen = {
                path: leaf
                for path, leaf in self._all.items()
                if any(_begins(path, chain) for chain in self._given)
            }

    def convert(self) -> None:
        """Make float32 of integers that were chosen; refuse what has no derivatives."""
        for path, leaf in self.chosen.items():
            tensor = as_tensor(leaf) if isinstance(leaf, int | float) else leaf
            if isinstance(tensor, Tensor) and tensor.dtype.is_integer:
                tensor = cast(tensor, dtypes.float32)
            require_float(_SUBJECT, _place(self._label, path), tensor)
            self.chosen[path] = tensor
        self.tree = unflatten(self._nest, {**self._all, **self.chosen}.values())

    def gradients_of(self, y: Tensor) -> Any:
        """Return the gradients of `y` by what was chosen, in the nest of what was."""
        require_float(_SUBJECT, "the result", y)
        found = gradients(y, list(self.chosen.values()), unconnected_gradients="zero")
        by_path = {**self._all, **dict(zip(self.chosen, found, strict=True))}
        return only(unflatten(self._nest, by_path.values()), self.chosen.keys())

    def arranged(self, found: dict[Chain, Any]) -> Any:
        """Return what was found for what was chosen, by keys unless one result was asked for."""
        one = self._given[0] if self._given is not None and len(self._given) == 1 else ()
        below = {path[len(one) :]: value for path, value in found.items()}
        return below[()] if () in below else _nested(below, isinstance(self.tree, Container))


def _nested(found: dict[Chain, Any], is_container: bool) -> Any:
    nested: dict[Any, Any] = {}
    for path, value in found.items():
        place = nested
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    is_named = all(isinstance(key, str) for path in found for key in path)
    return Container(nested) if is_container and is_named else nested


def _begins(path: Chain, chain: Chain) -> bool:
    return path[: len(chain)] == chain


def _place(label: str, path: Chain) -> str:
    return label + "".join(f"[{key!r}]" for key in path)


def _chains(argument: str, indices: Any) -> tuple[Chain, ...] | None:
    """Return indices as tuples."""
    if indices is None:
        return None
    is_right = isinstance(indices, Iterable) and all(isinstance(i, list | tuple) for i in indices)
    if not is_right or not indices:
        raise DTypeError(
            _SUBJECT,
            f"{argument} is {indices!r}, which holds no paths",
            hint="a path is a tuple of keys: ((0,), (1, 'w'))",
            source=user_source(),
        )
    return tuple(tuple(chain) for chain in indices)
