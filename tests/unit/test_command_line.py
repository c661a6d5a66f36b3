"""The command line: what it prints, what it exits with, what it says of a wrong one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.__main__ import main
from symgrad.runtime.choices import STAGES

ROOT = Path(__file__).parents[2]
PROGRAMS = """
    import numpy as np
    import symgrad as sg

    def build(function):
        x = sg.placeholder((4, 8), name="x")
        w = sg.variable(np.ones((8, 3), np.float32), name="w")
        return sg.compile([x], function(x @ w), name="program")

    def with_tanh():
        return build(sg.tanh), [np.ones((4, 8), np.float32)]

    def with_exp():
        return build(sg.exp), [np.ones((4, 8), np.float32)]

    def without_arrays():
        return build(sg.tanh)

    def without_sizes():
        x = sg.placeholder((None,), name="x")
        return sg.compile([x], sg.tanh(x))

    def folded():
        x = sg.placeholder((4,), name="x")
        return sg.compile([x], x * (sg.constant(1.0) + 2.0))

    def number():
        return 3

    def wrong():
        return sg.compile([], sg.zeros((2,)) + sg.zeros((3,)))

    def with_a_named_size():
        x = sg.placeholder(("n",), name="x")
        return sg.compile([x], sg.tanh(x))

    def differentiated_loop():
        x = sg.placeholder(("n",), name="x")
        (y,) = sg.while_loop(lambda v: v.sum() < 9.0, lambda v: (sg.exp(v),), (x,))
        step = sg.compile([x], [y, *sg.gradients(y.sum(), [x])])
        return step, [np.ones(4, np.float32)]

    def careless():
        x, unread = sg.placeholder((2,), name="x"), sg.placeholder((2,), name="unread")
        w, forgotten = (sg.variable(np.zeros(2), name=n) for n in ("w", "forgotten"))
        table = np.ones(2**18)
        y = (x + w) * forgotten + sg.sum(sg.constant(table))
        return sg.compile([x, unread], y, [(w, w + 1.0)])
"""


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the programs in the current folder, as a module of a name of its own."""
    (tmp_path / f"programs_{tmp_path.name}.py").write_text(textwrap.dedent(PROGRAMS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def program(folder: Path, function: str) -> str:
    return f"programs_{folder.name}:{function}"


def run(*arguments: str) -> int:
    """Return the exit code of a command line, also where the parser ends the program."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


Output = pytest.CaptureFixture[str]


# --------------------------------------------------------------------------------------- inspect


def test_inspect_shows_kernels_and_memory(tmp_path: Path, capsys: Output) -> None:
    assert run("inspect", program(tmp_path, "with_tanh")) == 0
    text = capsys.readouterr().out
    assert text.startswith("<Step program(f32[4, 8]) -> (f32[4, 3])>\n")
    assert "k0        einsum tanh" in text
    assert "state           96" in text


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_shown_as_the_step_tells_it(tmp_path: Path, capsys: Output, stage: str) -> None:
    assert run("inspect", program(tmp_path, "with_tanh"), "--stage", stage) == 0
    text = capsys.readouterr().out
    x = sg.placeholder((4, 8), name="x")
    w = sg.variable(np.ones((8, 3), np.float32), name="w")
    step = sg.compile([x], sg.tanh(x @ w), name="program")
    assert len(text) > 50
    assert _without_comments(text) == _without_comments(step.ir(stage))


def _without_comments(text: str) -> list[str]:
    """Return the lines but for those that say which line of the user a kernel comes from."""
    return [line for line in text.splitlines() if line[:7] not in ("// from", "; from ", "# from ")]


def test_a_kernel_is_shown_alone(tmp_path: Path, capsys: Output) -> None:
    assert run("inspect", program(tmp_path, "with_tanh"), "--stage", "llvm", "--kernel", "k0") == 0
    text = capsys.readouterr().out
    assert '@"k0"' in text
    assert 'define i32 @"step"' not in text


def test_passes_show_what_each_changes(tmp_path: Path, capsys: Output) -> None:
    assert run("inspect", program(tmp_path, "folded"), "--passes") == 0
    text = capsys.readouterr().out
    assert text.startswith("// as it was built\ngraph @")
    before, _, after = text.partition("// after fold-constants\n")
    assert " = add " in before
    assert " = add " not in after
    assert "3.0" in after
    assert "// after cse: nothing changed" in after


def test_passes_begin_with_the_graph_as_the_user_built_it(tmp_path: Path, capsys: Output) -> None:
    assert run("inspect", program(tmp_path, "differentiated_loop"), "--passes") == 0
    before, _, after = capsys.readouterr().out.partition("// after merge-loops\n")
    built, _, rest = before.partition("// after inline-calls")
    assert built.startswith("// as it was built\ngraph @step(%x: f32[n])")
    assert built.count(" = while ") == 2
    assert rest == ": nothing changed\n\n// after place-shards: nothing changed\n\n"
    merged, _, after = after.partition("// after prune-loops")
    assert merged.count(" = while ") == 1
    sized, _, after = after.partition("// after rematerialise")
    assert "// after specialize\ngraph @step(%x: f32[4])" in sized
    for heading in (
        "// after fuse\npartition @step(",
        "// after relocate\nkernel @k0(",
        "// after vectorize\nkernel @k0(",
        "// after registers\nprogram @step ",
        "// after plan-memory\nprogram @step ",
        "// after polls\nprogram @step ",
    ):
        assert heading in after
        after = after[after.index(heading) :]
    assert re.search(r"\nprogram @step arena\(\d+\) polls\(0: \d+, 1: \d+\) \{\n", after)


def test_two_programs_are_compared(tmp_path: Path, capsys: Output) -> None:
    names = program(tmp_path, "with_tanh"), program(tmp_path, "with_exp")
    assert run("inspect", "--diff", *names) == 1
    text = capsys.readouterr().out
    assert text.startswith(f"--- {names[0]}\n+++ {names[1]}\n")
    lines = text.splitlines()
    assert any(line.startswith("-") and "= tanh(" in line for line in lines)
    assert any(line.startswith("+") and "= exp(" in line for line in lines)


def test_equal_programs_do_not_differ(tmp_path: Path, capsys: Output) -> None:
    names = program(tmp_path, "with_tanh"), program(tmp_path, "without_arrays")
    assert run("inspect", "--diff", *names, "--stage", "asm") == 0
    assert capsys.readouterr().out == ""


# -------------------------------------------------------------------------- profile, report, bench


def test_profile_shows_a_row_a_kernel(tmp_path: Path, capsys: Output) -> None:
    assert run("profile", program(tmp_path, "with_tanh"), "--repeat", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["kernel", "computes"]
    assert lines[2].startswith("k0")


def test_export_writes_what_is_loaded_again(tmp_path: Path, capsys: Output) -> None:
    assert run("export", program(tmp_path, "with_a_named_size"), "net", "--size", "n=3") == 0
    text = capsys.readouterr().out
    assert [line.partition(":")[0] for line in text.splitlines()] == [
        str(tmp_path / name) for name in ("net.so", "net.o", "net.h", "net.json")
    ]
    assert np.allclose(sg.load(tmp_path / "net")(np.ones(3, np.float32)), np.tanh(1))


def test_export_says_what_it_cannot_do(tmp_path: Path, capsys: Output) -> None:
    named = program(tmp_path, "with_tanh")
    assert run("export", named, "net", "--size", "n=x") == 2
    assert "'n=x' gives no size\n  hint: write name=3" in capsys.readouterr().err
    assert run("export", named, "net", "--target", "x86-64-v2", "aarch64") == 2
    assert "are not different levels of x86-64" in capsys.readouterr().err
    assert run("export", named, "net", "--formats", "dll") == 2
    assert not list(tmp_path.glob("net.*"))


def test_report_writes_a_page(tmp_path: Path, capsys: Output) -> None:
    assert run("report", program(tmp_path, "with_tanh"), "page.html") == 0
    size = (tmp_path / "page.html").stat().st_size
    assert capsys.readouterr().out == f"page.html: {size:,} bytes\n"


def test_trace_writes_a_timeline(tmp_path: Path, capsys: Output) -> None:
    assert run("trace", program(tmp_path, "with_tanh"), "-o", "step.json") == 0
    text = (tmp_path / "step.json").read_text()
    assert capsys.readouterr().out == f"step.json: {len(text):,} bytes\n"
    assert any(event.get("cat") == "kernel" for event in json.loads(text)["traceEvents"])


def test_trace_says_what_it_cannot_do(tmp_path: Path, capsys: Output) -> None:
    assert run("trace", program(tmp_path, "with_a_named_size")) == 2
    assert "there are no arrays to run it on" in capsys.readouterr().err
    assert run("trace", program(tmp_path, "with_tanh"), "--output", "none/step.json") == 2
    assert capsys.readouterr().err == "error: none/step.json: No such file or directory\n"


def test_bench_times_steps_in_turns(tmp_path: Path, capsys: Output) -> None:
    names = program(tmp_path, "with_tanh"), program(tmp_path, "with_exp")
    assert run("bench", *names, "--rounds", "2", "--seconds", "0.001") == 0
    header, _, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["step", "median", "us", "best", "us", "times", "the", "first"]
    assert first.split()[0] == names[0]
    assert first.split()[-1] == "1.000"
    assert float(second.split()[-1]) > 0


def test_info_names_the_machine(capsys: Output) -> None:
    assert run("info") == 0
    text = capsys.readouterr().out
    assert re.search(rf"^numpy +{re.escape(np.__version__)}$", text, re.MULTILINE)
    assert "native target" in text
    assert re.search(r"(?m)^cores +\d+ of \d+", text)


def test_info_measures_the_limits_unless_it_is_to_be_quick(capsys: Output) -> None:
    assert run("info", "--quick") == 0
    quick = capsys.readouterr().out
    assert re.search(r"(?m)^processor +\S", quick)
    assert "GFLOP/s" not in quick
    assert run("info") == 0
    assert re.search(r"(?m)^limit of float32 +[\d.]+ GFLOP/s$", capsys.readouterr().out)


def test_ops_prints_the_page_and_what_one_op_is(capsys: Output) -> None:
    assert run("ops") == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert run("ops", "np.concatenate") == 0
    assert capsys.readouterr().out.startswith("| **`sg.concat`** |")
    assert run("ops", "relu6") == 0
    assert "sg.nn.relu6(x: Any, /) -> Tensor\n\n" in capsys.readouterr().out
    assert run("ops", "no such op") == 2
    assert "no op has 'no such op'" in capsys.readouterr().err


def test_lint_says_what_a_program_is_unlikely_to_want(tmp_path: Path, capsys: Output) -> None:
    assert run("lint", program(tmp_path, "with_tanh")) == 0
    assert capsys.readouterr().out == ""
    assert run("lint", program(tmp_path, "careless")) == 1
    place = re.escape(f"programs_{tmp_path.name}.py")
    lines = capsys.readouterr().out.splitlines()
    wanted = [
        r"44: unread-input: nothing reads the input unread",
        r"45: unmoved-variable: forgotten is trainable and no update moves it",
        r"47: promotion: x: f32\[2\] becomes float64",
        r"47: large-constant: a constant of 2.0 MiB: .*",
    ]
    assert len(lines) == len(wanted)
    for line, text in zip(lines, wanted, strict=True):
        assert re.fullmatch(rf".*{place}:{text}", line), line


# ------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("number", "it returned int, not a compiled step"),
        ("nothing", "has no function 'nothing'"),
    ],
)
def test_what_is_no_program_is_refused(
    tmp_path: Path, capsys: Output, function: str, problem: str
) -> None:
    assert run("inspect", program(tmp_path, function)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {program(tmp_path, function)}: ")
    assert problem in captured.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("just_a_word", "this names no function"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
        ("json.no_such_part:f", "there is no module 'json.no_such_part'"),
        ("no_such_file.py:f", "there is no file no_such_file.py"),
    ],
)
def test_what_cannot_be_found_is_named(capsys: Output, text: str, problem: str) -> None:
    assert run("inspect", text) == 2
    assert problem in capsys.readouterr().err


def test_a_module_that_fails_to_import_another_says_which(tmp_path: Path) -> None:
    (tmp_path / "importing.py").write_text("import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        main(["inspect", "importing:f"])


def test_a_step_without_arrays_is_not_run(tmp_path: Path, capsys: Output) -> None:
    for command in ("profile", "bench"):
        assert run(command, program(tmp_path, "without_arrays")) == 2
        assert "there are no arrays to run it on" in capsys.readouterr().err
    assert run("inspect", program(tmp_path, "without_sizes")) == 2
    assert "not known until it is called" in capsys.readouterr().err


def test_the_errors_of_a_program_name_its_line(tmp_path: Path, capsys: Output) -> None:
    assert run("inspect", program(tmp_path, "wrong")) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: add: ")
    assert f"--> programs_{tmp_path.name}.py:31 in wrong" in error


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("inspect",),
        ("inspect", "a:b", "--diff", "a:b", "a:c"),
        ("inspect", "a:b", "--passes", "--stage", "loops"),
        ("inspect", "a:b", "--stage", "no-stage"),
        ("profile", "a:b", "--repeat", "0"),
        ("no-command",),
    ],
)
def test_a_line_that_makes_no_sense_shows_the_usage(
    capsys: Output, arguments: tuple[str, ...]
) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -m symgrad")


def test_help_lists_the_commands(capsys: Output) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    for command in ("inspect", "profile", "report", "trace", "export", "info", "exit codes"):
        assert command in text


def test_it_is_run_as_a_module(tmp_path: Path) -> None:
    name = f"programs_{tmp_path.name}.py:with_tanh"
    command = [sys.executable, "-m", "symgrad", "inspect", name, "--kernel", "k7"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "error: program: there is no kernel 'k7' at stage 'loops'\n"
