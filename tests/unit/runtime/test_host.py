"""Steps for another machine: they may be looked at and exported, and are refused when called."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.target import TARGET_NAMES, target_named
from symgrad.runtime import host

OTHER = "aarch64" if platform.machine() == "x86_64" else "x86-64"
X = np.ones(8, np.float32)
WAYS: dict[str, Callable[[Any], Any]] = {
    "a call": lambda step: step(X),
    "a call with out": lambda step: step(X, out=np.zeros(8, np.float32)),
    "a profile": lambda step: step.profile(X),
}


def step_for(target: str, size: int | str = 8) -> Any:
    x = sg.placeholder((size,), name="x")
    return sg.compile([x], 2 * x, target=target)


@pytest.mark.parametrize("size", [8, "n"])
@pytest.mark.parametrize("way", WAYS)
def test_code_for_another_machine_is_not_run(way, size):
    step = step_for(OTHER, size)
    with pytest.raises(sg.CompileError, match=f"compiled for {OTHER}, this machine is ") as caught:
        WAYS[way](step)
    assert "step" in str(caught.value)
    assert 'target="native"' in str(caught.value)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_code_for_another_machine_may_be_looked_at():
    step = step_for(OTHER)
    assert step.ir("asm")
    assert step.kernels


def test_code_with_instructions_that_the_cpu_lacks_is_not_run(monkeypatch):
    has = dict.fromkeys(host.required_features(target_named("x86-64-v3")), True)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: has | {"fma": False})
    monkeypatch.setattr(host, "host_architecture", lambda: "x86_64")
    host.why_not_here.cache_clear()
    try:
        host.check_runs_here("step", target_named("x86-64-v2"))
        with pytest.raises(sg.CompileError, match="compiled for x86-64-v3, this CPU lacks fma"):
            host.check_runs_here("step", target_named("x86-64-v3"))
    finally:
        host.why_not_here.cache_clear()


def test_what_is_for_this_machine_runs():
    for name in TARGET_NAMES:
        if host.why_not_here(target_named(name)) is None:
            np.testing.assert_array_equal(step_for(name)(X), 2 * X)
