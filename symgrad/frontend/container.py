"""Pytree container: a dict with attributes and arithmetic, over whose leaves every op maps.

What a leaf is does not matter here: an array, a tensor or a number. Which nest a container is, and
what joins two of them, is decided in `symgrad/frontend/nests.py`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from symgrad.display.panels import long_table, panel
from symgrad.errors import DTypeError, GraphError, shortened, user_source
from symgrad.frontend.nests import describe, flatten, join, paths, register, unflatten

_LEAF_TEXT = 80  # characters of a leaf that a notebook shows
LeafFunction = TypeVar("LeafFunction", bound=Callable[..., Any])


def _leaf_texts(leaf: Any) -> tuple[str, str]:
    """Return what a leaf is, and a little of its value if it has one."""
    if isinstance(leaf, np.ndarray):
        text = np.array2string(leaf, threshold=6, edgeitems=2, precision=4)
        return f"{leaf.dtype}{list(leaf.shape)}", " ".join(text.split())[:_LEAF_TEXT]
    return type(leaf).__name__, repr(leaf)[:_LEAF_TEXT]


class Container(dict[str, Any]):
    """A dict whose entries are attributes too, and whose leaves are computed with all at once.

    A dict in it becomes a container. An operand of arithmetic, of an op or of a NumPy function is
    another container of the same keys, or anything that each leaf takes, such as a number. Keys
    are strings; one that is the name of a method is reached with brackets. `==` and `!=` are those
    of a dict, and keys come back sorted from what makes a new container.

    >>> weights = sg.Container(w=np.ones(2), layer=sg.Container(b=np.zeros(3)))
    >>> weights.layer.b  # as weights["layer"]["b"]
    array([0., 0., 0.])
    >>> (weights - 0.5).w  # leaf by leaf
    array([0.5, 0.5])
    >>> weights.map(lambda leaf, chain: f"{chain}: {leaf.shape}")
    Container(layer=Container(b='layer/b: (3,)'), w='w: (2,)')
    """

    __slots__ = ()

    def __init__(self, entries: Any = (), /, **more: Any) -> None:
        super().__init__()
        self.update(entries, **more)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise DTypeError("Container", f"key {key!r} is no string", source=user_source())
        is_plain = isinstance(value, dict) and not isinstance(value, Container)
        super().__setitem__(key, Container(value) if is_plain else value)

    def update(self, entries: Any = (), /, **more: Any) -> None:
        """Set entries, as a dict does.

        >>> weights = sg.Container(w=1.0)
        >>> weights.update(w=2.0, b=0.5)
        >>> weights
        Container(w=2.0, b=0.5)
        """
        try:
            given = dict(entries, **more)
        except (TypeError, ValueError) as error:
            problem = f"{shortened(entries)} is neither a dict nor pairs of a key and a value"
            raise DTypeError("Container", problem, source=user_source()) from error
        for key, value in given.items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None, /) -> Any:
        """Return an entry, which is set to `default` first if there is none.

        >>> sg.Container(w=1.0).setdefault("b", 0.0)
        0.0
        """
        if key not in self:
            self[key] = default
        return self[key]

    def copy(self) -> Container:
        """Return a container of the same leaves, whose own containers are new as well.

        >>> weights = sg.Container(w=1.0)
        >>> other = weights.copy()
        >>> other.w = 2.0
        >>> weights.w
        1.0
        """
        return Container({k: v.copy() if isinstance(v, Container) else v for k, v in self.items()})

    def map(self, function: Callable[[Any, str], Any]) -> Container:
        """Return a container of `function(leaf, key_chain)`; a chain is the keys, as in "a/b".

        >>> sg.Container(a={"b": 1.0}).map(lambda leaf, chain: (chain, leaf + 1))
        Container(a=Container(b=('a/b', 2.0)))
        """
        leaves, nest = flatten(self)
        chains = ("/".join(map(str, path)) for path in paths(self))
        mapped = unflatten(nest, map(function, leaves, chains))
        assert isinstance(mapped, Container), "a container's nest is a container"
        return mapped

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"Container has no entry {name!r}; it has {', '.join(self) or 'none'}")

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(Container, name):
            raise GraphError(
                "Container",
                f"{name!r} is the name of a method",
                hint=f"set it as an entry: container[{name!r}]",
                source=user_source(),
            )
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(f"Container has no entry {name!r}")
        del self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        return f"Container({', '.join(f'{key}={value!r}' for key, value in self.items())})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: each leaf with its chain of keys."""
        leaves, _ = flatten(self)
        chains = ("/".join(map(str, path)) for path in paths(self))
        rows = [(chain, *_leaf_texts(leaf)) for chain, leaf in zip(chains, leaves, strict=True)]
        table = long_table(("leaf", "type", "value"), rows)
        return panel(f"Container of {len(leaves)} leaves", table)

    def __or__(self, other: Any) -> Any:
        return Container({**self, **other}) if isinstance(other, dict) else NotImplemented

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return leafwise(getattr(ufunc, method))(*inputs, **options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return leafwise(func)(*args, **kwargs)

    def __neg__(self) -> Container:
        return _calculate(operator.neg, self)

    def __pos__(self) -> Container:
        return _calculate(operator.pos, self)

    def __abs__(self) -> Container:
        return _calculate(operator.abs, self)

    def __add__(self, other: Any) -> Container:
        return _calculate(operator.add, self, other)

    def __radd__(self, other: Any) -> Container:
        return _calculate(operator.add, other, self)

    def __sub__(self, other: Any) -> Container:
        return _calculate(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Container:
        return _calculate(operator.sub, other, self)

    def __mul__(self, other: Any) -> Container:
        return _calculate(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Container:
        return _calculate(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Container:
        return _calculate(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Container:
        return _calculate(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> Container:
        return _calculate(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Container:
        return _calculate(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Container:
        return _calculate(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Container:
        return _calculate(operator.mod, other, self)

    def __pow__(self, other: Any) -> Container:
        return _calculate(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Container:
        return _calculate(operator.pow, other, self)

    def __matmul__(self, other: Any) -> Container:
        return _calculate(operator.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Container:
        return _calculate(operator.matmul, other, self)

    def __lt__(self, other: Any) -> Container:
        return _calculate(operator.lt, self, other)

    def __le__(self, other: Any) -> Container:
        return _calculate(operator.le, self, other)

    def __gt__(self, other: Any) -> Container:
        return _calculate(operator.gt, self, other)

    def __ge__(self, other: Any) -> Container:
        return _calculate(operator.ge, self, other)


def _calculate(operation: Callable[..., Any], *operands: Any) -> Container:
    result = _map(operation, *operands)
    assert isinstance(result, Container), "one of the operands is a container"
    return result


def _take_apart(container: Container) -> tuple[list[Any], tuple[str, ...], list[str]]:
    # Sorted, so that the order in which entries were set makes no other nest.
    keys = sorted(container)
    return [container[key] for key in keys], tuple(keys), keys


register(
    Container,
    _take_apart,
    lambda keys, values: Container(zip(keys, values, strict=True)),
)


_HOLDERS = (Container, list, tuple)  # what has containers in it


def leafwise(function: LeafFunction) -> LeafFunction:
    """Return `function` such that, given containers, it maps over their leaves.

    Containers in a list or tuple of operands, as `concat` takes them, count as well; all else is
    handed to each call as it is. Raises `GraphError` for containers of different keys.
    """

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        for argument in args:
            if isinstance(argument, _HOLDERS) and _containers_in(argument):
                return _map(function, *args, **kwargs)
        if kwargs and any(map(_containers_in, kwargs.values())):
            return _map(function, *args, **kwargs)
        return function(*args, **kwargs)

    return cast(LeafFunction, mapped)


def _containers_in(argument: Any) -> list[Container]:
    if isinstance(argument, list | tuple):
        return [part for part in argument if isinstance(part, Container)]
    return [argument] if isinstance(argument, Container) else []


def _map(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    containers = [c for argument in (*args, *kwargs.values()) for c in _containers_in(argument)]
    try:
        nest, columns = join(containers)
    except ValueError as error:
        kinds = " and ".join(describe(flatten(c)[1]) for c in containers)
        name = getattr(function, "__name__", "Container")
        problem = f"containers of different keys: {kinds}"
        raise GraphError(name, problem, source=user_source()) from error
    leaves_of = dict(zip(map(id, containers), columns, strict=True))

    def at(position: int, argument: Any) -> Any:
        if isinstance(argument, Container):
            return leaves_of[id(argument)][position]
        if isinstance(argument, list | tuple) and _containers_in(argument):
            return type(argument)(at(position, part) for part in argument)
        return argument

    return unflatten(
        nest,
        (
            function(*(at(i, a) for a in args), **{key: at(i, a) for key, a in kwargs.items()})
            for i in range(nest.num_leaves)
        ),
    )
