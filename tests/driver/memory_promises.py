#!/usr/bin/env python3
"""Promises about the program's memory: whatever a mapping is, holds or was advised, it is so again after a restart, or the
checkpoint is refused by name."""

import sys

from driver import promise_main
from restart_promises import survives

PROMISES = {}
STEPS = ("--steps", "40", "--pace", "15000")


def promise(name, function, *args, **kwargs):
    PROMISES[name] = lambda: function(*args, **kwargs)


promise("memory.thousands_of_separate_pages_in_one_mapping", survives, "scattered_pages", arguments=STEPS)
promise("memory.impossible_lengths_fail_as_natively", survives, "impossible_lengths", arguments=STEPS)

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
