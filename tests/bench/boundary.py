#!/usr/bin/env python3
"""Measures how long ranks wait for each other at a predicted cut. Versions are requested at random moments of a loop. The wait is what the
version's manifest says: the longest time for which a rank was held before a collective, until it stopped (docs/boundaries.md). Beside it
are the natural skew (how far apart the ranks end an undisturbed step), the number of iterations from request to cut, and how much longer
the longest step around the cut is than an undisturbed one and the stall, with the same difference of undisturbed steps as noise. The
shape's steps must be equally long, which those of work_between_calls are not:

  boundary.py [--mpi openmpi mpich] [--shape plain evaluation ...] [--pace 10000] [--versions 30] [--dir /dev/shm]"""

import argparse
import os
import random
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
from driver import Log, Place, iteration_of, logs_of, manifest_of, stall_of, status_of, take_checkpoint  # noqa: E402


def steps_of(log):
    """{number of a step: its duration in ms}"""
    return {k: 1e3 * (b - a) for (_, a), (k, b) in zip(log.steps, log.steps[1:])}


def measure(mpi, shape, pace, versions):
    """In ms: for each version, the wait, and how much longer than usual its longest step was; for all other steps, how far apart the ranks
    ended them, and how much longer than the median they were. And the iterations until each cut."""
    rng = random.Random(1)
    taken, waits = [], []
    with Place("boundary") as place:
        job = place.run(f"{mpi}/loops", ("--shape", shape, "--steps", "1000000", "--pace", str(pace)), mpi, 2)
        job.wait_for_step(60)
        for number in range(-2, versions):  # two for warm-up
            time.sleep(pace * 1e-6 * (8 + 8 * rng.random()))
            before = Log(job.log).last_step()
            version, text, _ = take_checkpoint(place, job)
            if number >= 0:
                waits.append(1e3 * manifest_of(place, version)["wait_seconds"])
                taken.append((before, iteration_of(place, version), 1e3 * stall_of(text)))
        job.wait_for_step(Log(job.log).last_step() + 5)
        job.kill_running()
        disturbed = {k + near for _, k, _ in taken for near in range(-2, 4)}
        longer, noise = [], []
        logs = logs_of(job.log, 2)
        for log in logs:
            steps = steps_of(log)
            usual = statistics.median(steps.values())
            longer.append([max(steps[k + near] for near in (0, 1)) - usual - stall for _, k, stall in taken])
            noise += [ms - usual for k, ms in steps.items() if k > 60 and k not in disturbed]
        ends = dict(logs[1].steps)
        skew = [1e3 * abs(at - ends[k]) for k, at in logs[0].steps if k > 60 and k not in disturbed and k in ends]
        return waits, [max(both) for both in zip(*longer)], skew, noise, [k - before for before, k, _ in taken]


def shown(values):
    values = sorted(values)
    return f"{statistics.median(values):.2f} ms (9 of 10: {values[len(values) * 9 // 10]:.2f}, longest {values[-1]:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", nargs="+", default=["openmpi", "mpich"])
    parser.add_argument("--shape", nargs="+", default=["plain", "overlapped_buckets", "evaluation"])
    parser.add_argument("--pace", type=int, default=10000, help="microseconds of a step")
    parser.add_argument("--versions", type=int, default=30)
    parser.add_argument("--dir", default="/dev/shm")
    options = parser.parse_args()
    os.environ["CROPDL_TEST_TMP"] = options.dir
    for mpi in options.mpi:
        for shape in options.shape:
            waits, longer, skew, noise, iterations = measure(mpi, shape, options.pace, options.versions)
            print(f"{mpi} {shape}: waited {shown(waits)}; natural skew {shown(skew)}; {min(iterations)} to {max(iterations)} iterations from "
                  f"request to cut; step longer by {shown(longer)}; undisturbed steps {shown(noise)}", flush=True)


if __name__ == "__main__":
    sys.exit(status_of(main))
