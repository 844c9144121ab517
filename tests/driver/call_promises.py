#!/usr/bin/env python3
"""System calls that CropDL intercepts return what the kernel returns."""

import re
import sys
import time

from driver import Log, Place, app, check_whole, expect, native, promise_main, tool
from restart_promises import SHORT, survives

PROMISES = {}


def answers_as_natively(program, arguments=(), attempts=1):
    """Every line of output equals the native run's, in every step, over two restarts."""
    with Place(program) as place:
        once = (*arguments, "--steps", "1", "--pace", "1000", "--log", place.path("log"))
        status, wanted, _ = place.ask([app(f"plain/{program}"), *once])
        expect(status == 0, f"natively {status}: {wanted[-500:]}")
        status, given, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app(f"plain/{program}"), *once])
        wanted, given = wanted.splitlines(), given.splitlines()
        different = [pair for pair in zip(wanted, given) if pair[0] != pair[1]]
        expect(status == 0 and not different and len(wanted) == len(given),
               f"status {status}, {len(given)} lines instead of {len(wanted)}; natively and here: {different[:3]} {given[-1:]}")
        print(f"{len(wanted)} lines are the same")
    survives(program, arguments=(*arguments, "--steps", "8", "--pace", "100000"), chain=("same", "same"), attempts=attempts)


PROMISES["calls.bad_pointers_fail_as_natively"] = lambda: answers_as_natively("bad_pointers", attempts=100)
PROMISES["calls.sharing_child_opens_descriptors_of_the_program"] = lambda: survives("sharing_child", arguments=SHORT, attempts=50)


def undisturbed_by_refusals():
    """Checkpoints that are refused anyway do not interrupt system calls that the kernel would not restart."""
    with Place("limits") as place:
        arguments = ("--steps", "12", "--pace", "1000")
        reference = native(place, "plain/time_limits", arguments)
        job = place.run("plain/time_limits", arguments)
        job.wait_for_step(1)
        refusals = set()
        while job.alive() and Log(job.log).digest is None:
            status, text, _ = place.checkpoint()
            refusals.add(re.sub(r"\d+", "N", text))
            time.sleep(0.1)
        job.finish()
        check_whole(Log(job.log))
        expect(Log(job.log).digest == reference[0].digest, "the result differs")
        expect("cropdl: checkpoint refused: rank N: a socket (descriptor N) cannot be saved yet" in refusals, f"{refusals}")


PROMISES["calls.refused_checkpoint_does_not_shorten_socket_timeouts"] = undisturbed_by_refusals

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES, at_random=True, quick=("calls.",)))
