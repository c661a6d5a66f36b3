"""The page of the C interface names what an object takes from the libraries of a system."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import symgrad as sg
from tests.docs.test_pages import DOCS


@pytest.mark.slow
def test_the_page_names_what_an_object_takes(tmp_path):
    x, n = sg.placeholder((700, 700), name="x"), sg.placeholder((), "int64", name="n")
    start = (sg.constant(np.int64(0)), sg.sum(x))
    total = sg.while_loop(lambda i, _: i < n, lambda i, t: (i + 1, sg.sin(t)), start)[1]
    gradient = sg.gradients(total, x)[0]
    step = sg.compile([x, n], [sg.sin(x), gradient], threads=2, opt_level=0)
    step.export(tmp_path / "net", formats=("o", "h"))
    listed = subprocess.run(
        ["nm", "-u", str(tmp_path / "net.o")], capture_output=True, text=True, check=True
    ).stdout
    taken = set(re.findall(r"U (\w+)", listed))
    named = set(re.findall(r"`(\w+)`", (DOCS / "c_abi.md").read_text("utf-8")))
    threads = {symbol for symbol in taken if symbol.startswith("pthread_")}
    assert {"memcpy", "aligned_alloc", "usleep"} <= taken
    assert threads
    assert taken - threads <= named
