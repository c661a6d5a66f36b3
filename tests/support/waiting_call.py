"""A function of C that waits, for tests of what other threads do meanwhile.

It says that it has begun, and returns when it is told to; after ten seconds it fails.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Thread
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.native.jit import LoadedCode, emit_object, load_object, optimize
from symgrad.codegen.target import target_named

_LOOKS, _BETWEEN = 10_000, 1_000  # microseconds
_GIVEN_UP = 9


@cache
def _code() -> LoadedCode:
    i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.PointerType()
    module = ir.Module("waiting")
    usleep = ir.LLVMFunction(module, ir.FunctionType(i32, [i32]), "usleep")
    wait = ir.LLVMFunction(module, ir.FunctionType(i32, [pointer] * 2), "wait")
    places, result = wait.args
    entry, head, look, rest, done, given_up = (wait.append_basic_block() for _ in range(6))
    builder = ir.IRBuilder(entry)
    begun, told = (
        builder.load(builder.gep(places, [i64(place)], source_etype=i64), typ=pointer)
        for place in (0, 1)
    )
    builder.store_atomic(i64(1), begun, "seq_cst", 8)
    builder.branch(head)
    builder.position_at_end(head)
    looks = builder.phi(i64)
    looks.add_incoming(i64(0), entry)
    builder.cbranch(builder.icmp_signed("<", looks, i64(_LOOKS)), look, given_up)
    builder.position_at_end(look)
    word = builder.load_atomic(told, "seq_cst", 8, typ=i64)
    builder.cbranch(builder.icmp_signed("!=", word, i64(0)), done, rest)
    builder.position_at_end(rest)
    builder.call(usleep, [i32(_BETWEEN)])
    looks.add_incoming(builder.add(looks, i64(1)), rest)
    builder.branch(head)
    builder.position_at_end(done)
    builder.store(word, result)
    builder.ret(i32(0))
    builder.position_at_end(given_up)
    builder.ret(i32(_GIVEN_UP))
    native = target_named("native")
    return load_object(emit_object(optimize(str(module), native, 1), native, 1), ["wait"])


class Waiting:
    """A call that waits; the word it is told by is its result."""

    def __init__(self) -> None:
        self.words = np.zeros(2, np.int64)
        self.places = np.array([0, 8], np.int64) + self.words.ctypes.data

    def call(self, places: sg.Tensor) -> sg.Tensor:
        """Return the result of a call, in a graph."""
        address = ctypes.c_void_p(_code().address("wait"))
        (result,) = sg.extern("wait", [places], [((), "int64")], pointer=address)
        return result

    def await_begin(self) -> None:
        """Wait until a call has begun."""
        while not self.words[0]:
            time.sleep(0.001)

    def tell(self, word: int) -> None:
        """End the call."""
        self.words[1] = word


@contextmanager
def in_a_thread(
    step: Callable[..., Any], waiting: Waiting, *arrays: object, **options: object
) -> Iterator[list[Any]]:
    """Run a step that makes a call in another thread, around the block: yields its results."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(step(waiting.places, *arrays, **options))
        except sg.SymgradError as error:
            results.append(error)

    thread = Thread(target=run)
    thread.start()
    waiting.await_begin()
    try:
        yield results
    finally:
        waiting.tell(waiting.words[1] or 1)
        thread.join()
