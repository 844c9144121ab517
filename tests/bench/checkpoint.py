#!/usr/bin/env python3
"""Measures a synchronous checkpoint of 1 GB per rank (half random, half written zeros) on 2 ranks or --ranks, to a warm tmpfs, and the restart from
it:   checkpoint.py [--mpi openmpi mpich] [--ranks 2] [--rounds 5] [--bytes N] [--dir /dev/shm]

  stall      of the job's second version, as `cropdl checkpoint` reports it, and as the program sees it (the longest gap
             between steps around it); the first one's, too
  image      size of the larger rank's image
  restart    from the launcher's start to the first new step, minus the program's native start-up (from the launcher's
             start to the first step, with almost no memory)"""

import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
from driver import BUILD, Log, Place, expect, launcher, stall_of, status_of, take_checkpoint, tool  # noqa: E402


def first_step_after(job, moment, seconds=120):
    end = time.monotonic() + seconds
    while True:
        new = [t for _, t in Log(job.log).steps if t >= moment]
        if new:
            return new[0] - moment
        expect(job.alive(), f"ended with {job.process.returncode}: {job.output()}")
        expect(time.monotonic() < end, f"no step in {seconds} s: {job.output()}")
        time.sleep(0.005)


def median(values):
    return statistics.median(values)


def measure(mpi, ranks, rounds, size):
    program = os.path.join(BUILD, "tests", "bench", mpi, "bulk")
    startups, first, told, seen, images, restarts = [], [], [], [], [], []
    for number in range(-1, rounds):  # -1: warm-up
        with Place("bulk") as place:
            steps = ["--steps", "1000000", "--log", place.path("log")]
            job = place.start(launcher(mpi, ranks) + [program, "--bytes", "4096"] + steps)
            startup = first_step_after(job, job.started)
            job.kill_ranks()
            os.remove(place.path("log"))

            command = launcher(mpi, ranks) + [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", program, "--bytes", str(size)]
            job = place.start(command + steps)
            job.wait_for_step(200)
            earlier = stall_of(take_checkpoint(place, job)[1])  # this also warms the tmpfs's pages
            before = Log(job.log).last_step()
            version, text, _ = take_checkpoint(place, job)
            job.wait_for_step(Log(job.log).last_step() + 50)
            times = [t for k, t in Log(job.log).steps if k >= before]
            gap = max(b - a for a, b in zip(times, times[1:]))
            image = max(os.path.getsize(place.version_path(version, f"rank-{r}.img")) for r in range(ranks))
            job.kill_ranks()
            job = place.restart(mpi, ranks)
            restart = first_step_after(job, job.started)
            job.kill_ranks()
        stall = stall_of(text)
        print(f"  {mpi} {'warm-up' if number < 0 else number + 1}: {text}; gap {gap:.3f} s, image {image / 1e6:.1f} MB, "
              f"restart {restart:.3f} s, native start {startup:.3f} s", flush=True)
        if number >= 0:
            first.append(earlier), startups.append(startup), told.append(stall), seen.append(gap), images.append(image)
            restarts.append(restart)
    print(f"{mpi:8s} medians of {rounds}: stall {median(told):.3f} s (seen by the program {median(seen):.3f} s; a job's first version "
          f"{median(first):.3f} s), image "
          f"{median(images) / 1e9:.4f} GB per rank, restart to next step {median(restarts):.3f} s, "
          f"{median(restarts) - median(startups):+.3f} s beyond the native start-up of {median(startups):.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", nargs="+", default=["openmpi", "mpich"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--dir", default="/dev/shm")
    options = parser.parse_args()
    os.environ["CROPDL_TEST_TMP"] = options.dir
    for mpi in options.mpi:
        measure(mpi, options.ranks, options.rounds, options.bytes)


if __name__ == "__main__":
    sys.exit(status_of(main))
