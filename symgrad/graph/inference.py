"""Type inference: the types of the results of an op, and one object for equal types.

What an op infers is its own rule (`graph/ops/`); what holds for the results of every op is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph.node import Attrs, OpDef
from symgrad.graph.types import TensorType, require_int64_count


def infer_types(
    definition: OpDef, inputs: Sequence[TensorType], attrs: Attrs
) -> tuple[TensorType, ...]:
    """Infer the types of the results of an op, of which an int64 counts elements and bytes.

    Whatever builds, specialises, reads or verifies an op comes by here.
    """
    inferred = definition.infer(*inputs, **attrs)
    is_known = bool(inputs) and inferred is inputs[0] and all([t is inferred for t in inputs])
    if is_known and not inputs[0].dtype.is_complex:
        return (inputs[0],)  # which was checked where it was inferred
    types = inferred if isinstance(inferred, tuple) else (inferred,)
    if definition.of_pairs == "none" and not definition.is_leaf:
        _refuse_complex(definition, inputs, types)
    try:
        return tuple([interned_type(type_) for type_ in types])
    except (DTypeError, ShapeError) as error:
        error.subject = definition.name
        raise


@lru_cache(maxsize=1 << 14)
def interned_type(type_: TensorType) -> TensorType:
    """Return one of equal types for all: most ops then find out at once that theirs agree.

    It is checked when it is first met, and an error is to name the op.

    There is room for those of a model of thousands of sizes: where types are forgotten before they
    are met again, none is found to agree.
    """
    require_int64_count("", type_, type_.shape, type_.dtype.itemsize)
    return type_


def _refuse_complex(
    definition: OpDef, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> None:
    if not any([type_.dtype.kind == "complex" for type_ in (*inputs, *outputs)]):
        return  # nearly always: which one it is takes longer
    for position, type_ in enumerate(inputs):
        if type_.dtype.is_complex:
            raise DTypeError(
                definition.name,
                f"operand {position}: {type_} is complex, real numbers are needed",
                hint="take sg.real, sg.imag or sg.abs of it",
            )
    for type_ in outputs:
        if type_.dtype.is_complex:
            raise DTypeError(
                definition.name,
                f"the result is {type_}, and there is none that is complex",
                hint="make it of two real ones by sg.complex",
            )
