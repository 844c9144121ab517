#!/usr/bin/env python3
"""Compares native runs with runs under CropDL: pairs in alternating order after one discarded warm-up of each, plus a second native run
that shows the noise. Prints, per quantity, the medians, their ratio, the added time, and the same for native against native.

  run.py [--pairs 21] [--mpi openmpi mpich] [--only calls train numpy mmap] [--json FILE]
  run.py --mpi openmpi --only interval [--length 1] [--program trainer]

`interval`: whole runs, with the versions taken by default: the first comes after half a minute to some minutes. The trainer runs for
two minutes, the others for about four; with --length 2 they are twice as long. A pair has one native run, and is printed. `versions`: each
of these programs once, under CropDL alone: for how much of its time versions held it; 1_GB_of_state needs --length 2 for a first version.
(turns.py compares its steps with native ones.)

Needs a quiet machine with at least two cores."""

import argparse
import json
import os
import re
import select
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
from driver import BUILD, Failure, Log, Place, app, expect, tool  # noqa: E402


def program(name):
    path = os.path.join(BUILD, "tests", "bench", name)
    expect(os.access(path, os.X_OK), f"{path} has not been built")
    return path


def mpirun(mpi):
    # Each rank is bound to a core, the launcher's default for two ranks: unbound ranks sometimes share a core, which is noise.
    return ["mpirun.openmpi", "-n", "2"] if mpi == "openmpi" else ["mpirun.mpich", "-bind-to", "core", "-n", "2"]


def end_of(process, seconds):
    """Waits for the end without delay. (Popen.wait with a time-out polls after 0.5, 1.5, 3.5, 7.5 ms, and so on.)"""
    fd = os.pidfd_open(process.pid)
    try:
        expect(select.select([fd], [], [], seconds)[0], f"still running after {seconds} s: {process.args}")
    finally:
        os.close(fd)


class Measurement:
    """A program that reports quantities in nanoseconds."""

    def __init__(self, launch, command, read, environment=None, natively=(), options=(), interval="0", name=""):
        """`name`: for people; `natively`: the command that starts the program without CropDL (scripts/software-gpu); `options`: cropdl-run's."""
        self.launch, self.command, self.read, self.environment, self.name = launch, command, read, environment or {}, name
        self.natively, self.options = list(natively), ["--interval", interval, *options]

    def run(self, under_cropdl, environment=None):
        with Place("bench") as place:
            command = list(self.launch)
            options = [word.replace("@metrics", place.path("metrics")) for word in self.options]
            command += [tool("cropdl-run"), *options, "--dir", place.store, "--"] if under_cropdl else self.natively
            command += [word.replace("@", place.path("log")) for word in self.command]
            job = place.start(command, environment=dict(self.environment, **(environment or {})))
            began = time.monotonic()
            end_of(job.process, 1800)
            seconds = time.monotonic() - began
            job.process.wait()
            expect(job.process.returncode == 0, f"{' '.join(command)} ended with {job.process.returncode}: {job.output()}")
            return self.read(job, place, seconds)


def printed(job, place, seconds):
    return {name: float(value) for name, value in (line.split() for line in job.output().splitlines() if line.count(" ") == 1)}


def median_step(place):
    times = [moment for _, moment in Log(place.path("log")).steps]
    return statistics.median(b - a for a, b in zip(times, times[1:])) * 1e9


def training_step(name):
    return lambda job, place, seconds: {name: median_step(place)}


def wall(name):
    return lambda job, place, seconds: {name: seconds * 1e9}


def whole_run(name, notes):
    """The whole run, and its median step, which versions do not change: their sum is what CropDL costs beside the time in versions. Under
    CropDL, appends the versions, their share of the time and the messages about the interval to `notes`."""
    def read(job, place, seconds):
        if tool("cropdl-run") in job.command:
            told = re.findall(r"cropdl: (a version every .*)", job.output())
            with open(place.path("metrics")) as f:
                held = float(re.search(r"^cropdl_held_seconds_total\{.*\} (\S+)$", f.read(), re.M).group(1))
            notes.append(f"{max([0, *place.versions()])} versions in {seconds:.0f} s, which held the ranks for {held:.2f} s, {100 * held / seconds:.2f} %; "
                         f"{told[-1] if told else 'nothing told'}")
        found = {f"{name}_whole_run": seconds * 1e9}
        if os.path.exists(place.path("log")):
            found[f"{name}_median_step"] = median_step(place)
        return found
    return read


def with_versions(mpi, length, wanted):
    """The programs for `interval`, with the notes of their runs. `wanted`: names, or none for all."""
    gradients = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "suites", "foreign", "gradients.py")
    programs = [("trainer", [app(f"{mpi}/train"), "--epochs", str(round(300 * length)), "--log", "@"], {}),
                ("1_GB_of_state", [program(f"{mpi}/bulk"), "--bytes", "1000000000", "--steps", str(round(220_000 * length)), "--log", "@"], {})]
    if mpi == "openmpi" and os.path.isdir("/usr/lib/python3/dist-packages/torch"):  # Debian's mpi4py is built for Open MPI
        programs.append(("pytorch", ["/usr/bin/python3", gradients, str(round(2000 * length))], {"OMP_NUM_THREADS": "1"}))
    elif mpi == "openmpi":
        print("pytorch is left out: apt-get install -y --no-install-recommends python3-torch")
    for name, command, environment in programs:
        if wanted and name not in wanted:
            continue
        notes = []
        yield Measurement(mpirun(mpi), command, whole_run(name, notes), environment, options=["--metrics", "@metrics"], interval="auto",
                          name=name), notes


def compare(measurement, pairs, environment=None, suffix="", again=True):
    """`again`: each pair has a second native run, for the noise. Without it the noise is that between every second native run and the
    others, and each pair is printed."""
    samples = {"native": {}, "again": {}, "cropdl": {}}
    runs = {"native": lambda: measurement.run(False), "again": lambda: measurement.run(False),
            "cropdl": lambda: measurement.run(True, environment)}
    if not again:
        del runs["again"]
    for pair in range(-1, pairs):  # -1: warm-up
        order = list(runs)
        order = order[pair % len(order):] + order[:pair % len(order)]
        for which in order:
            for name, value in runs[which]().items():
                if pair >= 0:
                    samples[which].setdefault(name + suffix, []).append(value)
        if not again and pair >= 0:
            print("".join(f"    {name}: {samples['native'][name][-1] * 1e-9:.6g} s, CropDL {samples['cropdl'][name][-1] * 1e-9:.6g} s"
                          for name in samples["native"]), flush=True)
        if sys.stderr.isatty():
            print(f"\r  pair {pair + 1} of {pairs} \r", end="", file=sys.stderr, flush=True)
    if not again:
        for name, values in samples["native"].items():
            samples["native"][name], samples["again"][name] = values[::2], values[1::2] or values
    return samples


def show(samples, title, results):
    for name in samples["native"]:
        native, again, cropdl = (samples[which][name] for which in ("native", "again", "cropdl"))
        a, b, c = statistics.median(native), statistics.median(again), statistics.median(cropdl)
        both = statistics.median(native + again)
        quartiles = statistics.quantiles(native + again, n=4) if len(native) > 1 else [both] * 3
        results.append({"quantity": name, "mpi": title, "native_ns": a, "native_again_ns": b, "cropdl_ns": c,
                        "ratio": c / both, "noise_ratio": b / a, "added_ns": c - both, "noise_ns": b - a,
                        "native_iqr_ns": quartiles[2] - quartiles[0], "pairs": len(cropdl)})
        print(f"{name:26s} {title:8s} {both:14.1f} {c:14.1f} {c / both:8.4f} {c - both:+12.1f} {b / a:10.4f} {b - a:+12.1f}"
              f" {quartiles[2] - quartiles[0]:10.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--mpi", nargs="+", default=["openmpi", "mpich"])
    parser.add_argument("--only", nargs="+", default=["calls", "train", "numpy", "mmap"])
    parser.add_argument("--length", type=float, default=1)
    parser.add_argument("--program", nargs="+", choices=["trainer", "1_GB_of_state", "pytorch"])
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    print(f"{'quantity':26s} {'MPI':8s} {'native ns':>14s} {'CropDL ns':>14s} {'ratio':>8s} {'added ns':>12s} {'noise':>10s}"
          f" {'noise ns':>12s} {'IQR ns':>10s}   ({options.pairs} pairs; noise: native against native)")
    try:
        for mpi in options.mpi:
            if "calls" in options.only:
                show(compare(Measurement(mpirun(mpi), [program(f"{mpi}/calls")], printed), options.pairs), mpi, results)
            if "train" in options.only:
                command = [app(f"{mpi}/train"), "--epochs", "2", "--log", "@"]
                show(compare(Measurement(mpirun(mpi), command, training_step("training_step")), options.pairs), mpi, results)
            if "interval" in options.only:
                for measurement, notes in with_versions(mpi, options.length, options.program):
                    show(compare(measurement, options.pairs, again=False), mpi, results)
                    print("\n".join("    " + note for note in notes[1:]), flush=True)
            if "versions" in options.only:
                for measurement, notes in with_versions(mpi, options.length, options.program):
                    measurement.run(True)
                    print(f"{measurement.name} {mpi}: {notes[0]}", flush=True)
        if "numpy" in options.only:
            for name, command in (("numpy_start", ["/usr/bin/python3", "-c", "import numpy"]), ("true_start", ["/bin/true"])):
                show(compare(Measurement([], command, wall(name)), options.pairs), "-", results)
        if "mmap" in options.only:
            mappings = Measurement([], [program("plain/mappings")], printed)
            show(compare(mappings, options.pairs), "-", results)
            show(compare(mappings, options.pairs, {"CROPDL_NO_PATCH": "1"}, "_unpatched"), "-", results)
    except (Failure, subprocess.TimeoutExpired) as failure:
        print(f"FAILED: {failure}")
        return 1
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
