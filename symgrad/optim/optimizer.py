"""Optimizer base class: finding variables and pairing them with gradients.

The rule by which a variable moves is not here but in a module for each optimizer; what those
share is in `rule.py`. An optimizer computes nothing: it builds graph, and returns updates for
`compile` to put into the same program as the loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.call_errors import methods_refuse_arguments
from symgrad.collector import paused_collector
from symgrad.display.panels import facts, long_table, panel
from symgrad.display.units import bytes_text
from symgrad.errors import DTypeError, GraphError, SymgradError, shortened, user_source
from symgrad.frontend.nests import flatten, is_leaf
from symgrad.graph.build import built_once, name_scope
from symgrad.graph.graph import Update
from symgrad.graph.identity import OwnsVariables
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, meet_shapes
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.spread_numbers import numbers_once
from symgrad.graph.traverse import topological
from symgrad.graph.types import Array, State
from symgrad.optim.slots import Slots, slot_dtype
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.suggestions import unknown_attribute

if TYPE_CHECKING:
    from symgrad.distributed.communicator import Communicator
    from symgrad.distributed.shards import ScatterRows

Pair = tuple[Tensor, Variable]

# What an optimizer of PyTorch, Keras or optax has, and what stands for it.
_INSTEAD = {
    "init": ".state",
    "learning_rate": ".lr",
    "load_state_dict": "sg.restore",
    "state_dict": ".state",
    "step": ".minimize",
    "update": ".apply_gradients",
}


@methods_refuse_arguments
class Optimizer(OwnsVariables, ABC):
    """A rule that moves variables against the gradient of a loss.

    Slots, such as a momentum, are variables of their own, made when a variable is first met and
    used again whenever it returns. Those of a float16 or bfloat16 variable are float32, and so is
    all arithmetic up to the new value, which is rounded once: a small term would vanish in an
    average that has 8 or 11 bits.

    >>> w = sg.variable(1.0, name="w")
    >>> optimizer: sg.optim.Optimizer = sg.optim.SGD(0.1, momentum=0.9)
    >>> updates = optimizer.minimize(w * w)
    >>> list(optimizer.state)
    ['w/momentum']
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        methods_refuse_arguments(cls)

    if not TYPE_CHECKING:  # which would take every attribute to be there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # what Python and its tools look for, and mostly do not find
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            known = [*dir(type(self)), *vars(self)]
            if name in known:  # a property that met an error of its own
                return object.__getattribute__(self, name)
            raise unknown_attribute(type(self).__name__, name, known, _INSTEAD)

    def __init__(self) -> None:
        self._slots = Slots()
        self._parts: dict[tuple[State, Communicator, bool], Variable] = {}
        self._loss: Tensor | None = None

    @property
    def state(self) -> Mapping[str, Variable]:
        """The slots by name: `w/m` belongs to the variable `w`, `step` to the optimizer.

        As tensors they have the scopes in force before that, of which the last is the optimizer's.
        """
        return self._slots.by_name

    @property
    def loss(self) -> Tensor:
        """The mean loss over all ranks of the last `minimize(..., reproducible=True)`, a scalar.

        Raises `GraphError` before.
        """
        if self._loss is None:
            problem = "loss is that of minimize with reproducible=True"
            raise GraphError(f"{type(self).__name__}.loss", problem, source=user_source())
        return self._loss

    def _repr_html_(self) -> str:
        """Return what notebooks show: hyperparameters, and the slots with their types."""
        given = [(key, value) for key, value in vars(self).items() if not key.startswith("_")]
        slots = [(name, v.type, bytes_text(v.type.nbytes)) for name, v in self.state.items()]
        table = (
            long_table(("slot", "type", "bytes"), slots, right=(2,)) if slots else "no slots yet"
        )
        return panel(type(self).__name__, facts(given), table)

    def minimize(
        self,
        loss: Any,
        variables: Iterable[Any] | None = None,
        *,
        data_parallel: Any = None,
        shard_state: bool = False,
        reproducible: bool | int = False,
    ) -> list[Update]:
        """Return the updates that lower `loss`; of a loss with several elements, their sum.

        `variables` is any iterable or nest of variables, such as a dict. Without it, every
        trainable variable the loss depends on is moved. A variable that gets no gradient is left
        alone. Raises `GraphError` if none gets one.

        `data_parallel` is a communicator (`sg.distributed`): all its ranks call this, each with the
        mean loss of its own samples, as many on each rank. Gradients are averaged over ranks, and
        the variables get the values of rank 0 now; the loss remains that of this rank. Raises
        `GraphError` on all ranks where the variables differ in name, dtype or shape.

        With `shard_state` a rank keeps an equal part of each slot and moves that part of each
        variable: the results are the same, up to rounding, and slots take the memory of one rank
        divided by their number. Raises `GraphError` without `data_parallel`.

        With `reproducible` the bits of the results do not depend on the number of ranks, a power of
        two: the batch of all ranks is cut in 8 pieces, or as many as it says, whose gradients are
        added in a fixed order. What has samples along its first axis has unknown length there; then
        `loss` has the mean loss of all ranks.

        >>> w = sg.variable(1.0, name="w")
        >>> step = sg.compile([], w, sg.optim.SGD(0.25).minimize(w * w))
        >>> step(), w.value
        (array(1., dtype=float32), array(0.5, dtype=float32))
        """
        loss = as_tensor(loss)
        subject = f"{type(self).__name__}.minimize"
        if not loss.dtype.is_float:
            raise DTypeError(subject, f"loss: {loss.type} is no float", source=user_source())
        chosen = trainable_variables(loss) if variables is None else _leaves(variables)
        for candidate in chosen:
            check_variable(subject, candidate)
        if not chosen:
            raise GraphError(
                subject,
                "there is no variable to move" if variables is not None
                else "the loss depends on no trainable variable",
                source=loss.node.source,
            )  # fmt: skip
        if data_parallel is None and (shard_state or reproducible is not False):
            option = "shard_state" if shard_state else "reproducible"
            problem = f"{option} is given without data_parallel, a communicator"
            raise GraphError(subject, problem, source=user_source())
        if data_parallel is None:
            with paused_collector():
                return self.apply_gradients(zip(gradients(loss, chosen), chosen, strict=True))
        return self._by_ranks(loss, chosen, data_parallel, shard_state, reproducible)

    def _by_ranks(
        self,
        loss: Tensor,
        chosen: Sequence[Variable],
        data_parallel: Any,
        shard_state: bool,
        reproducible: bool | int,
    ) -> list[Update]:
        # What is imported here and below only those need who have ranks.
        from symgrad.distributed.data_parallel import start_equal

        comm = start_equal(f"{type(self).__name__}.minimize", chosen, data_parallel)
        with paused_collector():
            if reproducible is False:
                return self._averaged(loss, chosen, comm, shard_state)
            return self._reproducible(loss, chosen, comm, shard_state, reproducible)

    def _averaged(
        self, loss: Tensor, chosen: Sequence[Variable], comm: Communicator, shard_state: bool
    ) -> list[Update]:
        from symgrad.distributed.data_parallel import averaged
        from symgrad.distributed.shards import summed_parts

        subject = f"{type(self).__name__}.minimize"
        grads = gradients(loss, chosen)
        if not shard_state:
            means = averaged(subject, grads, comm)
            return self.apply_gradients(zip(means, chosen, strict=True))
        given = zip(grads, chosen, strict=True)
        return self._sharded(subject, given, comm, summed_parts(subject, comm), False)

    def _reproducible(
        self,
        loss: Tensor,
        chosen: Sequence[Variable],
        comm: Communicator,
        shard_state: bool,
        reproducible: bool | int,
    ) -> list[Update]:
        from symgrad.distributed.pieces import piece_count, piece_sums

        subject = f"{type(self).__name__}.minimize"
        count = piece_count(subject, reproducible, comm)
        sums = piece_sums(subject, loss, chosen, count, comm)
        self._loss = sums.mean_loss()
        if not shard_state:
            means = sums.means(subject)
            return self.apply_gradients(zip(means, chosen, strict=True))
        given = zip(sums.gradients, chosen, strict=True)
        return self._sharded(subject, given, comm, sums.scatter(subject), True)

    def _sharded(
        self,
        subject: str,
        grads_and_vars: Iterable[tuple[Any, Variable]],
        comm: Communicator,
        scatter: ScatterRows,
        is_reproducible: bool,
    ) -> list[Update]:
        """Return updates of which each rank of `comm` computes its part."""
        from symgrad.distributed.shards import part_of, sharded_updates

        pairs = _read_pairs(subject, grads_and_vars)
        parts = {}
        for _, w in pairs:
            key = w.state, comm, is_reproducible
            if key not in self._parts:
                self._parts[key] = part_of(w, comm, is_reproducible=is_reproducible)
            parts[w.state] = self._parts[key]
        return sharded_updates(subject, pairs, parts, comm, self.apply_gradients, scatter)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]]) -> list[Update]:
        """Return the updates that move each variable by its gradient.

        A pair whose gradient is None is left out. Raises `GraphError` if that leaves none, or if a
        variable comes twice; `ShapeError` for a gradient of another shape than its variable.

        >>> w = sg.variable(1.0, name="w")
        >>> (dw,) = sg.gradients(w * w, [w])
        >>> updates = sg.optim.SGD(0.25).apply_gradients([(dw / 2, w)])
        >>> sg.compile([], w, updates)(), w.value
        (array(1., dtype=float32), array(0.75, dtype=float32))
        """
        pairs = _read_pairs(f"{type(self).__name__}.apply_gradients", grads_and_vars)
        with name_scope(type(self).__name__), built_once(), numbers_once(), paused_collector():
            return self._updates(pairs)

    @abstractmethod
    def _updates(self, pairs: Sequence[Pair]) -> list[Update]:
        """Return the updates of the variables and of their slots.

        A gradient has the shape of its variable and the dtype `slot_dtype` names.
        """


def _leaves(variables: Any) -> list[Any]:
    """Return the leaves of a nest, or what an iterable that is no nest gives."""
    is_nest = isinstance(variables, Tensor) or not is_leaf(flatten(variables)[1])
    return flatten(variables if is_nest else list(variables))[0]


def trainable_variables(loss: Tensor) -> list[Variable]:
    """Return the trainable variables that `loss` depends on, in the order in which it does."""
    leaves = (node.output for node in topological((loss,)) if node.definition.is_leaf)
    return [
        leaf
        for leaf in leaves
        if isinstance(leaf, Variable) and leaf.trainable and leaf.dtype.is_trainable
    ]


def check_variable(subject: str, candidate: Any) -> None:
    """Raise `DTypeError` unless `candidate` is a variable of a float dtype."""
    if not isinstance(candidate, Variable):
        raise DTypeError(subject, f"{candidate!r} is no variable", source=user_source())
    if candidate.dtype.is_complex:
        raise DTypeError(
            subject,
            f"{candidate!r} is complex",
            hint="train its two parts, and make it of them by sg.complex",
            source=user_source(),
        )
    if not candidate.dtype.is_float:
        raise DTypeError(
            subject, f"{candidate!r} is no float and has no gradient", source=user_source()
        )


def repeated(variables: Iterable[Variable]) -> Variable | None:
    """Return the first of `variables` that came before, None if each comes once."""
    seen: set[State] = set()
    for owner in variables:
        if owner.state in seen:
            return owner
        seen.add(owner.state)
    return None


def _read_pairs(subject: str, grads_and_vars: Iterable[tuple[Any, Variable]]) -> list[Pair]:
    """Return the pairs that have a gradient, read; raises `GraphError` if there are none."""
    given: list[Any] = list(grads_and_vars)
    for pair in given:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            problem = f"{shortened(pair)} is no pair of a gradient and a variable"
            raise DTypeError(subject, problem, source=user_source())
    pairs = [_read_pair(subject, g, v) for g, v in given if g is not None]
    if not pairs:
        names = ", ".join(v.name or "a variable" for _, v in given)
        raise GraphError(
            subject,
            f"no variable has a gradient: {names or 'no pairs were given'}",
            hint="sg.explain_none(loss, variable) tells where it is cut" if given else None,
            source=user_source(),
        )
    twice = repeated([v for _, v in pairs])
    if twice is not None:
        raise GraphError(
            subject, f"{twice!r} has two gradients", hint="add them", source=user_source()
        )
    return pairs


def _read_pair(subject: str, g: Tensor | Array, owner: Any) -> Pair:
    """Return `g` with the shape of `owner` and the dtype of its slots, and `owner`."""
    check_variable(subject, owner)
    g = as_tensor(g, owner.dtype)
    if not g.dtype.is_float:
        raise DTypeError(
            subject, f"the gradient of {owner!r} is {g.type}, no float", source=user_source()
        )
    try:
        meet_shapes(subject, "gradient", g.type, owner.name or "variable", owner.type)
    except SymgradError as error:
        error.source = user_source()
        raise
    return cast(match_shape(g, owner.shape), slot_dtype(owner)), owner
