"""The benchmarks run, compare correct results and say what they found; no time is judged here."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.__main__ import NAMES, main
from benchmarks.array_cases import ARRAY_CASES
from benchmarks.gradbench.comparison import PROBLEMS
from benchmarks.networks import NETWORKS
from benchmarks.report import Bar, Report
from benchmarks.scaling import FAMILIES, exponent
from benchmarks.timing import Times, interleave
from benchmarks.workload_tasks import HESSIAN_PRODUCT, TRAIN_SGD
from benchmarks.workloads import THREADS, WORKLOADS
from symgrad.graph.types import Array

ROOT = Path(__file__).resolve().parents[2]


# What takes seconds and no minute.
SHORT = ("overhead", "train_step", "loops")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return run_benchmarks(SHORT, tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="module")
def long_reports(tmp_path_factory):
    names = [name for name in NAMES if name not in SHORT]
    return run_benchmarks(names, tmp_path_factory.mktemp("benchmarks"))


def run_benchmarks(names: Iterable[str], folder: Path) -> dict[str, Any]:
    """Run benchmarks in a process of their own: they keep to one core for good."""
    path = folder / "reports.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(path), "--only", *names]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = {report["name"]: report for report in json.loads(path.read_text())}
    assert all(name in run.stdout for name in found)
    return found


def test_overhead_is_measured_beside_numpy(tmp_path, monkeypatch, capsys):
    """The shortest one runs in this process, which it must not keep to one core."""
    path = tmp_path / "reports.json"
    monkeypatch.setattr("benchmarks.overhead.pin_to_one_core", lambda: None)
    arguments = ["benchmarks", "--quick", "--json", str(path), "--only", "overhead"]
    monkeypatch.setattr(sys, "argv", arguments)
    main()
    (report,) = json.loads(path.read_text())
    assert report["name"] == "overhead"
    assert "overhead" in capsys.readouterr().out
    check_overhead(report)


@pytest.mark.slow
def test_overhead_is_measured_in_a_process_of_its_own(reports):
    check_overhead(reports["overhead"])


def check_overhead(report: dict[str, Any]) -> None:
    rows = {row["call"]: row for row in report["rows"]}
    assert {"symgrad step(x)", "NumPy add(x, 1)"} <= set(rows)
    assert rows["symgrad step(x)"]["times symgrad"] == 1
    assert all(row["best ns"] > 0 for row in rows.values())


@pytest.mark.slow
def test_functional_calls_are_measured_beside_numpy(long_reports):
    rows = long_reports["functional calls"]["rows"]
    assert {row["library"] for row in rows} >= {"symgrad", "NumPy"}
    assert all(row["times symgrad"] == 1 for row in rows if row["library"] == "symgrad")
    assert all(row["median us"] > 0 for row in rows)


@pytest.mark.slow
def test_ranks_are_measured_beside_one_rank_and_sums_beside_mpi4py(long_reports):
    (report,) = (r for name, r in long_reports.items() if name.startswith("Ranks of MPI"))
    if "nothing is measured" in " ".join(report["notes"]):
        pytest.skip("there is no mpiexec, or one core")
    steps = [row for row in report["rows"] if row["efficiency"] is not None]
    assert [row["what"] for row in steps] == ["step of MLP", "step of GPT", "step of LSTM"]
    assert all(row["1 rank"] > 0 and row["2 ranks"] > 0 for row in steps)
    assert sum("all_reduce" in row["what"] for row in report["rows"]) > 0
    assert len(report["bars"]) > 2 * len(steps)


@pytest.mark.slow
def test_random_numbers_are_measured_beside_numpy(long_reports):
    rows = long_reports["random numbers"]["rows"]
    assert {row["library"] for row in rows} >= {"symgrad", "NumPy, PCG64", "NumPy, Philox"}
    assert all(row["times symgrad"] == 1 for row in rows if row["library"] == "symgrad")
    assert all(row["median ns"] > 0 for row in rows)


@pytest.mark.slow
def test_array_functions_are_measured_beside_numpy(long_reports):
    rows = long_reports["arrays"]["rows"]
    assert {row["library"] for row in rows} >= {"symgrad", "NumPy"}
    assert {row["function"] for row in rows} == {case.name for case in ARRAY_CASES}
    assert all(row["times symgrad"] == 1 for row in rows if row["library"] == "symgrad")
    assert all(row["median us"] > 0 for row in rows)


@pytest.mark.slow
def test_every_form_of_a_product_is_measured(long_reports):
    rows = long_reports["matmul"]["rows"]
    assert {row["form"] for row in rows} == {"NN", "TN", "NT", "TT"}
    assert {row["dtype"] for row in rows} == {"f32", "f64"}
    assert all(row["GFLOP/s"] > 0 and row["BLAS"] > 0 for row in rows)


@pytest.mark.slow
def test_every_stage_is_timed_for_every_family(long_reports):
    rows = long_reports["scaling"]["rows"]
    assert {row["family"] for row in rows} == set(FAMILIES)
    stages = {row["stage"] for row in rows}
    assert {"build", "gradients", "fuse", "lower", "LLVM object", "all"} <= stages
    assert len(rows) == len(FAMILIES) * len(stages)


@pytest.mark.slow
def test_a_deep_chain_compiles_in_a_process_of_its_own(long_reports):
    measured = {bar["claim"].split()[0]: bar for bar in long_reports["scaling"]["bars"]}
    assert measured["seconds"]["met"]
    assert measured["peak"]["met"]


@pytest.mark.slow
def test_calls_are_measured_beside_what_they_would_be_inlined(long_reports):
    rows = long_reports["calls"]["rows"]
    assert [row["calls"] for row in rows] == [1, 10]
    assert all(row["compile, s"] > 0 and row["run / inlined"] > 0 for row in rows)
    assert rows[1]["LLVM text, KB"] < rows[1]["inlined, KB"]


@pytest.mark.slow
def test_what_compiling_leaves_in_memory_is_measured(long_reports):
    (row,) = long_reports["compile memory"]["rows"]
    assert row["compiles"] == 20
    assert row["ms each"] > 0


@pytest.mark.slow
def test_a_training_step_is_measured(reports):
    rows = {row["library"]: row for row in reports["train_step"]["rows"]}
    assert rows["symgrad"]["steps/s"] > 0


@pytest.mark.slow
def test_every_rule_is_measured_alone_and_accumulated(long_reports):
    rows = {row["rule"]: row for row in long_reports["update_rules"]["rows"]}
    assert {"SGD", "Adam", "AdamW", "RMSProp", "Lion", "LARS", "LAMB"} <= set(rows)
    assert all(row["symgrad us"] > 0 and row["accumulated us"] > 0 for row in rows.values())


@pytest.mark.slow
def test_a_loop_is_measured_beside_c_both_ways(reports):
    loops = reports["loops"]
    rows = {row["pass"]: row for row in loops["rows"]}
    assert set(rows) == {"forward", "forward and backward"} or "compiler" in str(loops)
    assert all(row["times C"] > 0 for row in rows.values())


@pytest.mark.slow
def test_threads_are_measured_beside_one(long_reports):
    rows = {row["work"]: row for row in long_reports["threads"]["rows"]}
    assert len(rows) == 5
    assert all(row["us, 1"] > 0 and row["us, 2"] > 0 for row in rows.values())
    claims = [bar["claim"] for bar in long_reports["threads"]["bars"]]
    assert claims[0].endswith("f32 product 128")
    assert [claim.partition(", training step, ")[2] for claim in claims[1:]] == [
        "a program anywhere",
        "a program on a core",
    ]


@pytest.mark.slow
def test_an_lstm_is_measured_and_its_largest_kernels_are_named(long_reports):
    rows = {row["library"]: row for row in long_reports["lstm"]["rows"]}
    assert rows["symgrad"]["steps/s"] > 0
    assert sum("GFLOP/s" in note for note in long_reports["lstm"]["notes"]) == 5


@pytest.mark.slow
def test_every_network_is_measured_on_one_thread_and_on_two(long_reports):
    rows = [row for row in long_reports["networks"]["rows"] if row["library"] == "symgrad"]
    assert {(row["network"], row["threads"]) for row in rows} == {
        (network.name, threads) for network in NETWORKS for threads in (1, 2)
    }
    assert all(row["ms a step"] > 0 for row in rows)


@pytest.mark.slow
def test_sparse_derivatives_are_measured(long_reports):
    rows = [
        row for row in long_reports["sparse derivatives"]["rows"] if row["library"] == "symgrad"
    ]
    assert [row["non-zeros"] for row in rows] == [28_000, 2_998]
    assert all(row["s to build"] > 0 and row["ms a run"] > 0 for row in rows)


@pytest.mark.slow
def test_every_workload_is_measured_and_has_a_goal_for_each_number_of_threads(long_reports):
    rows = [row for row in long_reports["workloads"]["rows"] if row["library"] == "symgrad"]
    assert [row["workload"] for row in rows] == [workload.name for workload in WORKLOADS]
    assert all(len(workload.goals) == len(THREADS) for workload in WORKLOADS)
    assert all(row["times symgrad"] == 1 for row in rows)


@pytest.mark.slow
def test_every_problem_of_gradbench_is_measured_beside_cpp(long_reports):
    report = long_reports["GradBench"]
    rows = [row for row in report["rows"] if row["library"] == "symgrad"]
    assert {row["problem"] for row in rows} == {problem.name for problem in PROBLEMS}
    assert all(row["times symgrad"] == 1 for row in rows)
    assert len(report["bars"]) in (0, 2 * len(PROBLEMS) - 2)  # of modes the fastest counts


@pytest.mark.slow
def test_updates_are_measured_given_made_and_compiled(long_reports):
    steps = [row["step"] for row in long_reports["optimizer"]["rows"]]
    assert {"symgrad, gradients given", "symgrad, wide linear layer"} <= set(steps)
    assert sum(step.startswith("compile") for step in steps) == 3
    assert "gradient buffers: 0 bytes" in str(long_reports["optimizer"]["notes"])


def test_the_exponent_of_a_power_is_its_exponent():
    sizes = (10, 100, 1000)
    assert exponent(sizes, [n**1.5 for n in sizes]) == pytest.approx(1.5)


def test_a_ratio_is_the_median_over_rounds_that_lie_side_by_side():
    assert Times((2.0, 20.0, 300.0)).ratio(Times((1.0, 10.0, 10.0))) == 2.0


def test_contestants_are_called_and_take_time():
    calls = []
    times = interleave({"a": lambda: calls.append("a"), "b": lambda: None}, rounds=3, seconds=1e-5)
    assert set(times) == {"a", "b"}
    assert calls
    assert len(times["a"].rounds) == 3
    assert times["a"].best > 0


def test_a_bar_is_met_on_its_side_only():
    assert Bar("seconds", 1.0, 2.0).is_met
    assert not Bar("seconds", 3.0, 2.0).is_met
    assert Bar("share", 0.8, 0.7, at_least=True).is_met
    assert not Bar("share", float("nan"), 0.7, at_least=True).is_met


def test_a_report_prints_its_rows_and_its_bars():
    report = Report("speed", ("call", "ns"), [("f", 12.5)], [Bar("ns of f", 12.5, 10.0)])
    text = str(report)
    assert "f" in text.splitlines()[5]
    assert "MISSED: ns of f: 12.5 <= 10" in text


@pytest.mark.slow
def test_profiles_are_compared_with_the_steps_they_are_of(long_reports):
    rows = long_reports["profiles"]["rows"]
    assert [row["step"] for row in rows] == ["network", "products", "recurrent", "iterated"]
    assert all(row["us a step"] > 0 and row["us of kernels"] > 0 for row in rows)


@pytest.mark.slow
def test_the_first_step_is_timed_stage_by_stage_cold_and_warm(long_reports):
    rows = {(row["case"], row["cache"]): row for row in long_reports["first step"]["rows"]}
    cold, warm = rows["layers", "cold"], rows["layers", "warm"]
    assert cold["object"] > 0
    assert warm["object"] == warm["LLVM"] == 0
    assert rows["layers, one edited", "edited"]["object"] > 0


def test_vectors_to_multiply_with_are_drawn_once_and_not_in_a_first_step():
    weights: dict[str, Array] = {"w": np.zeros((3, 4), np.float32), "b": np.zeros(4)}
    first, second = (HESSIAN_PRODUCT.draw(weights) for _ in range(2))
    assert [(v.shape, str(v.dtype)) for v in first] == [((3, 4), "float32"), ((4,), "float64")]
    assert all(a is b for a, b in zip(first, second, strict=True))
    assert len(TRAIN_SGD.draw(weights)) == 0
