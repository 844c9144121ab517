#!/usr/bin/env python3
"""Tests of the driver itself: it must notice a checkpointer that restarts the program from the beginning, loses steps or changes a result.
Fake commands play such checkpointers; the real ones are not used."""

import os
import subprocess
import sys
import tempfile

import driver
import restart_scenarios
from driver import Failure, Log, Skipped, TooLate, check_continued, check_whole, expect, scenario_main

STARTS_OVER = {
    "cropdl-run": 'mkdir -p "$2"; while [ "$1" != -- ]; do shift; done; shift; echo "$@" > "$STORE_COMMAND"; exec "$@"',
    "cropdl": 'mkdir "$2/v000001"; echo "version 1 1 bytes stall 0.001 s"',
    "cropdl-restart": 'exec $(cat "$STORE_COMMAND")',
}


def objects_to(commands, words, **named):
    """The driver must object to these fake commands, in these words."""
    with tempfile.TemporaryDirectory(prefix="cropdl-driver-") as build:
        os.makedirs(f"{build}/bin")
        for name, body in commands.items():
            with open(f"{build}/bin/{name}", "w") as f:
                f.write("#!/bin/bash\n" + body + "\n")
            os.chmod(f"{build}/bin/{name}", 0o755)
        os.makedirs(f"{build}/tests")
        os.symlink(os.path.join(driver.BUILD, "tests", "apps"), f"{build}/tests/apps")
        os.environ["STORE_COMMAND"] = f"{build}/command"
        kept, driver.BUILD = driver.BUILD, build
        try:
            restart_scenarios.survives("plain", arguments=("--steps", "30", "--pace", "20000"), chain=("same",), **named)
        except TooLate:
            raise
        except Failure as failure:
            expect(words in str(failure), f"objected, but in other words than {words!r}: {failure}")
            return
        finally:
            driver.BUILD = kept
        raise Failure("it was let through")


def notices_a_program_started_from_the_beginning():
    """The fake restarts the program from the beginning. The results are right, but the driver must object."""
    objects_to(STARTS_OVER, "started over")


def notices_a_failed_attempt_without_a_name():
    """Of several attempts at a checkpoint the first fails and does not say what stood in the way."""
    nameless = 'if mkdir "$2/once"; then echo "cropdl: checkpoint given up: some reason"; exit 1; fi 2> /dev/null; '
    objects_to(STARTS_OVER | {"cropdl": nameless + STARTS_OVER["cropdl"]}, "does not name what stood in the way", attempts=20)


def forgives_mpirun_a_missed_end_of_native_runs_alone():
    """mpirun complains of an end without MPI_Finalize: forgiven if the run is native and has its results."""
    complaint = 'echo \'2. this process called "init", but exited without calling "finalize".\'; exit 1'
    result = "echo -e 'nonce 1\\nstep 1 1.0\\nok 5 nonce=1' >@; "
    for script, more, forgiven in ((result + complaint, [], True), (complaint, [], False), (result + "exit 1", [], False),
                                   (result + complaint, ["cropdl-run"], False)):
        with driver.Place("missed") as place:
            job = place.start(["bash", "-c", script.replace("@", place.path("log")), *more], place.path("log"))
            try:
                job.finish()
            except Failure as failure:
                expect(not forgiven, f"{failure}")
            else:
                expect(forgiven, f"let through: {script}")


def log_of(directory, text):
    path = os.path.join(directory, "log")
    with open(path, "w") as f:
        f.write(text)
    return Log(path)


def must_object(check, *arguments):
    try:
        check(*arguments)
    except Failure:
        return
    raise Failure(f"no objection: {check.__name__}{arguments[2:]}")


def notices_wrong_logs():
    with tempfile.TemporaryDirectory(prefix="cropdl-driver-") as d:
        good = "nonce a\nstep 1 10\nstep 2 11\nstep 3 31\nok d nonce=a\n"
        before = log_of(d, "nonce a\nstep 1 10\nstep 2 11\nstep 3 12\n")
        check_whole(log_of(d, good))
        expect(check_continued(before, log_of(d, good), 30.0, 2, 3) == 2, "the step it went on from is 2")
        must_object(check_continued, before, log_of(d, good), 30.0, 3, 4)      # continued from before the version
        must_object(check_continued, before, log_of(d, good), 30.0, 0, 1)      # continued from after the version
        must_object(check_continued, before, log_of(d, good.replace("nonce a", "nonce b")), 30.0, 2, 3)
        must_object(check_continued, before, log_of(d, good.replace("step 3 31", "step 1 31")), 30.0, 2, 3)
        must_object(check_whole, log_of(d, good.replace("nonce=a", "nonce=b")))  # the memory of another process
        must_object(check_whole, log_of(d, good.replace("step 2", "step 3")))    # a repeated step
        must_object(check_whole, log_of(d, good.replace("step 2 11\n", "")))     # a lost step
        must_object(check_whole, log_of(d, good + "nonce c\n"))
        must_object(check_whole, log_of(d, good.replace("ok d nonce=a\n", "")))
        must_object(check_whole, log_of(d, good.replace("ok d", "failed x\nok d")))


def kills_all_ranks():
    """After kill_ranks, no process of the job is left, including the launcher and children."""
    for mpi in ("openmpi", "mpich"):
        with driver.Place("kill") as place:
            log = place.path("log")
            job = place.start(driver.launcher(mpi, 2) + [driver.app(f"{mpi}/compute_only"), "--steps", "100000", "--log", log])
            job.wait_for_step(2)
            expect(job.kill_ranks() == 2, "not exactly two ranks found")
            expect(not job.processes(), "processes are left")


def notices_an_event_that_never_comes():
    """too_late() excuses programs that ended too soon, but not with the longest steps."""
    tried = []

    def never():
        tried.append(driver.Job.slower)
        driver.too_late("it did not come")

    try:
        driver.with_slower_programs(never)
    except (Failure, Skipped) as end:
        expect(type(end) is Failure and tuple(tried) == driver.TIMES, f"{type(end)} after {tried}")
        return
    finally:
        driver.Job.slower = 1
    raise Failure("an event that never comes went unnoticed")


LONG_FORM = """import sys, driver
sys.exit(driver.scenario_main({"a.b": lambda: print("in full" if driver.in_long_form() else "in short")}, quick=("a.",), twins=("a.b",)))"""


def lists_and_runs_long_forms():
    def said(*words):
        environment = {name: value for name, value in os.environ.items() if name != "CROPDL_TEST_LONG"}
        return subprocess.run([sys.executable, "-c", LONG_FORM, *words], cwd=os.path.dirname(os.path.abspath(__file__)), env=environment,
                              stdout=subprocess.PIPE, text=True, check=True).stdout
    for words, wanted in ((("--list",), "a.b quick 1\na.b.long long 1\n"), (("a.b",), "in short\npassed: a.b\n"),
                          (("a.b.long",), "in full\npassed: a.b.long\n")):
        found = said(*words)
        expect(found == wanted, f"{words}: {found!r} instead of {wanted!r}")


SCENARIOS = {
    "driver.notices_a_program_started_from_the_beginning": notices_a_program_started_from_the_beginning,
    "driver.notices_a_failed_attempt_without_a_name": notices_a_failed_attempt_without_a_name,
    "driver.notices_wrong_logs": notices_wrong_logs,
    "driver.forgives_mpirun_a_missed_end_of_native_runs_alone": forgives_mpirun_a_missed_end_of_native_runs_alone,
    "driver.kills_all_ranks": kills_all_ranks,
    "driver.notices_an_event_that_never_comes": notices_an_event_that_never_comes,
    "driver.lists_and_runs_long_forms": lists_and_runs_long_forms,
}

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, quick=("driver.",)))
