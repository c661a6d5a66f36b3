"""What to use instead of the functions of NumPy that have no meaning for tensors.

A refusal is an error that says so. Where no name of ours fits, what a program returns is an array,
and any function of NumPy takes that.
"""

from __future__ import annotations

_ON_ARRAYS = "sg.run or a compiled step, and NumPy on the array that it returns"
_NEW_VALUE = "sg.where, or x.at[...], which give a new tensor: a tensor never changes"
_STATIC_SIZE = "a function of sg whose size= makes the shape of the result known"
_SORTED = "sg.sort or sg.argsort"

METHODS = {
    "reduce": "sg.sum, sg.prod, sg.max, sg.min, sg.any or sg.all",
    "accumulate": "sg.cumulative_sum, sg.cumulative_prod, sg.cummax or sg.cummin",
    "reduceat": "sg.segment_sum and its kin",
    "at": _NEW_VALUE,
    "outer": "sg.expand_dims and the function itself",
}

_INSTEAD = {
    _NEW_VALUE: "copyto fill_diagonal place put put_along_axis putmask insert resize",
    _STATIC_SIZE: (
        "argwhere compress extract flatnonzero nonzero trim_zeros union1d intersect1d setdiff1d "
        "setxor1d unique unique_all unique_counts unique_inverse unique_values"
    ),
    _SORTED: "argpartition partition sort_complex argsort sort lexsort",
    "sg.map, or sg.vmap": "apply_along_axis apply_over_axes piecewise",
    "sg.where, or sg.switch_case for branches of which one runs": "choose",
    "sg.argmax or sg.argmin of sg.where(sg.isnan(x), limit, x)": "nanargmax nanargmin",
    "sg.cumulative_sum or sg.cumulative_prod of sg.where(sg.isnan(x), 0, x)": (
        "nancumsum nancumprod cumsum cumprod cumulative_sum cumulative_prod"
    ),
    "sg.median or sg.quantile": ("median quantile percentile nanmedian nanquantile nanpercentile"),
    "sg.histogram or sg.bincount with length=": (
        "bincount digitize histogram histogram2d histogram_bin_edges histogramdd"
    ),
    "sg.searchsorted": "searchsorted interp",
    "sg.gradients for derivatives, sg.diff for differences": "gradient",
    "sg.matmul of what is left when sg.mean is subtracted": "corrcoef cov",
    "sg.nn.conv, or sg.matmul of slices": "convolve correlate",
    "sg.einsum": "cross einsum_path kron",
    "sums of powers: x * (x * a + b) + c": (
        "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander"
    ),
    "sg.arange and sg.linspace, and sg.exp of them": "geomspace linspace logspace",
    "sg.floor_divide and sg.remainder by the sizes of the axes": (
        "ravel_multi_index unravel_index"
    ),
    "sg.arange and sg.expand_dims": ("diag_indices_from tril_indices_from triu_indices_from ix_"),
    "sg.bitwise_and and shifts": "packbits unpackbits bitwise_count",
    "str(x), or sg.Graph(x) for the program": "array2string array_repr array_str",
    "x.dtype and sg.result_type": "common_type min_scalar_type",
    "sg.special.i0e": "i0",
    "real numbers: there are no complex tensors": "angle",
    "sg.run, and sg.save for variables": "save savetxt savez savez_compressed",
    "sg.floor and sg.log2": "frexp",
    "sg.multiply by sg.pow(2.0, n)": "ldexp",
    "sg.nextafter": "spacing",
    "sg.remainder in an sg.while_loop": "gcd lcm",
    "sg.where of sg.diff": "unwrap",
}
_BY_NAME = {name: instead for instead, names in _INSTEAD.items() for name in names.split()}


def instead_of(name: str) -> str:
    """Return what to use in the place of NumPy's function or ufunc `name`."""
    return _BY_NAME.get(name, _ON_ARRAYS)


def is_named(name: str) -> bool:
    """Return whether there is a hint for `name` of its own."""
    return name in _BY_NAME
