#!/usr/bin/env python3
"""Runs the tests' CUDA programs on this machine's own GPUs, natively, then with kills and restarts. Started by scripts/gpu-test. Prints a
line for each program, writes the lines to build/gpu-test.jsonl, and exits with 1 if one failed.

    gpu_test.py [--only PATTERN] [--long] [--software]     --software: on the software GPU, to try this script

Programs that need more devices than the machine has are skipped, and counted."""

import argparse
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--only", default="")
parser.add_argument("--long", action="store_true")
parser.add_argument("--software", action="store_true")
options = parser.parse_args()
os.environ["CROPDL_TEST_DEVICE"] = "software" if options.software else "real"
if options.long:
    os.environ["CROPDL_TEST_LONG"] = "1"

from cuda_scenarios import PATIENCE, ended, programs, start  # noqa: E402
from driver import BUILD, Failure, Place, tail  # noqa: E402


def devices():
    if options.software:
        return 16
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], check=False, stdout=subprocess.PIPE, text=True).stdout
    except OSError:
        listed = ""
    return len(re.findall(r"^GPU \d+:", listed, re.M))


def natively(one):
    mpi, ranks = one.variants()[0]
    with Place("gpu") as place:
        status, output = ended(start(place, one.name, one.ways[0], mpi, ranks, one.devices), PATIENCE)
    if status != 0 or not re.search(r"^ok [0-9a-f]+$", output, re.M):
        raise Failure(f"ended with {status}: {tail(output)}")


def scenario(name):
    done = subprocess.run([sys.executable, os.path.join(HERE, "cuda_checkpoint_scenarios.py"), name], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600)
    if done.returncode not in (0, 77):
        raise Failure(tail(done.stdout))
    return "left out: " + done.stdout.strip().splitlines()[-1] if done.returncode == 77 else ""


def main():
    there = devices()
    if there == 0:
        print("gpu-test: no GPU here (nvidia-smi -L lists none)", file=sys.stderr)
        return 1
    listed = subprocess.run([sys.executable, os.path.join(HERE, "cuda_checkpoint_scenarios.py"), "--list"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    todo = [(f"native.{one.name}", one.devices if one.ranks == [0] else max(one.ranks), lambda one=one: natively(one)) for one in programs().values()]
    todo += [(name, 1, lambda name=name: scenario(name)) for name in (line.split()[0] for line in listed.splitlines())]
    counts = {"passed": 0, "failed": 0, "left out": 0}
    with open(os.path.join(BUILD, "gpu-test.jsonl"), "w") as record:
        for name, needed, run in todo:
            if not re.search(options.only, name):
                continue
            began, why = time.monotonic(), ""
            try:
                why = f"left out: it needs {needed} devices" if needed > there else run() or ""
                outcome = "left out" if why else "passed"
            except (Failure, OSError, subprocess.TimeoutExpired) as failure:
                outcome, why = "failed", str(failure)
            counts[outcome] += 1
            line = {"test": name, "outcome": outcome, "seconds": round(time.monotonic() - began, 1), "why": why}
            record.write(json.dumps(line) + "\n")
            record.flush()
            print(f"{outcome:8s} {line['seconds']:6.1f} s  {name}" + (f": {why}" if why else ""), flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
