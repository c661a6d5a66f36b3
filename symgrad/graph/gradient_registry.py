"""Registry of gradients: which one a node has, its op's own or one registered under a key.

A registered function takes the node and one gradient for each output, and looks for attributes in
`node.attrs`; the rule of an op is handed them by keyword.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from symgrad.errors import DTypeError, NoGradientError, SymgradError, user_source
from symgrad.graph.build import gradient_keys
from symgrad.graph.late_binding import provided
from symgrad.graph.node import Node, OpDef
from symgrad.graph.opdef import OPS
from symgrad.late_modules import load_awaited
from symgrad.suggestions import is_public_name

GradientRule = Callable[..., Any]
Registered = TypeVar("Registered", bound=GradientRule)

_RULES: dict[str, GradientRule | None] = {}  # None: registered as not differentiable


class DuplicateGradientError(SymgradError, KeyError):
    """A gradient registered under a key that has one."""


def register_gradient(key: str) -> Callable[[Registered], Registered]:
    """Register the decorated function as the gradient `key`, for use in `gradient_override_map`.

    It is called as `function(node, *dys)`, with None for the outputs whose dtype carries no
    gradient, and returns one tensor or None for each input of the node; one that is alone needs
    no tuple. Raises `TypeError` for a key that is no string and `KeyError` for one that is taken,
    be it by the name of an op.

    >>> @sg.register_gradient("examples.straight_through")
    ... def straight_through(node, dy):
    ...     return dy
    >>> x = sg.placeholder((), name="x")
    >>> with sg.gradient_override_map({"round": "examples.straight_through"}):
    ...     y = 3 * sg.round(x)
    >>> sg.run(sg.gradients(y, x), {x: 0.4})
    [array(3., dtype=float32)]
    """
    _check_key("register_gradient", key)

    def register(function: Registered) -> Registered:
        def rule(node: Node, *gs: Any, **_attrs: Any) -> Any:
            return function(node, *gs)

        if not callable(function):
            raise DTypeError("register_gradient", f"{function!r} is no function")
        _enter("register_gradient", key, rule)
        return function

    return register


def not_differentiable(key: str) -> None:
    """Register `key` as the gradient of what has none: it ends the path without an error.

    This is for a derivative that is zero or undefined everywhere, not for one that nobody wrote.

    >>> sg.not_differentiable("examples.nothing")
    >>> x = sg.placeholder((), name="x")
    >>> with sg.gradient_override_map({"exp": "examples.nothing"}):
    ...     y = sg.exp(x)
    >>> sg.gradients(y, x)
    [None]
    """
    _check_key("not_differentiable", key)
    _enter("not_differentiable", key, None)


def gradient_override_map(key_of_op: Mapping[str, str]) -> AbstractContextManager[None]:
    """Give nodes built inside another gradient: `{node.op: key}`, a registered key or an op.

    What counts is where a node is built, not where `gradients` is called. Scopes nest; the inner
    one wins. Raises `TypeError` for anything but a mapping of strings to strings, and `LookupError`
    for an op that there is not; a key may be registered later.

    >>> x = sg.placeholder((), name="x")
    >>> with sg.gradient_override_map({"exp": "negative"}):
    ...     y = sg.exp(x)
    >>> sg.run(sg.gradients(y, x), {x: 1.0})
    [array(-1., dtype=float32)]
    """
    if not isinstance(key_of_op, Mapping):
        raise DTypeError(
            "gradient_override_map",
            f"a mapping of ops to keys is needed, not {key_of_op!r}",
            source=user_source(),
        )
    for op, key in key_of_op.items():
        _check_key("gradient_override_map", op)
        _check_key("gradient_override_map", key)
        _check_op("gradient_override_map", op)
    return gradient_keys(key_of_op)


def is_registered(key: str | None) -> bool:
    """Return whether `key` stands for what a user registered, and not for an op."""
    return key in _RULES


def has_gradient(node: Node) -> bool:
    """Return whether a gradient that arrives at `node` goes on, or must raise because it cannot.

    False is what stops a gradient silently: ops with derivative zero, `stop_gradient`, and keys
    registered as not differentiable.
    """
    key = node.gradient_key
    if key in _RULES:
        return _RULES[key] is not None
    definition = node.definition if key is None else _op_named(key)
    return definition is None or definition.grad != "none"


def gradient_rule(node: Node) -> GradientRule:
    """Return what differentiates `node`: the override it was built under, else the op's own.

    Raises `NoGradientError` if the override names a key that was never registered. Only for a
    node that `has_gradient`.
    """
    key = node.gradient_key
    if key in _RULES:
        rule = _RULES[key]
    elif (definition := node.definition if key is None else _op_named(key)) is not None:
        rule = None if definition.grad == "none" else definition.grad
    else:
        raise NoGradientError(
            node.op,
            f"gradient {key!r}, which stands in for that of {node.op}, is not registered",
            hint=f"decorate a function with register_gradient({key!r})",
            source=node.source,
        )
    assert rule is not None, f"{node!r} has no gradient to look up"
    return rule


def _op_named(name: str) -> OpDef | None:
    """Return the op of a name; those are declared now that no program has had yet."""
    if name not in OPS:
        provided("declare_all")()
    return OPS.get(name)


def _check_key(subject: str, key: object) -> None:
    if not isinstance(key, str):
        raise DTypeError(subject, f"{key!r} is not a string", source=user_source())


def _check_op(subject: str, name: str) -> None:
    """Raise unless nodes may have the op `name`: a function of symgrad may build others."""
    if _op_named(name) is not None:
        return
    load_awaited()
    near = [] if is_public_name(name) else difflib.get_close_matches(name, OPS, n=1)
    raise NoGradientError(
        subject,
        f"there is no op {name!r} whose gradient could be another one",
        hint=f"perhaps {near[0]!r} is meant" if near else "node.op is the name of a node's op",
        source=user_source(),
    )


def _enter(subject: str, key: str, rule: GradientRule | None) -> None:
    is_op = _op_named(key) is not None
    if key in _RULES or is_op:
        owner = "the op of this name" if is_op else "an earlier registration"
        raise DuplicateGradientError(
            subject,
            f"{key!r} has a gradient already, by {owner}",
            hint="choose another key and name it in gradient_override_map",
            source=user_source(),
        )
    _RULES[key] = rule
