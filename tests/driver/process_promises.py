#!/usr/bin/env python3
"""Promises about what the kernel knows of a process besides its memory and files: ids, credentials, limits, scheduling,
clocks, namespaces. Each is as it was after a restart, or the checkpoint is refused by its name."""

import os
import sys

from command_promises import refused
from driver import Log, Place, app, check_continued, check_whole, expect, promise_main, take_checkpoint, tool
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


@promise("process.clocks_never_go_back")
def clocks_go_on():
    survives("clocks_go_on", arguments=SHORT, chain=("same", "same"))


@promise("process.clocks_go_on_after_a_younger_boot")
def younger_boot():
    """Started in a time namespace whose clocks are eleven days ahead, restarted outside: what a younger machine would say."""
    ahead = ["unshare", "--time", "--monotonic", "1000000", "--boottime", "1000000"]
    ahead += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    with Place("younger") as place:
        status, text, _ = place.ask(ahead + ["cat", "/proc/uptime"])
        expect(status == 0 and float(text.split()[0]) > 1e6, f"needs a time namespace (root, or user namespaces): {text}")
        log = place.path("log")
        program = [app("plain/clocks_go_on"), *SHORT, "--log", log]
        job = place.start(ahead + [tool("cropdl-run"), "--dir", place.store, "--"] + program, log)
        for kill in range(2):
            job.wait_for_step(5 + 15 * kill)
            _, _, bounds = take_checkpoint(place, job)
            job.kill_ranks()
            before = Log(log)
            job = place.restart()
            job.wait_for_step(bounds[log][1] + 2)
            check_continued(before, Log(log), job.started, *bounds[log])
        job.finish()
        check_whole(Log(log))


for _what, _words in {"child-without-signal": ["child"], "child-in-our-memory": ["child"],
                      "semaphore-undo": ["system v semaphore set"], "message-queue": ["system v message queue"]}.items():
    promise(f"refused.process.{_what}")(lambda w=_what, k=_words: refused("refused_objects", w, k))


if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
