#!/usr/bin/env python3
"""Promises about system calls as such: what stands between a program and the kernel answers as the kernel does."""

import sys

from driver import Place, app, expect, promise_main, tool
from restart_promises import SHORT, survives

PROMISES = {}


def answers_as_natively(program, arguments=(), attempts=1):
    """Line by line as natively, and in every later step, restarted twice."""
    with Place(program) as place:
        once = (*arguments, "--steps", "1", "--pace", "1000", "--log", place.path("log"))
        status, wanted, _ = place.ask([app(f"plain/{program}"), *once])
        expect(status == 0, f"natively {status}: {wanted[-500:]}")
        status, given, _ = place.ask([tool("cropdl-run"), "--dir", place.store, "--", app(f"plain/{program}"), *once])
        wanted, given = wanted.splitlines(), given.splitlines()
        different = [pair for pair in zip(wanted, given) if pair[0] != pair[1]]
        expect(status == 0 and not different and len(wanted) == len(given),
               f"status {status}, {len(given)} lines instead of {len(wanted)}; natively and here: {different[:3]} {given[-1:]}")
        print(f"{len(wanted)} lines are the same")
    survives(program, arguments=(*arguments, "--steps", "8", "--pace", "100000"), chain=("same", "same"), attempts=attempts)


PROMISES["calls.bad_pointers_fail_as_natively"] = lambda: answers_as_natively("bad_pointers", attempts=100)
PROMISES["calls.children_that_share_descriptors_open_the_program_s"] = lambda: survives("sharing_child", arguments=SHORT, attempts=50)

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
