#!/usr/bin/env python3
"""Signals: signal frames, the trigger signal, and how a program ends."""

import signal
import sys
import time

from driver import Log, PATIENCE, Place, app, check_results, expect, launcher, native, promise_main, tool
from restart_promises import SHORT, survives

PROMISES = {}


def promise(name, function, *args, **kwargs):
    PROMISES[name] = lambda: function(*args, **kwargs)


promise("signal.handler_that_forks_between_a_fork_and_its_return", survives, "signal_corners",
        arguments=("forking_handler", "--steps", "30", "--pace", "80000"), attempts=200)
promise("signal.two_at_once_on_the_alternate_stack", survives, "signal_corners", arguments=("two_at_once",) + SHORT)
promise("signal.refused_clone_leaves_no_thread", survives, "signal_corners", arguments=("refused_clone",) + SHORT)
promise("signal.children_die_of_the_trigger_signal", survives, "signal_corners",
        arguments=("children_and_the_trigger", "--steps", "30", "--pace", "30000"), attempts=100)

promise("signal.masks_set_through_contexts", survives, "masks_in_contexts", arguments=SHORT)


def trigger_after_default():
    """signal(SIGUSR1, SIG_DFL) leaves the documented trigger enabled."""
    with Place("trigger") as place:
        arguments = ("children_and_the_trigger", "--steps", "60", "--pace", "30000")
        reference = native(place, "plain/signal_corners", arguments)
        job = place.run("plain/signal_corners", arguments)
        job.wait_for_step(3)
        end = time.monotonic() + PATIENCE
        while not place.versions() and time.monotonic() < end:
            job.must_run()
            job.process.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
        expect(place.versions(), "SIGUSR1 did not trigger a checkpoint")
        job.finish()
        check_results(job, reference, 1)


promise("signal.trigger_works_after_sig_dfl", trigger_after_default)


def own_timer():
    """The program's own timer that sends SIGUSR1 kills it if the action is the default, as natively."""
    with Place("timer") as place:
        code = ("import ctypes, time\nlibc = ctypes.CDLL(None)\n"
                f"event = (ctypes.c_int * 16)(0, 0, {int(signal.SIGUSR1)}, 0)\ntimer = ctypes.c_void_p()\n"
                "assert libc.timer_create(1, event, ctypes.byref(timer)) == 0\n"
                "assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 1000000), None) == 0\ntime.sleep(20)\n")
        command = ["/usr/bin/python3", "-S", "-c", code]
        wanted, _, _ = place.ask(command)
        status, text, _ = place.ask([tool("cropdl-run"), "--dir", place.store, "--", *command])
        expect(wanted == -signal.SIGUSR1 == status, f"ended with {status}, natively {wanted}: {text}")


promise("signal.own_timer_with_the_trigger_signal_kills_as_natively", own_timer)


def ends_under_a_timer():
    """Timer signals that arrive during process exit do no harm, in 20 exits."""
    with Place("end") as place:
        for _ in range(20):
            command = [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/signal_corners"), "timer_at_exit",
                       "--steps", "1", "--pace", "1000", "--log", place.path("log")]
            status, text, _ = place.ask(command)
            expect(status == 0, f"ended with {status}: {text}")
            expect(Log(place.path("log")).digest is not None, "did not end")


promise("signal.timer_signals_during_exit", ends_under_a_timer)


def aborts(mpi):
    """abort() ends the job as natively, whatever handlers the MPI installed."""
    with Place("abort") as place:
        command = [app(f"{mpi}/aborts")]
        wanted, _, _ = place.ask(launcher(mpi, 1) + command)
        status, text, _ = place.ask(launcher(mpi, 1) + [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + command)
        expect(wanted not in (0, 3) and status == wanted, f"ended with {status}, natively {wanted}: {text}")


for _mpi in ("openmpi", "mpich"):
    promise(f"signal.{_mpi}.abort_ends_as_natively", aborts, _mpi)

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES, at_random=True, quick=("signal.two_at_once",)))
