#!/usr/bin/env python3
"""Compares a program under CropDL with two native runs of it, all on the same cores, which take turns: each runs for some seconds while the
others are stopped (SIGSTOP). So all three meet the same moments of a noisy machine, and what CropDL costs a step shows to a fraction of a
per cent.

  turns.py [--mpi openmpi] [--program trainer 1_GB_of_state pytorch] [--rounds 40] [--seconds 1] [--runs 1]
           [--versions [--max-overhead PERCENT | --interval SECONDS]]

Per round, a step's time is that of the turn divided by the number of steps in it. Prints, over all rounds, the medians and quartiles of how
many times as long a step took under CropDL as in the two native runs, and in the second native run as in the first one (noise). No versions
are taken.

With --runs N all three are started N times, with so many rounds each: a run's place in memory makes half a per cent and more (malloc returns
memory to the kernel more or less often), which more rounds of the same run do not average out. Means are compared: the time of all turns
divided by the steps of all, with the interval in which the true one lies with a probability of 95 % (from 4000 samples of the runs, drawn with
repetition).

With --versions they are, as often as by default. The run has the machine for a third of the time, so it may lose a third of 1 % of all time,
which is 1 % of its own; a turn does not end while a version is taken, and the first version is requested at once, so that the interval does
not begin with an estimate. A version falls into few turns, so means are compared, as above, with samples of the rounds of a single run. (A mean
of the rounds' quotients would count a turn with few steps, most of which a version took, as much as any other, and be too large.) --max-overhead 10 allows
ten times as many versions as the default 1, and --interval takes one as often as it says. The bound holds for what CropDL's own counters say
that versions took (the time that they held the program, and what they took beside). So printed are also these counters, the interval that was
chosen, how many times as long a step took apart from what they say, and how many seconds were really lost for each of theirs. The more
versions there are, the less does noise change the last figure; if it is 1, what is 1 % by the counters is 1 %."""

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
TOLD = 0.1  # seconds after a version in which the metrics tell of it
SETTLE = 0.05  # seconds at the beginning of a turn that do not count: caches are cold. With versions they do: one that is due begins then


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

    def turn(self, seconds, settle):
        """Returns the seconds of the turn, and the number of steps, both without its first `settle` seconds."""
        self.send(signal.SIGCONT)
        time.sleep(settle)
        began, first = time.monotonic(), self.steps()
        idle, least = began, began + seconds
        while time.monotonic() < max(least, idle + TOLD) or self.steps() == first:
            if not self.job.alive() or time.monotonic() - began > PATIENCE:
                raise Failure(f"makes no step: {self.job.output()[-500:]}")
            time.sleep(0.05)
            if self.takes_version():
                idle = time.monotonic()
        took, done = time.monotonic() - began, self.steps() - first
        self.send(signal.SIGSTOP)
        return took, done


COUNTERS = ("versions", "held_seconds", "beside_seconds")


def counters(place):
    with open(place.path("metrics")) as f:
        text = f.read()
    return [float(re.findall(rf"^cropdl_{name}_total\S* (\S+)", text, re.M)[-1]) for name in COUNTERS]


def rounds_of(measurement, rounds, seconds, options):
    """The turns of each round: of the two native runs and the one under CropDL, whose turn has as a third member the seconds that, by the
    counters, versions took in it; what the counters grew by, the seconds that the run under CropDL had, and its line about the interval. All
    without the first version, which is taken before the rounds."""
    turns, had, grown, line = [], 0, [0] * len(COUNTERS), ""
    with Place("turns") as place:
        how_often = ["--interval", "0"]
        if options.versions:
            how_often = ["--interval", f"{options.interval:g}"] if options.interval else ["--max-overhead", f"{options.max_overhead / 3:.4f}"]
            how_often += ["--metrics", place.path("metrics")]
        prefix = [tool("cropdl-run"), *how_often, "--dir", place.store, "--"]
        runs = [Run(place, name, measurement, prefix if name == "cropdl" else []) for name in ("native", "again", "cropdl")]
        for number in range(-1, rounds):  # one for warm-up
            if options.versions and number == -1:
                runs[2].send(signal.SIGCONT)
                expect(place.checkpoint()[0] == 0, "the first version failed")
                end = time.monotonic() + PATIENCE
                while (before := counters(place))[0] < 1:
                    expect(time.monotonic() < end, "the metrics do not tell of the first version")
                    time.sleep(0.01)
                last = before
            took = {}
            for run in runs[number % 3:] + runs[:number % 3]:
                began = time.monotonic()
                took[run] = run.turn(seconds, 0 if options.versions else SETTLE)
                had += (time.monotonic() - began) * (run is runs[2])
            if options.versions:
                now = counters(place)
                took[runs[2]] += sum(now[1:]) - sum(last[1:]),
                last = now
            if number >= 0:
                turns.append([took[run] for run in runs])
        if options.versions:
            runs[2].send(signal.SIGCONT)
            time.sleep(METRICS_EVERY + 1)
            had += METRICS_EVERY + 1
            grown = [now - then for now, then in zip(counters(place), before)]
            line = (re.findall(r"a version every .*", runs[2].job.output()) or [""])[-1]
        for run in runs:
            run.send(signal.SIGCONT)
            run.job.kill_ranks()
    return turns, (*grown, had), line


def step(turns, *which):
    """The seconds of a step, over all these turns of the runs numbered `which`."""
    return sum(one[run][0] for one in turns for run in which) / sum(one[run][1] for one in turns for run in which)


def ratios(turns):
    """How many times as long a step took under CropDL as natively, and in the second native run as in the first. With versions also: how many
    times as long apart from what the counters say, and the seconds lost for each of theirs."""
    found = [step(turns, 2) / step(turns, 0, 1), step(turns, 1) / step(turns, 0)]
    counted = sum(sum(one[2][2:]) for one in turns)
    if counted:
        seconds, steps = (sum(one[2][which] for one in turns) for which in (0, 1))
        native = steps * step(turns, 0, 1)
        found += [(seconds - counted) / native, (seconds - native) / counted]
    return found


def shown(turns):
    """All, with medians and quartiles of the rounds."""
    texts = []
    for values in zip(*(ratios([one]) for one in turns)):
        low, middle, high = statistics.quantiles(values, n=4)
        texts.append(f"{middle:.4f} ({low:.4f} to {high:.4f})")
    return texts


def shown_means(parts):
    """All, with means and their intervals. `parts`: of which samples are drawn, lists of rounds."""
    samples = sorted_columns([ratios([one for part in random.choices(parts, k=len(parts)) for one in part]) for _ in range(4000)])
    return [f"{mean:.4f} ({values[100]:.4f} to {values[-101]:.4f})"
            for mean, values in zip(ratios([one for part in parts for one in part]), samples)]


def sorted_columns(rows):
    return [sorted(column) for column in zip(*rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", nargs="+", default=["openmpi"])
    parser.add_argument("--program", nargs="+", choices=["trainer", "1_GB_of_state", "pytorch"], default=["trainer", "1_GB_of_state", "pytorch"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--versions", action="store_true")
    parser.add_argument("--max-overhead", type=float, default=1, metavar="PERCENT", help="of the run's own time; with --versions")
    parser.add_argument("--interval", type=float, metavar="SECONDS", help="of all time, also other runs' turns; with --versions")
    options = parser.parse_args()
    try:
        for mpi in options.mpi:
            for measurement, _ in with_versions(mpi, 100, options.program):
                runs = [rounds_of(measurement, options.rounds, options.seconds, options) for _ in range(options.runs)]
                turns = [one for of_run, _, _ in runs for one in of_run]
                if options.runs > 1:
                    texts = shown_means([of_run for of_run, _, _ in runs])
                else:
                    texts = shown_means([[one] for one in turns]) if options.versions else shown(turns)
                print(f"{measurement.name} {mpi}: a step of {1e3 * step(turns, 0, 1):.3f} ms took {texts[0]} times as long under CropDL; "
                      f"noise {texts[1]}; {options.runs} runs with {options.rounds} rounds of {options.seconds:g} s", flush=True)
                if options.versions:
                    versions, held, beside, had = (sum(values) for values in zip(*(grown for _, grown, _ in runs)))
                    print(f"  {versions:.0f} versions took {(held + beside) / had:.4f} of {had:.0f} s (held {held:.2f} s, beside {beside:.2f} s), "
                          f"{runs[-1][2]}", flush=True)
                if len(texts) > 2:
                    print(f"  apart from that a step took {texts[2]} times as long; {texts[3]} s were lost for each of these", flush=True)
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
