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
promise("memory.flags_of_every_kind_of_mapping", survives, "mapping_flags", arguments=STEPS, attempts=20)
promise("memory.locks_on_future_memory", survives, "mapping_flags", arguments=("--future", "1") + STEPS, attempts=20)
promise("memory.what_grows_down_goes_on_growing", survives, "grows_down", arguments=STEPS)
promise("memory.guard_pages", survives, "guard_pages", arguments=STEPS)
promise("memory.private_mappings_of_a_file_that_grows", survives, "file_mappings", arguments=STEPS + ("--work", "@"))

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
