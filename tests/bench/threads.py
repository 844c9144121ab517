#!/usr/bin/env python3
"""Measures the time to stop and inspect a program's threads: 64 threads besides main, by their activity, compared with the same program
without threads; the time until all have stopped, and the stall:   threads.py [--threads 64] [--rounds 21] [--dir /dev/shm]"""

import argparse
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
from driver import BUILD, Place, expect, stall_of, status_of, take_checkpoint, tool  # noqa: E402

PROGRAM = os.path.join(BUILD, "tests", "bench", "plain", "threads")


def measure(threads, kind, rounds):
    """For each checkpoint, the time of the stop and the stall, in milliseconds."""
    with Place("threads") as place:
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", PROGRAM, "--threads", str(threads), "--kind", kind,
                           "--steps", "100000000", "--log", place.path("log")])
        job.wait_for_step(50)
        stalls = []
        for number in range(-2, rounds):  # two for warm-up
            _, text, _ = take_checkpoint(place, job)
            if number >= 0:
                stalls.append(1e3 * stall_of(text))
        job.kill_ranks()
        stops = [int(us) / 1e3 for us in re.findall(r"all threads stopped after (\d+) us", job.output())]
        expect(len(stops) >= rounds, f"no stops in {job.output()}")
        return stops[-rounds:], stalls


def shown(values):
    return f"{statistics.median(values):.1f} ms ({min(values):.1f} to {max(values):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--dir", default="/dev/shm")
    options = parser.parse_args()
    os.environ["CROPDL_TEST_TMP"] = options.dir
    os.environ["CROPDL_TRACE_PHASE"] = "1"
    for threads, kind in ((0, "waits"), *((options.threads, kind) for kind in ("waits", "sleeps", "computes"))):
        stops, stalls = measure(threads, kind, options.rounds)
        who = f"{threads} threads, each {kind}" if threads else "main alone"
        print(f"{who}: stopped after {shown(stops)}, stall {shown(stalls)}", flush=True)


if __name__ == "__main__":
    sys.exit(status_of(main))
