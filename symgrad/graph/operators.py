"""Operator overloading: which public op each of Python's operators on tensors is.

The ops are looked up by name, in a table that `symgrad/graph/ops/` fills; and the class of tensors,
which lies above this module, is a parameter.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from symgrad.graph.late_binding import provided

Result = TypeVar("Result")
_NUMBERS = (int, float)  # which are operands, as most are that are no tensors


class Operators(Generic[Result]):
    """What makes `x + y` build graph; `Tensor` has it, and is what the operators give."""

    __slots__ = ()

    def _call(self, op: str, *args: Any, **attrs: Any) -> Result:
        result: Result = provided(op)(self, *args, **attrs)
        return result

    def _binary(self, op: str, other: Any) -> Result:
        is_known = isinstance(other, Operators) or type(other) in _NUMBERS
        is_operand = is_known or provided("is_operand")(other)
        return self._call(op, other) if is_operand else self._not_implemented()

    def _reflected(self, op: str, other: Any) -> Result:
        if type(other) not in _NUMBERS and not provided("is_operand")(other):
            return self._not_implemented()
        result: Result = provided(op)(other, self)
        return result

    def _compared(self, op: str, other: Any) -> Any:
        # Text is equal to no number; what else it is compared with, the op refuses.
        is_text = isinstance(other, str | bytes)
        return NotImplemented if is_text else self._binary(op, other)

    def _not_implemented(self) -> Result:
        """Leave the operator to the other operand, and to Python the error, as NumPy does.

        The result is typed as that of operands, which is what a caller that has types has.
        """
        result: Result = NotImplemented
        return result

    @property
    def at(self) -> Any:
        """What is chosen of it to be written: `x.at[key].set(v)`, `.add`, `.multiply`, ..."""
        return provided("at")(self)

    # Comparisons build graph, like NumPy's, unless with what is no operand, such as None, which a
    # tensor is not equal to. `is` compares identity, and dictionaries work because
    # they try identity first. Identity is what is hashed, and by C: passes do little else.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return self._compared("equal", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("not_equal", other)

    def __lt__(self, other: Any) -> Any:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Any:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Any:
        return self._binary("greater_equal", other)

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
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Result:
        return self._reflected("add", other)

    def __sub__(self, other: Any) -> Result:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Result:
        return self._reflected("subtract", other)

    def __mul__(self, other: Any) -> Result:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Result:
        return self._reflected("multiply", other)

    def __truediv__(self, other: Any) -> Result:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Result:
        return self._reflected("divide", other)

    def __floordiv__(self, other: Any) -> Result:
        return self._binary("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Result:
        return self._reflected("floor_divide", other)

    def __mod__(self, other: Any) -> Result:
        return self._binary("remainder", other)

    def __rmod__(self, other: Any) -> Result:
        return self._reflected("remainder", other)

    def __pow__(self, other: Any) -> Result:
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Result:
        return self._reflected("pow", other)

    def __matmul__(self, other: Any) -> Result:
        return self._binary("matmul", other)

    def __rmatmul__(self, other: Any) -> Result:
        return self._reflected("matmul", other)

    def __and__(self, other: Any) -> Result:
        return self._binary("bitwise_and", other)

    def __rand__(self, other: Any) -> Result:
        return self._reflected("bitwise_and", other)

    def __or__(self, other: Any) -> Result:
        return self._binary("bitwise_or", other)

    def __ror__(self, other: Any) -> Result:
        return self._reflected("bitwise_or", other)

    def __xor__(self, other: Any) -> Result:
        return self._binary("bitwise_xor", other)

    def __rxor__(self, other: Any) -> Result:
        return self._reflected("bitwise_xor", other)

    def __lshift__(self, other: Any) -> Result:
        return self._binary("bitwise_left_shift", other)

    def __rlshift__(self, other: Any) -> Result:
        return self._reflected("bitwise_left_shift", other)

    def __rshift__(self, other: Any) -> Result:
        return self._binary("bitwise_right_shift", other)

    def __rrshift__(self, other: Any) -> Result:
        return self._reflected("bitwise_right_shift", other)
