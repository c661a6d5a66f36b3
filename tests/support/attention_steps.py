"""Attention with its gradients, compiled with products that are fused however small they are."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

import symgrad as sg
from symgrad.codegen.program import fuse_products
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable


def attention(mask: Any = None) -> tuple[Graph, list[Array]]:
    """Return attention with its gradients, causal or with a mask."""
    shape = (8, 128 if mask is None else len(mask), 64)
    q, k, v, g = (sg.placeholder(shape, "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v, mask=mask, causal=mask is None)
    random = np.random.default_rng(0)
    graph = Graph([y, *sg.gradients(y, [q, k, v], grad_ys=g)], [q, k, v, g])
    return graph, [random.standard_normal(shape).astype(np.float32) for _ in range(4)]


def step_of(
    graph: Graph, target: str = "native", threads: Threads = ONE_THREAD, skip: tuple[str, ...] = ()
) -> Executable:
    options = CompileOptions(target_named(target), 1, False, False, threads)
    with mock.patch.object(fuse_products, "BYTES_OF_PRODUCTS", 0):
        return Executable(graph, options, passes=Options(skip=skip))
