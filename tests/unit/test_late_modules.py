"""What a first step does not need is imported when it is asked for, and not missed before."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import symgrad as sg
from symgrad.codegen.llvm.math.functions import FUNCTIONS, ULP_BOUNDS, emitter


def _printed(program: str) -> str:
    """Return what a new process prints, which has imported nothing but symgrad."""
    program = f"import sys\nimport numpy as np\nimport symgrad as sg\n{program}"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


_LATE = (
    "numpy.ma",
    "symgrad.arrays",
    "symgrad.codegen.c_interface",
    "symgrad.codegen.llvm.math.trigonometry",
    "symgrad.codegen.loops.parse",
    "symgrad.codegen.sorting.emit",
    "symgrad.distributed",
    "symgrad.fft",
    "symgrad.foreign",
    "symgrad.frontend.control",
    "symgrad.frontend.iteration",
    "symgrad.frontend.numpy_arguments",
    "symgrad.frontend.numpy_dispatch",
    "symgrad.frontend.sparse_tensor",
    "symgrad.functional",
    "symgrad.graph.drawing",
    "symgrad.graph.ops.svd",
    "symgrad.linalg",
    "symgrad.nn",
    "symgrad.optim.clipping",
    "symgrad.optim.lamb",
    "symgrad.passes.sparsity",
    "symgrad.random",
    "symgrad.runtime.inspection",
    "symgrad.runtime.report",
    "symgrad.special",
    "symgrad.testing",
)


def test_a_step_is_trained_without_what_it_does_not_need():
    program = f"""
w, x = sg.variable(np.ones((3, 2), "float32")), sg.placeholder((4, 3))
loss = sg.mean(sg.tanh(x @ w) ** 2)
sg.compile([x], loss, sg.optim.Adam(0.1).minimize(loss))(np.ones((4, 3), "float32"))
print([name for name in {_LATE} if name in sys.modules])
"""
    assert _printed(program) == "[]"


def test_a_graph_is_made_and_differentiated_without_what_compiles_it():
    program = """
w, x = sg.variable(np.ones((3, 2), "float32")), sg.placeholder((4, 3))
sg.optim.Adam(0.1).minimize(sg.mean(sg.tanh(x @ w) ** 2))
compiling = ("symgrad.codegen", "symgrad.compiler", "symgrad.passes.pipeline", "symgrad.runtime")
print([name for name in (*compiling, "llvmlite", "numpy.ma") if name in sys.modules])
print(sg.compile.__module__, "symgrad.compiler" in sys.modules)
"""
    assert _printed(program).splitlines() == ["[]", "symgrad.runtime.function True"]


def test_late_names_are_listed_and_are_what_their_modules_have():
    assert {"grad", "jacobian", "load", "nn", "random", "save"} <= set(dir(sg))
    assert _printed("from symgrad import *; print(grad is sg.grad, nn.relu is sg.nn.relu)") == (
        "True True"
    )
    assert _printed("print(abs(sg.placeholder(2, 'complex64')).dtype)") == "f32"
    assert _printed("print(sg.Library.__module__, sg.erfc.__module__)") == (
        "symgrad.runtime.library symgrad.special.distributions"
    )


def test_hints_name_what_has_not_been_imported():
    program = "try: sg.nn_relu\nexcept sg.UnknownNameError as error: pass\n"
    program += "try: sg.layer_norm\nexcept sg.UnknownNameError as error: print(error.hint)"
    assert _printed(program) == "did you mean sg.nn.layer_norm?"


def test_functions_of_numpy_find_the_ops_that_stand_for_them():
    program = "x = sg.placeholder((3, 3))\n"
    assert _printed(program + "print(np.linalg.inv(x).shape, np.fft.fft(x).dtype)") == (
        "(3, 3) c64"
    )
    assert _printed(program + "print(x.__array_namespace__().linalg.qr.__module__)") == (
        "symgrad.linalg.factorisations"
    )


def test_functions_of_numpy_map_over_containers_and_refuse_what_nothing_stands_for():
    program = """
x = sg.placeholder((3,))
print(*np.add(x, sg.Container(a=x)).keys(), np.sum(x, axis=0).node.op, (np.float32(2) * x).node.op)
try: np.packbits(x)
except sg.DTypeError as error: print(error.subject)
"""
    assert _printed(program).splitlines() == ["a sum multiply", "numpy.packbits"]


def test_each_math_function_is_emitted_by_the_module_that_is_named_for_it():
    for name in FUNCTIONS:
        assert emitter(name).__name__ == f"emit_{name}"
    assert {name for name, _ in ULP_BOUNDS} - FUNCTIONS.keys() == {"sqrt", "rsqrt"}


def test_every_function_known_as_an_op_is_there_before_all_ops_are_declared():
    program = """
from symgrad.graph.ops import declare_all
from symgrad.graph.public_ops import PUBLIC_OPS
known = set(PUBLIC_OPS)
declare_all()
print(sorted(PUBLIC_OPS.keys() - known))
"""
    assert _printed(program) == "[]"


def test_what_methods_call_by_name_is_provided():
    sources = [path.read_text(encoding="utf-8") for path in Path(sg.__file__).parent.rglob("*.py")]
    called = {name for text in sources for name in re.findall(r'provided\("(\w+)"\)', text)}
    assert {"astype", "at", "modulus"} <= called
    program = f"""
from symgrad.graph.late_binding import provided
print([name for name in {sorted(called)} if not callable(provided(name))])
"""
    assert _printed(program) == "[]"


def test_methods_map_over_containers_and_texts_have_every_op():
    program = """
x = sg.placeholder((2, 2))
print(type(x + sg.Container(a=x)).__name__, type(x[0]).__name__, x.T.shape)
graph = sg.Graph(sg.linalg.inv(x), [x])
print(str(type(graph).parse(str(graph))) == str(graph))
"""
    assert _printed(program).splitlines() == ["Container Tensor (2, 2)", "True"]
    program = """
lines = "graph @f(%x: f32[2, 2]) -> f32[2, 2] {", "%0 = cholesky %x : f32[2, 2]", "return %0", "}"
print(sg.Graph.parse("\\n".join(lines)).outputs[0].node.op)
"""
    assert _printed(program) == "cholesky"


def test_a_gradient_may_be_that_of_an_op_that_no_program_has_had():
    program = """
with sg.gradient_override_map({"exp": "svd"}): pass
try: sg.register_gradient("svd")(lambda node, g: g)
except Exception as error: print(type(error).__name__)
"""
    assert _printed(program) == "DuplicateGradientError"


def test_the_list_of_ops_has_those_of_every_module():
    program = "from symgrad.commands.op_index import page\nprint('sg.nn.relu' in page())"
    assert _printed(program) == "True"
