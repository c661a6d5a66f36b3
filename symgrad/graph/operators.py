"""Operator overloading: which public op each of Python's operators on tensors is.

The ops are looked up by name, in a table that `symgrad/graph/ops/` fills; and the class of tensors,
which lies above this module, is a parameter.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from symgrad.graph.late_binding import provided

Result = TypeVar("Result")


class Operators(Generic[Result]):
    """What makes `x + y` build graph; `Tensor` has it, and is what the operators give."""

    __slots__ = ()

    def _call(self, op: str, *args: Any, **attrs: Any) -> Result:
        result: Result = provided(op)(self, *args, **attrs)
        return result

    def _reflected(self, op: str, other: Any) -> Result:
        result: Result = provided(op)(other, self)
        return result

    # Comparisons build graph, like NumPy's: `is` compares identity, and dictionaries work because
    # they try identity first. Identity is what is hashed, and by C: passes do little else.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return self._call("equal", other)

    def __ne__(self, other: object) -> Any:
        return self._call("not_equal", other)

    def __lt__(self, other: Any) -> Any:
        return self._call("less", other)

    def __le__(self, other: Any) -> Any:
        return self._call("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        return self._call("greater", other)

    def __ge__(self, other: Any) -> Any:
        return self._call("greater_equal", other)

    def __neg__(self) -> Result:
        return self._call("negative")

    def __pos__(self) -> Result:
        return self._call("positive")

    def __abs__(self) -> Result:
        return self._call("abs")

    def __invert__(self) -> Result:
        return self._call("bitwise_invert")

    def __round__(self) -> Result:
        return self._call("round")

    def __add__(self, other: Any) -> Result:
        return self._call("add", other)

    def __radd__(self, other: Any) -> Result:
        return self._reflected("add", other)

    def __sub__(self, other: Any) -> Result:
        return self._call("subtract", other)

    def __rsub__(self, other: Any) -> Result:
        return self._reflected("subtract", other)

    def __mul__(self, other: Any) -> Result:
        return self._call("multiply", other)

    def __rmul__(self, other: Any) -> Result:
        return self._reflected("multiply", other)

    def __truediv__(self, other: Any) -> Result:
        return self._call("divide", other)

    def __rtruediv__(self, other: Any) -> Result:
        return self._reflected("divide", other)

    def __floordiv__(self, other: Any) -> Result:
        return self._call("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Result:
        return self._reflected("floor_divide", other)

    def __mod__(self, other: Any) -> Result:
        return self._call("remainder", other)

    def __rmod__(self, other: Any) -> Result:
        return self._reflected("remainder", other)

    def __pow__(self, other: Any) -> Result:
        return self._call("pow", other)

    def __rpow__(self, other: Any) -> Result:
        return self._reflected("pow", other)

    def __matmul__(self, other: Any) -> Result:
        return self._call("matmul", other)

    def __rmatmul__(self, other: Any) -> Result:
        return self._reflected("matmul", other)

    def __and__(self, other: Any) -> Result:
        return self._call("bitwise_and", other)

    def __rand__(self, other: Any) -> Result:
        return self._reflected("bitwise_and", other)

    def __or__(self, other: Any) -> Result:
        return self._call("bitwise_or", other)

    def __ror__(self, other: Any) -> Result:
        return self._reflected("bitwise_or", other)

    def __xor__(self, other: Any) -> Result:
        return self._call("bitwise_xor", other)

    def __rxor__(self, other: Any) -> Result:
        return self._reflected("bitwise_xor", other)

    def __lshift__(self, other: Any) -> Result:
        return self._call("bitwise_left_shift", other)

    def __rlshift__(self, other: Any) -> Result:
        return self._reflected("bitwise_left_shift", other)

    def __rshift__(self, other: Any) -> Result:
        return self._call("bitwise_right_shift", other)

    def __rrshift__(self, other: Any) -> Result:
        return self._reflected("bitwise_right_shift", other)
