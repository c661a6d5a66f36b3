"""A step of an exported library, called like the compiled step it was exported from.

It has the same native entry: the library's function takes its tables in another order, so a few
instructions lie between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.codegen import ir
from symgrad.codegen.llvm.poll import STOPPED
from symgrad.codegen.llvm.tape import TAPE_FULL
from symgrad.codegen.native.jit import LoadedCode, load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.target import target_named
from symgrad.errors import (
    ForeignCallError,
    GraphError,
    IndexOutOfRangeError,
    NotFiniteError,
    TapeError,
    user_source,
)
from symgrad.frontend.nests import Nest, describe, flatten, flatten_as
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array
from symgrad.runtime.aot_manifest import ReadSymbol, failure_from_json, nest_from_json
from symgrad.runtime.arguments import (
    check_outputs,
    convert,
    in_order,
    input_labels,
    resolve_sizes,
)
from symgrad.runtime.entry import ArraySpec, Running, build_entry
from symgrad.runtime.entry_code import REENTERED
from symgrad.runtime.executable import reentered_error
from symgrad.runtime.interrupts import raise_interrupt
from symgrad.runtime.output_nest import output_nest_of

_PTR, _I32 = ir.PointerType(), ir.IntType(32)


def reorder_arguments(functions: Mapping[str, int]) -> LoadedCode:
    """Make `step(inputs, outputs, instance)` of each function `run(instance, inputs, outputs)`.

    `functions` maps names to addresses; what is made has the same names.
    """
    module = ir.Module("reorder")
    imports = {}
    kind = ir.FunctionType(_I32, [_PTR] * 3)
    for name, address in functions.items():
        run = ir.LLVMFunction(module, kind, f"run.{name}")
        imports[run.name] = address
        step = ir.LLVMFunction(module, kind, name)
        inputs, outputs, instance = step.args
        builder = ir.IRBuilder(step.append_basic_block("entry"))
        builder.ret(builder.call(run, [instance, inputs, outputs], tail=True))
    target = target_named("native")
    return load_object(object_of(str(module), target, 1), list(functions), imports)


def tensor_from_json(record: Mapping[str, Any]) -> Tensor:
    """Return a placeholder of the name and type that a manifest states."""
    return placeholder(record["shape"], record["dtype"], record["name"])


class LoadedStep:
    """A step of a library: call it with arrays, as the compiled step it was exported from."""

    def __init__(
        self,
        record: Mapping[str, Any],
        step_address: int,
        instance_address: int,
        running: Running,
        owner: object,
        *,
        makes_calls: bool,
        read_symbol: ReadSymbol,
    ) -> None:
        self.name = str(record["name"])
        self._inputs = [tensor_from_json(r) for r in record["inputs"]]
        self._outputs = [tensor_from_json(r) for r in record["outputs"]]
        self._input_nest = nest_from_json(record["input_nest"])
        output_nest = nest_from_json(record["output_nest"], read_symbol)
        self._output_nest = output_nest_of(output_nest, len(self._outputs))
        self._failures = {r["status"]: failure_from_json(r) for r in record["failures"]}
        self._makes_calls = makes_calls
        self._labels = input_labels(self._input_nest, self._inputs)
        self._takes_flat = self._input_nest == flatten((0,) * len(self._inputs))[1]
        self._entry = build_entry(
            name=self.name,
            step_address=step_address,
            state_address=instance_address,
            inputs=_specs(self._inputs),
            outputs=_specs(self._outputs),
            single=self._output_nest.is_single,
            slow_path=self._slow_call,
            on_failure=self._raise_failure,
            into_slow_path=self._slow_into,
            owner=owner,
            running=running,
            none_for_nothing=self._output_nest.is_nothing,
            as_list=self._output_nest.is_list,
        )
        is_direct = self._takes_flat and self._output_nest.is_direct
        self._run = self._entry.call if is_direct else self._run_nests

    def __repr__(self) -> str:
        inputs = ", ".join(str(t.type) for t in self._inputs)
        outputs = ", ".join(str(t.type) for t in self._outputs)
        return f"<LoadedStep {self.name}({inputs}) -> ({outputs})>"

    def __call__(self, *arrays: Any, out: Any = None, **by_name: Any) -> Any:
        """Run the step. `out` is a nest of arrays to write the outputs to, like the outputs.

        An input that has a name may be given by it: `step(x=..., labels=...)`.
        """
        if by_name:
            arrays = in_order(self.name, self._labels, arrays, by_name)
        if out is None:
            return self._run(*arrays)
        outputs = self._output_nest.flat(out)
        if outputs is None:
            outputs = self._leaves("out is", out, self._output_nest.nest)
        self._entry.into(*self._flat_inputs(arrays), *outputs)
        return out

    def _run_nests(self, *arrays: Any) -> Any:
        return self._output_nest.of(self._entry.call(*self._flat_inputs(arrays)))

    def _flat_inputs(self, arrays: tuple[Any, ...]) -> Sequence[Any]:
        if self._takes_flat:
            return arrays
        return self._leaves("the inputs are", arrays, self._input_nest)

    def _slow_call(self, *arguments: Any) -> Any:
        """Take a call whose arguments do not fit as they are: convert, or say what is wrong."""
        return self._entry.call(*self._converted(arguments))

    def _slow_into(self, *arguments: Any) -> None:
        """Take a call with outputs, which may overlap: compute into fresh arrays."""
        count = len(arguments) - len(self._outputs)
        outputs = arguments[count:]
        arrays = self._converted(arguments[:count])
        check_outputs(self.name, self._outputs, outputs)
        results = self._entry.call(*arrays)
        if self._output_nest.is_single:
            results = (results,)
        for target, result in zip(outputs, results, strict=True):
            np.copyto(target, result)

    def _converted(self, arguments: Sequence[Any]) -> list[Array]:
        arrays = convert(self.name, self._inputs, arguments)
        resolve_sizes(self.name, self._inputs, arrays)
        return arrays

    def _leaves(self, what: str, tree: Any, nest: Nest) -> list[Any]:
        try:
            return flatten_as(nest, tree)
        except ValueError as error:
            given = describe(flatten(tree)[1])
            problem = f"{what} {given}, {describe(nest)} is needed"
            raise GraphError(self.name, problem, source=user_source()) from error

    def _raise_failure(self, status: int, index: int, *_arguments: object) -> None:
        if status == REENTERED:
            raise reentered_error(self.name)
        if status == STOPPED:
            raise_interrupt(makes_calls=self._makes_calls)
            return
        if status == TAPE_FULL:
            raise TapeError(
                self.name,
                "a loop without a bound ran for longer than there is memory to record it",
                hint="give it maximum_iterations",
            )
        failure = self._failures[status]
        if failure.checked:
            label = failure.checked[index - len(failure.checked)]
            raise NotFiniteError(self.name, f"{label} is not finite", source=failure.source)
        if failure.axis is None:
            problem = f"the function returned status {index}"
            raise ForeignCallError(failure.op, problem, source=failure.source)
        problem = f"index {index} is out of range for {failure.axis}"
        raise IndexOutOfRangeError(failure.op, problem, source=failure.source)


def _specs(tensors: Sequence[Tensor]) -> list[ArraySpec]:
    named = (t.name or f"{i}" for i, t in enumerate(tensors))
    return [
        ArraySpec(name, t.type.static_shape, t.dtype)
        for name, t in zip(named, tensors, strict=True)
    ]
