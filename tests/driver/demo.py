#!/usr/bin/env python3
"""The demonstration of scripts/demo: each case is run natively and undisturbed, then checkpointed, killed and restarted. Ends with a table;
the exit status is 1 if any final hash differs. The last two cases, if a CUDA toolkit is installed, are a trainer in CUDA and NCCL on the
software GPU."""

import argparse
import os
import re
import signal
import subprocess
import sys
import time

from typing import NamedTuple

from driver import (BUILD, SOURCE, Failure, Skipped, Log, Place, check_continued, check_whole, expect, launcher, native, take_checkpoint)


class Case(NamedTuple):
    first: str  # the MPI of the start, and the one of the restart
    second: str
    ranks: int
    arguments: tuple = ()
    cuda: str = ""  # for the CUDA trainer: the kind of memory that holds its weights

    @property
    def title(self):
        title = f"{NAMES[self.first]} -> {NAMES[self.second]}, {self.ranks} ranks"
        return f"CUDA, {self.cuda} memory: {title}" if self.cuda else title

    def program(self):
        return f"cuda/static/train.{self.first}" if self.cuda else f"{self.first}/train"

    def natively(self):
        return (os.path.join(SOURCE, "scripts", "software-gpu"), "--devices", str(self.ranks), "--quiet") if self.cuda else ()

    def options(self):
        return (f"--software-gpu={self.ranks}",) if self.cuda else ()


QUIET = {"CROPDL_SOFTWARE_GPU_QUIET": "1", "CROPDL_SOFTWARE_GPU_FRESH": "zeros"}
ON_THE_GPU = ("--epochs", "3", "--hidden", "64")
GPU_CASES = [Case("openmpi", "openmpi", 2, ON_THE_GPU, "device"),
             Case("mpich", "mpich", 4, (*ON_THE_GPU, "--batch", "32", "--memory", "managed"), "managed")]
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
began = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)


def has_cuda():
    """Whether the CUDA trainer can be built here. The demo's own build starts without CUDA, which would take half of its time."""
    with open(os.path.join(BUILD, "CMakeCache.txt")) as cache:
        if "CROPDL_TESTS:BOOL=OFF\n" in cache.read():
            say("configuring the build with CUDA")
            subprocess.run(["cmake", "--preset", "release", "-DCROPDL_SOFTWARE_GPU=ON"], cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    return subprocess.run(["cmake", "--build", BUILD, "--target", "demo_cuda_openmpi", "--", "-n"], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def build(target, whose):
    """Builds what a run needs. Prints every 20th line of ninja's progress."""
    say(f"  building what {whose} needs (log: build/demo-build.log)")
    with open(os.path.join(BUILD, "demo-build.log"), "w") as log:
        ninja = subprocess.Popen(["cmake", "--build", BUILD, "--target", target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace")
        lines = []
        for line in ninja.stdout:
            log.write(line)
            lines.append(line.rstrip())
            step = re.match(r"\[(\d+)/(\d+)\]", line)
            if step and (int(step.group(1)) % 20 == 0 or step.group(1) == step.group(2)):
                say("    " + line.rstrip())
    if ninja.wait() != 0:
        raise Failure("the build failed (build/demo-build.log):\n" + "\n".join(lines[-30:]))


def watch(job, until, what):
    """Shows the training's progress until the step is reached or the run ends. A restarted run's log still has the killed run's steps until
    it is truncated: only steps after the job's start count."""
    shown, last, end = 0.0, 0, time.monotonic() + 60
    while True:
        log = Log(job.log)
        step = max((k for k, moment in log.steps if moment >= job.started), default=0)
        if step >= until or log.digest is not None:
            return
        if step > last:
            last, end = step, time.monotonic() + 60
        if not job.alive() and Log(job.log).digest is None:
            raise Failure(f"{what} ended with {job.process.returncode}:\n{job.output()}")
        expect(time.monotonic() < end, f"{what} hangs at step {step}:\n{job.output()}")
        if step and time.monotonic() - shown > 1.5:
            shown = time.monotonic()
            say(f"    {what}: step {step}")
        time.sleep(0.02)


def run(case, arguments, reference):
    first, second, ranks = case.first, case.second, case.ranks
    with Place("demo") as place:
        total = reference.last_step()
        job = place.run(case.program(), arguments, first, ranks, case.options(), environment=QUIET)
        say(f"    $ {' '.join(launcher(first, ranks))} cropdl-run --interval 0 {''.join(word + ' ' for word in case.options())}--dir store -- train")
        watch(job, total * 2 // 5, "training")
        version, text, bounds = take_checkpoint(place, job)
        say(f"    $ cropdl checkpoint store      -> {text}")
        size = max(os.path.getsize(place.version_path(version, f"rank-{r}.img")) for r in range(ranks))
        stall = re.search(r"stall ([0-9.]+ ?\w*)", text)
        watch(job, min(total - 1, bounds[job.log][1] + total // 10), "training")
        before_kill = Log(job.log).last_step()
        killed = job.kill_ranks()
        before = Log(job.log)
        say(f"    SIGKILL to {killed} processes at step {before_kill}")
        job = place.restart(second, ranks, environment=QUIET)
        say(f"    $ {' '.join(launcher(second, ranks))} cropdl-restart store")
        watch(job, total, "restarted")
        job.finish()
        log = Log(job.log)
        check_whole(log)
        from_step = check_continued(before, log, job.started, *bounds[job.log])
        next_step = min(moment for _, moment in log.steps if moment >= job.started) - job.started
        for line in job.output().splitlines():
            if line.strip():
                say("    | " + line)
        return log.digest, from_step, size, stall.group(1) if stall else "?", next_step


def cases_of(epochs):
    """Four ranks share two cores, so they make three quarters as many epochs, with larger steps."""
    few, many = ("--epochs", str(epochs), "--batch", "64"), ("--epochs", str((epochs * 3 + 3) // 4), "--batch", "128")
    pairs = [("openmpi", "openmpi"), ("mpich", "mpich"), ("openmpi", "mpich"), ("mpich", "openmpi")]
    return [Case(*pair, 2, few) for pair in pairs] + [Case(*pair, 4, many) for pair in pairs[:2]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8, help="of two ranks; four ranks, slowed by sharing two cores, "
                        "do three quarters as many, in larger steps")
    parser.add_argument("--gpu", action="store_true", help="the cases in CUDA alone")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cases = ([] if options.gpu else cases_of(options.epochs)) + GPU_CASES
    references, rows, bad, built = {}, [], 0, set()
    for number, case in enumerate(cases):
        if case == GPU_CASES[0] and not has_cuda():
            say("no CUDA toolkit 13 with NCCL (under /usr/local/cuda, or -DCROPDL_CUDA_ROOT=DIR): the cases in CUDA are left out")
            break
        arguments, title = case.arguments, case.title
        say(f"case {number + 1} of {len(cases)}: {title}")
        undisturbed = "-"
        try:
            for mpi in sorted({case.first, case.second}):
                target = f"demo_cuda_{mpi}" if case.cuda else f"demo_{mpi}"
                if target not in built:
                    build(target, NAMES[mpi] + (" with CUDA" if case.cuda else ""))
                    built.add(target)
            key = (case.program(), case.ranks)
            if key not in references:
                where = " on the software GPU: kernels run on this machine's processors" if case.cuda else ""
                say("  undisturbed run without CropDL" + where)
                with Place("demo") as place:
                    references[key] = native(place, case.program(), arguments, case.first, case.ranks, QUIET, case.natively())[0]
                say(f"  its weights: {references[key].digest}, test accuracy {references[key].accuracy:.4f}")
            reference = references[key]
            undisturbed = reference.digest
            expect(reference.accuracy >= 0.85, f"the training reaches {reference.accuracy:.4f} only")
            say("  the same under CropDL")
            digest, step, size, stall, seconds = run(case, arguments, reference)
            equal = "equal" if digest == undisturbed else "DIFFERENT"
            rows.append((title, undisturbed, digest, equal, str(step), f"{size / 1e6:.1f} MB", stall, f"{seconds:.2f} s"))
        except (Failure, Skipped) as failure:
            say(f"  FAILED: {failure}")
            rows.append((title, undisturbed, "-", "FAILED", "-", "-", "-", "-"))
        bad += rows[-1][3] != "equal"
        say(f"  {rows[-1][3]}")
    if not rows:
        return 1
    head = ("case", "undisturbed weights", "restarted weights", "", "continued from", "image per rank", "stall",
            "restart to next step")
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    print()
    for row in [head] + rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"\n{len(rows) - bad} of {len(rows)} equal, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
