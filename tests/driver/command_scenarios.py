#!/usr/bin/env python3
"""The commands: what cannot be saved is refused with a line that names it while the program continues, triggers work, and bad input gets
one clear line and loses nothing."""

import hashlib
import html.parser
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import termios
import time

from driver import (BUILD, Failure, Job, Log, PATIENCE, Place, SOURCE, Skipped, app, check_continued, check_refused, check_results,
                    check_whole, expect, expect_taken, collects_into, forge, launcher, logs_of, native, scenario_main, take_checkpoint, too_late, tool,
                    went_into_namespaces, without_waiting)

SCENARIOS = {}
scenario = collects_into(SCENARIOS)


LONG = ("--steps", "100000", "--pace", "20000")  # for programs that are killed
MIDDLE = ("--steps", "120", "--pace", "20000")


def one_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    expect(len(lines) == 1, f"not one line: {text!r}")
    expect(not re.search(r"\berrno\b|terminate called|Segmentation|Aborted|Assertion", text), f"not a readable line: {text!r}")
    return lines[0]


# --- Refusals ----------------------------------------------------------------------------------------------------

def refused(program, what, words, mpi="none", ranks=1):
    """While the program holds `what`, the checkpoint is refused in exactly these words. Afterwards it succeeds, and the program ends with
    the undisturbed run's result."""
    name = f"{'plain' if mpi == 'none' else mpi}/{program}"
    with Place("refused") as place:
        arguments = (what,) + MIDDLE
        reference = native(place, name, arguments, mpi, ranks)
        total = reference[0].last_step()
        job = place.run(name, arguments, mpi, ranks)
        job.wait_for_step(5)
        status, text, _ = place.checkpoint()
        job.must_run()
        if Log(job.log).last_step() >= total // 2:
            raise Skipped(f"too slow to tell: the {what} may have been given up before the answer")
        check_refused(place, status, text, words)
        job.wait_for_step(total // 2 + 3)
        end = time.monotonic() + PATIENCE
        while any(log.last_step() <= total // 2 for log in logs_of(job.log, ranks)) and time.monotonic() < end:
            time.sleep(0.01)  # other ranks may be behind
        status, text, _ = place.checkpoint()
        expect_taken(job, status, f"still refused after the {what} is gone: {text}")
        job.finish()
        check_results(job, reference, ranks)


for _what, _words in {
        "child": "the program has a child process that it has not waited for (pid <n>, <w>); end it and wait for it (PyTorch: num_workers=0)",
        "pipe": "a pipe (descriptor <n>) cannot be saved yet",
        "socket": "a socket (descriptor <n>) cannot be saved yet",
        "timer": "a POSIX timer (timer_create) cannot be saved yet; timer_delete it, or use setitimer",
        "timerfd": "an open timerfd (descriptor <n>) cannot be saved yet",
        "signalfd": "an open signalfd (descriptor <n>) cannot be saved yet",
        "eventfd": "an open eventfd (descriptor <n>) cannot be saved yet",
        "epoll": "an open eventpoll (descriptor <n>) cannot be saved yet",
        "shared": "the shared mapping of /dev/zero (deleted) cannot be saved yet",
        "sharedfile": "the shared mapping of /tmp/refused-<w> (deleted) cannot be saved yet"}.items():
    scenario(f"refused.{_what}")(lambda w=_what, k=_words: refused("refused", w, k))
for _mpi in ("openmpi", "mpich"):
    for _what, _words in {
            "window": "MPI_Win_create: a window is alive that cannot be saved",
            "file": "MPI_File_open: a file is alive that cannot be saved",
            "ireduction": "MPI_Iallreduce: a reduction by an operation of the program's own is not complete",
            "idup": "MPI_Comm_idup: a request is not complete",
            "intercomm": "MPI_Intercomm_create: a communicator is alive that cannot be saved",
            "persistent": f"MPI{'X' * (_mpi == 'openmpi')}_Barrier_init: a persistent request exists",
            "synchronous": "MPI_Issend: a request is not complete"}.items():
        scenario(f"refused.{_mpi}.{_what}")(lambda w=_what, k=_words, m=_mpi: refused("refused_mpi", w, k, m, 2))


@scenario("refused.openmpi.call_left_by_a_jump")
def call_left():
    """A signal handler has left MPI calls by siglongjmp: every checkpoint is refused for that reason, and the program ends normally."""
    with Place("left") as place:
        job = place.run("openmpi/refused_mpi", ("left", "--steps", "1600", "--pace", "20000"), "openmpi", 1)
        job.wait_for_step(1)
        status, text, _ = place.checkpoint()
        check_refused(place, status, text.replace("checkpoint failed", "checkpoint refused"),
                      "a signal handler or callback of the program has left a call of MPI or CUDA by a jump (siglongjmp), or has not "
                      "returned to it in two attempts; let it return")
        job.finish()
        check_whole(Log(job.log))


@scenario("refused.statically_linked_program")
def static_program():
    with Place("static") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain_static")])
        expect(status != 0, "a statically linked program was run as if it could be saved")
        expect("static" in one_line(text), f"the line does not say why: {text}")


@scenario("refused.program_linked_with_an_unknown_mpi")
def unknown_mpi():
    with Place("unknown") as place:
        for command in ([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"], [tool("cropdl"), "doctor"]):
            status, text, _ = place.ask([*command, app("named/wtime")])
            expect(status != 0 and "is linked with libmpi_g.so.12, and CropDL knows libmpi.so.40" in text, f"{status}: {text}")


@scenario("refused.program_linked_with_two_mpis")
def two_mpis():
    with Place("two") as place:
        for command in ([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"], [tool("cropdl"), "doctor"]):
            status, text, _ = place.ask([*command, app("named/two_mpis")])
            expect(status != 0 and "is linked with libmpi.so.40 and libmpich.so.12, which are two MPIs; link it with one of them" in text,
                   f"{status}: {text}")


@scenario("refused.program_not_found")
def program_not_found():
    with Place("missing") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", "./no-such-program"])
        expect(status != 0 and "no-such-program" in one_line(text), f"{status}: {text}")


# --- Entrances ---------------------------------------------------------------------------------------------------

def kill_and_restart_once(place, job, mpi, ranks, reference):
    version, text, bounds = take_checkpoint(place, job)
    job.kill_running()
    before = {path: Log(path) for path in bounds}
    job = place.restart(mpi, ranks)
    job.finish()
    for path in bounds:
        check_continued(before[path], Log(path), job.started, *bounds[path])
    check_results(job, reference, ranks)


def preload(mpi, wrap):
    """Through LD_PRELOAD, set by the launcher's own option. `wrap`: a shell script starts the program by exec."""
    with Place("preload") as place:
        reference = native(place, f"{mpi}/torture", MIDDLE, mpi, 2)
        place.store = place.path("cropdl.ckpt")  # the default, in the working directory
        log = place.path("log")
        target = [app(f"{mpi}/torture"), *MIDDLE, "--log", log]
        if wrap:
            script = place.path("wrapper")
            with open(script, "w") as f:
                f.write("#!/bin/bash\n: $(echo a child | cat)\nexec \"$@\"\n")
            os.chmod(script, 0o755)
            target = [script] + target
        library = os.path.join(BUILD, "lib", "libcropdl.so")
        job = place.start(launcher(mpi, 2, {"LD_PRELOAD": library, "CROPDL_INTERVAL": "0"}) + target, log)
        job.wait_for_step(10)
        kill_and_restart_once(place, job, mpi, 2, reference)


for _mpi in ("openmpi", "mpich"):
    scenario(f"preload.{_mpi}.program_is_protected")(lambda m=_mpi: preload(m, False))
    scenario(f"preload.{_mpi}.wrapper_script_stays_protected")(lambda m=_mpi: preload(m, True))


@scenario("run.exit_status_and_output_equal_the_program_s")
def exit_status():
    with Place("status") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", "/bin/sh", "-c", "echo out; exit 7"])
        expect(status == 7 and text.splitlines()[-1] == "out", f"status {status}, output {text!r}")


@scenario("run.interpreter_without_mpi")
def interpreter():
    with Place("python") as place:
        code = "import numpy; print(int(numpy.arange(1000).sum()))"
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", "/usr/bin/python3", "-c", code])
        expect(status == 0 and text == "499500", f"status {status}, output {text!r}")


@scenario("restart.standard_output_goes_to_the_new_launcher")
def standard_output():
    with Place("stdout") as place:
        command = [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain"), *MIDDLE]
        job = place.start(command, place.path("output-0"))
        job.wait_for_step(10)
        status, text, _ = place.checkpoint()
        expect_taken(job, status, text)
        job.kill_running()
        first = Log(place.path("output-0"))
        job = place.restart()
        job.finish()
        second = [line.split() for line in job.output().splitlines()]
        steps = [int(words[1]) for words in second if words[0] == "step"]
        expect(steps and steps[0] > 10 and steps[-1] == 120, f"steps on the new standard output: {steps[:3]} ... {steps[-3:]}")
        expect(second[-1][0] == "ok" and second[-1][2] == f"nonce={first.nonces[0]}", f"last line: {second[-1]}")


# --- Triggers ----------------------------------------------------------------------------------------------------

def wait_for_versions(place, job, number, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while len(place.versions()) < number:
        job.must_run()
        expect(time.monotonic() < end, f"{len(place.versions())} versions after {seconds} s, wanted {number}: {job.output()}")
        time.sleep(0.02)


def wait_for_output(job, text):
    end = time.monotonic() + PATIENCE
    while text not in job.output():
        job.must_run()
        expect(time.monotonic() < end, f"does not say {text!r}: {job.output()}")
        time.sleep(0.02)


def by_signal(mpi):
    with Place("sigusr1") as place:
        job = place.run(f"{mpi}/torture", LONG, mpi, 2)
        job.wait_for_step(5)
        os.kill(job.process.pid, signal.SIGUSR1)
        wait_for_versions(place, job, 1)
        job.kill_running()


for _mpi in ("openmpi", "mpich"):
    scenario(f"trigger.{_mpi}.sigusr1_to_the_launcher")(lambda m=_mpi: by_signal(m))


@scenario("trigger.program_with_its_own_sigusr1_handler_gets_the_signal")
def own_handler():
    """signals.c counts the SIGUSR1 that it gets and checks the number. One too many makes it fail; one taken as a trigger would make a
    version."""
    with Place("own") as place:
        job = place.run("plain/signals", ("--steps", "30", "--pace", "10000"))
        job.wait_for_step(3)
        job.finish()
        check_whole(Log(job.log))
        expect(not place.versions(), "the program's own SIGUSR1 was taken for a checkpoint request")


@scenario("trigger.interval_takes_versions_automatically")
def by_interval():
    with Place("interval") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2, options=("--interval", "0.5"))
        job.wait_for_step(3)
        wait_for_versions(place, job, 2)
        job.kill_running()


@scenario("trigger.interval_is_kept_over_a_restart")
def interval_after_restart():
    with Place("interval") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2, options=("--interval", "0.5"))
        wait_for_versions(place, job, 1)
        job.kill_running()
        had = len(place.versions())
        wait_for_versions(place, place.restart("openmpi", 2), had + 1)


def request_while_restarting(mpi, ranks):
    """Requests from the first moment of a restart on: each is refused or succeeds, and the run continues."""
    name = f"{'plain' if mpi == 'none' else mpi}/{'plain' if mpi == 'none' else 'torture'}"
    with Place("early") as place:
        arguments = ("--steps", "60", "--pace", "20000")
        reference = native(place, name, arguments, mpi, ranks)
        job = place.run(name, arguments, mpi, ranks)
        job.wait_for_step(5)
        take_checkpoint(place, job)
        for _ in range(5):
            job.kill_running()
            job = place.restart(mpi, ranks)
            end = time.monotonic() + PATIENCE
            while place.checkpoint()[0] != 0:
                job.must_run()
                expect(time.monotonic() < end, f"no checkpoint for {PATIENCE:.0f} s after a restart: {job.output()}")
        job.finish()
        check_results(job, reference, ranks)


for _mpi, _ranks in (("none", 1), ("openmpi", 2), ("mpich", 2)):
    scenario(f"trigger.{_mpi}.request_while_restarting_does_no_harm")(
        lambda m=_mpi, r=_ranks: request_while_restarting(m, r))


# A Python program that sleeps for that many seconds: longer than the automatic interval, which is 10 s at least.
SLEEPS = "import os, sys, time\nend = time.monotonic() + float(sys.argv[1])\n{}while time.monotonic() < end: time.sleep(0.02)\nprint('done')"


def sleeper(place, seconds, options=(), before="", environment=None):
    words = ["/usr/bin/python3", "-u", "-c", SLEEPS.format(before), str(seconds)]
    return place.start([tool("cropdl-run"), "--dir", place.store, *options, "--"] + words, environment=environment)


@scenario("trigger.interval_0_takes_no_automatic_version")
def unasked():
    with Place("unasked") as place:
        job = sleeper(place, 14, ("--interval", "0"))
        job.finish()
        expect(not place.versions(), f"versions {place.versions()} that nobody requested")
        expect(job.output() == "done\n", job.output())


@scenario("trigger.default_interval_takes_versions_automatically")
def by_default():
    """Also after a restart. The interval depends on the cost of a checkpoint, which may take a hundredth of the time: half a second on a
    busy machine."""
    with Place("default") as place:
        job = sleeper(place, 6000)
        wait_for_versions(place, job, 1, 100)
        wait_for_output(job, "cropdl: a version every ")
        seconds = time.time() - job.started
        expect(seconds > 10, f"a version after {seconds:.1f} s")
        job.kill_running()
        had = len(place.versions())
        job = place.restart(alone=True)
        wait_for_versions(place, job, had + 1, 100)
        wait_for_output(job, "cropdl: a version every ")
        expect(len(job.output().splitlines()) == 2, job.output())
        job.kill_running()


@scenario("trigger.mtbf_and_overhead_decide_the_interval")
def policy_options():
    """The line about the interval names the option that decides; a restart keeps what it is not told anew."""
    with Place("options") as place:
        job = None
        for options, why in ((("--interval", "auto", "--mtbf", "12h", "--max-overhead", "50"), "failures come every 12 h (--mtbf)"),
                             ((), "failures come every 12 h (--mtbf)"), (("--max-overhead", "0.001"), "0.001 % may be lost (--max-overhead)"),
                             (("--mtbf", "0", "--max-overhead", "100"), "10 s is the shortest interval")):
            if job is None:
                job = place.run("plain/plain", LONG, options=options)
                job.wait_for_step(3)
            else:
                job.kill_running()
                job = place.restart(options=options)
                job.wait_for_step(Log(job.log).last_step() + 3)
            take_checkpoint(place, job)
            wait_for_output(job, "cropdl: a version every ")
            said = [line for line in job.output().splitlines() if "a version every" in line]
            expect(len(said) == 1 and said[0].endswith(f", and {why}"), f"{options}: {said}")


@scenario("trigger.default_interval_does_not_disturb_a_refused_program")
def refuses_by_default():
    with Place("refuses") as place:
        job = sleeper(place, 14, before="pipe = os.pipe()\n")
        job.finish()
        lines = job.output().splitlines()
        expect(len(lines) == 2 and re.fullmatch(r"cropdl: checkpoint refused: rank 0: a pipe \(descriptor \d+\) cannot be saved yet",
                                                lines[0]) and lines[1] == "done", job.output())
        expect(not place.versions(), f"{place.versions()}")


@scenario("trigger.interval_0_at_a_restart_replaces_the_saved_interval")
def interval_0_at_restart():
    with Place("interval") as place:
        job = place.run("plain/plain", ("--steps", "2000", "--pace", "10000"), options=("--interval", "0.3"))
        wait_for_versions(place, job, 1)
        job.kill_running()
        for options in (("--interval", "0"), ()):  # and is kept over a restart
            had = place.versions()
            job = place.restart(options=options)
            job.wait_for_step(Log(job.log).last_step() + 3)
            time.sleep(2)
            expect(place.versions() == had, f"{had}, then {place.versions()}")
            if options:
                take_checkpoint(place, job)
            job.kill_running()


@scenario("trigger.checkpoint_of_a_dead_job_fails_within_5_s")
def dead_job():
    with Place("dead") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2)
        job.wait_for_step(3)
        job.kill_running()
        status, text, seconds = place.checkpoint()
        expect(status != 0 and seconds < 5, f"status {status} after {seconds:.1f} s")
        one_line(text)
        status, text, seconds = place.ask([tool("cropdl"), "checkpoint", place.path("nowhere")])
        expect(status != 0 and seconds < 5 and "nowhere" in one_line(text), f"{status} after {seconds:.1f} s: {text}")


@scenario("trigger.two_requests_at_once_both_return")
def two_requests():
    with Place("two") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2)
        job.wait_for_step(5)
        asked = [subprocess.Popen([tool("cropdl"), "checkpoint", place.store], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for _ in range(2)]
        results = [(one.communicate(timeout=60)[0], one.returncode) for one in asked]
        expect(any(status == 0 for _, status in results), f"neither succeeded: {results}")
        for text, status in results:
            one_line(without_waiting(text))
        expect(place.versions(), "no version")
        job.kill_running()


def wait_for_collective(job):
    """Until rank 0 has entered the collective, and rank 1 waits for the file before it does."""
    end = time.monotonic() + PATIENCE
    while [log.at for log in logs_of(job.log, 2)] != ["begun", "waits"]:
        expect(job.alive() and time.monotonic() < end, f"does not reach its collective: {job.output()}")
        time.sleep(0.01)


def says_what_it_waits_for(place, job, file):
    """Rank 0 has entered a collective; rank 1 enters it only after the command has printed that it waits for it, which makes the file."""
    wait_for_collective(job)
    asked = subprocess.Popen([tool("cropdl"), "checkpoint", place.store], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    try:
        # Only the time limit of the first attempt, which is printed, ends the wait.
        ready, _, _ = select.select([asked.stderr], [], [], PATIENCE)
        said = asked.stderr.readline() if ready else ""
        expect(re.fullmatch(r"cropdl: waiting for \d+ s: rank 1 has not reached a collective that rank 0 has begun "
                            r"\(it computes, or waits\)\n", said), f"`cropdl checkpoint` said while it waited: {said!r}")
        open(file, "w").close()
        text, rest = asked.communicate(timeout=PATIENCE)
    finally:
        asked.kill()
        asked.wait()
    expect(asked.returncode == 0 and re.fullmatch(r"version 1: \d+ bytes, stall [\d.]+ s\n", text), f"{asked.returncode}: {text!r}")
    expect(not without_waiting(rest), f"said besides: {rest!r}")


def waits_for_a_barrier(mpi):
    with Place("waits") as place:
        file = place.path("now")
        job = place.run(f"{mpi}/begun_early", (file, "--steps", "8", "--pace", "1000"), mpi, 2)
        says_what_it_waits_for(place, job, file)
        job.finish()
        for log in logs_of(job.log, 2):
            check_whole(log)


for _mpi in ("openmpi", "mpich"):
    scenario(f"trigger.{_mpi}.waiting_checkpoint_names_what_it_waits_for")(lambda m=_mpi: waits_for_a_barrier(m))


# --- Metrics -----------------------------------------------------------------------------------------------------

def samples(path):
    """({name: (type, value)}, labels) of a file in Prometheus' text format; None while the file is missing."""
    try:
        with open(path) as f:
            text = f.read()
    except FileNotFoundError:
        return None, None
    types, found, labels = {}, {}, set()
    expect(text.endswith("\n"), f"half a file: {text!r}")
    helped = set()
    for line in text.splitlines():
        words = line.split(" ", 3)
        if words[:2] == ["#", "HELP"]:
            helped.add(words[2])
        elif words[:2] == ["#", "TYPE"]:
            types[words[2]] = words[3]
        else:
            sample = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} (\S+)', line)
            expect(sample and sample.group(1) in types and sample.group(1) in helped and sample.group(1) not in found, f"not a sample: {line!r}")
            found[sample.group(1)] = types[sample.group(1)], float(sample.group(3))
            labels.add(sample.group(2))
    expect(len(labels) == 1 and types.keys() == found.keys(), f"{labels} {types}")
    return found, labels.pop()


def wait_for_samples(path, job, condition, what):
    end = time.monotonic() + PATIENCE
    while True:
        alive = job.alive()
        found, labels = samples(path)
        if found and condition(found):
            return found, labels
        expect(alive and time.monotonic() < end, f"{what}: {found} {job.output()}")
        time.sleep(0.02)


@scenario("metrics.openmpi.match_the_documents_during_and_after_a_job")
def metrics_of_job():
    with open(os.path.join(SOURCE, "docs", "cli.md")) as f:
        listed = dict(re.findall(r"^\| `(cropdl_\w+)` \| (\w+) \|", f.read(), re.MULTILINE))
    with Place("metrics") as place:
        file = place.path("job.prom")
        job = place.run("openmpi/loops", ("--shape", "plain", "--steps", "300", "--pace", "20000"), "openmpi", 2,
                        options=("--interval", "1", "--metrics", "job.prom"))  # a path relative to the current directory
        found, _ = wait_for_samples(file, job, lambda all: True, "no file")
        expect(found["cropdl_up"] == ("gauge", 1), f"{found}")
        found, labels = wait_for_samples(file, job, lambda all: all["cropdl_versions_total"][1] >= 2 and "cropdl_iteration_seconds" in all,
                                         "two versions")
        job.must_run()
        types = {name: kind for name, (kind, _) in found.items()}
        expect(types == listed, f"the program has {types}, docs/cli.md {listed}")
        told = {version["version"]: version for version in json.loads(place.ask([tool("cropdl"), "list", "--json", place.store])[1])["versions"]}
        value = {name: number for name, (_, number) in found.items()}
        version = told[int(value["cropdl_last_version"])]
        expect(value["cropdl_last_version_bytes"] == version["bytes"] and
               version["stall_seconds"] <= value["cropdl_last_version_stall_seconds"] <= value["cropdl_held_seconds_total"],
               f"{value} {version}")
        expect(labels == f'job="{version["job"]}",store="{place.store}"', labels)
        expect(abs(value["cropdl_last_version_timestamp_seconds"] - time.time()) < 30 and 0 <= value["cropdl_next_version_seconds"] <= 1.01, f"{value}")
        expect(value["cropdl_ranks"] == value["cropdl_ranks_joined"] == 2 and value["cropdl_failures_total"] == 0, f"{value}")
        lost = value["cropdl_held_seconds_total"] + value["cropdl_beside_seconds_total"]
        expect(abs(value["cropdl_overhead_ratio"] * value["cropdl_run_seconds"] - lost) < 1e-3 and
               value["cropdl_held_seconds_total"] > 0 and value["cropdl_beside_seconds_total"] > 0 and 0.01 < value["cropdl_iteration_seconds"] < 2, f"{value}")
        job.finish()
        found, _ = samples(file)
        expect(found["cropdl_up"] == ("gauge", 0) and "cropdl_next_version_seconds" not in found, f"{found}")
        expect(not os.path.exists(file + ".new"), "the temporary file stays")
        check_whole(Log(job.log))


@scenario("metrics.openmpi.written_after_a_restart_and_with_preload")
def metrics_of_restart():
    with Place("metrics") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2, preload=True, environment={"CROPDL_METRICS": place.path("first.prom")})
        job.wait_for_step(5)
        take_checkpoint(place, job)
        found, _ = wait_for_samples(place.path("first.prom"), job, lambda all: all["cropdl_versions_total"][1] == 1, "one version")
        expect(found["cropdl_ranks"][1] == 2 and "cropdl_next_version_seconds" not in found, f"{found}")
        job.kill_running()
        job = place.restart(alone=True, options=("--metrics", "second.prom"))
        job.wait_for_step(Log(job.log).last_step() + 3)
        take_checkpoint(place, job)
        found, _ = wait_for_samples(place.path("second.prom"), job, lambda all: all["cropdl_versions_total"][1] == 1, "one version")
        expect(found["cropdl_last_version"][1] == 2, f"{found}")
        job.kill_running()


@scenario("metrics.unwritable_file_prints_one_line")
def metrics_not_written():
    with Place("metrics") as place:
        job = place.run("plain/plain", ("--steps", "200", "--pace", "10000"),
                        options=("--interval", "0.3", "--metrics", place.path("nowhere/job.prom")))
        wait_for_versions(place, job, 2)
        job.finish()
        check_whole(Log(job.log))
        expect(job.output() == f"cropdl: --metrics {place.path('nowhere/job.prom')}: cannot be written: No such file or directory; "
               "the program runs on\n", job.output())


@scenario("metrics.of_a_program_that_refuses")
def metrics_of_refused():
    with Place("metrics") as place:
        job = place.run("plain/refused", ("pipe",) + LONG, options=("--metrics", place.path("job.prom")))
        job.wait_for_step(5)
        expect(place.checkpoint()[0] != 0, "was not refused")
        found, _ = wait_for_samples(place.path("job.prom"), job, lambda all: all["cropdl_failures_total"][1] == 1, "one failure")
        expect("cropdl_last_version" not in found and found["cropdl_versions_total"][1] == 0, f"{found}")
        job.kill_running()


# --- What scripts rely on (docs/cli.md) ----------------------------------------------------------------------------

def documented():
    """{object: {member: type}} of docs/cli.md."""
    with open(os.path.join(SOURCE, "docs", "cli.md")) as f:
        sections = f.read().partition("## JSON")[2].split("\n### ")[1:]
    return {section.split("\n")[0]: dict(re.findall(r"^\| `(\w+)` \| ([a-z ]+) \|", section, re.MULTILINE)) for section in sections}


def documented_statuses():
    """The exit statuses of `cropdl` and of cropdl-run and cropdl-restart: the same in docs/cli.md, README.md, the manual pages and the code."""
    def text_of(*path):
        with open(os.path.join(SOURCE, *path)) as f:
            return f.read()

    def of_table(text, head):
        """{column: statuses that have a text in it}"""
        columns = [cell.strip() for cell in head.split("|")[2:-1]]
        rows = re.findall(r"^\| (\d+) \|(.*)\|$", text.partition(head)[2].partition("\n\n")[0], re.MULTILINE)
        return {column: {int(status) for status, cells in rows if cells.split("|")[at].strip()} for at, column in enumerate(columns)}

    def of_page(name):
        section = text_of("docs", "man", name + ".1.in").partition(".SH EXIT STATUS")[2].partition(".SH")[0]
        return set(map(int, re.findall(r"^\.B (\d+)$", section, re.MULTILINE)))

    found = of_table(text_of("docs", "cli.md"), "| status | `cropdl` | `cropdl-run`, `cropdl-restart` |")
    cropdl, run = found["`cropdl`"], found["`cropdl-run`, `cropdl-restart`"]
    readme = of_table(text_of("README.md"), "| exit status | of `cropdl-run`, `cropdl-restart` | of `cropdl` |")
    expect(list(readme.values()) == [run, cropdl], f"README.md has {readme}, docs/cli.md {found}")
    for name, statuses in (("cropdl", cropdl | run), ("cropdl-run", run - {0}), ("cropdl-restart", run - {0})):  # 0 is the program's own
        expect(of_page(name) == statuses, f"{name}.1 has {of_page(name)}, docs/cli.md {found}")
    code = {name: int(value) for path in (("restart", "cli", "commands.h"), ("coord", "last_version.h"))
            for name, value in re.findall(r"^inline constexpr int (k\w+) = (\d+);", text_of(*path), re.MULTILINE)}
    last = code.pop("kTryAgainLater")
    expect(set(code.values()) == cropdl and cropdl | {last} == run, f"the code has {code} and {last}, docs/cli.md {found}")
    return cropdl, run


def check_documented(objects, seen, kind, value, where):
    """The value has that type of docs/cli.md, and exactly the documented members. `seen` collects the objects found."""
    if kind.endswith(" or null"):
        if value is None:
            return
        kind = kind.removesuffix(" or null")
    simple = {"integer": int, "number": (int, float), "string": str, "boolean": bool}
    if kind in simple:
        expect(isinstance(value, simple[kind]) and isinstance(value, bool) == (kind == "boolean"), f"{where} is no {kind}: {value!r}")
    elif kind.startswith("list of "):
        expect(isinstance(value, list), f"{where} is no list: {value!r}")
        for one in value:
            check_documented(objects, seen, kind.removeprefix("list of "), one, where + "[]")
    else:
        expect(kind in objects, f"docs/cli.md has no {kind}")
        expect(isinstance(value, dict) and value.keys() == objects[kind].keys(),
               f"{where}: the program has {sorted(value)}, docs/cli.md {sorted(objects[kind])}")
        seen.add(kind)
        for member, of in objects[kind].items():
            check_documented(objects, seen, of, value[member], f"{where}.{member}")


def check_inspection(place, told, version):
    """`cropdl inspect --json` on tests/apps/plain/memory.c: the parts add up to the image, and match that program."""
    (image,) = told["images"]
    on_disk = os.path.getsize(place.version_path(version["version"], "rank-0.img"))
    stored, in_file = (sum(one[which] for one in told["memory"]) for which in ("stored", "in_file"))
    expect(on_disk == image["bytes"] == version["bytes"] == told["version"]["bytes"], f"{on_disk} bytes on the disk: {image}")
    expect(stored == in_file == image["memory"] == image["in_file"] == version["memory"], f"{stored} bytes of memory, {in_file} in the file: {image}")
    expect(image["memory"] + image["index"] + image["metadata"] + image["frame"] == on_disk, f"does not add up: {image}")
    for one in told["memory"]:
        expect(one["stored"] + one["by_reference"] + one["zero"] == one["address_space"], f"does not add up: {one}")
    stages = version["stages"]
    # "writing" is the rest of the stall.
    expect(0 < stages["stopping"] and 0 < stages["draining"] and stages["stopping"] + stages["draining"] < version["stall_seconds"] and
           0 <= stages["syncing"] < stages["writing"] < version["stall_seconds"], f"{version}")
    by_use = {}
    for one in told["memory"]:
        by_use.setdefault(one["use"], []).append(one)
    (heap,), (stacks,), (program,) = by_use["heap"], by_use["stacks"], by_use["program"]
    expect(heap["stored"] >= 64 * 4096 and stacks["stored"] > 0, f"{heap} {stacks}")
    expect(program["name"] == app("plain/memory") and program["stored"] > 0, f"{program}")
    expect(any(re.search(r"/libc[.-]", one["name"]) for one in by_use["library"]), f"no C library: {by_use['library']}")
    expect(sum(one["zero"] for one in by_use["anonymous"]) > 1 << 29, f"its sparse gigabyte: {by_use['anonymous']}")
    log = [one for one in image["files"] if one["path"] == place.path("log")]
    expect(len(log) == 1 and log[0]["access"] != "r" and log[0]["offset"] > 0 and len(image["threads"]) == 1, f"{image}")


@scenario("command.json_and_exit_statuses_match_the_documents")
def json_as_documented():
    objects, seen = documented(), set()
    of_cropdl, of_run = documented_statuses()
    had_cropdl, had_run = set(), set()  # statuses with which the programs have ended
    cropdl = tool("cropdl")
    with Place("json") as place:
        def asked(command, *options, status=0):
            got, text, _ = place.ask([cropdl, command, "--json", place.store, *options])
            had_cropdl.add(got)
            expect(got == status and len(text.splitlines()) == 1, f"{command} ended with {got}: {text}")
            value = json.loads(text)
            if status == 0 or len(value) > 1:
                check_documented(objects, seen, command, value, command)
            expect((value.get("error") is None) == (status == 0), f"{command} ended with {got}: {text}")
            return value

        job = place.run("plain/memory", LONG)
        job.wait_for_step(3)
        for number in (1, 2):
            expect(asked("checkpoint")["version"] == number, "another version")
        running = asked("status")
        expect(running["job"]["pid"] in job.processes() and running["newest"]["version"] == 2 and running["job"]["last_version"] == 2,
               f"{running}")
        expect(asked("prune", "--keep", "1", "--dry-run")["removed"][0]["version"] == 1, "dry run")
        expect("is used by a running job" in asked("prune", "--keep", "1", status=1)["error"], "pruned while the job runs")
        watches = [subprocess.Popen([cropdl, "status", place.store, "--watch", *options], stdin=subprocess.DEVNULL, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for options in ((), ("0.1", "--json"))]
        try:
            shown = [watches[1].stdout.readline() for _ in range(3)]
            expect(watches[0].poll() is None, "ended while the job runs")
            job.kill_running()
            text, rest = [watch.communicate(timeout=PATIENCE)[0] for watch in watches]
            expect([watch.returncode for watch in watches] == [0, 0], f"{[watch.returncode for watch in watches]}: {text} {rest}")
        finally:
            for watch in watches:
                watch.kill()
                watch.wait()
        blocks = text.split("\n\n")
        expect(len(blocks) > 1 and "job:     running" in blocks[0] and "job:     not running" in blocks[-1] and "\x1b" not in text, text)
        for line in shown + rest.splitlines():
            check_documented(objects, seen, "status", json.loads(line), "status")
        expect(json.loads(shown[0])["job"] and json.loads(rest.splitlines()[-1])["job"] is None, f"{shown} {rest}")
        expect(asked("status")["job"] is None, "a dead job runs")
        newest = asked("list")["versions"][0]
        on_disk = os.path.getsize(place.version_path(2, "rank-0.img"))
        expect(newest["complete"] and newest["bytes"] == on_disk and newest["program"] == app("plain/memory"), f"{newest}")
        expect(asked("verify")["versions"][0]["bytes"] == on_disk, "another size")
        check_inspection(place, asked("inspect"), newest)
        expect(asked("inspect", "--version", "1", "--rank", "0")["version"]["version"] == 1, "not the version that was asked for")
        asked("inspect", "--rank", "1", status=1)
        for command, line in (("inspect", r"version 2 of .*, 1 rank without MPI"), ("status", r"ranks:   1 without MPI")):
            text = place.ask([cropdl, command, place.store])[1]
            expect(re.search(rf"^{line}$", text, re.MULTILINE), text)
        written = asked("report", "--output", place.path("page.html"))
        expect(written["bytes"] == os.path.getsize(place.path("page.html")) and written["complete"] == 2, f"{written}")
        asked("report", "--output", "-", status=2)
        written = asked("export", "--output", place.path("version.tar"))
        expect(written["bytes"] == os.path.getsize(place.path("version.tar")) and written["version"] == 2, f"{written}")
        asked("export", "--output", "-", status=2)
        expect(asked("import", place.path("version.tar"))["version"] == 3, "another version")
        shutil.rmtree(place.version_path(3))
        with open(place.version_path(2, "rank-0.img"), "r+b") as image:
            image.seek(4096)
            image.write(b"changed")
        expect("version 2, the newest that would stay, is damaged" in asked("prune", "--keep", "1", status=1)["error"] and
               place.versions() == [1, 2], "the only good version was removed")
        with open(place.version_path(1, "rank-0.img"), "r+b") as image:
            image.truncate(5000)
        expect([one["complete"] for one in asked("list")["versions"]] == [True, False], "the damaged one is complete")
        expect([one["good"] for one in asked("verify", status=1)["versions"]] == [False, False], "damage was not found")
        asked("verify", "--version", "7", status=1)
        asked("checkpoint", status=1)
        asked("list", "--frobnicate", status=2)
        expect(asked("prune", "--keep", "1")["damaged"] == [1], "a damaged version was removed, or is not reported")
        asked("prune", status=2)
        # All versions are of this hour and day.
        expect(len(asked("prune", "--keep", "1,24h,7d", "--dry-run")["kept"]) == 1 == len(asked("prune", "--hourly", "2", "--daily", "2", "--dry-run")["kept"]),
               "an hour and a day with several versions keep one")
        for wrong in ("1,24", "24h", "1,7d,24h", "0", "1,h"):
            expect("says no number of versions" in asked("prune", "--keep", wrong, status=2)["error"], f"--keep {wrong} was taken")
        place.store = place.path("nowhere")
        for command, *options in (("list",), ("status",), ("verify",), ("inspect",), ("checkpoint",), ("report",), ("export", "--output", "version.tar")):
            expect(place.path("nowhere") in asked(command, *options, status=1)["error"], "does not say where")
        fine, bad = ([cropdl, "doctor", "--json", "--dir", place.path("new"), app(f"plain/{name}")] for name in ("plain", "plain_static"))
        for command, status in ((fine, 0), (bad, 1)):
            got, text, _ = place.ask(command)
            expect(got == status, f"{command} ended with {got}: {text}")
            check_documented(objects, seen, "doctor", json.loads(text), "doctor")
        expect("static" in json.loads(text)["error"] and not os.path.exists(place.path("new")), text)
        place.store = place.path("loop")
        job = place.run("openmpi/loops", ("--steps", "100000", "--pace", "8000"), "openmpi", 2, log=place.path("loop-log"))
        job.wait_for_step(8)
        done, end = Log(job.log).last_step(), time.monotonic() + PATIENCE
        while (live := asked("status")["job"])["iteration_seconds"] is None or live["iteration"] < done:
            job.must_run()
            expect(time.monotonic() < end, f"not at iteration {done}: {live}")
        expect(live["iteration"] <= Log(job.log).last_step() + 1 and 0.005 < live["iteration_seconds"] < 2, f"{live}")
        text = place.ask([cropdl, "status", place.store])[1]
        expect(re.search(r"^ +iteration \d+, [0-9.e+-]+ s each$", text, re.MULTILINE), text)
        asked("checkpoint", "--last")
        had_run.add(job.process.wait(timeout=PATIENCE))
        expect(asked("inspect")["images"][1]["iteration"], "no call of an iteration")
        place.store = place.path("nowhere")
        listed = place.ask([cropdl, "--help"])[1].partition("Subcommands:")[2].partition("\n\n")[0]
        commands = re.findall(r"^  (\w+) ", listed, re.MULTILINE)
        expect(commands[:2] == ["run", "restart"], f"the commands that become other programs: {commands}")
        commands = commands[2:]
        expect(len(commands) > 5 and all(command in objects and "--json" in place.ask([cropdl, command, "--help"])[1] for command in commands),
               f"not all of {commands} have --json and stand in docs/cli.md")
        expect(seen == set(objects), f"docs/cli.md has {sorted(objects)}, the program {sorted(seen)}")
        for command, status in (([cropdl], 2), ([cropdl, "list"], 2), ([cropdl, "list", place.store], 1), ([cropdl, "--help"], 0),
                                ([tool("cropdl-run")], 2), ([tool("cropdl-run"), "--interval", "x", "ls"], 2),
                                ([tool("cropdl-run"), place.store], 1), ([tool("cropdl-restart")], 2),
                                ([tool("cropdl-restart"), place.store], 1), ([cropdl, "run"], 2), ([cropdl, "run", "--", "true"], 0),
                                ([cropdl, "restart"], 2), ([cropdl, "restart", place.store], 1)):
            got, text, _ = place.ask(command)
            expect(got == status, f"{command} ended with {got}: {text}")
            (had_cropdl if command[0] == cropdl and command[1:2] not in (["run"], ["restart"]) else had_run).add(got)
        expect(had_cropdl == of_cropdl, f"cropdl ended with {had_cropdl}, and the documents have {of_cropdl}")
        expect(had_run == of_run, f"cropdl-run and cropdl-restart ended with {had_run}, and the documents have {of_run}")


def options_of(command):
    """Long options listed by --help."""
    text = subprocess.run(command + ["--help"], check=True, capture_output=True, text=True).stdout
    return {name for names in re.findall(r"^  (-\S+)", text, re.MULTILINE) for name in names.split(",") if name.startswith("--")}


def completed(name, words):
    """bash's completions of the last word."""
    script = os.path.join(BUILD, "share/bash-completion/completions", name)
    program = f'source {script}; COMP_WORDS=({" ".join(words)} ""); COMP_CWORD={len(words) - 1}; _{name.replace("-", "_")}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-u", "-c", program], capture_output=True, text=True, cwd="/")
    expect(done.returncode == 0 and not done.stderr, f"completing {words}: {done.stderr}")
    return set(done.stdout.split())


def check_examples(name, in_manual):
    """--help has some of the manual page's examples, and all of these have options that there are."""
    text = subprocess.run([tool(name), "--help"], check=True, capture_output=True, text=True).stdout
    shown = re.findall(r"^  (.*)$", text.partition("\nExamples")[2], re.MULTILINE)
    expect(len(shown) > 1 and set(shown) <= set(in_manual), f"{name} --help has the examples {shown}, the manual {in_manual}")
    for example in in_manual:
        words = re.split(r" \./train| python3| \| ", example)[0].partition(name)[2].split()
        command = [tool(name)] + (words[:1] if name == "cropdl" else [])
        unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - options_of(command)
        expect(not unknown, f"{' '.join(command)} has no {unknown}: {example}")


@scenario("command.manual_pages_and_completions_have_every_option")
def pages():
    for name in ("cropdl", "cropdl-run", "cropdl-restart"):
        path = os.path.join(BUILD, "share/man/man1", f"{name}.1")
        with open(path) as f:
            text = f.read()
        commands = re.findall(r"^\.SS (\w+)", text, re.MULTILINE)
        all_options = options_of([tool(name)])
        expect(completed(name, [name, "--"]) == all_options, f"{name} --: {completed(name, [name, '--'])}, wanted {all_options}")
        if commands:
            expect(completed(name, [name, '""']) == set(commands), f"{name}: other commands, wanted {commands}")
        for command in commands:
            options = options_of([tool(name), command])
            # after `--`, options belong to the program
            offered = completed(name, [name, command, *(["DIR"] if command != "run" else []), "--"])
            expect(offered == options, f"{name} {command} DIR --: {offered}, wanted {options}")
            section = text.partition(f"\n.SS {command}\n")[2].partition("\n.S")[0]
            told = {one.replace("\\-", "-") for one in re.findall(r"\\fB(\\-\\-[a-z\\-]+)\\fR", section)}
            expect(told == options - {"--help"}, f"{name} {command} in the manual: {told}, wanted {options}")
        section = text.partition("\n.SH OPTIONS\n")[2].partition("\n.SH")[0]
        told = {one.replace("\\-", "-") for one in re.findall(r"\\fB(\\-\\-[a-z\\-]+)\\fR", section)}
        expect(told == all_options, f"{name} in the manual: {told}, wanted {all_options}")
        check_examples(name, text.partition("\n.SH EXAMPLES\n.EX\n")[2].partition("\n.EE")[0].replace("\\-", "-").splitlines())
        expect("@" not in text, f"{path}: a placeholder is left")
        done = subprocess.run(["groff", "-man", "-ww", "-z", path], capture_output=True, text=True)
        expect(done.returncode == 0 and not done.stderr, done.stderr)
    expect(completed("cropdl-restart", ["cropdl-restart", "--moved-variables", '""']) == {"accept"}, "the one word that there is")
    expect("bin" in completed("cropdl", ["cropdl", "list", "b"]), "no directories")
    expect("--epochs" not in completed("cropdl-run", ["cropdl-run", "--interval", "60", "./train", "--"]) and
           "--dir" not in completed("cropdl-run", ["cropdl-run", "--interval", "60", "./train", "--"]) and
           "--dir" not in completed("cropdl", ["cropdl", "run", "--interval", "60", "./train", "--"]), "the program's options are not ours")


# --- The store ---------------------------------------------------------------------------------------------------

def made_store(place, versions=2, program="plain/memory"):
    """A store with versions of a one-rank program, which was killed."""
    job = place.run(program, LONG)
    job.wait_for_step(3)
    for _ in range(versions):
        take_checkpoint(place, job)
        job.wait_for_step(Log(job.log).last_step() + 2)
    job.kill_running()
    return job


class Page(html.parser.HTMLParser):
    """Parser of a page of `cropdl report`: every element is closed in order. Collects the texts of headings and cells, and the titles in
    each plot."""

    def __init__(self, text):
        super().__init__()
        self.open, self.count, self.texts, self.plots = [], {}, {"h1": [], "td": [], "th": [], "b": [], "dd": []}, []
        self.feed(text)
        self.close()
        expect(not self.open, f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        expect(not any(name.startswith("on") or name in ("src", "href", "xlink:href") for name, _ in attributes), f"{tag}: {attributes}")
        if tag == "meta":
            return
        self.open.append(tag)
        if tag == "svg":
            self.plots.append([])
        if tag == "title" and "svg" in self.open:
            self.plots[-1].append("")
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_startendtag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        expect(self.open and self.open[-1] == tag, f"</{tag}> where {self.open} is open")
        self.open.pop()

    def handle_data(self, data):
        for tag in self.texts:
            if tag in self.open:
                self.texts[tag][-1] += data
        if self.open and self.open[-1] == "title" and "svg" in self.open:
            self.plots[-1][-1] += data


def amount(size):
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.95:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def reported(place):
    """The parsed page of the store, and its text."""
    status, text, _ = place.ask([tool("cropdl"), "report", place.store])
    expect(status == 0, f"{status}: {text}")
    with open(place.path("cropdl-report.html")) as f:
        text = f.read()
    page = Page(text)
    expect("http" not in text and "@import" not in text and "url(" not in text, "the page may need something else")
    expect(len(text) < 1_000_000 and page.count["script"] == page.count["h1"] == 1, f"{len(text)} bytes, {page.count}")
    return page, text


def table_of(page):
    heads, cells = page.texts["th"], page.texts["td"]
    return [dict(zip(heads, cells[at:at + len(heads)])) for at in range(0, len(cells), len(heads))]


@scenario("report.matches_the_manifests")
def report_shows():
    with Place("report") as place:
        made_store(place, 2)
        before = fingerprint(place.store)
        page, _ = reported(place)
        told = json.loads(place.ask([tool("cropdl"), "list", "--json", place.store])[1])["versions"]
        rows = table_of(page)
        expect([row["Version"] for row in rows] == ["2", "1"], f"{rows}")
        for row, version in zip(rows, told):
            expect(row["Created"] == version["created"] and row["Stored"] == amount(version["bytes"]) and row["State"] == "complete" and
                   row["Memory"] == amount(version["memory"]) and row["Ranks"] == "1" and row["Iteration"] == "-", f"{row}: {version}")
        expect(page.texts["h1"] == ["memory"] and page.texts["b"][:2] == ["2", amount(sum(one["bytes"] for one in told))], f"{page.texts}")
        expect(any(app("plain/memory") in text for text in page.texts["dd"]), f"{page.texts['dd']}")
        expect(len(page.plots) in (2, 3), f"{len(page.plots)} plots")  # no plot of iterations, which the program does not have
        for output in ("store/page.html", place.path("store/v000001/page.html")):
            fails_in_one_line(place, [tool("cropdl"), "report", place.store, "--output", output], "lies in the store")
        fails_in_one_line(place, [tool("cropdl"), "report", place.store, "--output", place.path("nowhere/page.html")], "nowhere")
        with open(place.path("elsewhere"), "w") as f:
            f.write("kept")
        os.symlink("elsewhere", place.path("link.html"))
        fails_in_one_line(place, [tool("cropdl"), "report", place.store, "--output", place.path("link.html")], "is a symbolic link")
        with open(place.path("elsewhere")) as f:
            expect(f.read() == "kept", "the page was written through a link")
        expect(fingerprint(place.store) == before, "the store was changed")
        done = subprocess.run([tool("cropdl"), "report", place.store, "--output", "-"], capture_output=True, text=True, cwd=place.root)
        expect(done.returncode == 0 and not done.stderr and table_of(Page(done.stdout)) == rows, done.stderr)
        name = "/tmp/\"'><script>alert(1)</script><img src=x onerror=y>&amp;"
        for kind in ("manifest-program", "manifest-devices", "manifest-created"):
            forge("forge_version", place.version_path(2), kind, name)
        page, text = reported(place)
        expect(page.texts["h1"] == ["script><img src=x onerror=y>&amp;"] and name in page.texts["dd"] and "img" not in page.count, f"{page.texts}")
        expect(table_of(page)[0]["Created"] == name[:40] + "\u2026", f"{table_of(page)[0]}")
        with open(place.version_path(1, "manifest.json"), "w") as f:
            f.write("nothing")
        os.truncate(place.version_path(2, "rank-0.img"), 100)
        page, _ = reported(place)
        expect(all("damaged: " in row["State"] for row in table_of(page)) and table_of(page)[1]["Created"] == "-", f"{table_of(page)}")
        for version in (1, 2):
            shutil.rmtree(place.version_path(version))
        page, _ = reported(place)
        expect(page.texts["b"][0] == "0" and not page.plots and not page.texts["td"], f"{page.texts}")


@scenario("report.of_a_thousand_versions")
def report_of_many():
    with Place("many") as place:
        made_store(place, 1)
        lines, time_of = [], []
        for number in range(1, 1001):
            second = 1_790_000_000 + 60 * number + (7200 if number > 400 else 0) + (3600 if number > 700 else 0)
            time_of.append(second)
            iteration = 120 * number - (12000 if number > 700 else 0)  # the second restart goes back by 100 versions
            parent = 600 if number == 701 else number - 1
            created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
            size = 1_000_000 * (1000 + number)
            lines.append(f"{number} {parent} {int(number == 401)} {created} {iteration} {9 if number == 555 else 0.3} {size} {size - 5000}")
        with open(place.path("history"), "w") as f:
            f.write("\n".join(lines) + "\n")
        forge("forge_version", place.version_path(1), "history", place.path("history"))
        page, text = reported(place)
        rows = table_of(page)
        expect([row["Version"] for row in rows] == [str(number) for number in range(1000, 950, -1)], f"{rows[0]}")
        expect(rows[0]["Stored"] == "2.0 GB" and rows[0]["Iteration"] == str(120_000 - 12_000) and rows[0]["Stall"] == "300 ms", f"{rows[0]}")
        tiles = page.texts["b"]
        total = sum(1_000_000 * (1000 + number) for number in range(1, 1001))
        expect(tiles[0] == "1000" and tiles[1] == amount(total) and tiles[4] == "2" and tiles[5] == "108000", f"{tiles}")
        expect(len(page.plots) == 4, f"{len(page.plots)} plots")
        iterations, stalls = page.plots[:2]
        points = [one for one in iterations if one.startswith("version")]
        expect(50 < len(points) < 300 and all(": 500 ms per iteration (492 ms to 508 ms)" in one for one in points), f"{points[:3]}")
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_of[554]))
        expect(f"version 555, {moment}: 9 s stall" in stalls, "the one long stall was thinned out")
        for plot in page.plots:
            marks = [one for one in plot if one.startswith("restarted")]
            expect(marks == ["restarted from version 400, before version 401", "restarted from version 600, before version 701"], f"{marks}")
        print(f"{len(text)} bytes")


def fails_in_one_line(place, command, *words):
    status, text, _ = place.ask(command)
    expect(status != 0, f"succeeded: {' '.join(command)}: {text}")
    line = one_line(text)
    expect(all(word in line for word in words), f"the line does not say {words}: {line}")
    print(f"says: {line}")


@scenario("store.private_to_its_owner")
def private():
    with Place("private") as place:
        os.umask(0)
        made_store(place, 1)
        for directory, _, files in os.walk(place.store):
            mode = stat.S_IMODE(os.stat(directory).st_mode)
            expect(mode == 0o700, f"{directory} has mode {mode:o}")
            for name in files:
                path = os.path.join(directory, name)
                mode = stat.S_IMODE(os.lstat(path).st_mode)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    expect(mode == 0o600, f"{path} has mode {mode:o}")


@scenario("store.manifest_describes_the_run")
def manifest():
    with Place("manifest") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2)
        job.wait_for_step(3)
        version, _, _ = take_checkpoint(place, job)
        job.kill_running()
        with open(place.version_path(version, "manifest.json")) as f:
            told = json.dumps(json.load(f))
        for words in (["torture"], ["--pace"], ["openmpi"], ["glibc"], ["kernel"], ["mpirun", "orterun"]):
            expect(any(word in told for word in words), f"the manifest does not mention {words}: {told[:600]}")
        expect(not re.search(r"\\u00[01]", told), f"control characters: {told[:600]}")


@scenario("store.restart_falls_back_past_a_damaged_version_and_says_so")
def falls_back():
    with Place("fallback") as place:
        reference = native(place, "plain/memory", ("--steps", "60", "--pace", "20000"))
        job = place.run("plain/memory", ("--steps", "60", "--pace", "20000"))
        job.wait_for_step(5)
        first, _, bounds = take_checkpoint(place, job)
        job.wait_for_step(20)
        second, _, _ = take_checkpoint(place, job)
        job.kill_running()
        before = Log(job.log)
        image = place.version_path(second, "rank-0.img")
        size = os.path.getsize(image)
        with open(image, "r+b") as f:
            f.seek(size // 2)
            byte = f.read(1)
            f.seek(size // 2)
            f.write(bytes([byte[0] ^ 1]))
        job = place.restart()
        job.finish()
        expect(str(second) in job.output(), f"says nothing of version {second}: {job.output()}")
        check_continued(before, Log(job.log), job.started, *bounds[job.log])
        check_whole(Log(job.log))
        expect(Log(job.log).digest == reference[0].digest, "DIFFERENT")


@scenario("store.restart_uses_the_named_version")
def named_version():
    with Place("named") as place:
        job = place.run("plain/memory", MIDDLE)
        job.wait_for_step(3)
        first, _, bounds = take_checkpoint(place, job)
        job.wait_for_step(20)
        take_checkpoint(place, job)
        job.kill_running()
        before = Log(job.log)
        job = place.restart(options=("--version", str(first)))
        job.finish()
        check_continued(before, Log(job.log), job.started, *bounds[job.log])


@scenario("store.version_of_a_build_without_libraries_restarts")
def without_libraries():
    """A build without a CUDA toolkit has no library for programs without MPI, and makes no persistent heap for them."""
    with Place("heap") as place:
        job = place.run("plain/memory", MIDDLE)
        job.wait_for_step(3)
        version, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        before = Log(job.log)
        forge("forge_memory", place.version_path(version), "0", "heap")
        job = place.restart()
        job.finish()
        check_continued(before, Log(job.log), job.started, *bounds[job.log])


@scenario("bad_input.no_such_directory")
def no_directory():
    with Place("nodir") as place:
        fails_in_one_line(place, [tool("cropdl-restart"), place.path("nowhere")], "nowhere")
        fails_in_one_line(place, [tool("cropdl"), "list", place.path("nowhere")], "nowhere")


@scenario("bad_input.empty_store")
def empty_store():
    with Place("empty") as place:
        os.mkdir(place.path("empty"), 0o700)
        fails_in_one_line(place, [tool("cropdl-restart"), place.path("empty")], "empty")


@scenario("bad_input.missing_version")
def no_version():
    with Place("nover") as place:
        made_store(place, 1)
        fails_in_one_line(place, [tool("cropdl-restart"), "--version", "999", place.store], "999")


@scenario("bad_input.every_version_damaged")
def all_damaged():
    with Place("damaged") as place:
        made_store(place, 1)
        image = place.version_path(place.versions()[0], "rank-0.img")
        with open(image, "r+b") as f:
            f.truncate(os.path.getsize(image) // 2)
        listing = sorted(os.listdir(place.store))
        status, text, _ = place.ask([tool("cropdl-restart"), place.store])
        expect(status != 0 and "rank-0.img" in text, f"{status}: {text}")
        expect(len(text.splitlines()) <= 3, f"too many lines: {text}")
        expect(listing == sorted(os.listdir(place.store)), "something was removed from the store")


def wrong_ranks(mpi):
    with Place("ranks") as place:
        job = place.run(f"{mpi}/torture", LONG, mpi, 2)
        job.wait_for_step(3)
        take_checkpoint(place, job)
        job.kill_running()
        status, text, _ = place.ask(launcher(mpi, 3) + [tool("cropdl-restart"), place.store])
        expect(status != 0, f"restarted with 3 ranks what had 2: {text}")
        said = [line for line in text.splitlines() if "2" in line and "3" in line and "rank" in line]
        expect(said, f"no line says that 2 ranks are needed and 3 were started: {text}")
        expect(place.versions(), "the version is gone")


for _mpi in ("openmpi", "mpich"):
    scenario(f"bad_input.{_mpi}.wrong_number_of_ranks")(lambda m=_mpi: wrong_ranks(m))


@scenario("bad_input.store_of_another_job_is_not_mixed")
def another_job():
    with Place("mixed") as place:
        made_store(place, 1)
        before = sorted(os.walk(place.store))
        fails_in_one_line(place, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain"), "--steps", "1"], "store")
        expect(place.versions(), "the other job's version is gone")
        expect([w[0] for w in before if "/v" in w[0]] == [w[0] for w in sorted(os.walk(place.store)) if "/v" in w[0]],
               "the other job's versions changed")


@scenario("bad_input.directory_that_is_not_a_store")
def not_a_store():
    with Place("notours") as place:
        os.mkdir(place.store, 0o700)
        with open(os.path.join(place.store, "thesis.tex"), "w") as f:
            f.write("years of work")
        fails_in_one_line(place, [tool("cropdl-restart"), place.store], "store")
        expect(os.path.exists(os.path.join(place.store, "thesis.tex")), "a foreign file was removed")


@scenario("bad_input.second_live_job_in_one_directory")
def second_job():
    with Place("second") as place:
        job = place.run("plain/memory", LONG)
        job.wait_for_step(3)
        fails_in_one_line(place, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain"), "--steps", "1"])
        take_checkpoint(place, job)
        fails_in_one_line(place, [tool("cropdl-restart"), place.store])
        expect(job.alive(), "the first job ended")
        take_checkpoint(place, job)
        job.kill_running()


def without_privileges(command):
    """Without capabilities, file modes apply to root too. (Another user may have no access to the build directory.)"""
    return (["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []) + command


@scenario("bad_input.store_not_writable")
def not_writable():
    with Place("readonly") as place:
        os.mkdir(place.path("sealed"), 0o500)
        command = [tool("cropdl-run"), "--interval", "0", "--dir", place.path("sealed/store"), "--", app("plain/plain"), "--steps", "1"]
        fails_in_one_line(place, without_privileges(command), "sealed")


# --- A version that cannot be continued here, and a store that must stay as it is ----------------------------------

def fingerprint(directory):
    """Names, modes and contents of everything in the store, except the lock and the file with the running job's address."""
    told = {}
    for path, _, files in os.walk(directory):
        told[os.path.relpath(path, directory)] = stat.S_IMODE(os.stat(path).st_mode)
        for name in files:
            whole = os.path.join(path, name)
            if name in ("lock", "job"):
                continue
            with open(whole, "rb") as f:
                told[os.path.relpath(whole, directory)] = (stat.S_IMODE(os.fstat(f.fileno()).st_mode),
                                                           hashlib.sha256(f.read()).hexdigest())
    return told


def refused_here(place, command, *words, environment=None, lines=1):
    """The restart is refused with a nonzero status, one line that contains the words (the first of `lines`: one per version that was tried,
    plus the conclusion), and the store is unchanged."""
    before = fingerprint(place.store)
    status, text, _ = place.ask(command, environment=environment)
    expect(status != 0, f"restarted although it must be refused: {text}")
    said = [line for line in text.splitlines() if line.startswith("cropdl-restart: ")]
    expect(len(said) == lines, f"not {lines} of our lines: {text!r}")
    expect(len(command) > 2 or len(text.splitlines()) == lines, f"more than our lines: {text!r}")
    expect(all(word in said[0] for word in words), f"the line does not say {words}: {said[0]}")
    one_line(said[0])
    after = fingerprint(place.store)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    expect(not changed, f"the refused restart changed {changed}")
    print(f"says: {said[0]}")


def forged(kind, value, *words, lines=1, program="plain/memory", environment=None):
    """A version as another CropDL or another machine would have written it."""
    with Place("forged") as place:
        made_store(place, 1, program)
        forge("forge_version", place.version_path(place.versions()[0]), kind, value)
        refused_here(place, [tool("cropdl-restart"), place.store], *words, lines=lines, environment=environment)
        status, text, _ = place.ask([tool("cropdl"), "list", place.store])
        expect(not re.search("terminate|Segm", text) and text, f"`cropdl list`: {status}: {text}")


scenario("bad_input.image_of_a_newer_format")(lambda: forged("image-format", "77", "newer", "77", lines=2))
scenario("bad_input.image_of_a_newer_seam")(lambda: forged("image-seam", "77", "newer", "77", lines=2))
scenario("bad_input.manifest_of_a_newer_format")(lambda: forged("manifest-format", "77", "newer", "77"))
scenario("bad_input.manifest_of_a_newer_seam")(lambda: forged("manifest-seam", "77", "newer", "77"))
scenario("bad_input.manifest_of_an_older_seam")(lambda: forged("manifest-seam", "2", "older", "seam 2"))
scenario("bad_input.image_with_unknown_functions")(
    lambda: forged("image-functions", "100000", "newer", "100000", program="mpich/collectives"))
scenario("bad_input.cpu_feature_missing_here")(lambda: forged("image-cpu-feature", "avx4096", "CPU", "avx4096"))
scenario("bad_input.image_of_a_cpu_with_other_vector_registers")(
    lambda: forged("image-vector-bytes", "1000", "vector registers", "1000 there"))
# The lower half there used the FSGSBASE instructions.
scenario("bad_input.image_needs_missing_fsgsbase")(
    lambda: forged("image-without", "knows_fsgsbase", "CPU", "fsgsbase", environment={"CROPDL_NO_FSGSBASE": "1"}))


@scenario("bad_input.address_window_is_taken")
def window_taken():
    with Place("window") as place:
        taker = {"LD_AUDIT": app("plain/window_taker.so")}
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain"), "--steps", "1"],
                                    environment=taker)
        expect(status != 0 and "410000000000" in one_line(text), f"{status}: {text}")
        expect(not place.versions(), "versions of a program that never ran")
        made_store(place, 1)
        refused_here(place, [tool("cropdl-restart"), place.store], "410000000000", environment=taker)


def only_under(mpi, other, program, *words):
    """Something that one MPI has and the other lacks: a restart under the other is refused."""
    with Place("onlyone") as place:
        arguments = ("--steps", "60", "--pace", "20000")
        reference = native(place, f"{mpi}/{program}", arguments, mpi, 2)
        job = place.run(f"{mpi}/{program}", arguments, mpi, 2)
        job.wait_for_step(5)
        take_checkpoint(place, job)
        job.kill_running()
        refused_here(place, launcher(other, 2) + [tool("cropdl-restart"), place.store], *words)
        job = place.restart(mpi, 2)  # the refusal lost nothing
        job.finish()
        check_results(job, reference, 2)


SCENARIOS["bad_input.function_that_the_other_mpi_lacks"] = lambda: only_under("mpich", "openmpi", "only_mpich", "mpich")
SCENARIOS["bad_input.tags_that_the_other_mpi_lacks"] = lambda: only_under(
    "openmpi", "mpich", "largest_tag", "tags went up to 2147483647 (MPI_TAG_UB), and under this one (mpich) they go up to 268435455")


@scenario("bad_input.restart_from_a_store_that_is_not_writable")
def restart_not_writable():
    with Place("sealed") as place:
        made_store(place, 1)
        command = [tool("cropdl-restart"), place.store]
        for path, _, files in os.walk(place.store):
            for name in files:
                os.chmod(os.path.join(path, name), 0o400)
            os.chmod(path, 0o500)
        refused_here(place, without_privileges(command), place.store)
        for path, _, _ in os.walk(place.store):
            os.chmod(path, 0o700)


@scenario("bad_input.disk_full_keeps_older_versions_and_the_program_running")
def disk_full():
    """The store is a small tmpfs in its own mount namespace (as root, or in a user namespace)."""
    name = "bad_input.disk_full_keeps_older_versions_and_the_program_running"
    if went_into_namespaces(name, "--mount"):
        return
    with Place("full") as place:
        os.mkdir(place.store, 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=700", "none", place.store], check=True)
        status, text, _ = place.ask([tool("cropdl"), "doctor", "--dir", place.store, app("plain/grow")])
        expect(status == 1 and re.search("^prevents +disk .*: only [0-9.]+ MB are free$", text, re.MULTILINE), f"{status}: {text}")
        job = place.run("plain/grow", ("--steps", "100", "--pace", "40000"))  # a megabyte more in each step
        job.wait_for_step(5)
        first, _, bounds = take_checkpoint(place, job)
        job.wait_for_step(60)  # the program now has far more memory than the store has room
        status, text, _ = place.checkpoint()
        expect(status != 0, f"succeeded: {text}")
        one_line(text)
        expect(place.versions() == [first], f"versions {place.versions()}, wanted {[first]}")
        step = Log(job.log).last_step()
        job.wait_for_step(step + 5)  # the program continues
        job.kill_running()
        before = Log(job.log)
        job = place.restart()
        job.finish()
        check_continued(before, Log(job.log), job.started, *bounds[job.log])
        check_whole(Log(job.log))


@scenario("store.leftovers_of_a_killed_writer_are_removed_at_the_next_start")
def leftovers():
    with Place("leftover") as place:
        job = place.run("plain/grow", ("--steps", "200", "--pace", "20000"), environment={"CROPDL_TRACE_PHASE": "1"})
        job.wait_for_step(5)
        take_checkpoint(place, job)
        job.wait_for_step(80)
        clean = {name for name in os.listdir(place.store) if os.path.isdir(os.path.join(place.store, name))}
        for _ in range(10):  # kill it while it writes
            asked = subprocess.Popen([tool("cropdl"), "checkpoint", place.store], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            end = time.monotonic() + 5
            while place.phase() not in ("writing", "publishing") and asked.poll() is None and time.monotonic() < end:
                pass
            job.kill_running()
            asked.wait()
            left = {name for name in os.listdir(place.store) if os.path.isdir(os.path.join(place.store, name))} - clean
            left = {name for name in left if not re.fullmatch(r"v\d{6}", name)}
            if left:
                status, text, _ = place.ask([tool("cropdl"), "prune", "--keep", "1000", "--dry-run", "--json", place.store])
                on_disk = sum(os.lstat(os.path.join(folder, name)).st_blocks for one in left
                              for folder, _, names in os.walk(os.path.join(place.store, one)) for name in (".", *names))
                expect(status == 0 and json.loads(text)["freed"] == json.loads(text)["leftovers"] == 512 * on_disk, text)
            job = place.restart(environment={"CROPDL_TRACE_PHASE": "1"})
            job.wait_for_step(Log(job.log).last_step() + 2)
            if left:
                now = set(os.listdir(place.store))
                expect(not left & now, f"still there: {left & now}")
                job.kill_running()
                return
        raise Failure("never killed while it wrote")


# --- At a terminal -----------------------------------------------------------------------------------------------

def at_terminal(place, options, steps=120, read=True, program="plain/plain", output="program-output"):
    """Runs a job whose standard error is a terminal and whose standard output goes to the file `output`, or to the terminal if that is "".
    Returns what it wrote to the terminal, read until the job has ended; read=False: never read, so that the terminal's buffer fills up."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.root)
        os.closerange(3, 1024)  # the program shall not inherit descriptors of the test
        termios.tcsetwinsize(2, (24, 120))  # wide enough for the whole line
        os.set_blocking(2, read)
        while not read:
            try:
                os.write(2, b" " * 1000)
            except BlockingIOError:
                os.set_blocking(2, True)
                break
        if output:
            os.dup2(os.open(place.path(output), os.O_WRONLY | os.O_CREAT, 0o644), 1)
        os.execv(tool("cropdl-run"), ["cropdl-run", "--dir", place.store, *options, "--", app(program), "--steps", str(steps),
                                      "--pace", str(20000 * Job.slower), "--log", place.path("log")])
    text, status = b"", None
    try:
        while read:
            try:
                got = os.read(terminal, 4096)
            except OSError:  # EIO: the last writer has closed the terminal
                break
            if not got:
                break
            text += got
        status = os.waitpid(pid, 0)[1]
        expect(os.waitstatus_to_exitcode(status) == 0, text.decode())
    finally:
        os.close(terminal)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return text.decode()


@scenario("command.terminal_line_shows_progress")
def progress_line():
    with Place("terminal") as place:
        text = at_terminal(place, ("--interval", "0.5"))
        line = r"\r\x1b\[Kcropdl: version \d+ [0-9.e+-]+ s ago \([0-9.]+ [kMG]?B of [0-9.]+ [kMG]?B\), overhead [0-9.]+ %, next in [0-9.e+-]+ s\r"
        if len(place.versions()) < 2:
            too_late("the program ended before there was something to say of its versions")
        expect(re.search(line, text), f"{text!r}")
        expect(text.endswith("\r\x1b[K"), f"the line was left: {text!r}")
        with open(place.path("program-output")) as f:
            expect("cropdl" not in f.read(), "it went to the program's output")
    with Place("iterations") as place:
        text = at_terminal(place, ("--interval", "0.5"), program="openmpi/loops")
        if len(place.versions()) < 2:
            too_late("the program ended before there was something to say of its iterations")
        expect(re.search(r"\r\x1b\[Kcropdl: iteration \d+ \([0-9.e+-]+ s each\), version \d+ ", text), f"{text!r}")
    with Place("shared") as place:
        text = at_terminal(place, ("--interval", "0.5"), output="")
        expect(text == "", f"disturbs the program's output: {text!r}")
        if not place.versions():
            too_late("the program ended before its first version")


@scenario("command.quiet_job_prints_nothing_to_a_terminal")
def quiet():
    with Place("quiet") as place:
        text = at_terminal(place, ("--quiet", "--interval", "0.5"))
        expect(text == "", f"{text!r}")
        if not place.versions():
            too_late("the program ended before its first version")
    for words, how in ((("plain/plain", LONG), {"options": ("--quiet", "--interval", "auto")}),
                       (("openmpi/torture", LONG, "openmpi", 2), {"preload": True, "environment": {"CROPDL_QUIET": "1", "CROPDL_INTERVAL": "auto"}})):
        with Place("decisions") as place:
            job = place.run(*words, **how)
            job.wait_for_step(3)
            take_checkpoint(place, job)
            said = job.output()  # before the launcher's lines about the kill
            job.kill_running()
            again = place.restart(*words[2:], options=("--quiet",))
            again.wait_for_step(Log(again.log).last_step() + 3)
            take_checkpoint(place, again)
            expect(said + again.output() == "", f"{how}: {said!r} {again.output()!r}")


@scenario("command.status_watch_redraws_a_terminal")
def watch_at_terminal():
    """Each block replaces the one before, the last one is of the ended job; what cannot be written ends the command with status 1."""
    with Place("watch") as place:
        job = place.run("plain/plain", LONG)
        job.wait_for_step(3)
        take_checkpoint(place, job)
        command = [tool("cropdl"), "status", place.store, "--watch", "0.1"]
        pid, terminal = pty.fork()
        if pid == 0:
            os.closerange(3, 1024)
            os.execv(command[0], command)
        text, status, end = "", None, time.monotonic() + PATIENCE
        try:
            while True:
                expect(select.select([terminal], [], [], max(0, end - time.monotonic()))[0], f"says no more: {text!r}")
                try:
                    text += os.read(terminal, 4096).decode()
                except OSError:  # EIO: the command has ended
                    break
                if text.count("\x1b[H") > 3 and job.alive():
                    job.kill_running()
            status = os.waitpid(pid, 0)[1]
        finally:
            os.close(terminal)
            if status is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        expect(os.waitstatus_to_exitcode(status) == 0 and text.startswith("\x1b[2J\x1b[H") and text.endswith("\x1b[J"), f"{status} {text!r}")
        blocks = text.split("\x1b[H")[1:]
        expect(all(block.startswith("job:     running") for block in blocks[:-1]) and blocks[-1].startswith("job:     not running\x1b[K\r\n"), f"{blocks}")
        job = place.restart()
        job.wait_for_step(Log(job.log).last_step() + 3)
        try:
            with open("/dev/full", "w") as full:
                done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("goes on though nothing can be written")
        job.must_run()
        expect(done.returncode == 1 and done.stderr == "cropdl: standard output: cannot be written: No space left on device\n", f"{done}")


@scenario("command.json_log_has_one_object_per_line")
def log_of_json():
    """The lines of a job, of a restart that falls back to an older version, and of `cropdl`, have the fields of docs/cli.md."""
    with open(os.path.join(SOURCE, "docs", "cli.md")) as f:
        rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", f.read().partition("| field | meaning |")[2].partition("\n\n")[0], re.MULTILINE))
    always, seen = {field for field, meaning in rows.items() if "absent" not in meaning}, set()

    def read(line):
        value = json.loads(line)
        expect(always <= value.keys() <= rows.keys(), f"{value} has other fields than docs/cli.md: {rows}")
        expect(f"`{value['from']}`" in rows["from"] and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value["time"]), f"{value}")
        seen.update(value)
        return value["from"], value["text"]

    def objects(job):
        lines = job.output().splitlines()
        expect(lines, "no line")
        return [read(line) for line in lines]

    with Place("json") as place:
        job = place.run("openmpi/torture", ("--steps", "100000", "--pace", "5000"), "openmpi", 2, ("--log", "json", "--interval", "auto"))
        job.wait_for_step(5)
        for _ in range(2):
            take_checkpoint(place, job)
        wait_for_output(job, "a version every")
        told = objects(job)  # before the launcher prints something of its own
        job.kill_running()
        expect(told[0][0] == "cropdl" and told[0][1].startswith("a version every"), f"{told}")
        newest = place.versions()[-1]
        with open(place.version_path(newest, "rank-1.img"), "r+b") as image:
            image.truncate(5000)
        again = place.restart("openmpi", 2, options=("--log", "json", "--interval", "0"))
        wait_for_output(again, "continues from version")
        told = objects(again)
        again.kill_running()
        expect(told[0][0] == "cropdl-restart" and told[0][1].startswith(f"version {newest} cannot be used: "), f"{told}")
        another = place.ask([tool("cropdl-run"), "--log", "json", "--dir", place.path("other"), "--", "/usr/bin/python3", "-S", "-c",
                             "import os; os.execv('/bin/true', ['true'])"])
        expect(another[0] == 0 and read(another[1])[1].startswith("no more checkpoints of this process: it executes"), f"{another}")
        status, text, _ = place.ask([tool("cropdl"), "list", "/nowhere"], environment={"CROPDL_LOG": "json"})
        expect(status == 1 and read(text) == ("cropdl", "store /nowhere: No such file or directory"), text)
        expect(seen == set(rows), f"no line had {set(rows) - seen}")


@scenario("command.unread_terminal_does_not_block_the_job")
def full_terminal():
    """Versions are taken and the program ends normally, although nobody reads its terminal."""
    with Place("full") as place:
        at_terminal(place, ("--interval", "0.2"), read=False)
        check_whole(Log(place.path("log")))
        if not place.versions():
            too_late("the program ended before its first version")


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("refused.pipe", "refused.openmpi.window", "trigger.openmpi", "bad_input.openmpi", "bad_input.mpich", "bad_input.every_version", "bad_input.disk_full")))
