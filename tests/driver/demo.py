#!/usr/bin/env python3
"""The story of scripts/demo: for each case an undisturbed native run and one that is checkpointed, killed and restarted.
Ends with a table; the exit status is 1 if any final hash differs."""

import argparse
import os
import re
import signal
import subprocess
import sys
import time

from driver import (BUILD, Failure, Skipped, Log, Place, check_continued, check_whole, expect, launcher, native, take_checkpoint)

CASES = [("openmpi", "openmpi", 2), ("mpich", "mpich", 2), ("openmpi", "mpich", 2), ("mpich", "openmpi", 2),
         ("openmpi", "openmpi", 4), ("mpich", "mpich", 4)]
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
began = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)


def build(mpi):
    """What a run under the MPI needs; ninja's own count, every 20th step."""
    say(f"  building what {NAMES[mpi]} needs (log: build/demo-build.log)")
    with open(os.path.join(BUILD, "demo-build.log"), "w") as log:
        ninja = subprocess.Popen(["cmake", "--build", BUILD, "--target", f"demo_{mpi}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
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
    """Shows the training's progress until the step is reached or the run is over. A restarted run's log still has the
    killed one's steps until it is cut back: only steps since the job's start are its own."""
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


def case(first, second, ranks, arguments, reference):
    with Place("demo") as place:
        total = reference.last_step()
        job = place.run(f"{first}/train", arguments, first, ranks)
        say(f"    $ {' '.join(launcher(first, ranks))} cropdl-run --dir store -- train")
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
        job = place.restart(second, ranks)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=16, help="of two ranks; four ranks, slowed by sharing two cores, "
                        "do half as many, in larger steps")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    references, rows, bad, built = {}, [], 0, set()
    for number, (first, second, ranks) in enumerate(CASES):
        crowded = ranks > 2
        arguments = ("--epochs", str((options.epochs + 1) // 2 if crowded else options.epochs),
                     "--batch", "128" if crowded else "64")
        title = f"{NAMES[first]} -> {NAMES[second]}, {ranks} ranks"
        say(f"case {number + 1} of {len(CASES)}: {title}")
        undisturbed = "-"
        try:
            for mpi in sorted({first, second} - built):
                build(mpi)
                built.add(mpi)
            if (first, ranks) not in references:
                say("  undisturbed run without CropDL")
                with Place("demo") as place:
                    references[first, ranks] = native(place, f"{first}/train", arguments, first, ranks)[0]
                say(f"  its weights: {references[first, ranks].digest}, test accuracy "
                    f"{references[first, ranks].accuracy:.4f}")
            reference = references[first, ranks]
            undisturbed = reference.digest
            expect(reference.accuracy >= 0.85, f"the training reaches {reference.accuracy:.4f} only")
            say("  the same under CropDL")
            digest, step, size, stall, seconds = case(first, second, ranks, arguments, reference)
            equal = "equal" if digest == undisturbed else "DIFFERENT"
            rows.append((title, undisturbed, digest, equal, str(step), f"{size / 1e6:.1f} MB", stall, f"{seconds:.2f} s"))
        except (Failure, Skipped) as failure:
            say(f"  FAILED: {failure}")
            rows.append((title, undisturbed, "-", "FAILED", "-", "-", "-", "-"))
        bad += rows[-1][3] != "equal"
        say(f"  {rows[-1][3]}")
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
