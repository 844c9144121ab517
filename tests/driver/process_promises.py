#!/usr/bin/env python3
"""Promises about what the kernel knows of a process besides its memory and files: ids, credentials, limits, scheduling,
clocks, namespaces. Each is as it was after a restart, or the checkpoint is refused by its name."""

import sys

from driver import promise_main
from restart_promises import survives

PROMISES = {}


def promise(name):
    def keep(function):
        PROMISES[name] = function
        return function
    return keep


SHORT = ("--steps", "48", "--pace", "25000")


@promise("process.own_number_reaches_the_program_itself")
def own_number():
    survives("own_ids", arguments=SHORT, chain=("same", "same"), attempts=20)


if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
