"""symgrad: a graph-mode symbolic differentiation compiler for CPUs.

A public name is listed here once, as what is imported under its own name: so type checkers see it,
and `__all__` is made of that.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

from symgrad.collector import importing as _importing

with _importing():  # nearly all that is loaded: what is imported below has been by these
    from symgrad import optim as optim

from symgrad.errors import ArgumentError as ArgumentError
from symgrad.errors import AxisError as AxisError
from symgrad.errors import CheckpointError as CheckpointError
from symgrad.errors import CompileError as CompileError
from symgrad.errors import DTypeError as DTypeError
from symgrad.errors import ForeignCallError as ForeignCallError
from symgrad.errors import GraphError as GraphError
from symgrad.errors import IndexOutOfRangeError as IndexOutOfRangeError
from symgrad.errors import LoadError as LoadError
from symgrad.errors import NoGradientError as NoGradientError
from symgrad.errors import NotFiniteError as NotFiniteError
from symgrad.errors import PromotionWarning as PromotionWarning
from symgrad.errors import ShapeError as ShapeError
from symgrad.errors import SymgradError as SymgradError
from symgrad.errors import TapeError as TapeError
from symgrad.errors import UnknownNameError as UnknownNameError
from symgrad.frontend.container import Container as Container
from symgrad.frontend.creation import arange as arange
from symgrad.frontend.creation import asarray as asarray
from symgrad.frontend.creation import empty as empty
from symgrad.frontend.creation import empty_like as empty_like
from symgrad.frontend.creation import from_dlpack as from_dlpack
from symgrad.frontend.creation import full as full
from symgrad.frontend.creation import full_like as full_like
from symgrad.frontend.creation import linspace as linspace
from symgrad.frontend.creation import meshgrid as meshgrid
from symgrad.frontend.creation import ones as ones
from symgrad.frontend.creation import ones_like as ones_like
from symgrad.frontend.creation import zeros as zeros
from symgrad.frontend.creation import zeros_like as zeros_like
from symgrad.frontend.data_types import can_cast as can_cast
from symgrad.frontend.data_types import finfo as finfo
from symgrad.frontend.data_types import iinfo as iinfo
from symgrad.frontend.data_types import isdtype as isdtype
from symgrad.frontend.data_types import result_type as result_type
from symgrad.frontend.inspection import __array_api_version__ as __array_api_version__
from symgrad.frontend.inspection import __array_namespace_info__ as __array_namespace_info__
from symgrad.frontend.matrices import eye as eye
from symgrad.frontend.matrices import tril as tril
from symgrad.frontend.matrices import triu as triu
from symgrad.frontend.publication import publish as _publish
from symgrad.frontend.shapes import broadcast_shapes as broadcast_shapes
from symgrad.frontend.state import inplace_decrement as inplace_decrement
from symgrad.frontend.state import inplace_increment as inplace_increment
from symgrad.frontend.state import inplace_update as inplace_update
from symgrad.frontend.state import is_variable as is_variable
from symgrad.frontend.state import variable as variable
from symgrad.frontend.state import variable_data as variable_data
from symgrad.graph.build import name_scope as name_scope
from symgrad.graph.dtypes import DType as DType
from symgrad.graph.dtypes import bfloat16 as bfloat16
from symgrad.graph.dtypes import bool_ as bool_
from symgrad.graph.dtypes import complex64 as complex64
from symgrad.graph.dtypes import complex128 as complex128
from symgrad.graph.dtypes import float16 as float16
from symgrad.graph.dtypes import float32 as float32
from symgrad.graph.dtypes import float64 as float64
from symgrad.graph.dtypes import int8 as int8
from symgrad.graph.dtypes import int16 as int16
from symgrad.graph.dtypes import int32 as int32
from symgrad.graph.dtypes import int64 as int64
from symgrad.graph.dtypes import uint8 as uint8
from symgrad.graph.dtypes import uint16 as uint16
from symgrad.graph.dtypes import uint32 as uint32
from symgrad.graph.dtypes import uint64 as uint64
from symgrad.graph.gradient_registry import gradient_override_map as gradient_override_map
from symgrad.graph.gradient_registry import not_differentiable as not_differentiable
from symgrad.graph.gradient_registry import register_gradient as register_gradient
from symgrad.graph.graph import Graph as Graph
from symgrad.graph.graph import Update as Update
from symgrad.graph.leaf import Variable as Variable
from symgrad.graph.leaf import placeholder as placeholder
from symgrad.graph.node import Node as Node
from symgrad.graph.node import Tensor as Tensor
from symgrad.graph.operands import constant as constant
from symgrad.graph.ops.arithmetic import abs as abs
from symgrad.graph.ops.arithmetic import add as add
from symgrad.graph.ops.arithmetic import divide as divide
from symgrad.graph.ops.arithmetic import floor_divide as floor_divide
from symgrad.graph.ops.arithmetic import isfinite as isfinite
from symgrad.graph.ops.arithmetic import isinf as isinf
from symgrad.graph.ops.arithmetic import multiply as multiply
from symgrad.graph.ops.arithmetic import negative as negative
from symgrad.graph.ops.arithmetic import positive as positive
from symgrad.graph.ops.arithmetic import remainder as remainder
from symgrad.graph.ops.arithmetic import sign as sign
from symgrad.graph.ops.arithmetic import square as square
from symgrad.graph.ops.arithmetic import subtract as subtract
from symgrad.graph.ops.bits import bitwise_and as bitwise_and
from symgrad.graph.ops.bits import bitwise_invert as bitwise_invert
from symgrad.graph.ops.bits import bitwise_left_shift as bitwise_left_shift
from symgrad.graph.ops.bits import bitwise_or as bitwise_or
from symgrad.graph.ops.bits import bitwise_right_shift as bitwise_right_shift
from symgrad.graph.ops.bits import bitwise_xor as bitwise_xor
from symgrad.graph.ops.closeness import allclose as allclose
from symgrad.graph.ops.closeness import array_equal as array_equal
from symgrad.graph.ops.closeness import isclose as isclose
from symgrad.graph.ops.comparison import equal as equal
from symgrad.graph.ops.comparison import greater as greater
from symgrad.graph.ops.comparison import greater_equal as greater_equal
from symgrad.graph.ops.comparison import isnan as isnan
from symgrad.graph.ops.comparison import less as less
from symgrad.graph.ops.comparison import less_equal as less_equal
from symgrad.graph.ops.comparison import logical_and as logical_and
from symgrad.graph.ops.comparison import logical_not as logical_not
from symgrad.graph.ops.comparison import logical_or as logical_or
from symgrad.graph.ops.comparison import logical_xor as logical_xor
from symgrad.graph.ops.comparison import not_equal as not_equal
from symgrad.graph.ops.comparison import where as where
from symgrad.graph.ops.complex_parts import angle as angle
from symgrad.graph.ops.complex_parts import complex as complex
from symgrad.graph.ops.complex_parts import conj as conj
from symgrad.graph.ops.complex_parts import imag as imag
from symgrad.graph.ops.complex_parts import real as real
from symgrad.graph.ops.contraction import dot as dot
from symgrad.graph.ops.contraction import matmul as matmul
from symgrad.graph.ops.contraction import outer as outer
from symgrad.graph.ops.contraction import tensordot as tensordot
from symgrad.graph.ops.contraction import vecdot as vecdot
from symgrad.graph.ops.conversion import astype as astype
from symgrad.graph.ops.conversion import identity as identity
from symgrad.graph.ops.conversion import shape as shape
from symgrad.graph.ops.counting import bincount as bincount
from symgrad.graph.ops.counting import digitize as digitize
from symgrad.graph.ops.counting import histogram as histogram
from symgrad.graph.ops.counting import lexsort as lexsort
from symgrad.graph.ops.counting import searchsorted as searchsorted
from symgrad.graph.ops.covariance import corrcoef as corrcoef
from symgrad.graph.ops.covariance import cov as cov
from symgrad.graph.ops.cumulative import cumprod as cumprod
from symgrad.graph.ops.cumulative import cumsum as cumsum
from symgrad.graph.ops.cumulative import cumulative_prod as cumulative_prod
from symgrad.graph.ops.cumulative import cumulative_sum as cumulative_sum
from symgrad.graph.ops.diagonals import diag as diag
from symgrad.graph.ops.diagonals import diagflat as diagflat
from symgrad.graph.ops.differences import diff as diff
from symgrad.graph.ops.exponential_scans import logcumsumexp as logcumsumexp
from symgrad.graph.ops.extrema import clip as clip
from symgrad.graph.ops.extrema import maximum as maximum
from symgrad.graph.ops.extrema import minimum as minimum
from symgrad.graph.ops.float_parts import copysign as copysign
from symgrad.graph.ops.float_parts import fmod as fmod
from symgrad.graph.ops.float_parts import nextafter as nextafter
from symgrad.graph.ops.float_parts import signbit as signbit
from symgrad.graph.ops.float_parts import trunc as trunc
from symgrad.graph.ops.hyperbolic import acosh as acosh
from symgrad.graph.ops.hyperbolic import asinh as asinh
from symgrad.graph.ops.hyperbolic import atanh as atanh
from symgrad.graph.ops.hyperbolic import cosh as cosh
from symgrad.graph.ops.hyperbolic import sinh as sinh
from symgrad.graph.ops.indexing import one_hot as one_hot
from symgrad.graph.ops.indexing import scatter_add as scatter_add
from symgrad.graph.ops.indexing import take as take
from symgrad.graph.ops.indexing import take_along_axis as take_along_axis
from symgrad.graph.ops.interpolation import interp as interp
from symgrad.graph.ops.joining import array_split as array_split
from symgrad.graph.ops.joining import atleast_1d as atleast_1d
from symgrad.graph.ops.joining import atleast_2d as atleast_2d
from symgrad.graph.ops.joining import atleast_3d as atleast_3d
from symgrad.graph.ops.joining import broadcast_arrays as broadcast_arrays
from symgrad.graph.ops.joining import column_stack as column_stack
from symgrad.graph.ops.joining import dsplit as dsplit
from symgrad.graph.ops.joining import dstack as dstack
from symgrad.graph.ops.joining import fliplr as fliplr
from symgrad.graph.ops.joining import flipud as flipud
from symgrad.graph.ops.joining import hsplit as hsplit
from symgrad.graph.ops.joining import hstack as hstack
from symgrad.graph.ops.joining import ravel as ravel
from symgrad.graph.ops.joining import rot90 as rot90
from symgrad.graph.ops.joining import vsplit as vsplit
from symgrad.graph.ops.joining import vstack as vstack
from symgrad.graph.ops.marks import prevent_gradient as prevent_gradient
from symgrad.graph.ops.membership import isin as isin
from symgrad.graph.ops.nan_positions import nanargmax as nanargmax
from symgrad.graph.ops.nan_positions import nanargmin as nanargmin
from symgrad.graph.ops.nan_positions import nancumprod as nancumprod
from symgrad.graph.ops.nan_positions import nancumsum as nancumsum
from symgrad.graph.ops.order_statistics import median as median
from symgrad.graph.ops.order_statistics import nanmedian as nanmedian
from symgrad.graph.ops.order_statistics import nanpercentile as nanpercentile
from symgrad.graph.ops.order_statistics import nanquantile as nanquantile
from symgrad.graph.ops.order_statistics import percentile as percentile
from symgrad.graph.ops.order_statistics import quantile as quantile
from symgrad.graph.ops.ordering import argsort as argsort
from symgrad.graph.ops.ordering import sort as sort
from symgrad.graph.ops.ordering import top_k as top_k
from symgrad.graph.ops.padding import pad as pad
from symgrad.graph.ops.powers import cbrt as cbrt
from symgrad.graph.ops.powers import exp2 as exp2
from symgrad.graph.ops.powers import hypot as hypot
from symgrad.graph.ops.powers import log2 as log2
from symgrad.graph.ops.powers import log10 as log10
from symgrad.graph.ops.powers import logaddexp as logaddexp
from symgrad.graph.ops.powers import logaddexp2 as logaddexp2
from symgrad.graph.ops.powers import reciprocal as reciprocal
from symgrad.graph.ops.reduction import all as all
from symgrad.graph.ops.reduction import any as any
from symgrad.graph.ops.reduction import argmax as argmax
from symgrad.graph.ops.reduction import argmin as argmin
from symgrad.graph.ops.reduction import max as max
from symgrad.graph.ops.reduction import mean as mean
from symgrad.graph.ops.reduction import min as min
from symgrad.graph.ops.reduction import prod as prod
from symgrad.graph.ops.reduction import sum as sum
from symgrad.graph.ops.rolling import roll as roll
from symgrad.graph.ops.running_extremes import cummax as cummax
from symgrad.graph.ops.running_extremes import cummin as cummin
from symgrad.graph.ops.segments import gather_nd as gather_nd
from symgrad.graph.ops.segments import put_along_axis as put_along_axis
from symgrad.graph.ops.segments import scatter_nd as scatter_nd
from symgrad.graph.ops.segments import segment_max as segment_max
from symgrad.graph.ops.segments import segment_mean as segment_mean
from symgrad.graph.ops.segments import segment_min as segment_min
from symgrad.graph.ops.segments import segment_prod as segment_prod
from symgrad.graph.ops.segments import segment_sum as segment_sum
from symgrad.graph.ops.sets import nonzero as nonzero
from symgrad.graph.ops.sets import unique_all as unique_all
from symgrad.graph.ops.sets import unique_counts as unique_counts
from symgrad.graph.ops.sets import unique_inverse as unique_inverse
from symgrad.graph.ops.sets import unique_values as unique_values
from symgrad.graph.ops.slicing import concat as concat
from symgrad.graph.ops.slicing import flip as flip
from symgrad.graph.ops.slicing import stack as stack
from symgrad.graph.ops.statistics import average as average
from symgrad.graph.ops.statistics import count_nonzero as count_nonzero
from symgrad.graph.ops.statistics import nan_to_num as nan_to_num
from symgrad.graph.ops.statistics import nanmax as nanmax
from symgrad.graph.ops.statistics import nanmean as nanmean
from symgrad.graph.ops.statistics import nanmin as nanmin
from symgrad.graph.ops.statistics import nanprod as nanprod
from symgrad.graph.ops.statistics import nanstd as nanstd
from symgrad.graph.ops.statistics import nansum as nansum
from symgrad.graph.ops.statistics import nanvar as nanvar
from symgrad.graph.ops.statistics import ptp as ptp
from symgrad.graph.ops.statistics import std as std
from symgrad.graph.ops.statistics import var as var
from symgrad.graph.ops.structure import broadcast_to as broadcast_to
from symgrad.graph.ops.structure import expand_dims as expand_dims
from symgrad.graph.ops.structure import permute_dims as permute_dims
from symgrad.graph.ops.structure import reshape as reshape
from symgrad.graph.ops.structure import squeeze as squeeze
from symgrad.graph.ops.summation import diagonal as diagonal
from symgrad.graph.ops.summation import einsum as einsum
from symgrad.graph.ops.summation import trace as trace
from symgrad.graph.ops.transcendental import cos as cos
from symgrad.graph.ops.transcendental import erf as erf
from symgrad.graph.ops.transcendental import exp as exp
from symgrad.graph.ops.transcendental import expm1 as expm1
from symgrad.graph.ops.transcendental import log as log
from symgrad.graph.ops.transcendental import log1p as log1p
from symgrad.graph.ops.transcendental import pow as pow
from symgrad.graph.ops.transcendental import rsqrt as rsqrt
from symgrad.graph.ops.transcendental import sigmoid as sigmoid
from symgrad.graph.ops.transcendental import sin as sin
from symgrad.graph.ops.transcendental import sqrt as sqrt
from symgrad.graph.ops.transcendental import tanh as tanh
from symgrad.graph.ops.trigonometry import acos as acos
from symgrad.graph.ops.trigonometry import asin as asin
from symgrad.graph.ops.trigonometry import atan as atan
from symgrad.graph.ops.trigonometry import atan2 as atan2
from symgrad.graph.ops.trigonometry import deg2rad as deg2rad
from symgrad.graph.ops.trigonometry import rad2deg as rad2deg
from symgrad.graph.ops.trigonometry import sinc as sinc
from symgrad.graph.ops.trigonometry import tan as tan
from symgrad.graph.ops.vector_products import cross as cross
from symgrad.graph.ops.vector_products import kron as kron
from symgrad.graph.ops.views import matrix_transpose as matrix_transpose
from symgrad.graph.ops.views import moveaxis as moveaxis
from symgrad.graph.ops.views import repeat as repeat
from symgrad.graph.ops.views import split as split
from symgrad.graph.ops.views import swapaxes as swapaxes
from symgrad.graph.ops.views import tile as tile
from symgrad.graph.ops.views import unstack as unstack
from symgrad.graph.ops.whole_numbers import ceil as ceil
from symgrad.graph.ops.whole_numbers import floor as floor
from symgrad.graph.ops.whole_numbers import round as round
from symgrad.graph.ops.windows import dynamic_slice as dynamic_slice
from symgrad.graph.ops.windows import dynamic_update_slice as dynamic_update_slice
from symgrad.passes.gradients.aggregate import AggregationMethod as AggregationMethod
from symgrad.passes.gradients.arguments import UnconnectedGradients as UnconnectedGradients
from symgrad.passes.gradients.reverse_mode import gradients as gradients
from symgrad.tracebacks import shorten_tracebacks as _shorten_tracebacks

# isort: split
# It binds the methods of tensors and graphs to what is declared above.
from symgrad.frontend import protocols as protocols

# Imported when they are first asked for (`late` below, and submodules); type checkers see them now.
if _TYPE_CHECKING:
    from symgrad import distributed as distributed
    from symgrad import fft as fft
    from symgrad import linalg as linalg
    from symgrad import nn as nn
    from symgrad import random as random
    from symgrad import special as special
    from symgrad import testing as testing
    from symgrad.arrays import adam_step as adam_step
    from symgrad.arrays import adam_update as adam_update
    from symgrad.arrays import execute_with_gradients as execute_with_gradients
    from symgrad.arrays import grad as grad
    from symgrad.arrays import gradient_descent_update as gradient_descent_update
    from symgrad.arrays import hessian as hessian
    from symgrad.arrays import jac as jac
    from symgrad.arrays import jvp as jvp
    from symgrad.arrays import lamb_update as lamb_update
    from symgrad.arrays import lars_update as lars_update
    from symgrad.arrays import linearize as linearize
    from symgrad.arrays import optimizer_update as optimizer_update
    from symgrad.arrays import stop_gradient as stop_gradient
    from symgrad.arrays import value_and_grad as value_and_grad
    from symgrad.arrays import vjp as vjp
    from symgrad.arrays import vmap as vmap
    from symgrad.foreign import extern as extern
    from symgrad.frontend.associative_scan import associative_scan as associative_scan
    from symgrad.frontend.control import cond as cond
    from symgrad.frontend.control import switch_case as switch_case
    from symgrad.frontend.iteration import fori_loop as fori_loop
    from symgrad.frontend.iteration import map as map
    from symgrad.frontend.iteration import scan as scan
    from symgrad.frontend.iteration import while_loop as while_loop
    from symgrad.frontend.recompute import recompute_grad as recompute_grad
    from symgrad.frontend.sparse_tensor import SparseTensor as SparseTensor
    from symgrad.frontend.tensor_array import TensorArray as TensorArray
    from symgrad.functional import function as function
    from symgrad.passes.gradients.custom_gradient import custom_gradient as custom_gradient
    from symgrad.passes.gradients.custom_gradient import grad_pass_through as grad_pass_through
    from symgrad.passes.gradients.explanation import explain_none as explain_none
    from symgrad.passes.gradients.forward_mode import hvp as hvp
    from symgrad.passes.gradients.jacobian import hessians as hessians
    from symgrad.passes.gradients.jacobian import jacobian as jacobian
    from symgrad.runtime.checkpoint import restore as restore
    from symgrad.runtime.checkpoint import save as save
    from symgrad.runtime.export import export as export
    from symgrad.runtime.function import compile as compile
    from symgrad.runtime.function import run as run
    from symgrad.runtime.library import Library as Library
    from symgrad.runtime.library import load as load
    from symgrad.runtime.step import Step as Step
    from symgrad.special.distributions import erfc as erfc
    from symgrad.special.distributions import erfinv as erfinv
    from symgrad.special.gamma import digamma as digamma
    from symgrad.special.gamma import lgamma as lgamma

bool = bool_
_shorten_tracebacks()

__version__: str = "0.1.0"

__all__ = [
    # What makes this module, too, a namespace of the Array API.
    *("__array_api_version__", "__array_namespace_info__"),
    *_publish(
        globals(),
        ["distributed", "fft", "linalg", "nn", "optim", "random", "special", "testing"],
        late={
            "symgrad.arrays": [
                *("adam_step", "adam_update", "execute_with_gradients", "grad"),
                *("gradient_descent_update", "hessian", "jac", "jvp"),
                *("lamb_update", "lars_update", "linearize", "optimizer_update"),
                *("stop_gradient", "value_and_grad", "vjp", "vmap"),
            ],
            "symgrad.foreign": ["extern"],
            "symgrad.frontend.associative_scan": ["associative_scan"],
            "symgrad.frontend.control": ["cond", "switch_case"],
            "symgrad.frontend.iteration": ["fori_loop", "map", "scan", "while_loop"],
            "symgrad.frontend.recompute": ["recompute_grad"],
            "symgrad.frontend.sparse_tensor": ["SparseTensor"],
            "symgrad.frontend.tensor_array": ["TensorArray"],
            "symgrad.functional": ["function"],
            "symgrad.passes.gradients.custom_gradient": ["custom_gradient", "grad_pass_through"],
            "symgrad.passes.gradients.explanation": ["explain_none"],
            "symgrad.passes.gradients.forward_mode": ["hvp"],
            "symgrad.passes.gradients.jacobian": ["hessians", "jacobian"],
            "symgrad.runtime.checkpoint": ["restore", "save"],
            "symgrad.runtime.export": ["export"],
            "symgrad.runtime.function": ["compile", "run"],
            "symgrad.runtime.library": ["Library", "load"],
            "symgrad.runtime.step": ["Step"],
            "symgrad.special.distributions": ["erfc", "erfinv"],
            "symgrad.special.gamma": ["digamma", "lgamma"],
        },
    ),
]
