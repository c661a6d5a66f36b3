"""Steps that C stops: from another thread, from a handler of signals, before they run."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.support.c_programs import MACHINES, build, run
from tests.support.control_programs import gradient

_STOPPED = r"""
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include "net.h"
#define EXPECT(holds) if (!(holds)) return printf("line %d\n", __LINE__), 1
static net_instance self;
static void *from_a_thread(void *_) { usleep(100000); net_stop(&self); return _; }
static void from_a_signal(int _) { (void)_; net_stop(&self); }
int main(void) {
    float forever = 0.5, once = 2, got, v;
    struct itimerval soon = {{0, 0}, {0, 100000}};
    pthread_t thread;
    net_stop(&self); /* no instance yet */
    EXPECT(!net_init(&self));
    EXPECT(net_run(&self, &once, &got) == NET_OK && got == 2);
    pthread_create(&thread, NULL, from_a_thread, NULL);
    EXPECT(net_run(&self, &forever, &got) == NET_STOPPED);
    pthread_join(thread, NULL);
    EXPECT(!net_read(&self, "v", &v, sizeof v) && v == 3);
    signal(SIGALRM, from_a_signal);
    setitimer(ITIMER_REAL, &soon, NULL);
    EXPECT(net_run(&self, &forever, &got) == NET_STOPPED);
    EXPECT(!net_read(&self, "v", &v, sizeof v) && v == 3);
    net_stop(&self); /* the next step that polls */
    EXPECT(net_count(&self, &got) == NET_OK);
    EXPECT(net_run(&self, &forever, &got) == NET_STOPPED);
    EXPECT(net_run(&self, &once, &got) == NET_OK && got == 2);
    EXPECT(!net_read(&self, "v", &v, sizeof v) && v == 6);
    EXPECT(!strcmp(net_message(NET_STOPPED), "the step was stopped"));
    return 0;
}
"""


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_step_is_stopped_and_leaves_the_state_as_it_was(machine, recorded, tmp_path):
    x = sg.placeholder((), name="x")
    v = sg.variable(np.float32(1), name="v")
    (y,) = sg.while_loop(lambda t: t < 1.0, lambda t: (t * 0.5,), (x,))
    slope = gradient(y, x) - 1.0 if recorded else 0.0
    run_step = sg.compile([x], y + slope, [(v, v + y)])
    steps = {"run": run_step, "count": sg.compile([], v * 1.0, [(v, v + 1)])}
    sg.export(steps, tmp_path / "net", formats=("o", "h"), target=machine.target)
    source = tmp_path / "stopped.c"
    source.write_text(_STOPPED)
    run(machine, build(machine, tmp_path, "stopped", [source, tmp_path / "net.o"]))
