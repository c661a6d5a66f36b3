"""GEMM generation for the Contract structure: packing, microkernels, blocking, epilogues."""

from symgrad.codegen.contract.blocking import emit_contract
from symgrad.codegen.contract.epilogue import Epilogue, TileElements
from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.search import plan_contract

__all__ = ["ContractPlan", "Epilogue", "Operand", "TileElements", "emit_contract", "plan_contract"]
