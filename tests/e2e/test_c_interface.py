"""Exported steps called by C: loops, tapes, threads, states, names, and every status."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.c_programs import (
    MACHINES,
    X86,
    Machine,
    build,
    needs,
    run,
    values_of,
    values_of_state,
)

STEPS, TIME, BATCH, WIDTH = 100, 6, 4, 5

# Runs a step on the inputs in a file, and leaves the losses and the state.
_TRAIN = r"""
#include <stdio.h>
#include "net.h"
static net_instance self;
static unsigned char state[NET_STATE_SIZE];
int main(void) {
    FILE *in = fopen("inputs.bin", "rb"), *out = fopen("results.bin", "wb");
    float x[%(x)d], y[%(y)d], loss;
    if (in == NULL || out == NULL || net_init(&self)) return 1;
    while (fread(x, sizeof x, 1, in) == 1 && fread(y, sizeof y, 1, in) == 1) {
        int32_t status = net_train(&self, x, y, &loss);
        if (status) return puts(net_message(status)), 2;
        fwrite(&loss, sizeof loss, 1, out);
    }
    if (net_save(&self, state, sizeof state)) return 3;
    fwrite(state, sizeof state, 1, out);
    net_release(&self);
    return fclose(in) | fclose(out);
}
"""


def lstm(weights: Any, x: sg.Tensor) -> Any:
    """Return the hidden states of an LSTM, by `scan`."""

    def step(carry: Any, row: sg.Tensor) -> Any:
        h, c = carry
        i, f, o, g = sg.split(row @ weights["read"] + h @ weights["recur"], 4, axis=1)
        c = sg.sigmoid(f) * c + sg.sigmoid(i) * sg.tanh(g)
        h = sg.sigmoid(o) * sg.tanh(c)
        return (h, c), h

    zeros = sg.zeros((BATCH, WIDTH))
    return sg.scan(step, (zeros, zeros), x)[1]


def settle(weights: Any, given: sg.Tensor) -> Any:
    """Return a fixed point, by a loop without a bound: its gradient needs a tape."""

    def body(z: sg.Tensor, _: sg.Tensor) -> Any:
        following = sg.tanh(z @ weights["settle"] + given)
        return following, sg.max(sg.abs(following - z))

    start = sg.zeros_like(given), sg.constant(np.float32(1))
    return sg.while_loop(lambda z, moved: moved > 1e-4, body, start)[0]


def compile_training(target: str) -> sg.Step:
    rng = np.random.default_rng(11)
    shapes = {"read": (WIDTH, 4 * WIDTH), "recur": (WIDTH, 4 * WIDTH), "settle": (WIDTH, WIDTH)}
    weights = {
        name: sg.variable(rng.normal(0, 0.2, shape).astype(np.float32), name=name)
        for name, shape in shapes.items()
    }
    x = sg.placeholder((TIME, BATCH, WIDTH), name="x")
    y = sg.placeholder((BATCH, WIDTH), name="y")
    loss = sg.nn.mse(settle(weights, lstm(weights, x)[-1]), y)
    return sg.compile([x, y], loss, sg.optim.Adam(0.02).minimize(loss), target=target)


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(12)
    xs = rng.normal(0, 1, (STEPS, TIME, BATCH, WIDTH)).astype(np.float32)
    return [(x, np.tanh(x[-1]) / 2) for x in xs]


def build_training(machine: Machine, folder: Path, formats: tuple[str, ...] = ("o", "h")) -> Path:
    step = compile_training("x86-64-v3")
    sg.export({"train": step}, folder / "net", formats=formats, target=machine.target)
    (folder / "inputs.bin").write_bytes(b"".join(a.tobytes() for pair in batches() for a in pair))
    source = folder / "main.c"
    source.write_text(_TRAIN % {"x": TIME * BATCH * WIDTH, "y": BATCH * WIDTH})
    return build(machine, folder, "main", [source, folder / "net.o"])


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program for this machine: it takes longer to make than to run."""
    return build_training(X86, tmp_path_factory.mktemp("training"))


@pytest.mark.parametrize("machine", MACHINES)
def test_loops_and_tapes_compute_the_bits_of_the_compiled_step(machine, training, tmp_path):
    program = training if machine == X86 else build_training(machine, tmp_path)
    run(machine, program)
    step = compile_training("x86-64-v3")
    losses = np.array([step(x, y) for x, y in batches()], np.float32)
    assert losses[-1] < losses[0] / 2
    results = (program.parent / "results.bin").read_bytes()
    assert results[: losses.nbytes] == losses.tobytes()
    assert values_of_state(results[losses.nbytes :]) == values_of(step.graph.variables)


@pytest.mark.isa("avx2")
@needs("valgrind")
def test_what_tapes_took_is_released(training):
    checked = ("valgrind", "-q", "--leak-check=full", "--show-leak-kinds=all", "--error-exitcode=9")
    assert run(X86, training, wrapper=checked).stderr == ""


def undefined(image: Path) -> set[str]:
    listed = subprocess.run(
        ["nm", "-u", str(image)], capture_output=True, text=True, check=True, timeout=60
    )
    return {line.split()[-1] for line in listed.stdout.splitlines()}


def test_an_object_without_tapes_cannot_allocate(training, tmp_path):
    x = sg.placeholder((8,), name="x")
    v = sg.variable(np.ones(8, np.float32), name="v")
    sg.compile([x], sg.sum(v), [(v, v + x)], name="net").export(tmp_path / "net", formats=["o"])
    taken = undefined(tmp_path / "net.o")
    assert taken <= {"memcpy", "memset", "strcmp", "_GLOBAL_OFFSET_TABLE_"}
    assert {"aligned_alloc", "free"} <= undefined(training.parent / "net.o")


# ------------------------------------------------------------------------------- two threads

_THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "net.h"
enum { STEPS = 30 };
typedef struct { net_instance self, *used; float scale, loss; int failed; } job;
static job jobs[4];
static unsigned char states[4][NET_STATE_SIZE];

static void *train(void *argument) {
    job *mine = argument;
    float x[%(x)d], y[%(y)d];
    mine->failed = net_init(mine->used);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < %(x)d; i++) x[i] = mine->scale * (float)((i + step) %% 7 - 3);
        for (int i = 0; i < %(y)d; i++) y[i] = 0.1f * (float)(i %% 5);
        mine->failed |= net_train(mine->used, x, y, &mine->loss);
    }
    return NULL;
}

/* With an argument, both threads train one instance, which is wrong. */
int main(int count, char **arguments) {
    pthread_t threads[2];
    for (int i = 0; i < 4; i++) jobs[i].scale = i %% 2 ? 0.1f : 0.2f;
    for (int i = 0; i < 4; i++) jobs[i].used = &jobs[i].self;
    if (count > 1 && arguments[1]) jobs[3].used = &jobs[2].self;
    for (int i = 0; i < 2; i++) train(&jobs[i]);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, train, &jobs[2 + i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        if (jobs[i].failed || net_save(&jobs[i].self, states[i], NET_STATE_SIZE)) return 1;
        net_release(&jobs[i].self);
    }
    if (!memcmp(states[0], states[1], NET_STATE_SIZE)) return 2;
    return memcmp(states, states + 2, sizeof states / 2) ? 3 : 0;
}
"""


@pytest.fixture(scope="module")
def threads_program(training: Path) -> Path:
    folder = training.parent
    source = folder / "threads.c"
    source.write_text(_THREADS % {"x": TIME * BATCH * WIDTH, "y": BATCH * WIDTH})
    return build(X86, folder, "threads", [source, folder / "net.o"])


@pytest.mark.isa("avx2")
def test_two_instances_in_two_threads_compute_what_they_compute_in_turn(threads_program):
    run(X86, threads_program)


@pytest.mark.isa("avx2")
@needs("valgrind")
@pytest.mark.slow
def test_two_instances_in_two_threads_share_nothing(threads_program):
    checked = ("valgrind", "-q", "--tool=helgrind", "--error-exitcode=9")
    run(X86, threads_program, wrapper=checked)
    shared = subprocess.run(
        [*checked, str(threads_program), "shared"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "Possible data race" in shared.stderr


@pytest.mark.isa("avx2")
def test_a_kernel_that_threads_share_computes_the_same_bits(tmp_path):
    rng = np.random.default_rng(2)
    x = sg.placeholder((600, 700), name="x")
    w = sg.variable(np.zeros((600, 700), np.float32), name="w")
    given = rng.normal(size=(600, 700)).astype(np.float32)
    outputs = [sg.tanh(x), sg.sum(sg.exp(x), axis=1), x @ w.T]
    one, two = (sg.compile([x], outputs, target="x86-64-v3", threads=n) for n in (1, 2))
    assert any(record.parts > 1 for record in two.kernels)
    libraries = []
    for name, step in (("one", one), ("two", two)):
        step.export(tmp_path / name)
        libraries.append(sg.load(tmp_path / name))
    assert "link with -pthread" in (tmp_path / "two.h").read_text()
    assert "-pthread" not in (tmp_path / "one.h").read_text()
    assert "pthread_create" in undefined(tmp_path / "two.o")
    assert "pthread_create" not in undefined(tmp_path / "one.o")
    assert not any("omp" in name.lower() for name in undefined(tmp_path / "two.o") - {"strcmp"})
    for found, wanted, plain in zip(libraries[1](given), two(given), one(given), strict=True):
        assert found.tobytes() == wanted.tobytes() == plain.tobytes()


# ------------------------------------------------------------------------- names and statuses

_STATUSES = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib.h"
#define EXPECT(condition) \
    do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); return 1; } } while (0)

static lib_instance self, other, blank;
static union { lib_instance aligned; unsigned char bytes[2 * LIB_SIZE]; } room;
static unsigned char state[LIB_STATE_SIZE + 8], again[LIB_STATE_SIZE];

static int names(void) {
    float read[3] = {0}, table[] = {1, 2, 3};
    EXPECT(lib_variable_count() == 3);
    EXPECT(lib_variable_at(3) == NULL && lib_variable_at(-1) == NULL);
    const lib_variable *row = lib_variable_at(lib_find("scope/table"));
    EXPECT(row && !strcmp(row->name, "scope/table") && !strcmp(row->dtype, "float32"));
    EXPECT(row->bytes == 24 && row->dimensions == 2 && row->shape[0] == 3 && row->shape[1] == 2);
    EXPECT(lib_address(&self, lib_find("scope/table")) == (void *)(self.bytes + row->offset));
    EXPECT(lib_address(&self, 3) == NULL && lib_address(&blank, 0) == NULL);
    EXPECT(lib_find("none") == LIB_UNKNOWN_NAME && lib_find(NULL) == LIB_UNKNOWN_NAME);
    EXPECT(lib_write(&self, "bias", table, 12) == LIB_OK);
    EXPECT(lib_read(&self, "bias", read, 12) == LIB_OK && !memcmp(read, table, 12));
    EXPECT(lib_read(&self, "bias", read, 8) == LIB_WRONG_SIZE);
    EXPECT(lib_read(&self, "none", read, 12) == LIB_UNKNOWN_NAME);
    EXPECT(lib_read(&self, "bias", NULL, 12) == LIB_NULL_POINTER);
    EXPECT(lib_write(&blank, "bias", table, 12) == LIB_NOT_INITIALIZED);
    return 0;
}

static int instances(void) {
    EXPECT(lib_abi_version() == LIB_ABI_VERSION && lib_size() == sizeof(lib_instance));
    EXPECT(lib_size() == LIB_SIZE && lib_alignment() == LIB_ALIGNMENT);
    EXPECT(lib_init(NULL) == LIB_NULL_POINTER);
    EXPECT(lib_init((void *)(room.bytes + 8)) == LIB_MISALIGNED);
    float two[2];
    int64_t at = 0;
    EXPECT(lib_look(&blank, &at, two) == LIB_NOT_INITIALIZED);
    memset(&blank, 0x5a, sizeof blank);
    EXPECT(lib_look(&blank, &at, two) == LIB_NOT_INITIALIZED);
    EXPECT(lib_look(NULL, &at, two) == LIB_NULL_POINTER);
    EXPECT(lib_look(&self, NULL, two) == LIB_NULL_POINTER);
    EXPECT(lib_look(&self, &at, NULL) == LIB_NULL_POINTER);
    lib_release(NULL);
    lib_release(&blank);
    return 0;
}

static int steps(void) {
    float two[2], sum;
    int64_t at = 1;
    EXPECT(lib_look(&self, &at, two) == LIB_OK && two[0] == 2 && two[1] == 3);
    other = self; /* an instance without tapes is copied as bytes */
    EXPECT(lib_grow(&other, &sum) == LIB_OK && lib_look(&other, &at, two) == LIB_OK && two[0] == 3);
    EXPECT(lib_look(&self, &at, two) == LIB_OK && two[0] == 2);
    lib_release(&other);
    EXPECT(lib_grow(&self, &sum) == LIB_OK && lib_look(&self, &at, two) == LIB_OK && two[0] == 3);
    const void *inputs[] = {&at};
    void *outputs[] = {two};
    at = 2;
    EXPECT(lib_look_run(&self, inputs, outputs) == LIB_OK && two[0] == 5);
    at = 7;
    int32_t status = lib_look(&self, &at, two);
    EXPECT(status > 0 && status < LIB_TAPE_FULL && lib_failed_index(&self) == 7);
    printf("%s\n", lib_message(status));
    int32_t later = lib_look_twice(&self, &at, two);
    EXPECT(later > status && strcmp(lib_message(later), lib_message(status)));
    printf("%s\n", lib_message(later));
    EXPECT(!strcmp(lib_message(LIB_OK), "success") && lib_message(12345) != NULL);
    return 0;
}

static int states(void) {
    EXPECT(lib_state_size() == LIB_STATE_SIZE);
    EXPECT(lib_save(&self, state + 1, LIB_STATE_SIZE) == LIB_OK);
    EXPECT(lib_save(&self, state, LIB_STATE_SIZE - 1) == LIB_WRONG_SIZE);
    EXPECT(lib_save(&blank, state, LIB_STATE_SIZE) == LIB_NOT_INITIALIZED);
    EXPECT(lib_init_from(&other, state + 1, LIB_STATE_SIZE) == LIB_OK);
    EXPECT(lib_save(&other, again, LIB_STATE_SIZE) == LIB_OK);
    EXPECT(!memcmp(again, state + 1, LIB_STATE_SIZE));
    EXPECT(lib_restore(&other, state + 1, LIB_STATE_SIZE - 1) == LIB_WRONG_SIZE);
    EXPECT(lib_restore(&other, state + 1, 3) == LIB_NOT_A_STATE);
    EXPECT(lib_restore(&other, NULL, LIB_STATE_SIZE) == LIB_NULL_POINTER);
    EXPECT(lib_restore(&blank, again, LIB_STATE_SIZE) == LIB_NOT_INITIALIZED);
    const int places[] = {0, 8, 16, 24, 32, 40, LIB_STATE_SIZE - 1};
    const int32_t found[] = {LIB_NOT_A_STATE, LIB_OTHER_VERSION, LIB_OTHER_VARIABLES, LIB_DAMAGED,
                             LIB_DAMAGED, LIB_DAMAGED, LIB_DAMAGED};
    for (int i = 0; i < 7; i++) {
        again[places[i]] ^= 1;
        EXPECT(lib_restore(&other, again, LIB_STATE_SIZE) == found[i]);
        again[places[i]] ^= 1;
    }
    EXPECT(lib_restore(&other, again, LIB_STATE_SIZE) == LIB_OK);
    lib_release(&other);
    EXPECT(lib_save(&other, again, LIB_STATE_SIZE) == LIB_NOT_INITIALIZED);
    return 0;
}

int main(void) {
    EXPECT(lib_init(&self) == LIB_OK);
    return instances() || steps() || names() || states();
}
"""


def export_lookups(machine: Machine, folder: Path) -> None:
    with sg.name_scope("scope"):
        table = sg.variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="table")
    bias = sg.variable(np.zeros(3, np.float32), name="bias")
    flag = sg.variable(np.array([True]), name="flag")
    at = sg.placeholder((), "int64", name="at")
    row = sg.take(table, at, axis=0)
    grow = sg.compile(
        [], sg.sum(bias), [(table, table + sg.where(flag, sg.constant(1.0), 0.0))], name="grow"
    )
    again = sg.take(table, at - 1, axis=0)
    steps = {
        "grow": grow,
        "look": sg.compile([at], row),
        "look_twice": sg.compile([at], again + row),
    }
    sg.export(steps, folder / "lib", formats=("o", "h"), target=machine.target)


@pytest.mark.parametrize("machine", MACHINES)
def test_names_states_and_statuses(machine, tmp_path):
    export_lookups(machine, tmp_path)
    source = tmp_path / "statuses.c"
    source.write_text(_STATUSES)
    program = build(machine, tmp_path, "statuses", [source, tmp_path / "lib.o"])
    printed = run(machine, program).stdout.splitlines()
    assert len(printed) == 2
    for line in printed:
        assert "an index is out of range for axis 0 of size 3 of f32[3, 2]" in line
        assert "test_c_interface.py:" in line
