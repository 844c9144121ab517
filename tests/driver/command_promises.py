#!/usr/bin/env python3
"""Promises of the commands: what cannot be saved is refused by name while the program runs on, triggers work, bad input
gets one clear line and loses nothing."""

import hashlib
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time

from driver import (BUILD, PATIENCE, Failure, Log, Place, Skipped, app, check_continued, check_refused, check_whole, expect, launcher,
                    logs_of, native, promise_main, take_checkpoint, tool, without_waiting)

PROMISES = {}


def promise(name):
    def keep(function):
        PROMISES[name] = function
        return function
    return keep


LONG = ("--steps", "400", "--pace", "20000")
MIDDLE = ("--steps", "120", "--pace", "20000")


def one_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    expect(len(lines) == 1, f"not one line: {text!r}")
    expect(not re.search(r"\berrno\b|terminate called|Segmentation|Aborted|Assertion", text), f"not for people: {text!r}")
    return lines[0]


# --- Refusals ----------------------------------------------------------------------------------------------------

def refused(program, what, words, mpi="none", ranks=1):
    """While `what` is held, the checkpoint is refused by exactly these words; then it is possible; the program ends with the
    undisturbed run's result."""
    name = f"{'plain' if mpi == 'none' else mpi}/{program}"
    with Place("refused") as place:
        arguments = (what,) + MIDDLE
        reference = native(place, name, arguments, mpi, ranks)
        total = reference[0].last_step()
        job = place.run(name, arguments, mpi, ranks)
        job.wait_for_step(5)
        status, text, _ = place.checkpoint()
        expect(job.alive(), f"the refused checkpoint ended the program: {job.output()}")
        if Log(job.log).last_step() >= total // 2:
            raise Skipped(f"too slow to tell: the {what} may have been given up before the answer")
        check_refused(place, status, text, words)
        job.wait_for_step(total // 2 + 3)
        end = time.monotonic() + PATIENCE
        while any(log.last_step() <= total // 2 for log in logs_of(job.log, ranks)) and time.monotonic() < end:
            time.sleep(0.01)  # other ranks may be behind
        status, text, _ = place.checkpoint()
        expect(status == 0, f"still refused after the {what} is gone: {text}")
        job.finish()
        for one, undisturbed in zip(logs_of(job.log, ranks), reference):
            check_whole(one)
            expect(one.digest == undisturbed.digest, "the result differs from the undisturbed run's")


for _what, _words in {
        "child": "the program has a child process that it has not waited for",
        "pipe": "a pipe (descriptor <n>) cannot be saved yet",
        "socket": "a socket (descriptor <n>) cannot be saved yet",
        "itimer": "the running timer ITIMER_REAL (setitimer or alarm) cannot be saved yet",
        "timer": "a POSIX timer (timer_create) cannot be saved yet",
        "timerfd": "an open timerfd (descriptor <n>) cannot be saved yet",
        "signalfd": "an open signalfd (descriptor <n>) cannot be saved yet",
        "eventfd": "an open eventfd (descriptor <n>) cannot be saved yet",
        "epoll": "an open eventpoll (descriptor <n>) cannot be saved yet",
        "shared": "the shared mapping of /dev/zero (deleted) cannot be saved yet",
        "sharedfile": "the shared mapping of /tmp/refused-<w> (deleted) cannot be saved yet"}.items():
    promise(f"refused.{_what}")(lambda w=_what, k=_words: refused("refused", w, k))
for _mpi in ("openmpi", "mpich"):
    for _what, _words in {
            "window": "MPI_Win_create: a window is alive that cannot be saved",
            "file": "MPI_File_open: a file is alive that cannot be saved",
            "ireduction": "MPI_Iallreduce: a reduction by an operation of the program's own is not complete",
            "idup": "MPI_Comm_idup: a request is not complete",
            "intercomm": "MPI_Intercomm_create: a communicator is alive that cannot be saved",
            "persistent": f"MPI{'X' * (_mpi == 'openmpi')}_Barrier_init: a persistent request exists",
            "synchronous": "MPI_Issend: a request is not complete"}.items():
        promise(f"refused.{_mpi}.{_what}")(lambda w=_what, k=_words, m=_mpi: refused("refused_mpi", w, k, m, 2))


@promise("refused.statically_linked_program")
def static_program():
    with Place("static") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--dir", place.store, "--", app("plain/plain_static")])
        expect(status != 0, "a statically linked program was run as if it could be saved")
        expect("static" in one_line(text), f"the line does not say why: {text}")


@promise("refused.program_not_found")
def program_not_found():
    with Place("missing") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--dir", place.store, "--", "./no-such-program"])
        expect(status != 0 and "no-such-program" in one_line(text), f"{status}: {text}")


# --- Entrances ---------------------------------------------------------------------------------------------------

def kill_and_restart_once(place, job, mpi, ranks, reference):
    version, text, bounds = take_checkpoint(place, job)
    job.kill_ranks()
    before = {path: Log(path) for path in bounds}
    job = place.restart(mpi, ranks)
    job.finish()
    for path in bounds:
        check_continued(before[path], Log(path), job.started, *bounds[path])
    for one, undisturbed in zip(logs_of(job.log, ranks), reference):
        check_whole(one)
        expect(one.digest == undisturbed.digest, "the result differs from the undisturbed run's")


def preload(mpi, wrap):
    """Through LD_PRELOAD, set by the launcher's own option; with `wrap` the program is exec'ed by a shell script."""
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
        job = place.start(launcher(mpi, 2, {"LD_PRELOAD": library}) + target, log)
        job.wait_for_step(10)
        kill_and_restart_once(place, job, mpi, 2, reference)


for _mpi in ("openmpi", "mpich"):
    promise(f"preload.{_mpi}.program_is_protected")(lambda m=_mpi: preload(m, False))
    promise(f"preload.{_mpi}.wrapper_script_stays_protected")(lambda m=_mpi: preload(m, True))


@promise("run.exit_status_and_output_are_the_program_s")
def exit_status():
    with Place("status") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--dir", place.store, "--", "/bin/sh", "-c", "echo out; exit 7"])
        expect(status == 7 and text.splitlines()[-1] == "out", f"status {status}, output {text!r}")


@promise("run.interpreter_without_mpi")
def interpreter():
    with Place("python") as place:
        code = "import numpy; print(int(numpy.arange(1000).sum()))"
        status, text, _ = place.ask([tool("cropdl-run"), "--dir", place.store, "--", "/usr/bin/python3", "-c", code])
        expect(status == 0 and text == "499500", f"status {status}, output {text!r}")


@promise("restart.standard_output_goes_to_the_new_launcher")
def standard_output():
    with Place("stdout") as place:
        command = [tool("cropdl-run"), "--dir", place.store, "--", app("plain/plain"), *MIDDLE]
        job = place.start(command, place.path("output-0"))
        job.wait_for_step(10)
        status, text, _ = place.checkpoint()
        expect(status == 0, text)
        job.kill_ranks()
        first = Log(place.path("output-0"))
        job = place.restart()
        job.finish()
        second = [line.split() for line in job.output().splitlines()]
        steps = [int(words[1]) for words in second if words[0] == "step"]
        expect(steps and steps[0] > 10 and steps[-1] == 120, f"steps on the new standard output: {steps[:3]} ... {steps[-3:]}")
        expect(second[-1][0] == "ok" and second[-1][2] == f"nonce={first.nonces[0]}", f"last line: {second[-1]}")


# --- Triggers ----------------------------------------------------------------------------------------------------

def wait_for_versions(place, job, number, seconds=30):
    end = time.monotonic() + seconds
    while len(place.versions()) < number:
        expect(job.alive(), f"the job ended: {job.output()}")
        expect(time.monotonic() < end, f"{len(place.versions())} versions after {seconds} s, wanted {number}")
        time.sleep(0.02)


def by_signal(mpi):
    with Place("sigusr1") as place:
        job = place.run(f"{mpi}/torture", LONG, mpi, 2)
        job.wait_for_step(5)
        os.kill(job.process.pid, signal.SIGUSR1)
        wait_for_versions(place, job, 1)
        job.kill_ranks()


for _mpi in ("openmpi", "mpich"):
    promise(f"trigger.{_mpi}.sigusr1_to_the_launcher")(lambda m=_mpi: by_signal(m))


@promise("trigger.program_s_own_sigusr1_handler_is_left_to_it")
def own_handler():
    """signals.c counts every SIGUSR1 it gets and checks the number: one more would make it fail, one that is taken for
    a checkpoint would make a version."""
    with Place("own") as place:
        job = place.run("plain/signals", ("--steps", "30", "--pace", "10000"))
        job.wait_for_step(3)
        job.finish()
        check_whole(Log(job.log))
        expect(not place.versions(), "the program's own SIGUSR1 was taken for a request")


@promise("trigger.interval_makes_versions_by_itself")
def by_interval():
    with Place("interval") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2, options=("--interval", "0.5"))
        job.wait_for_step(3)
        wait_for_versions(place, job, 2)
        job.kill_ranks()


@promise("trigger.interval_is_kept_over_a_restart")
def interval_after_restart():
    with Place("interval") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2, options=("--interval", "0.5"))
        wait_for_versions(place, job, 1)
        job.kill_ranks()
        had = len(place.versions())
        wait_for_versions(place, place.restart("openmpi", 2), had + 1)


def request_while_restarting(mpi, ranks):
    """Requests from the restart's first moment on: refused or done, but the run goes on."""
    name = f"{'plain' if mpi == 'none' else mpi}/{'plain' if mpi == 'none' else 'torture'}"
    with Place("early") as place:
        arguments = ("--steps", "60", "--pace", "20000")
        reference = native(place, name, arguments, mpi, ranks)
        job = place.run(name, arguments, mpi, ranks)
        job.wait_for_step(5)
        take_checkpoint(place, job)
        for _ in range(5):
            job.kill_ranks()
            job = place.restart(mpi, ranks)
            end = time.monotonic() + 30
            while place.checkpoint()[0] != 0:
                expect(job.alive(), f"a request while it restarted ended it with {job.process.returncode}: {job.output()}")
                expect(time.monotonic() < end, f"no checkpoint for 30 s after a restart: {job.output()}")
        job.finish()
        for one, undisturbed in zip(logs_of(job.log, ranks), reference):
            check_whole(one)
            expect(one.digest == undisturbed.digest, "the result differs from the undisturbed run's")


for _mpi, _ranks in (("none", 1), ("openmpi", 2), ("mpich", 2)):
    promise(f"trigger.{_mpi}.request_while_restarting_does_no_harm")(
        lambda m=_mpi, r=_ranks: request_while_restarting(m, r))


@promise("trigger.without_interval_no_version_unasked")
def unasked():
    with Place("unasked") as place:
        job = place.run("mpich/torture", MIDDLE, "mpich", 2)
        job.finish()
        expect(not place.versions(), f"versions {place.versions()} nobody asked for")


@promise("trigger.checkpoint_of_a_dead_job_fails_within_5_s")
def dead_job():
    with Place("dead") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2)
        job.wait_for_step(3)
        job.kill_ranks()
        status, text, seconds = place.checkpoint()
        expect(status != 0 and seconds < 5, f"status {status} after {seconds:.1f} s")
        one_line(text)
        status, text, seconds = place.ask([tool("cropdl"), "checkpoint", place.path("nowhere")])
        expect(status != 0 and seconds < 5 and "nowhere" in one_line(text), f"{status} after {seconds:.1f} s: {text}")


@promise("trigger.two_requests_at_once_both_return")
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
        job.kill_ranks()


def says_what_it_waits_for(mpi):
    """Rank 0 has begun a collective, and rank 1 begins it only when the command has said that."""
    with Place("waits") as place:
        job = place.run(f"{mpi}/begun_early", (place.path("now"), "--steps", "8", "--pace", "1000"), mpi, 2)
        end = time.monotonic() + PATIENCE
        while [log.at for log in logs_of(job.log, 2)] != ["begun", "waits"]:
            expect(job.alive() and time.monotonic() < end, f"does not come to its barrier: {job.output()}")
            time.sleep(0.01)
        asked = subprocess.Popen([tool("cropdl"), "checkpoint", place.store], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        try:
            # Nothing else ends the wait but the bound of the first attempt, which is told.
            ready, _, _ = select.select([asked.stderr], [], [], PATIENCE)
            said = asked.stderr.readline() if ready else ""
            expect(re.fullmatch(r"cropdl: waiting for \d+ s: rank 1 has not reached a collective that rank 0 has begun "
                                r"\(it computes, or waits\)\n", said), f"`cropdl checkpoint` said while it waited: {said!r}")
            open(place.path("now"), "w").close()
            text, rest = asked.communicate(timeout=PATIENCE)
        finally:
            asked.kill()
            asked.wait()
        expect(asked.returncode == 0 and re.fullmatch(r"version 1: \d+ bytes, stall [\d.]+ s\n", text), f"{asked.returncode}: {text!r}")
        expect(not without_waiting(rest), f"said besides: {rest!r}")
        job.finish()
        for log in logs_of(job.log, 2):
            check_whole(log)


for _mpi in ("openmpi", "mpich"):
    promise(f"trigger.{_mpi}.a_checkpoint_that_has_to_wait_says_for_what")(lambda m=_mpi: says_what_it_waits_for(m))


# --- The store ---------------------------------------------------------------------------------------------------

def made_store(place, versions=2, program="plain/memory"):
    """A store with versions of a killed one-rank program."""
    job = place.run(program, LONG)
    job.wait_for_step(3)
    for _ in range(versions):
        take_checkpoint(place, job)
        job.wait_for_step(Log(job.log).last_step() + 2)
    job.kill_ranks()
    return job


def fails_in_one_line(place, command, *words):
    status, text, _ = place.ask(command)
    expect(status != 0, f"succeeded: {' '.join(command)}: {text}")
    line = one_line(text)
    expect(all(word in line for word in words), f"the line does not say {words}: {line}")
    print(f"says: {line}")


@promise("store.private_to_its_owner")
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


@promise("store.manifest_tells_what_was_run")
def manifest():
    with Place("manifest") as place:
        job = place.run("openmpi/torture", LONG, "openmpi", 2)
        job.wait_for_step(3)
        version, _, _ = take_checkpoint(place, job)
        job.kill_ranks()
        with open(place.version_path(version, "manifest.json")) as f:
            told = json.dumps(json.load(f))
        for words in (["torture"], ["--pace"], ["openmpi"], ["glibc"], ["kernel"], ["mpirun", "orterun"]):
            expect(any(word in told for word in words), f"the manifest does not mention {words}: {told[:600]}")


@promise("store.restart_falls_back_past_a_damaged_version_and_says_so")
def falls_back():
    with Place("fallback") as place:
        reference = native(place, "plain/memory", ("--steps", "60", "--pace", "20000"))
        job = place.run("plain/memory", ("--steps", "60", "--pace", "20000"))
        job.wait_for_step(5)
        first, _, bounds = take_checkpoint(place, job)
        job.wait_for_step(20)
        second, _, _ = take_checkpoint(place, job)
        job.kill_ranks()
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


@promise("store.named_version_is_the_one_restarted")
def named_version():
    with Place("named") as place:
        job = place.run("plain/memory", MIDDLE)
        job.wait_for_step(3)
        first, _, bounds = take_checkpoint(place, job)
        job.wait_for_step(20)
        take_checkpoint(place, job)
        job.kill_ranks()
        before = Log(job.log)
        job = place.restart(options=("--version", str(first)))
        job.finish()
        check_continued(before, Log(job.log), job.started, *bounds[job.log])


@promise("bad_input.no_such_directory")
def no_directory():
    with Place("nodir") as place:
        fails_in_one_line(place, [tool("cropdl-restart"), place.path("nowhere")], "nowhere")
        fails_in_one_line(place, [tool("cropdl"), "list", place.path("nowhere")], "nowhere")


@promise("bad_input.empty_store")
def empty_store():
    with Place("empty") as place:
        os.mkdir(place.path("empty"), 0o700)
        fails_in_one_line(place, [tool("cropdl-restart"), place.path("empty")], "empty")


@promise("bad_input.version_that_is_not_there")
def no_version():
    with Place("nover") as place:
        made_store(place, 1)
        fails_in_one_line(place, [tool("cropdl-restart"), "--version", "999", place.store], "999")


@promise("bad_input.every_version_damaged")
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
        job.kill_ranks()
        status, text, _ = place.ask(launcher(mpi, 3) + [tool("cropdl-restart"), place.store])
        expect(status != 0, f"restarted with 3 ranks what had 2: {text}")
        said = [line for line in text.splitlines() if "2" in line and "3" in line and "rank" in line]
        expect(said, f"no line says that 2 ranks are needed and 3 were started: {text}")
        expect(place.versions(), "the version is gone")


for _mpi in ("openmpi", "mpich"):
    promise(f"bad_input.{_mpi}.wrong_number_of_ranks")(lambda m=_mpi: wrong_ranks(m))


@promise("bad_input.store_of_another_job_is_not_mixed")
def another_job():
    with Place("mixed") as place:
        made_store(place, 1)
        before = sorted(os.walk(place.store))
        fails_in_one_line(place, [tool("cropdl-run"), "--dir", place.store, "--", app("plain/plain"), "--steps", "1"], "store")
        expect(place.versions(), "the other job's version is gone")
        expect([w[0] for w in before if "/v" in w[0]] == [w[0] for w in sorted(os.walk(place.store)) if "/v" in w[0]],
               "the other job's versions changed")


@promise("bad_input.directory_that_is_not_a_store")
def not_a_store():
    with Place("notours") as place:
        os.mkdir(place.store, 0o700)
        with open(os.path.join(place.store, "thesis.tex"), "w") as f:
            f.write("years of work")
        fails_in_one_line(place, [tool("cropdl-restart"), place.store], "store")
        expect(os.path.exists(os.path.join(place.store, "thesis.tex")), "a foreign file was removed")


@promise("bad_input.second_live_job_in_one_directory")
def second_job():
    with Place("second") as place:
        job = place.run("plain/memory", LONG)
        job.wait_for_step(3)
        fails_in_one_line(place, [tool("cropdl-run"), "--dir", place.store, "--", app("plain/plain"), "--steps", "1"])
        take_checkpoint(place, job)
        fails_in_one_line(place, [tool("cropdl-restart"), place.store])
        expect(job.alive(), "the first job ended")
        take_checkpoint(place, job)
        job.kill_ranks()


def without_privileges(command):
    """Modes of files bind root, too, when it has no capabilities. (Another user may not even come to the build directory.)"""
    return (["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []) + command


@promise("bad_input.store_not_writable")
def not_writable():
    with Place("readonly") as place:
        os.mkdir(place.path("sealed"), 0o500)
        command = [tool("cropdl-run"), "--dir", place.path("sealed/store"), "--", app("plain/plain"), "--steps", "1"]
        fails_in_one_line(place, without_privileges(command), "sealed")


# --- A version that cannot be continued here, and a store that must stay as it is ----------------------------------

def fingerprint(directory):
    """Names, modes and contents of everything in it, but for the lock and for where the running job listens."""
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
    """A restart that must be refused: a nonzero status, one line that has the words (the first of `lines`: one for each
    version that was tried, and the conclusion), and the store as it was."""
    before = fingerprint(place.store)
    status, text, _ = place.ask(command, environment=environment)
    expect(status != 0, f"restarted what cannot be: {text}")
    said = [line for line in text.splitlines() if line.startswith("cropdl-restart: ")]
    expect(len(said) == lines, f"not {lines} of our lines: {text!r}")
    expect(len(command) > 2 or len(text.splitlines()) == lines, f"more than our lines: {text!r}")
    expect(all(word in said[0] for word in words), f"the line does not say {words}: {said[0]}")
    one_line(said[0])
    after = fingerprint(place.store)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    expect(not changed, f"the refused restart changed {changed}")
    print(f"says: {said[0]}")


def forged(kind, value, *words, lines=1, program="plain/memory"):
    """A version that another CropDL, or another machine, would have written."""
    with Place("forged") as place:
        made_store(place, 1, program)
        forge = os.path.join(BUILD, "tests", "driver", "forge_version")
        subprocess.run([forge, place.version_path(place.versions()[0]), kind, value], check=True)
        refused_here(place, [tool("cropdl-restart"), place.store], *words, lines=lines)
        status, text, _ = place.ask([tool("cropdl"), "list", place.store])
        expect(not re.search("terminate|Segm", text) and text, f"`cropdl list`: {status}: {text}")


promise("bad_input.image_of_a_newer_format")(lambda: forged("image-format", "77", "newer", "77", lines=2))
promise("bad_input.image_of_a_newer_seam")(lambda: forged("image-seam", "77", "newer", "77", lines=2))
promise("bad_input.manifest_of_a_newer_format")(lambda: forged("manifest-format", "77", "newer", "77"))
promise("bad_input.manifest_of_a_newer_seam")(lambda: forged("manifest-seam", "77", "newer", "77"))
promise("bad_input.manifest_of_an_older_seam")(lambda: forged("manifest-seam", "2", "older", "seam 2"))
promise("bad_input.image_with_functions_that_are_unknown_here")(
    lambda: forged("image-functions", "100000", "newer", "100000", program="mpich/collectives"))
promise("bad_input.cpu_feature_that_is_missing_here")(lambda: forged("image-cpu-feature", "avx4096", "CPU", "avx4096"))


@promise("bad_input.address_window_is_taken")
def window_taken():
    with Place("window") as place:
        taker = {"LD_AUDIT": app("plain/window_taker.so")}
        status, text, _ = place.ask([tool("cropdl-run"), "--dir", place.store, "--", app("plain/plain"), "--steps", "1"],
                                    environment=taker)
        expect(status != 0 and "410000000000" in one_line(text), f"{status}: {text}")
        expect(not place.versions(), "versions of a program that never ran")
        made_store(place, 1)
        refused_here(place, [tool("cropdl-restart"), place.store], "410000000000", environment=taker)


@promise("bad_input.function_that_the_other_mpi_lacks")
def function_of_one_mpi():
    with Place("onlyone") as place:
        arguments = ("--steps", "60", "--pace", "20000")
        reference = native(place, "mpich/only_mpich", arguments, "mpich", 2)
        job = place.run("mpich/only_mpich", arguments, "mpich", 2)
        job.wait_for_step(5)
        take_checkpoint(place, job)
        job.kill_ranks()
        refused_here(place, launcher("openmpi", 2) + [tool("cropdl-restart"), place.store], "mpich")
        job = place.restart("mpich", 2)  # nothing is lost by having tried
        job.finish()
        for one, undisturbed in zip(logs_of(job.log, 2), reference):
            check_whole(one)
            expect(one.digest == undisturbed.digest, "DIFFERENT")


@promise("bad_input.restart_from_a_store_that_is_not_writable")
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


@promise("bad_input.disk_full_keeps_older_versions_and_the_program_running")
def disk_full():
    """The store is a small tmpfs in a mount namespace of its own (as root, or in a user namespace)."""
    name = "bad_input.disk_full_keeps_older_versions_and_the_program_running"
    if os.environ.get("CROPDL_TEST_NAMESPACE") != "1":  # all of this again, inside
        unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
        environ = dict(os.environ, CROPDL_TEST_NAMESPACE="1")
        status = subprocess.run(unshare + [sys.executable, os.path.abspath(__file__), name], env=environ).returncode
        expect(status == 0, "see above (a mount namespace is needed to make a disk that can be filled)")
        return
    with Place("full") as place:
        os.mkdir(place.store, 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=700", "none", place.store], check=True)
        job = place.run("plain/grow", ("--steps", "100", "--pace", "40000"))  # a megabyte more in each step
        job.wait_for_step(5)
        first, _, bounds = take_checkpoint(place, job)
        job.wait_for_step(60)  # by now it has far more memory than the store has room
        status, text, _ = place.checkpoint()
        expect(status != 0, f"succeeded: {text}")
        one_line(text)
        expect(place.versions() == [first], f"versions {place.versions()}, wanted {[first]}")
        step = Log(job.log).last_step()
        job.wait_for_step(step + 5)  # training goes on
        job.kill_ranks()
        before = Log(job.log)
        job = place.restart()
        job.finish()
        check_continued(before, Log(job.log), job.started, *bounds[job.log])
        check_whole(Log(job.log))


@promise("store.leftovers_of_a_killed_writer_are_removed_at_the_next_start")
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
            job.kill_ranks()
            asked.wait()
            left = {name for name in os.listdir(place.store) if os.path.isdir(os.path.join(place.store, name))} - clean
            left = {name for name in left if not re.fullmatch(r"v\d{6}", name)}
            job = place.restart(environment={"CROPDL_TRACE_PHASE": "1"})
            job.wait_for_step(Log(job.log).last_step() + 2)
            if left:
                now = set(os.listdir(place.store))
                expect(not left & now, f"still there: {left & now}")
                job.kill_ranks()
                return
        raise Failure("never killed while it wrote")


if __name__ == "__main__":
    sys.exit(promise_main(PROMISES, quick=("refused.pipe", "refused.openmpi.window", "trigger.openmpi", "bad_input.openmpi", "bad_input.mpich", "bad_input.every_version", "bad_input.disk_full")))
