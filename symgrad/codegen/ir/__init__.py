"""LLVM IR, written as text: types, constants, functions and a builder of instructions."""

from symgrad.codegen.ir.builder import IRBuilder
from symgrad.codegen.ir.module import (
    Block,
    Branch,
    FunctionCall,
    GlobalVariable,
    KnownFunction,
    LLVMFunction,
    Module,
    Phi,
)
from symgrad.codegen.ir.types import (
    ArrayType,
    BFloatType,
    Constant,
    DoubleType,
    FloatType,
    FunctionType,
    HalfType,
    IntType,
    Literal,
    LiteralStructType,
    PointerType,
    Type,
    Undefined,
    VectorType,
    VoidType,
)
from symgrad.codegen.ir.types import LLVMValue as Value

__all__ = [
    "ArrayType",
    "BFloatType",
    "Block",
    "Branch",
    "Constant",
    "DoubleType",
    "FloatType",
    "FunctionCall",
    "FunctionType",
    "GlobalVariable",
    "HalfType",
    "IRBuilder",
    "IntType",
    "KnownFunction",
    "LLVMFunction",
    "Literal",
    "LiteralStructType",
    "Module",
    "Phi",
    "PointerType",
    "Type",
    "Undefined",
    "Value",
    "VectorType",
    "VoidType",
]
