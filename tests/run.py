#!/usr/bin/env python3
"""Runs the tests of a build through ctest, for scripts/test, after everything was built.

    run.py [--build DIR] [--tier quick|plain|long] [--strict] [CTEST'S OPTIONS...]

A test with the label `random` that used random moments (it prints their seed) and fails is run once more, alone, with another seed. If
it then passes, it is reported as flaky; if it fails twice, or if more than three are flaky, the run fails. Other tests never run twice,
nor does any with --strict, nor one that found a wrong result, which a second run cannot excuse. Skipped tests (exit status 77,
GTEST_SKIP) are counted and listed with their reason; a run in which none passed fails.

First removes leftovers of killed runs from /tmp and /dev/shm. All files of this run are in one folder below /tmp, which is removed at
the end."""

import argparse
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

MOST_FLAKY = 3
# Printed by tests about a wrong result, as opposed to one that did not come in time.
WRONG = re.compile(r"DIFFERENT|differs? from the undisturbed|self check failed|started (over|anew)|went on from step|not the same process state")
OURS = re.compile(r"cropdl-")
OF_MPI = re.compile(r"vader_segment\.|mpich_shar_tmp|mpich_shm_")  # MPIs' shared memory, whose names do not contain ours
PID = re.compile(r"cropdl-[a-z]+[.-](\d+)")
YOUNG = 60  # in seconds: younger files may belong to a process that is just starting


# --- Leftovers of killed runs ------------------------------------------------------------------------------------------

def texts_of_processes():
    """The paths that each process uses, and those in its command line and environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ", "maps"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    yield f.read()
            except OSError:
                pass
        try:
            links = [f"/proc/{pid}/cwd"] + [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        for link in links:
            try:
                yield os.fsencode(os.readlink(link))
            except OSError:
                pass


def is_locked(path):
    try:
        with open(path) as f:
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def left_behind():
    """This user's paths in /tmp and /dev/shm that tests made and no process uses any more."""
    found = []
    for folder, patterns in (("/tmp", (OURS,)), ("/dev/shm", (OURS, OF_MPI))):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if not any(pattern.match(name) for pattern in patterns):
                continue
            try:
                state = os.lstat(path)
            except OSError:
                continue
            maker = PID.match(name)
            if is_locked(os.path.join(path, "in_use")):
                continue
            if state.st_uid == os.geteuid() and time.time() - state.st_mtime > YOUNG and not (
                    maker and os.path.exists(f"/proc/{maker.group(1)}")):
                found.append(path)
    if found:
        for text in texts_of_processes():
            found = [path for path in found if os.fsencode(path) not in text]
    return found


def sweep():
    for path in left_behind():
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            try:
                os.unlink(path)
            except FileNotFoundError:  # removed by another run meanwhile
                continue
        print(f"removed what a killed run left: {path}")


def machine():
    with open("/proc/meminfo") as f:
        memory = int(re.search(r"MemAvailable: *(\d+)", f.read()).group(1)) << 10
    return (f"machine: {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; free: memory {memory / 1e9:.1f} GB, "
            f"/dev/shm {shutil.disk_usage('/dev/shm').free / 1e9:.1f} GB, disk {shutil.disk_usage('/tmp').free / 1e9:.1f} GB")


# --- Tests ------------------------------------------------------------------------------------------------------------

class Result:
    def __init__(self, case):
        self.name = case.get("name")
        self.output = (case.findtext("system-out") or "") + "\n"
        # Anything else that ctest did not run (such as a program that was not built) counts as failed.
        skipped = case.find("skipped")
        self.skipped = skipped is not None and skipped.get("message", "").startswith("SKIP_RETURN_CODE")
        self.passed = case.get("status") == "run" and not self.skipped
        if case.get("status") == "notrun" and not self.skipped:
            self.output += f"not run: {skipped.get('message') if skipped is not None else 'ctest does not say why'}\n"

    def seed(self):
        found = re.search(r"\bseed (\d+)", self.output)
        return found.group(1) if found else "unknown"

    def may_be_chance(self):
        return self.seed() != "unknown" and not any(WRONG.search(line) for line in self.output.splitlines() if line.startswith("FAILED"))

    def first_line(self):
        """The first line that explains the failure or the skip."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        told = [line for line in lines if re.match(r"FAILED\b|.*: Failure$|skipped:", line)]
        return (told or lines[-1:] or ["no output"])[0].removeprefix(f"FAILED {self.name}: ").removeprefix(f"skipped: {self.name}: ")

    def skips_of_cases(self):
        """(case, reason) of GoogleTest's skipped cases, whose program exits with 0."""
        return re.findall(r"^(?:.*: Skipped\n(.*)\n)?(?:.*\n)?\[  SKIPPED \] (\S+) \(", self.output, re.M)


def run_ctest(build, options, environment):
    """Returns (ctest's exit status, results). The tests' output goes where ctest's goes."""
    with tempfile.TemporaryDirectory(prefix="junit-", dir=environment["CROPDL_TEST_TMP"]) as folder:
        file = os.path.join(folder, "tests.xml")
        done = subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "--test-output-size-passed", "1000000",
                               "--no-tests=error", "--no-label-summary", "--output-junit", file, *options], env=environment, stdin=subprocess.DEVNULL)
        if not os.path.exists(file):
            return done.returncode or 1, []
        return done.returncode, [Result(case) for case in xml.parse(file).getroot().iter("testcase")]


def labels_of(build):
    """{test: its labels}"""
    told = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True).stdout
    return {test["name"]: {label for each in test.get("properties", ()) if each["name"] == "LABELS" for label in each["value"]}
            for test in json.loads(told)["tests"]}


def run_again(build, failed, environment):
    """Returns (flaky results, those that failed again)."""
    flaky, still = [], []
    for one in failed:
        seed = random.randrange(1 << 30)
        print(f"\n{one.name} failed with seed {one.seed()}: once more, alone, with seed {seed}", flush=True)
        _, again = run_ctest(build, ["-R", f"^{re.escape(one.name)}$", "-j1"], dict(environment, CROPDL_TEST_SEED=str(seed)))
        (flaky if again and again[0].passed else still).append(one)
    return flaky, still


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--tier", choices=("quick", "plain", "long"), default="plain")
    parser.add_argument("--strict", action="store_true")
    own, options = parser.parse_known_args()
    if {"--quick", "--long"} & set(options):  # those of scripts/test; ctest would ignore them
        parser.error("use --tier quick or --tier long")
    sweep()
    print(machine(), flush=True)
    began = time.monotonic()
    scratch = tempfile.mkdtemp(prefix=f"cropdl-test.{os.getpid()}.", dir="/tmp")
    os.chmod(scratch, 0o755)  # for the second user of some tests
    in_use = open(os.path.join(scratch, "in_use"), "w")  # a lock for runs that cannot see this process (in another container)
    fcntl.flock(in_use, fcntl.LOCK_EX)
    references = os.path.join(scratch, "references")
    os.mkdir(references)
    environment = dict(os.environ, CROPDL_TEST_TMP=scratch, TMPDIR=scratch, CROPDL_TEST_REFERENCES=references)
    if own.tier == "long":
        environment["CROPDL_TEST_LATE_REPORTS"] = "1"  # tests/unit/cut_explorer_test.cpp
    else:  # more ranks run than there are processors; an MPI only sees its own job and would not notice
        environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
        folders = [os.path.join(os.path.abspath(own.build), "tests", "apps", "yielding"), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        environment["LD_LIBRARY_PATH"] = ":".join(folders)  # for MPICH: tests/apps/yielding_ucp.c
    tier = {"quick": ["-L", "^quick$"], "plain": ["-LE", "^long$"], "long": []}[own.tier]
    try:
        # PROCESSORS says how many of these a test keeps busy: most tests mostly wait, and take one; MPI ranks poll.
        status, results = run_ctest(own.build, ["-j", str(6 * os.cpu_count()), *tier, *options], environment)
        if not results:
            return status
        failed = [one for one in results if not one.passed and not one.skipped]
        flaky = []
        labels = labels_of(own.build)
        again = [one for one in failed if "random" in labels[one.name] and one.may_be_chance()]
        if again and len(again) <= MOST_FLAKY and not own.strict:
            flaky, _ = run_again(own.build, again, environment)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    failed = [one for one in failed if one not in flaky]
    print(f"\n{time.monotonic() - began:.0f} s")
    for one in results:
        if one.skipped:
            print(f"skipped: {one.name}: {one.first_line()}")
        for why, case in one.skips_of_cases():
            print(f"skipped: {one.name} {case}: {why}")
    for one in flaky:
        print(f"flaky: {one.name} seed {one.seed()}: {one.first_line()}")
    for one in failed:
        print(f"failed: {one.name} seed {one.seed()}: {one.first_line()}")
    if len(again) > MOST_FLAKY:
        print(f"failed: {len(again)} tests with random moments, more than {MOST_FLAKY}: none was run again")
    skipped = sum(one.skipped for one in results)
    passed = len(results) - len(failed) - skipped
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed or not passed or (status and not failed and not flaky) else 0


if __name__ == "__main__":
    sys.exit(main())
