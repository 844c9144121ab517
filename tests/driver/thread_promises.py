#!/usr/bin/env python3
"""Promises about programs with several threads: checkpointed at random moments, killed and restarted, in chains."""

import sys

from driver import promise_main
from restart_promises import survives

SHORT = ("--steps", "48", "--pace", "25000")
THREE = ("same", "same", "same")
PROMISES = {}


def promise(name, *args, **kwargs):
    PROMISES[name] = lambda: survives(*args, **kwargs)


for _program, _what in (
        ("threads_compute", "that_compute_and_take_turns"),
):
    promise(f"threads.alone.{_what}", _program, arguments=SHORT, chain=THREE)

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
