"""NumPy functions that have no meaning for tensors, and what to use instead.

A refusal is an error that says so. Where no name of ours fits, what a program returns is an array,
and any function of NumPy takes that.
"""

from __future__ import annotations

_ON_ARRAYS = "sg.run or a compiled step, and NumPy on the array that it returns"
_NEW_VALUE = "sg.where, or x.at[...], which give a new tensor: a tensor never changes"

METHODS = {
    "reduce": "sg.sum, sg.prod, sg.max, sg.min, sg.any or sg.all",
    "accumulate": "sg.cumulative_sum, sg.cumulative_prod, sg.cummax or sg.cummin",
    "reduceat": "sg.segment_sum and its kin",
    "at": _NEW_VALUE,
    "outer": "sg.expand_dims and the function itself",
}

_INSTEAD = {
    _NEW_VALUE: "copyto fill_diagonal place put putmask",
    "sg.put_along_axis, which gives a new tensor: a tensor never changes": "put_along_axis",
    # Of what a condition or equality chooses only a run tells how much it is.
    "sg.unique_values with size=": "unique unique_values",
    "sg.unique_all with size=": "unique_all",
    "sg.unique_counts with size=": "unique_counts",
    "sg.unique_inverse with size=": "unique_inverse",
    "sg.unique_values of sg.concat([x, y], axis=None), with size=": "union1d",
    "sg.isin, and sg.nonzero of it with size=": "intersect1d setdiff1d setxor1d",
    "sg.nonzero of sg.ravel(x), with size=": "flatnonzero",
    "sg.stack of sg.nonzero(x, size=), with axis=-1": "argwhere",
    "sg.where, which keeps the shape": "trim_zeros",
    "sg.sort: there are no complex tensors": "sort_complex",
    "sg.vmap, or sg.map over a leading axis": "apply_along_axis",
    "sg.bincount with length=, of sg.digitize of each coordinate": "histogram2d histogramdd",
    "sg.einsum, which chooses an order itself": "einsum_path",
    "NumPy on the roots or coefficients, or sums of powers: x * (x * a + b) + c": (
        "poly polydiv polyfit polyint polymul roots"
    ),
    "sg.exp of sg.linspace between the logarithms": "geomspace",
    "sg.bitwise_left_shift, sg.bitwise_right_shift and sg.bitwise_or": "packbits unpackbits",
    "str(x), or sg.Graph(x) for the program": "array2string array_repr array_str",
    "x.dtype and sg.result_type": "common_type min_scalar_type",
    "sg.run, and sg.save for variables": "save savetxt savez savez_compressed",
    "sg.isnan: there are no dates": "isnat",
}
_BY_NAME = {name: instead for instead, names in _INSTEAD.items() for name in names.split()}


def instead_of(name: str) -> str:
    """Return what to use in the place of NumPy's function or ufunc `name`."""
    return _BY_NAME.get(name, _ON_ARRAYS)


def is_named(name: str) -> bool:
    """Return whether there is a hint for `name` of its own."""
    return name in _BY_NAME


def named_instead() -> set[str]:
    """Return the functions and ufuncs for which there is a hint of their own."""
    return set(_BY_NAME)
