#!/usr/bin/env python3
"""Compares a program under CropDL with two native runs of it, all on the same cores, which take turns: each runs for some seconds while the
others are stopped (SIGSTOP). So all three meet the same moments of a noisy machine, and what CropDL costs a step shows to a fraction of a
per cent.

  turns.py [--mpi openmpi] [--program trainer 1_GB_of_state pytorch] [--rounds 40] [--seconds 1] [--runs 1]
           [--versions [--max-overhead PERCENT]]

Per round, a run's speed is the number of its steps in its turn. Prints, over all rounds, the medians and quartiles of how many times as long
a step took under CropDL as in the two native runs, and in the second native run as in the first one (noise). No versions are taken.

With --runs N all three are started N times, with so many rounds each: a run's place in memory makes half a per cent and more (malloc returns
memory to the kernel more or less often), which more rounds of the same run do not average out. Means are compared, with the interval in which
the true mean lies with a probability of 95 % (from 4000 samples of the runs, drawn with repetition).

With --versions they are, as often as by default. The run has the machine for a third of the time, so it may lose a third of 1 % of all time,
which is 1 % of its own; a turn does not end while a version is taken, and the first version is requested at once, so that the interval does
not begin with an estimate. A version falls into few turns, so means of rounds are compared, as those of runs above. --max-overhead 10 allows
ten times as many versions as the default 1: where noise is as large as one per cent, that tells whether they cost what is allowed. Also printed:
what CropDL's own counters say that versions took of the run's time, and the interval that it chose."""

import argparse
import os
import random
import re
import signal
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
from driver import PATIENCE, Failure, Place, expect, tool  # noqa: E402
from run import with_versions  # noqa: E402

METRICS_EVERY = 15  # seconds, at the longest
SETTLE = 0.05  # seconds at the beginning of a turn that do not count: caches are cold


class Run:
    """A run that is stopped except in its turns. `prefix`: of CropDL."""

    def __init__(self, place, name, measurement, prefix):
        log = place.path(f"log-{name}")
        self.phase = os.path.join(place.store, "phase") if prefix else None
        self.job = place.start(measurement.launch + prefix + [word.replace("@", log) for word in measurement.command], log,
                               {**measurement.environment, "CROPDL_TRACE_PHASE": "1"})
        end = time.monotonic() + PATIENCE
        while self.steps() < 20:
            expect(self.job.alive() and time.monotonic() < end, f"makes no steps: {self.job.output()}")
            time.sleep(0.05)
        self.pids = self.job.ranks()
        self.send(signal.SIGSTOP)

    def send(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def steps(self):
        """The number of the last step, from the last lines of the log or, if the program has none, of its output."""
        path = self.job.log if os.path.exists(self.job.log) else self.job.output_path
        with open(path, "rb") as f:
            f.seek(max(0, os.path.getsize(path) - 400))
            found = re.findall(rb"^step (\d+)[ \n]", f.read(), re.M)
        return int(found[-1]) if found else 0

    def takes_version(self):
        try:
            with open(self.phase) as f:
                return f.read().strip() != "idle"
        except (OSError, TypeError):  # TypeError: a native run
            return False

    def turn(self, seconds):
        """Returns the seconds that a step took."""
        self.send(signal.SIGCONT)
        time.sleep(SETTLE)
        began, first = time.monotonic(), self.steps()
        time.sleep(seconds)
        while self.steps() == first or self.takes_version():
            expect(self.job.alive() and time.monotonic() - began < PATIENCE, f"makes no step: {self.job.output()[-500:]}")
            time.sleep(0.01)
        took, done = time.monotonic() - began, self.steps() - first
        self.send(signal.SIGSTOP)
        return took / done


COUNTERS = ("versions", "held_seconds", "beside_seconds")


def counters(place):
    with open(place.path("metrics")) as f:
        text = f.read()
    return [float(re.findall(rf"^cropdl_{name}_total\S* (\S+)", text, re.M)[-1]) for name in COUNTERS]


def ratios(measurement, rounds, seconds, overhead):
    """For each round: under CropDL and natively, and natively twice; the median step natively; what the counters grew by, the seconds that
    the run under CropDL had, and its line about the interval. All without the first version, which is taken before the rounds. `overhead`:
    per cent; None: no versions."""
    found, noise, natively, had = [], [], [], 0
    grown, line = [0] * len(COUNTERS), ""
    with Place("turns") as place:
        how_often = ["--max-overhead", f"{overhead / 3:.4f}", "--metrics", place.path("metrics")] if overhead else ["--interval", "0"]
        prefix = [tool("cropdl-run"), *how_often, "--dir", place.store, "--"]
        runs = [Run(place, name, measurement, prefix if name == "cropdl" else []) for name in ("native", "again", "cropdl")]
        for number in range(-1, rounds):  # one for warm-up
            if overhead and number == -1:
                runs[2].send(signal.SIGCONT)
                expect(place.checkpoint()[0] == 0, "the first version failed")
                end = time.monotonic() + PATIENCE
                while (before := counters(place))[0] < 1:
                    expect(time.monotonic() < end, "the metrics do not tell of the first version")
                    time.sleep(0.01)
            order = runs[number % 3:] + runs[:number % 3]
            took = {}
            for run in order:
                began = time.monotonic()
                took[run] = run.turn(seconds)
                had += (time.monotonic() - began) * (run is runs[2])
            native, again, cropdl = (took[run] for run in runs)
            if number >= 0:
                found.append(2 * cropdl / (native + again))
                noise.append(again / native)
                natively += [native, again]
        if overhead:
            runs[2].send(signal.SIGCONT)
            time.sleep(METRICS_EVERY + 1)
            had += METRICS_EVERY + 1
            grown = [now - then for now, then in zip(counters(place), before)]
            line = (re.findall(r"a version every .*", runs[2].job.output()) or [""])[-1]
        for run in runs:
            run.send(signal.SIGCONT)
            run.job.kill_ranks()
    return found, noise, statistics.median(natively), (*grown, had), line


def several_runs(measurement, options):
    """As ratios(): the mean of each run."""
    def one():
        return ratios(measurement, options.rounds, options.seconds, options.max_overhead if options.versions else None)

    if options.runs == 1:
        return one()
    found, noise, natively, grown, lines = zip(*(one() for _ in range(options.runs)))
    return ([statistics.fmean(run) for run in found], [statistics.fmean(run) for run in noise], statistics.median(natively),
            [sum(values) for values in zip(*grown)], lines[-1])


def shown(values, means):
    if means:
        means = sorted(statistics.fmean(random.choices(values, k=len(values))) for _ in range(4000))
        return f"{statistics.fmean(values):.4f} ({means[100]:.4f} to {means[-101]:.4f})"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.4f} ({low:.4f} to {high:.4f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", nargs="+", default=["openmpi"])
    parser.add_argument("--program", nargs="+", choices=["trainer", "1_GB_of_state", "pytorch"], default=["trainer", "1_GB_of_state", "pytorch"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--versions", action="store_true")
    parser.add_argument("--max-overhead", type=float, default=1, metavar="PERCENT", help="of the run's own time; with --versions")
    options = parser.parse_args()
    try:
        for mpi in options.mpi:
            for measurement, _ in with_versions(mpi, 100, options.program):
                found, noise, step, (versions, held, beside, had), line = several_runs(measurement, options)
                means = options.versions or options.runs > 1
                print(f"{measurement.name} {mpi}: a step of {1e3 * step:.3f} ms took {shown(found, means)} times as long under CropDL; "
                      f"noise {shown(noise, means)}; {options.runs} runs with {options.rounds} rounds of {options.seconds:g} s", flush=True)
                if options.versions:
                    print(f"  {versions:.0f} versions took {(held + beside) / had:.4f} of {had:.0f} s (held {held:.2f} s, beside {beside:.2f} s), "
                          f"allowed {options.max_overhead / 100:g}; {line}", flush=True)
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
