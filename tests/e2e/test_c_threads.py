"""Threads of exported steps: several callers, libraries that are unloaded, processes that fork."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from tests.support.c_programs import ARM, X86, Machine, build, needs, needs_arm, run

_SIZE = 200_000

# Each caller runs steps of an instance of its own, and compares them with those of one thread.
_CALLERS = r"""
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "one.h"
#include "two.h"
enum { SIZE = %(size)d, STEPS = %(steps)d, CALLERS = 3 };
static float x[SIZE];
typedef struct { one_instance one; two_instance two; float y[SIZE], z[SIZE]; int failed; } job;
static job jobs[CALLERS];

static void *call(void *argument) {
    job *mine = argument;
    float sum, total;
    int64_t at = 7, outside = -SIZE - 1;
    mine->failed = one_init(&mine->one) | two_init(&mine->two);
    for (int step = 0; step < STEPS; step++) {
        mine->failed |= one_step(&mine->one, x, &at, mine->y, &sum);
        mine->failed |= two_step(&mine->two, x, &at, mine->z, &total);
        mine->failed |= memcmp(mine->y, mine->z, sizeof x) || memcmp(&sum, &total, sizeof sum);
    }
    mine->failed |= two_step(&mine->two, x, &outside, mine->z, &total) <= 0;
    mine->failed |= two_failed_index(&mine->two) != outside;
    two_release(&mine->two);
    return NULL;
}

int main(int count, char **arguments) {
    (void)arguments;
    pthread_t threads[CALLERS];
    for (int i = 0; i < SIZE; i++) x[i] = (float)(i %% 1000) / 500 - 1;
    for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, call, &jobs[i]);
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < CALLERS; i++) if (jobs[i].failed) return 1;
    if (count > 1) return 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        call(&jobs[0]);
        exit(jobs[0].failed ? 1 : 0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child) return 2;
    return status ? 3 : 0;
}
"""

# Loads a library, runs a step, and unloads it while its thread is awake, asleep, or starts.
_UNLOADED = r"""
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "two.h"
static float x[%(size)d], y[%(size)d], sum;
static two_instance self;

static int threads(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    while (readdir(folder)) count++;
    closedir(folder);
    return count - 2;
}

int main(void) {
    int64_t at = 0;
    for (int round = 0; round < 30; round++) {
        void *library = dlopen("./two.so", RTLD_NOW);
        if (library == NULL) return puts(dlerror()), 1;
        void *symbol = dlsym(library, "two_init");
        int32_t (*init)(two_instance *);
        memcpy(&init, &symbol, sizeof symbol);
        symbol = dlsym(library, "two_step");
        int32_t (*step)(two_instance *, const float *, const int64_t *, float *, float *);
        memcpy(&step, &symbol, sizeof symbol);
        if (init(&self) || step(&self, x, &at, y, &sum)) return 2;
        usleep(round %% 3 * 500);
        if (dlclose(library)) return 3;
        for (int tries = 0; threads() > 1; tries++) {
            if (tries > 5000) return 4; /* a thread that ended is listed a moment longer */
            usleep(1000);
        }
    }
    return 0;
}
"""


def export(machine: Machine, folder: Path, formats: tuple[str, ...]) -> None:
    x, at = sg.placeholder((_SIZE,), name="x"), sg.placeholder((), "int64", name="at")
    y = sg.tanh(x)
    looked = y + sg.take(x, sg.broadcast_to(at, (_SIZE,)))
    for name, threads in (("one", 1), ("two", 2)):
        step = sg.compile([x, at], [looked, sg.sum(y)], threads=threads, target=machine.target)
        assert any(record.parts > 1 for record in step.kernels) == (threads > 1)
        step.export(folder / name, formats=formats, target=machine.target)


def build_callers(machine: Machine, folder: Path, steps: int, *flags: str) -> Path:
    export(machine, folder, ("o", "h"))
    source = folder / "callers.c"
    source.write_text(_CALLERS % {"size": _SIZE, "steps": steps})
    return build(machine, folder, "callers", [source, folder / "one.o", folder / "two.o"], *flags)


@pytest.mark.isa("avx2")
def test_callers_in_several_threads_and_a_forked_process_compute_the_bits_of_one(tmp_path):
    run(X86, build_callers(X86, tmp_path, steps=60))


@needs_arm
@pytest.mark.slow
def test_callers_in_several_threads_compute_the_bits_of_one_on_aarch64(tmp_path):
    # The emulator cannot fork a process of several threads.
    run(ARM, build_callers(ARM, tmp_path, steps=10), "no fork")


@pytest.mark.isa("avx2")
@needs("valgrind")
@pytest.mark.slow
def test_nothing_is_left_of_a_team_and_nothing_read_that_was_not_written(tmp_path):
    program = build_callers(X86, tmp_path, steps=1)
    checked = ("valgrind", "-q", "--leak-check=full", "--error-exitcode=9")
    assert "definitely" not in run(X86, program, "no fork", wrapper=checked).stderr


@pytest.mark.isa("avx2")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux")
def test_a_library_is_unloaded_whatever_its_threads_do(tmp_path):
    export(X86, tmp_path, ("so", "h"))
    source = tmp_path / "unloaded.c"
    source.write_text(_UNLOADED % {"size": _SIZE})
    run(X86, build(X86, tmp_path, "unloaded", [source], "-ldl"))


def test_a_library_of_threads_runs_beside_the_steps_of_this_process(tmp_path):
    x = sg.placeholder((_SIZE,), name="x")
    step = sg.compile([x], sg.tanh(x), threads=2)
    step.export(tmp_path / "net")
    library = sg.load(tmp_path / "net")
    given = np.linspace(-3, 3, _SIZE, dtype=np.float32)
    for _ in range(20):
        assert library(given).tobytes() == step(given).tobytes()
