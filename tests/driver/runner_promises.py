#!/usr/bin/env python3
"""Tests of tests/run.py: a failing test always fails the run. A test with random moments that fails once and then passes is flaky; it is
shown with its seed. Other tests never run twice. Skipped tests are counted. Leftovers of killed runs are removed."""

import os
import re
import subprocess
import sys

from driver import SOURCE, Place, expect, promise_main

FAILS = "echo seed 17; echo kill 1, went on from step 12 of 48; echo FAILED $0: it is broken; exit 1"
EVERY_SECOND_TIME = '[ -e "$1" ] && echo with $CROPDL_TEST_SEED >> "$1" && exit 0; touch "$1"; ' + FAILS
TOO_SLOW = "echo skipped: $0: too slow to tell; exit 77"
COUNTED = 'echo run >> "$1"; ' + FAILS


def planted(tests, *options, program="/bin/bash"):
    """Runs these tests: name -> (labels, shell script with $0 = name, $1 = output file). Returns (exit status, output, {name: contents of
    its output file})."""
    with Place("runner") as place:
        with open(place.path("CTestTestfile.cmake"), "w") as f:
            for name, (labels, script) in tests.items():
                f.write(f'add_test([=[{name}]=] "{program}" "-c" [=[{script}]=] [=[{name}]=] "{place.path(name)}")\n'
                        f'set_tests_properties([=[{name}]=] PROPERTIES LABELS "{labels}" SKIP_RETURN_CODE 77)\n')
        done = subprocess.run([sys.executable, os.path.join(SOURCE, "tests", "run.py"), "--build", place.root, *options],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        written = {}
        for name in filter(lambda name: os.path.exists(place.path(name)), tests):
            with open(place.path(name)) as f:
                written[name] = f.read()
        return done.returncode, done.stdout, written


def has(output, line):
    expect(re.search(f"^{line}$", output, re.M), f"no line `{line}` in:\n{output}")


def reports_flaky_tests_without_failing():
    status, output, written = planted({"good": ("driver", "exit 0"), "wavers": ("random", EVERY_SECOND_TIME), "slow": ("driver", TOO_SLOW)})
    expect(status == 0, f"ended with {status}: {output}")
    has(output, r"flaky: wavers seed 17: it is broken")
    expect(re.fullmatch(r"with \d+\n", written["wavers"]), f"the second run had no seed: {written}")
    has(output, r"skipped: slow: too slow to tell")
    has(output, r"2 passed, 0 failed, 1 skipped")


def fails_if_a_test_fails_twice():
    status, output, written = planted({"good": ("driver", "exit 0"), "broken": ("random", COUNTED)})
    expect(status == 1 and written["broken"] == "run\nrun\n", f"{status}, {written}: {output}")
    has(output, r"failed: broken seed 17: it is broken")
    has(output, r"1 passed, 1 failed, 0 skipped")


def never_runs_a_deterministic_test_twice():
    status, output, written = planted({"fixed": ("driver", COUNTED)})
    expect(status == 1 and written["fixed"] == "run\n", f"{status}, {written}: {output}")
    status, output, written = planted({"wavers": ("random", COUNTED)}, "--strict")
    expect(status == 1 and written["wavers"] == "run\n", f"strict: {status}, {written}: {output}")


def fails_if_the_second_run_is_skipped():
    second = '[ -e "$1" ] && { echo skipped: $0: too slow; exit 77; }; touch "$1"; ' + FAILS
    status, output, _ = planted({"good": ("driver", "exit 0"), "wavers": ("random", second)})
    expect(status == 1, f"ended with {status}: {output}")


def never_runs_a_wrong_result_twice():
    wrong = 'echo run >> "$1"; echo seed 17; echo FAILED $0: digest 1, undisturbed 2: DIFFERENT; exit 1'
    status, output, written = planted({"good": ("driver", "exit 0"), "corrupts": ("random", wrong)})
    expect(status == 1 and written["corrupts"] == "run\n", f"{status}, {written}: {output}")


def fails_if_a_test_cannot_be_run_or_none_passes():
    status, output, _ = planted({"good": ("driver", "exit 0")}, program="/no/such/program")
    expect(status == 1, f"ended with {status}: {output}")
    has(output, r"failed: good .*not run: .*")
    status, output, _ = planted({"slow": ("driver", TOO_SLOW)})
    expect(status == 1, f"ended with {status}: {output}")
    has(output, r"0 passed, 0 failed, 1 skipped")


def fails_if_more_than_three_are_flaky():
    status, output, _ = planted({f"wavers{i}": ("random", EVERY_SECOND_TIME) for i in range(4)})
    expect(status == 1, f"ended with {status}: {output}")
    has(output, r"failed: 4 tests with random moments, more than 3: none was run again")


def runs_the_chosen_tier():
    tests = {"short": ("quick", "exit 0"), "usual": ("driver", "exit 0"), "hours": ("long", "exit 0")}
    for options, count in (((), 2), (("--tier", "quick"), 1), (("--tier", "long"), 3)):
        status, output, _ = planted(tests, *options)
        expect(status == 0, f"{options} ended with {status}: {output}")
        has(output, rf"{count} passed, 0 failed, 0 skipped")


def removes_leftovers_of_killed_runs():
    ended = subprocess.Popen(["true"])
    ended.wait()
    old = {"dead": f"/tmp/cropdl-test.{ended.pid}.left", "shared": f"/dev/shm/cropdl-crash-{ended.pid}"}
    used = {"living": f"/tmp/cropdl-test.{os.getpid()}.used", "open": f"/tmp/cropdl-open.{ended.pid}"}
    try:
        for path in (*old.values(), *used.values()):
            open(path, "w").close()
            os.utime(path, (0, 0))
        with open(used["open"]):
            status, output, _ = planted({"good": ("driver", "exit 0")})
        expect(status == 0, f"ended with {status}: {output}")
        expect(not any(map(os.path.exists, old.values())), f"still there: {old}\n{output}")
        expect(all(map(os.path.exists, used.values())), f"removed, and used: {used}\n{output}")
        has(output, r"machine: .*free: memory .* GB, /dev/shm .* GB, disk .* GB")
    finally:
        for path in (*old.values(), *used.values()):
            if os.path.exists(path):
                os.unlink(path)


PROMISES = {f"runner.{function.__name__}": function for function in
            (reports_flaky_tests_without_failing, fails_if_a_test_fails_twice, never_runs_a_deterministic_test_twice,
             fails_if_the_second_run_is_skipped, never_runs_a_wrong_result_twice, fails_if_a_test_cannot_be_run_or_none_passes,
             fails_if_more_than_three_are_flaky, runs_the_chosen_tier, removes_leftovers_of_killed_runs)}

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES, quick=("runner.",)))
