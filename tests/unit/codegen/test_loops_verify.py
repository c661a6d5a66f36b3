"""Each rule of a well-formed kernel: text that keeps it, and text that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symgrad.codegen.loops.language import (
    Accumulator,
    Cast,
    Check,
    Const,
    Fold,
    For,
    Index,
    IndexValue,
    Kernel,
    Let,
    Load,
    Modulus,
    Op,
    Param,
    Product,
    Quotient,
    Ref,
    Select,
    Store,
)
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.graph.dtypes import bool_, float16, float32, float64, int8, int32, int64, uint8

PARAMS = (
    "in x: f32[8], in at: i64[8], in h: f16[8], out y: f32[8], out z: i64[8],"
    " inout u: f32[8], scratch w: u8[64]"
)

FOLD = """fold s: f32 = 0.0 for k in 0..8 lanes({0}) {{ {1} t: f32 = x[k] yield t }}
    combine (a) (b) {{ {2} c: f32 = add(a, b) yield c }} """

PRODUCT = """product s: f32 for (m in 0..{m}) (n in 0..{n}) (k in 0..{k})
    {a} * {b} tile(1, 8) block(1, 8, 4) pack() along({along}) {scratch} {{ {body} }}"""


def _fold(lanes: int = 1, *, body: str = "", combine: str = "") -> str:
    return FOLD.format(lanes, body, combine)


def _product(**parts: object) -> str:
    plain = {
        "m": 2,
        "n": 4,
        "k": 2,
        "a": "x[0] by (2, 1)",
        "b": "u[0] by (4, 1)",
        "along": "n",
        "scratch": "",
        "body": "y[4*m + n] = s",
    }
    return PRODUCT.format(**(plain | parts))


def _kernel(body: str) -> Kernel:
    return parse_kernel(f"kernel @k({PARAMS}) {{ {body} }}")


def _loop(body: str, head: str = "i in 0..8") -> str:
    return f"for {head} {{ {body} }}"


# Rule, a body that keeps it, one that does not, and what is said about that one.
RULES = [
    (
        "names are bound once",
        "t: f32 = 1.0 v: f32 = 2.0",
        "t: f32 = 1.0 t: f32 = 2.0",
        "t is bound already",
    ),
    (
        "an inner name hides no outer one",
        _loop("t: f32 = 1.0", "i in 0..2") + _loop("t: f32 = 1.0", "i in 0..2"),
        "t: f32 = 1.0 " + _loop("t: f32 = 1.0"),
        "t is bound already",
    ),
    (
        "values, indices and buffers share no name",
        "i: f32 = 1.0 " + _loop("", "j in 0..2"),
        "i: f32 = 1.0 " + _loop("", "i in 0..2"),
        "i is bound already",
    ),
    ("no value is called like a buffer", "x2: f32 = 1.0", "x: f32 = 1.0", "x is bound already"),
    (
        "an index is of loops around",
        _loop("v: i64 = index(i)"),
        _loop("") + "v: i64 = index(i)",
        "i is no index here",
    ),
    (
        "a value of a loop's body stays in it",
        _loop("t: f32 = 1.0 v: f32 = t"),
        _loop("t: f32 = 1.0") + "v: f32 = t",
        "t is not bound",
    ),
    (
        "a value is no index",
        "t: i64 = 1 check r = t in 4 else 1 v: i64 = index(r)",
        "t: i64 = 1 v: i64 = index(t)",
        "t is no index here",
    ),
    (
        "loads are in bounds",
        _loop("t: f32 = x[7 - i]"),
        _loop("t: f32 = x[8 - i]"),
        r"x\[-i \+ 8\] reaches 1..8, of 8 elements",
    ),
    (
        "no element is before the first",
        _loop("t: f32 = x[i]", "i in 0..1"),
        _loop("t: f32 = x[i - 1]"),
        r"x\[i - 1\] reaches -1..6",
    ),
    (
        "stores are in bounds",
        _loop("y[i + 4] = 1.0", "i in 0..4"),
        _loop("y[i + 4] = 1.0", "i in 0..5"),
        r"y\[i \+ 4\] reaches 4..8",
    ),
    (
        "a remainder is in bounds if its divisor is",
        _loop("t: f32 = x[i % 8]", "i in 0..99"),
        _loop("t: f32 = x[i % 9]", "i in 0..99"),
        "reaches 0..8",
    ),
    (
        "a checked index lies in its extent",
        "check r = 0 in 8 else 1 t: f32 = x[r]",
        "check r = 0 in 9 else 1 t: f32 = x[r]",
        r"x\[r\] reaches 0..8",
    ),
    (
        "what no iteration runs need not be in bounds",
        _loop("t: f32 = x[i + 9]", "i in 0..0") + "check r = 0 in 0 else 1 t: f32 = x[r + 9]",
        _loop("t: f32 = x[i + 9]", "i in 0..1"),
        "reaches 9..9",
    ),
    ("inputs are not stored to", "y[0] = 1.0 u[0] = 1.0", "x[0] = 1.0", "x is an input"),
    (
        "an output is loaded from only after a store",
        "y[0] = 1.0 t: f32 = y[0]",
        "t: f32 = y[0] y[0] = 1.0",
        "y is loaded from, but nothing was stored",
    ),
    (
        "scratch is loaded from only after a store",
        "w[0] = 1 t: u8 = w[0]",
        "t: u8 = w[0]",
        "w is loaded from, but nothing was stored",
    ),
    ("loads have the dtype of the buffer", "t: f32 = x[0]", "t: f64 = x[0]", "x holds f32"),
    (
        "stores have the dtype of the buffer",
        "t: f32 = 1.0 y[0] = t",
        "t: f64 = 1.0 y[0] = t",
        "what is stored to y is f64, not f32",
    ),
    (
        "arguments of an operation have one dtype",
        "t: f32 = add(1.0, 2.0:f32)",
        "t: f32 = add(1.0, 2.0:f64)",
        "an argument of add is f64, not f32",
    ),
    (
        "an operation of floats takes floats",
        "t: f32 = exp(1.0)",
        "t: i32 = exp(1)",
        "exp takes float, not i32",
    ),
    (
        "an operation of numbers takes no bools",
        "t: i8 = add(1, 1)",
        "t: bool = add(true, true)",
        "add takes number, not bool",
    ),
    (
        "an operation of bits takes bools and no floats",
        "t: bool = and(true, false)",
        "t: f32 = and(1.0, 0.0)",
        "and takes bits, not f32",
    ),
    (
        "an operation of bits takes integers too",
        "t: i8 = and(1, 0)",
        "t: f64 = xor(1.0, 0.0)",
        "xor takes bits, not f64",
    ),
    (
        "a shift takes integers",
        "t: u8 = shl(1, 9)",
        "t: bool = shl(true, true)",
        "shl takes integer, not bool",
    ),
    (
        "comparisons give bools",
        "t: bool = lt(1.0:f32, 2.0:f32)",
        "t: f32 = lt(1.0:f32, 2.0:f32)",
        "lt gives bool, not f32",
    ),
    (
        "halves are converted before they are computed with",
        "t: f16 = h[0] v: f32 = f32(t) q: f32 = exp(v)",
        "t: f16 = h[0] q: f16 = exp(t)",
        "exp of f16: halves are computed in f32",
    ),
    (
        "halves are not compared",
        "t: f16 = h[0] v: f16 = select(true, t, 0.0)",
        "t: f16 = h[0] v: bool = eq(t, t)",
        "eq of f16",
    ),
    (
        "a condition is a bool",
        "t: f32 = select(true, 1.0, 2.0)",
        "b: i8 = 1 t: f32 = select(b, 1.0, 2.0)",
        "the condition is i8, not bool",
    ),
    (
        "select chooses between equal dtypes",
        "t: f32 = select(true, 1.0, 2.0)",
        "t: f32 = select(true, 1.0, 2.0:f64)",
        "what is not chosen is f64, not f32",
    ),
    ("an index value is an i64", "t: i64 = index(3)", "t: i32 = index(3)", "an index is i64"),
    (
        "constants fit their dtype",
        "t: u8 = 255 v: i8 = -128",
        "t: u8 = 256",
        "256 does not fit u8",
    ),
    (
        "what is checked is an i64",
        "check r = 3 in 4 else 1",
        "t: i32 = 3 check r = t in 4 else 1",
        "an index to check is i32, not i64",
    ),
    (
        "a failed check has a status",
        "check r = 3 in 4 else 1",
        "check r = 3 in 4 else 0",
        "status 0 does not say",
    ),
    (
        "a checked extent is not negative",
        "check r = 3 in 0 else 1",
        "check r = 3 in -1 else 1",
        "r is checked against -1",
    ),
    ("an extent is not negative", _loop("", "i in 0..0"), _loop("", "i in 0..-1"), "is -1"),
    (
        "independent iterations store to elements of their own",
        _loop("y[i // 2] = 1.0"),
        _loop("y[0] = 1.0"),
        "iterations over i have no order and store to one element",
    ),
    (
        "iterations around a loop without any store nothing",
        _loop("for j in 0..0 { y[j] = 1.0 }"),
        _loop("for j in 0..1 { y[j] = 1.0 }"),
        "iterations over i have no order and store to one element",
    ),
    (
        "one iteration may store anywhere",
        _loop("y[3] = 1.0", "i in 0..1") + _loop("y[3] = 1.0", "i in 0..0"),
        _loop("y[3] = 1.0", "i in 0..2"),
        "iterations over i have no order",
    ),
    (
        "ordered iterations may store to one element",
        _loop("y[0] = 1.0", "i in 0..8 ordered"),
        _loop("y[0] = 1.0", "i in 0..8"),
        "iterations over i have no order",
    ),
    (
        "a store in nested loops depends on all without order",
        _loop(_loop("y[j] = 1.0", "j in 0..8"), "i in 0..8 ordered"),
        _loop(_loop("y[j] = 1.0", "j in 0..8")),
        "iterations over i have no order",
    ),
    (
        "an index that is data keeps no iterations apart",
        _loop("t: i64 = at[i] check r = t in 8 else 1 y[r] = 1.0", "i in 0..8 ordered"),
        _loop("t: i64 = at[i] check r = t in 8 else 1 y[r] = 1.0"),
        "iterations over i have no order",
    ),
    (
        "vectors are as wide as a power of two",
        _loop("y[i] = 1.0", "i in 0..8 vector(4)"),
        _loop("y[i] = 1.0", "i in 0..8 vector(3)"),
        r"vector\(3\) is no power of two",
    ),
    (
        "vectors have a greatest width",
        _loop("y[i] = 1.0", "i in 0..8 vector(1024)"),
        _loop("y[i] = 1.0", "i in 0..8 vector(2048)"),
        r"vector\(2048\) is above 1024",
    ),
    (
        "ordered loops are no vectors",
        _loop("", "i in 0..8 ordered"),
        _loop("", "i in 0..8 vector(4) ordered"),
        "i is both ordered and a vector",
    ),
    (
        "only vectors are interleaved",
        _loop("y[i] = 1.0", "i in 0..8 vector(4) interleave(2)"),
        _loop("y[i] = 1.0", "i in 0..8 interleave(2)"),
        "i interleaves no vectors",
    ),
    (
        "as many vectors as a power of two are interleaved",
        _loop("y[i] = 1.0", "i in 0..8 vector(4) interleave(2)"),
        _loop("y[i] = 1.0", "i in 0..8 vector(4) interleave(3)"),
        r"interleave\(3\) is no power of two",
    ),
    (
        "there is no vector in a vector",
        _loop(_loop("", "j in 0..8"), "i in 0..8 vector(4)"),
        _loop("t: f32 = x[i] " + _loop("", "j in 0..8 vector(4)"), "i in 0..8 vector(4)"),
        "j is a vector within that of i",
    ),
    (
        "squares are as high as they are wide",
        _loop(_loop("", "j in 0..8 vector(4)"), "i in 0..8 vector(4)"),
        _loop(_loop("", "j in 0..8 vector(4)"), "i in 0..8 vector(8)"),
        "squares of i and j are 8 by 4",
    ),
    (
        "squares leave nothing over",
        _loop(_loop("", "j in 0..8 vector(4)"), "i in 0..8 vector(4)"),
        _loop(_loop("", "j in 0..8 vector(4)"), "i in 0..6 vector(4)"),
        "squares of i and j leave over some of 6",
    ),
    (
        "squares are not interleaved",
        _loop(_loop("", "j in 0..8 vector(4)"), "i in 0..8 vector(4)"),
        _loop(_loop("", "j in 0..8 vector(4) interleave(2)"), "i in 0..8 vector(4)"),
        "squares of i and j are interleaved",
    ),
    (
        "squares are cut along the outer loop",
        _loop(_loop("", "j in 0..8 vector(4)"), "i in 0..8 vector(4) parallel(4)"),
        _loop(_loop("", "j in 0..8 vector(4) parallel(4)"), "i in 0..8 vector(4)"),
        "squares of i and j are cut into parts",
    ),
    (
        "there is no loop in a square",
        _loop(_loop("", "j in 0..8 vector(4)"), "i in 0..8 vector(4)"),
        _loop(_loop(_loop("", "l in 0..8"), "j in 0..8 vector(4)"), "i in 0..8 vector(4)"),
        "squares of i and j have loops or checks",
    ),
    (
        "a fold in a vector has no lanes",
        _loop(_fold(1), "i in 0..8 vector(4)"),
        _loop(_fold(4), "i in 0..8 vector(4)"),
        "lanes within the vector of i",
    ),
    (
        "there is no product in a vector",
        _loop(_product(body=""), "i in 0..8"),
        _loop(_product(body=""), "i in 0..8 vector(4)"),
        "a product within the vector of i",
    ),
    (
        "parts are whole vectors",
        _loop("y[i] = 1.0", "i in 0..8 vector(2) parallel(4)"),
        _loop("y[i] = 1.0", "i in 0..8 vector(2) parallel(3)"),
        r"parts of 3 iterations cut vector\(2\)",
    ),
    (
        "parts are not empty",
        _loop("y[i] = 1.0", "i in 0..8 parallel(1)"),
        _loop("y[i] = 1.0", "i in 0..8 parallel(0)"),
        "parts of 0 iterations",
    ),
    (
        "ordered loops have no parts",
        _loop("y[0] = 1.0", "i in 0..8 ordered"),
        _loop("y[0] = 1.0", "i in 0..8 ordered parallel(4)"),
        "i is both ordered and parallel",
    ),
    (
        "there are no parts in a part",
        _loop(_loop("", "j in 0..8 parallel(4)"), "i in 0..8"),
        _loop(_loop("", "j in 0..8 parallel(4)"), "i in 0..8 parallel(4)"),
        "parallel within a part",
    ),
    (
        "there are no parts in a vector",
        _loop(_loop("", "j in 0..8"), "i in 0..8 vector(4)"),
        _loop(_loop("", "j in 0..8 parallel(4)"), "i in 0..8 vector(4)"),
        "parallel within the vector of i",
    ),
    (
        "there are no parts in a fold",
        _fold(body=_loop("", "j in 0..8")),
        _fold(body=_loop("", "j in 0..8 parallel(4)")),
        "parallel within a fold",
    ),
    (
        "there are no parts in the body of a product",
        _product(body=_loop("", "j in 0..8")),
        _product(body=_loop("", "j in 0..8 parallel(4)"), along="m"),
        "parallel within the vector of m",
    ),
    (
        "a part of a product has a tile",
        _product(scratch="parallel(n, 1 of 1)"),
        _product(scratch="parallel(n, 0 of 1)"),
        "parts of 0 tiles",
    ),
    (
        "parts of a product are all of its tiles",
        _product(scratch="parallel(m, 1 of 2)"),
        _product(scratch="parallel(m, 1 of 1)"),
        "parts of 1 tiles along m, which has 2",
    ),
    (
        "each part of a product has scratch",
        _product(m=2, scratch="scratch(32 in w) parallel(m, 1 of 2)"),
        _product(m=2, scratch="scratch(33 in w) parallel(m, 1 of 2)"),
        "w has 64 bytes, the product needs 66",
    ),
    (
        "each part around a product has scratch",
        _loop(_product(scratch="scratch(16 in w)", body=""), "i in 0..8 parallel(2)"),
        _loop(_product(scratch="scratch(17 in w)", body=""), "i in 0..8 parallel(2)"),
        "w has 64 bytes, the product needs 68",
    ),
    ("lanes are a power of two", _fold(4), _fold(6), r"lanes\(6\) is no power of two"),
    ("lanes have a greatest number", _fold(1024), _fold(2048), r"lanes\(2048\) is above"),
    (
        "lanes have no order",
        _fold(1, body="y[0] = 1.0"),
        _fold(4, body="y[0] = 1.0"),
        "iterations over k have no order",
    ),
    (
        "items have the dtype of their accumulator",
        _fold(),
        _fold().replace("yield t", "v: f64 = f64(t) yield v"),
        "an item is f64, not f32",
    ),
    (
        "combined results have the dtype of their accumulator",
        _fold(),
        _fold().replace("yield c", "d: f64 = f64(c) yield d"),
        "a combined result is f64, not f32",
    ),
    (
        "an identity fits its dtype",
        _fold(),
        _fold().replace("f32 = 0.0", "u8 = 256"),
        "256 does not fit u8",
    ),
    (
        "partial results are combined from themselves",
        _fold(combine="d: f32 = neg(a)"),
        "q: f32 = 1.0 " + _fold(combine="d: f32 = neg(q)"),
        "q is not bound",
    ),
    (
        "partial results are combined without buffers",
        _fold(),
        _fold(combine="d: f32 = x[0]"),
        "combined without buffers and indices",
    ),
    (
        "a fold binds its results around it",
        _fold() + "y[0] = s",
        _fold() + "y[0] = t",
        "t is not bound",
    ),
    (
        "operands of a product are in bounds",
        _product(a="x[4] by (2, 1)"),
        _product(a="x[5] by (2, 1)"),
        r"x\[5, ...\] reaches 5..8, of 8 elements",
    ),
    (
        "operands with negative strides are in bounds",
        _product(b="u[7] by (-4, -1)"),
        _product(b="u[6] by (-4, -1)"),
        r"u\[6, ...\] reaches -1..6",
    ),
    (
        "windows that a product walks through are in bounds",
        _product(k=4, a="x[0] by (1, 1 2:4)", b="u[0] by (1 2:2, 1)"),
        _product(k=4, a="x[1] by (1, 1 2:6)", b="u[0] by (1 2:2, 1)"),
        r"x\[1, ...\] reaches 1..9, of 8 elements",
    ),
    (
        "digits divide the steps of an axis",
        _product(m=4, n=1, a="x[0] by (1 2:2, 1)", body="y[m] = s"),
        _product(m=3, n=1, a="x[0] by (1 2:2, 1)", body="y[m] = s"),
        "do not divide 3 steps",
    ),
    (
        "both operands of a product count k in the same digits",
        _product(k=4, a="x[0] by (1, 1 2:2)", b="u[0] by (1 2:2, 1)"),
        _product(k=4, a="x[0] by (1, 1 2:2)", b="u[0] by (1, 1)"),
        r"count k by \[2\] and \[\]",
    ),
    (
        "an empty product loads nothing",
        _product(k=0, a="x[50] by (2, 1)"),
        _product(k=1, a="x[50] by (2, 1)"),
        "reaches 50..52",
    ),
    (
        "operands of a product have one dtype",
        _product(),
        _product(b="at[0] by (4, 1)"),
        "at holds i64, not f32",
    ),
    (
        "products of halves are added up in f32",
        _product(a="h[0] by (2, 1)", b="h[0] by (4, 1)"),
        _product(a="h[0] by (2, 1)", b="h[0] by (4, 1)").replace("s: f32", "s: f16"),
        "sums in f16: halves are computed in f32",
    ),
    (
        "sums are no narrower than the elements",
        _product(a="at[0] by (2, 1)", b="at[0] by (4, 1)", body="").replace("s: f32", "s: i64"),
        _product(a="at[0] by (2, 1)", b="at[0] by (4, 1)", body="").replace("s: f32", "s: i32"),
        "sums of i64 in i32",
    ),
    (
        "the element of a product depends on its row and column",
        _product(n=1, body="y[m] = s"),
        _product(body="y[m] = s"),
        "iterations over n have no order",
    ),
    (
        "a product does not store to its operands",
        _product(body="u[4*m + n] = s", b="x[0] by (4, 1)"),
        _product(body="u[4*m + n] = s"),
        "u is an operand and stored to",
    ),
    (
        "the axes of a product have names of their own",
        _product(),
        _product().replace("(k in", "(m in"),
        "the axes of a product share a name",
    ),
    (
        "the inner axis is no index of the body",
        _product(body="v: i64 = index(m)"),
        _product(body="v: i64 = index(k)"),
        "k is no index here",
    ),
    (
        "operands are placed by the loops around",
        _loop(_product(a="x[i] by (2, 1)", body=""), "i in 0..2"),
        _product(a="x[m] by (2, 1)"),
        "m is no index here",
    ),
    (
        "scratch is large enough",
        _product(scratch="scratch(64 in w)"),
        _product(scratch="scratch(65 in w)"),
        "w has 64 bytes, the product needs 65",
    ),
    (
        "scratch has a buffer",
        _product(scratch="scratch(0)"),
        _product(scratch="scratch(8)"),
        "needs 8 bytes of scratch and has no buffer",
    ),
    (
        "scratch is not an output",
        _product(scratch="scratch(8 in w)"),
        _product(scratch="scratch(8 in z)"),
        "z is out and not scratch",
    ),
    (
        "tiles and blocks are not empty",
        _product(),
        _product().replace("tile(1, 8)", "tile(0, 8)"),
        "is not positive",
    ),
    (
        "only operands are packed",
        _product().replace("pack()", "pack(lhs, rhs)"),
        _product().replace("pack()", "pack(out)"),
        "pack",
    ),
]


@pytest.mark.parametrize(
    ("keeps", "breaks", "message"),
    [rule[1:] for rule in RULES],
    ids=[rule[0].replace(" ", "_") for rule in RULES],
)
def test_a_rule_is_kept_or_broken(keeps, breaks, message):
    verify_kernel(_kernel(keeps))
    with pytest.raises(AssertionError, match=message):
        verify_kernel(_kernel(breaks))


# --------------------------------------------------------------------- what text cannot even say

_T = Ref("t", float32)
_ONE = Const(1.0, float32)
_FOLD = parse_kernel(f"kernel @k({PARAMS}) {{ {_fold()} }}").body[0]
_PRODUCT = parse_kernel(f"kernel @k({PARAMS}) {{ {_product()} }}").body[0]
assert isinstance(_FOLD, Fold)
assert isinstance(_PRODUCT, Product)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (Let("t", Ref("v", float32)), "v is not bound"),
        (Let("t", Load("v", Index(), float32)), "v is no parameter"),
        (Store("v", Index(), _ONE), "v is no parameter"),
        (Let("t", Op("frob", (_ONE,), float32)), "frob is no scalar operation"),
        (Let("t", Op("add", (_ONE,), float32)), "add takes 2, not 1"),
        (Let("t", Cast(Ref("v", float32), float64)), "v is not bound"),
        (Let("t", Const(0.5, int32)), "0.5 is no constant of i32"),
        (Let("t", Const(2, bool_)), "2 does not fit bool"),
        (Let("t", Select(_ONE, _ONE, _ONE, float32)), "the condition is f32"),
        (Let("1t", _ONE), "'1t' is no name"),
        (Let("nan", _ONE), "nan is a word of the language"),
        (For("for", 1, ()), "for is a word of the language"),
        (Check("check", Const(1, int64), 1, 1), "check is a word of the language"),
        (
            For("i", 2, (Let("t", IndexValue(Index(0, (("i", 1), ("i", 1))), int64)),)),
            "has a term twice",
        ),
        (For("i", 2, (Let("t", IndexValue(Index(0, (("i", 0),)), int64)),)), "a term times 0"),
        (Let("t", IndexValue(Index(0, ((Quotient(Index(), 0), 1),)), int64)), "divides by 0"),
        (Let("t", IndexValue(Index(0, ((Modulus(Index(), -2), 1),)), int64)), "divides by -2"),
        (replace(_FOLD, accumulators=(), items=(), combined=()), "a fold has no accumulator"),
        (replace(_FOLD, items=(_ONE, _ONE)), r"1 accumulators, but \[2, 1, 1, 1\]"),
        (
            replace(_FOLD, accumulators=(Accumulator("s", Const(0.5, uint8)),)),
            "0.5 is no constant of u8",
        ),
        (replace(_PRODUCT, element=float16), "x holds f32, not f16"),
        (replace(_PRODUCT, dtype=int8), "sums of f32 in i8"),
        (
            replace(_PRODUCT, blocking=replace(_PRODUCT.blocking, scratch=-1)),
            r"scratch\(-1\)",
        ),
    ],
    ids=str,
)
def test_statements_that_text_cannot_say_are_refused(statement, message):
    with pytest.raises(AssertionError, match=message):
        verify_kernel(replace(_kernel(""), body=(statement,)))


def test_a_name_is_used_with_the_dtype_it_was_bound_with():
    wrong = Let("v", Op("neg", (Ref("t", float64),), float64))
    with pytest.raises(AssertionError, match="t is f32, not f64"):
        verify_kernel(Kernel("k", (), (Let("t", _ONE), wrong)))
    verify_kernel(Kernel("k", (), (Let("t", _ONE), Let("v", Op("neg", (_T,), float32)))))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ((Param("x", float32, 1, "in"), Param("x", float32, 1, "out")), "x names two parameters"),
        ((Param("x", float32, -1, "in"),), "x has -1 elements"),
        ((Param("yield", float32, 1, "in"),), "yield is a word of the language"),
    ],
    ids=["twice", "negative", "word"],
)
def test_parameters_have_names_and_sizes(params, message):
    with pytest.raises(AssertionError, match=message):
        verify_kernel(Kernel("k", params, ()))
    verify_kernel(Kernel("k", (Param("x", float32, 0, "in"), Param("y", float32, 1, "out")), ()))


def test_the_message_names_the_statement_and_the_kernel():
    body = _loop("t: f32 = x[i] v: f32 = x[i + 1] y[i] = v")
    with pytest.raises(AssertionError) as caught:
        verify_kernel(_kernel(body))
    assert str(caught.value) == "x[i + 1] reaches 1..8, of 8 elements"
    assert caught.value.__notes__ == ["in: v: f32 = x[i + 1]", "in: kernel @k"]
