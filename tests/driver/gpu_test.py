#!/usr/bin/env python3
"""Runs the tests' CUDA programs on this machine's own GPUs: natively, under CropDL, and with kills and restarts. Started by scripts/gpu-test.
Prints a line for each test, and exits with 1 if one failed.

    gpu_test.py [--only PATTERN] [--long] [--record FILE] [--minutes N] [--limit SECONDS] [--jobs N] [--list] [--software]

--record     where the lines go as JSON, as each test begins and ends (build/gpu-test.jsonl): a killed run leaves what it had found
--minutes    begins no test later than this, and ends the last ones
--limit      of one test, in seconds (600)
--jobs       how many tests run at a time (1). A test that failed beside others is repeated alone
--software   on the software GPU, to try this script

What tells most comes first (FIRST). Tests that need more devices than the machine has, or an MPI that it lacks, are left out, and counted."""

import argparse
import concurrent.futures
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--only", default="")
parser.add_argument("--long", action="store_true")
parser.add_argument("--record")
parser.add_argument("--minutes", type=float, default=1e6)
parser.add_argument("--limit", type=float, default=600)
parser.add_argument("--jobs", type=int, default=1)
parser.add_argument("--list", action="store_true")
parser.add_argument("--software", action="store_true")
options = parser.parse_args()


def devices():
    if options.software:
        return 16
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    except OSError:
        listed = ""
    return len(re.findall(r"^GPU \d+:", listed, re.M)) or len([path for path in glob.glob("/dev/nvidia*") if re.fullmatch(r"/dev/nvidia\d+", path)])


DEVICES = devices()
os.environ["CROPDL_TEST_DEVICE"] = "software" if options.software else "real"
os.environ["CROPDL_TEST_DEVICES"] = str(DEVICES)
if options.long:
    os.environ["CROPDL_TEST_LONG"] = "1"

from cuda_scenarios import ONE_DEVICE, PATIENCE, ended, programs, start  # noqa: E402
from driver import BUILD, Failure, Place, Skipped, app, launcher, tail, tool  # noqa: E402

NVIDIAS = ("libcuda.so.1", "libcudart.so.13", "libnccl.so.2", "libcublas.so.13", "libcurand.so.10", "libnvrtc.so.13")
SCENARIOS = os.path.join(HERE, "cuda_checkpoint_scenarios.py")
# In this order; the others follow: first kills and restarts, then the same programs without them.
FIRST = ("addresses", "native.vector_add", "native.device_facts", "run.vector_add", "cuda.runtime_in_each_form.static", "cuda.driver_found_by_name",
         "cuda.device_variables.static", "cuda.managed_memory_with_advice", "cuda.stream_ordered_memory", "cuda.products_and_streams",
         "cuda.memory_mapped_by_the_program", "cuda.two_threads_that_launch.static", "cuda.runtime_found_by_dlopen", "cuda.host_functions",
         "cuda.managed_variables.static", "cuda.objects_with_virtual_functions.static", "cuda.code_loaded_and_unloaded_in_any_order.static",
         "software_nccl.", "cuda.openmpi.ranks_share_a_device", "cuda.", "run.", "native.")


# --- What this machine has ---------------------------------------------------------------------------------------

def output_of(*command):
    try:
        return subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as why:
        return str(why)


def machine():
    load = ("import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(next(line.split()[-1] for line in open('/proc/self/maps') "
            "if '/' + sys.argv[1].split('.')[0] + '.' in line))")
    query = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap,mig.mode.current", "--format=csv,noheader")
    return {"kernel": os.uname().release, "glibc": os.confstr("CS_GNU_LIBC_VERSION"), "python": sys.version.split()[0], "processors": os.cpu_count(),
            "user": os.geteuid(), "nodes": sorted(glob.glob("/dev/nvidia*")), "devices": output_of(*query).splitlines(),
            "shm": shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0,
            "libraries": {name: (output_of(sys.executable, "-c", load, name).splitlines() or [""])[-1] for name in NVIDIAS}}


def add_missing_libraries():
    """`scripts/gpu-test --pack` adds the libraries of CropDL's commands that another system may lack. The programs and NVIDIA's libraries must
    not find those that this system has, so only the missing ones get a folder in LD_LIBRARY_PATH."""
    packed, used = os.path.join(BUILD, "system-libraries"), os.path.join(BUILD, "missing-libraries")
    if not os.path.isdir(packed):
        return []
    shutil.rmtree(used, ignore_errors=True)
    os.mkdir(used)
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (os.environ.get("LD_LIBRARY_PATH"), used)))
    files = glob.glob(os.path.join(BUILD, "bin", "*")) + [os.path.join(BUILD, "tests", "driver", "forge_memory")]
    while True:
        missing = {name for name in re.findall(r"(\S+) => not found", output_of("ldd", *files)) if os.path.exists(os.path.join(packed, name))}
        if not missing:
            return sorted(os.listdir(used))
        for name in missing:
            os.symlink(os.path.join(packed, name), os.path.join(used, name))


# --- The tests ---------------------------------------------------------------------------------------------------

def runs(one, under_cropdl, on_one_device=False, more=()):
    """The program ends as it should; under CropDL no version is taken. `more`: options of cropdl-run."""
    mpi, ranks = one.variants()[0]
    with Place("gpu") as place:
        if under_cropdl:
            needed = 1 if on_one_device else one.devices if mpi == "none" else ranks
            saved = [f"--software-gpu={needed}"] if options.software else []
            path = app(f"cuda/{one.ways[0]}/{one.name}" + (f".{mpi}" if mpi != "none" else ""))
            job = place.start(launcher(mpi, ranks) + [tool("cropdl-run"), "--dir", place.store, "--interval", "0", *saved, *more, "--", path],
                              environment=ONE_DEVICE if on_one_device else {})
        else:
            job = start(place, one.name, one.ways[0], mpi, ranks, one.devices)
        status, output = ended(job, min(PATIENCE, options.limit))
    if status != 0 or not re.search(r"^ok [0-9a-f]+$", output, re.M):
        raise Failure(f"ended with {status}: {tail(output)}")
    return "", ""


def said_by(name, limit):
    """Runs a test of cuda_checkpoint_scenarios.py. On SIGTERM it ends its jobs."""
    work = subprocess.Popen([sys.executable, SCENARIOS, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    late = ""
    try:
        output, _ = work.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        late = f"still running after {limit:.0f} s: "
        work.terminate()
        try:
            output, _ = work.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            work.kill()
            output, _ = work.communicate()
    if late or work.returncode not in (0, 77):
        raise Failure(late + tail(output, 30))
    return work.returncode == 77, output.strip()


def state_of(pid):
    """What a running process has mapped in large pieces, its descriptors and its threads: what a checkpoint has to do with."""
    large, nodes = [], {}
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            words = line.split(maxsplit=5)
            begin, end = (int(word, 16) for word in words[0].split("-"))
            path = words[5].strip() if len(words) > 5 else ""
            if path.startswith("/dev/"):
                first, count, size = nodes.get(path, (words[0].split("-")[0], 0, 0))
                nodes[path] = (first, count + 1, size + end - begin)
            elif end - begin >= 1 << 28 or "(deleted)" in path:
                large.append(line.strip())
    names = [open(path).read().strip() for path in glob.glob(f"/proc/{pid}/task/*/comm")]
    links = [os.readlink(path) for path in glob.glob(f"/proc/{pid}/fd/*")]
    return {"large": large, "nodes": nodes, "threads": sorted(names), "descriptors": sorted(re.sub(r":\[\d+\]", "", link) for link in links)}


def addresses():
    """Twice natively, and once under CropDL. Which addresses are the same?"""
    found = {}
    for how in ("natively", "natively again", "under CropDL"):
        with Place("addresses") as place:
            arguments = ("--steps", "6000", "--pace", "20000")  # it is killed long before its end
            if how == "under CropDL":
                job = place.run("cuda/static/checkpoint-forms", arguments, options=["--software-gpu=1"] if options.software else [])
            else:
                job = start(place, "checkpoint-forms", "static", arguments=[*arguments, "--log", place.path("log")])
            job.wait_for_step(2)
            found[how] = state_of(job.ranks()[0])
    return found


class Test:
    """`run(limit)` returns (why it was left out, what it found). Raises Failure."""

    def __init__(self, name, run, needed=1, mpi="none"):
        self.name, self.run, self.needed, self.mpi = name, run, needed, mpi

    def lacks(self):
        if self.needed > DEVICES:
            return f"it needs {self.needed} devices"
        there = self.mpi == "none" or shutil.which(f"mpirun.{self.mpi}") and os.path.exists(tool(f"cropdl-lower-{self.mpi}"))
        return "" if there else f"it needs mpirun.{self.mpi}, and CropDL built for it"


def tests():
    found = [Test("addresses", lambda _: ("", addresses()))]
    for one in programs().values():
        mpi, ranks = one.variants()[0]
        for kind, how in (("native", False), ("run", True)):
            found.append(Test(f"{kind}.{one.name}", lambda _, one=one, how=how: runs(one, how), one.devices if mpi == "none" else ranks, mpi))
        if one.name == "nccl_threads":
            found.append(Test("software_nccl.two_ranks_on_one_device", lambda _, one=one: runs(one, True, True, ("--software-nccl",))))
    listed = subprocess.run([sys.executable, SCENARIOS, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in (line.split()[0] for line in listed.splitlines()):
        if name.endswith(".long"):  # --long runs every test in its long form
            continue
        mpi = next((mpi for mpi in ("openmpi", "mpich") if mpi in name), "none")

        def run(limit, name=name):
            skipped, output = said_by(name, limit)
            return (output.splitlines()[-1], "") if skipped else ("", output)
        found.append(Test(name, run, 1 if mpi == "none" or "share_a_device" in name else 2, mpi))

    def place_of(test):
        return next(number for number, begin in enumerate(FIRST) if test.name.startswith(begin))
    return sorted((test for test in found if re.search(options.only, test.name)), key=place_of)


class Record:
    """The file and the printed lines. Any thread."""

    def __init__(self, path):
        self.file, self.lock, self.began = open(path, "w"), threading.Lock(), time.monotonic()
        self.counts = {"passed": 0, "failed": 0, "left out": 0, "not begun": 0}

    def write(self, line):
        with self.lock:
            self.file.write(json.dumps({"at": round(time.monotonic() - self.began, 1)} | line) + "\n")
            self.file.flush()

    def left(self):
        return 60 * options.minutes - (time.monotonic() - self.began)

    def carry_out(self, test, counted_later=False):
        """Returns the outcome. `counted_later`: a failure is neither counted nor final."""
        why, found, outcome = test.lacks(), "", "left out"
        began = time.monotonic()
        if not why and self.left() <= 10:
            outcome = "not begun"
        elif not why:
            self.write({"test": test.name, "outcome": "begun"})
            try:
                why, found = test.run(min(options.limit, self.left()))
                outcome = "left out" if why else "passed"
            except Skipped as skipped:
                why = str(skipped)
            except Exception as failure:  # whatever it is: the other tests go on
                outcome, why = "failed", f"{'' if isinstance(failure, Failure) else type(failure).__name__ + ': '}{failure}"
        if outcome == "failed" and counted_later:
            outcome = "failed beside others"
        else:
            self.counts[outcome] += 1
        seconds = time.monotonic() - began
        self.write({"test": test.name, "outcome": outcome, "seconds": round(seconds, 1), "why": why, "found": found})
        if outcome != "not begun":
            print(f"{outcome:8s} {seconds:6.1f} s  {test.name}" + (f": {why}" if why else ""), flush=True)
        return outcome


def main():
    if DEVICES == 0 and not options.list:
        print("gpu-test: no GPU here (nvidia-smi -L lists none)", file=sys.stderr)
        return 1
    todo = tests()
    if options.list:
        print("\n".join(test.name for test in todo))
        return 0
    record = Record(options.record or os.path.join(BUILD, "gpu-test.jsonl"))
    record.write({"missing libraries": add_missing_libraries()})
    record.write({"machine": machine()})
    alone = [test for test in todo if options.jobs == 1 or test.name == "addresses"]
    beside = [test for test in todo if test not in alone]
    for test in alone:
        record.carry_out(test)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        outcomes = list(workers.map(functools.partial(record.carry_out, counted_later=True), beside))
    for test, outcome in zip(beside, outcomes):
        if outcome == "failed beside others" and record.carry_out(test) == "not begun":
            record.counts["not begun"] -= 1
            record.counts["failed"] += 1  # once, beside others
    record.write({"counts": record.counts})
    print(", ".join(f"{count} {what}" for what, count in record.counts.items()))
    return 1 if record.counts["failed"] or not record.counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
