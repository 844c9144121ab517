#!/usr/bin/env python3
"""Compares CUDA programs under CropDL with the same programs on the same software GPU without it, in alternating pairs with a noise row, as
run.py does for MPI:   cuda.py [--pairs 11] [--only calls train checkpoint] [--rounds 5] [--bytes N] [--dir /dev/shm]

  calls        runtime and driver calls (cuda_calls.cu)
  nccl         NCCL calls on a communicator of two devices (nccl_calls.cu)
  train        a step of tests/apps/cuda/train.cu (Fashion-MNIST) and of checkpoint/trainer.cu (28 calls for 0.4 ms), 2 ranks, NCCL
  checkpoint   of 1 GB of device memory, half random and half zeros, to a warm tmpfs, and the restart from it"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "driver")]
os.environ["CROPDL_SOFTWARE_GPU_FRESH"] = "zeros"  # the users' default
from checkpoint import first_step_after, median  # noqa: E402
from driver import SOURCE, Failure, Log, Place, app, expect, stall_of, take_checkpoint, tool  # noqa: E402
from run import Measurement, compare, mpirun, printed, show, training_step  # noqa: E402

QUIET = {"CROPDL_SOFTWARE_GPU_QUIET": "1"}


def natively(devices=1):
    return [os.path.join(SOURCE, "scripts", "software-gpu"), "--devices", str(devices), "--quiet"]


def built(folder, name, nvcc, *flags):
    path = os.path.join(folder, name)
    subprocess.run([nvcc, "-std=c++17", "-O2", "-arch=sm_75", "-o", path, os.path.join(HERE, name + ".cu"), *flags], check=True)
    return path


def checkpoints(program, rounds, size):
    startups, first, stalls, gaps, images, restarts, extra = [], [], [], [], [], [], []
    for number in range(-1, rounds):  # -1: warm-up
        with Place("bulk") as place:
            arguments = ["--steps", "1000000", "--log", place.path("log")]
            job = place.start(natively() + [program, "--bytes", "4096"] + arguments)
            startup = first_step_after(job, job.started)
            job.kill_ranks()
            os.remove(place.path("log"))
            native_job = place.start(natively() + [program, "--bytes", str(size)] + arguments)
            first_step_after(native_job, native_job.started)
            plain = resident(native_job)
            native_job.kill_ranks()
            os.remove(place.path("log"))

            run = [tool("cropdl-run"), "--software-gpu", "--interval", "0", "--dir", place.store, "--", program, "--bytes", str(size)]
            job = place.start(run + arguments, environment=QUIET)
            job.wait_for_step(200)
            earlier = stall_of(take_checkpoint(place, job)[1])  # this also warms the tmpfs's pages
            before = Log(job.log).last_step()
            version, text, _ = take_checkpoint(place, job)
            job.wait_for_step(Log(job.log).last_step() + 50)
            times = [t for k, t in Log(job.log).steps if k >= before]
            gap = max(b - a for a, b in zip(times, times[1:]))
            under = resident(job)
            image = os.path.getsize(place.version_path(version, "rank-0.img"))
            job.kill_ranks()
            job = place.restart(environment=QUIET)
            restart = first_step_after(job, job.started)
            job.kill_ranks()
        stall = stall_of(text)
        print(f"  {'warm-up' if number < 0 else number + 1}: {text}; gap {gap:.3f} s, image {image / 1e6:.1f} MB, restart {restart:.3f} s, "
              f"native start {startup:.3f} s, memory {plain / 1e6:.0f} MB natively and {under / 1e6:.0f} MB", flush=True)
        if number >= 0:
            first.append(earlier), startups.append(startup), stalls.append(stall), gaps.append(gap), images.append(image), restarts.append(restart)
            extra.append(under - plain)
    print(f"medians of {rounds}: stall {median(stalls):.3f} s (seen by the program {median(gaps):.3f} s; a job's first version {median(first):.3f} s), "
          f"image {median(images) / 1e9:.4f} GB, "
          f"restart to the next step {median(restarts):.3f} s, {median(restarts) - median(startups):+.3f} s beyond the native start-up of "
          f"{median(startups):.3f} s; {median(extra) / 1e6:+.0f} MB of memory")


def resident(job):
    """Bytes of memory that belong to the process (proportional set size, without swap)."""
    pids = job.ranks()
    expect(len(pids) == 1, f"{len(pids)} processes")
    with open(f"/proc/{pids[0]}/smaps_rollup") as rollup:
        return int(re.search(r"^Pss: +(\d+) kB", rollup.read(), re.M).group(1)) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--only", nargs="+", default=["calls", "nccl", "train", "checkpoint"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc")
    options = parser.parse_args()
    os.environ["CROPDL_TEST_TMP"] = options.dir
    results = []
    print(f"{'quantity':26s} {'MPI':8s} {'native ns':>14s} {'CropDL ns':>14s} {'ratio':>8s} {'added ns':>12s} {'noise':>10s}"
          f" {'noise ns':>12s} {'IQR ns':>10s}   ({options.pairs} pairs; noise: native against native)")
    with tempfile.TemporaryDirectory() as folder:
        try:
            for what, program, devices, libraries in (("calls", "cuda_calls", 1, ["-lcuda"]), ("nccl", "nccl_calls", 2, ["-lcuda", "-lnccl"])):
                if what in options.only:
                    calls = built(folder, program, options.nvcc, *libraries)
                    show(compare(Measurement([], [calls], printed, QUIET, natively(devices), [f"--software-gpu={devices}"]), options.pairs), "-", results)
            if "train" in options.only:
                for name, arguments in (("train", ["--epochs", "1"]), ("checkpoint-trainer", ["--steps", "300", "--pace", "0"])):
                    command = [app(f"cuda/static/{name}.openmpi"), *arguments, "--log", "@"]
                    show(compare(Measurement(mpirun("openmpi"), command, training_step(f"step of {name}"), QUIET, natively(2), ["--software-gpu=2"]),
                                 options.pairs), "openmpi", results)
            if "checkpoint" in options.only:
                checkpoints(built(folder, "cuda_bulk", options.nvcc), options.rounds, options.bytes)
        except (Failure, subprocess.TimeoutExpired) as failure:
            print(f"FAILED: {failure}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
