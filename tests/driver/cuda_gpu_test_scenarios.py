#!/usr/bin/env python3
"""Tests of scripts/gpu-test and tests/driver/gpu_test.py, on the software GPU: the record has each test as it begins and ends, late tests are
ended, tests that need more devices than there are do not run, and a packed build is complete."""

import json
import os
import re
import subprocess
import sys

from driver import SKIPPED, SOURCE, Place, collects_into, expect, scenario_main

HERE = os.path.dirname(os.path.abspath(__file__))
SCENARIOS = {}
scenario = collects_into(SCENARIOS)


def tested(place, only, *options):
    """Runs gpu_test.py. Returns (exit status, output, the record's lines)."""
    command = [sys.executable, os.path.join(HERE, "gpu_test.py"), "--software", "--record", place.path("record"), "--only", only, *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    with open(place.path("record")) as record:
        return done.returncode, done.stdout, [json.loads(line) for line in record]


@scenario("gpu_test.what_tells_most_comes_first_and_is_recorded")
def recorded():
    with Place("record") as place:
        status, output, lines = tested(place, r"^(native\.vector_add|run\.vector_add|cuda\.runtime_in_each_form\.static|addresses)$", "--jobs", "2")
        expect(status == 0 and "4 passed, 0 failed, 0 left out, 0 not begun" in output, f"{status}: {output}")
        begun = [line["test"] for line in lines if line.get("outcome") == "begun"]
        passed = {line["test"]: line["found"] for line in lines if line.get("outcome") == "passed"}
        expect(begun[0] == "addresses", f"begun: {begun}")
        expect(set(begun) == set(passed) and any("machine" in line for line in lines), f"{lines}")
        held = {how: any(path.endswith("/store/lock") for path in state["descriptors"]) for how, state in passed["addresses"].items()}
        expect(held == {"natively": False, "natively again": False, "under CropDL": True}, f"{passed['addresses']}")


@scenario("gpu_test.late_tests_are_ended")
def late():
    with Place("late") as place:
        status, output, lines = tested(place, r"^cuda\.runtime_in_each_form\.static$", "--limit", "1")
        expect(status == 1 and "still running after 1 s" in output, f"{status}: {output}")
        expect(lines[-1]["counts"]["failed"] == 1, f"{lines}")
        status, output, _ = tested(place, r"^cuda\.", "--minutes", "0")
        expect(status == 1 and re.search(r"^0 passed, 0 failed, \d+ left out, [1-9]\d* not begun$", output, re.M), f"{status}: {output}")


@scenario("gpu_test.tests_that_lack_devices_are_left_out")
def lacking():
    done = subprocess.run([sys.executable, os.path.join(HERE, "cuda_checkpoint_scenarios.py"), "cuda.defaults_of_devices_and_threads"],
                          stdout=subprocess.PIPE, text=True, env=dict(os.environ, CROPDL_TEST_DEVICES="1"), timeout=300)
    expect(done.returncode == SKIPPED and "it needs 2 devices" in done.stdout, f"{done.returncode}: {done.stdout}")


@scenario("gpu_test.packed_build_is_complete")
def packed():
    """What ld.so finds for the commands is in the pack, except the C and C++ libraries, and its tests can be listed."""
    with Place("packed") as place:
        def run(*command, **named):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, **named)
            expect(done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}")
            return done.stdout
        run(os.path.join(SOURCE, "scripts", "gpu-test"), "--built", "--pack", place.path("pack.tar.xz"))
        run("tar", "-C", place.root, "-xf", place.path("pack.tar.xz"))
        names = os.listdir(place.path("cropdl/build/system-libraries"))
        for program in ("bin/cropdl", "bin/cropdl-restart", "bin/cropdl-lower-none", "tests/driver/forge_memory"):
            for name in re.findall(r"^\s(\S+) => /", run("ldd", place.path(f"cropdl/build/{program}")), re.M):
                expect(name in names or re.match(r"lib(c|m|gcc_s|stdc\+\+)\.so", name), f"{program} needs {name}; packed: {names}")
        environment = {name: value for name, value in os.environ.items() if name != "CROPDL_BUILD"}
        listed = run(place.path("cropdl/scripts/gpu-test"), "--built", "--list", env=environment)
        expect(listed.startswith("addresses\nnative.vector_add\n"), listed)


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, long=("gpu_test.packed_build_is_complete",)))
