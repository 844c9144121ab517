#!/usr/bin/env python3
"""Promises of the way in: what cropdl-run and cropdl-restart make of words, files and programs that they do not expect."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from driver import (BUILD, Failure, Log, Place, app, check_continued, check_whole, expect, launcher, logs_of, native,
                    promise_main, take_checkpoint, tool)

PROMISES = {}


def promise(name):
    def keep(function):
        PROMISES[name] = function
        return function
    return keep


def says(place, command, line, environment=None, timeout=None):
    """Fails with this one line (a regular expression for all of it), within seconds."""
    status, text, _ = place.ask(command, timeout or 20, environment)
    expect(0 < status < 128, f"status {status}: {' '.join(command)}: {text}")
    expect(re.fullmatch(line, text), f"{' '.join(command)} says:\n  {text}\nwanted:\n  {line}")


def made_store(place, versions=1):
    job = place.run("plain/plain", ("--steps", "2000", "--pace", "10000"))
    job.wait_for_step(3)
    for _ in range(versions):
        take_checkpoint(place, job)
    job.kill_ranks()


# --- Words -------------------------------------------------------------------------------------------------------

@promise("bad_input.numbers_that_are_none_are_named")
def numbers():
    run, restart = tool("cropdl-run"), tool("cropdl-restart")
    with Place("numbers") as place:
        for word in ("nan", "inf", "-inf", "5x", "1e999"):
            says(place, [run, f"--interval={word}", app("plain/plain")],
                 rf"cropdl-run: --interval: `{re.escape(word)}` is not a number of seconds \(see cropdl-run --help\)")
        for word in ("-5", "0", "1e-300", "1e300", "17976931348623157" + "0" * 292):
            shown = word if len(word) <= 40 else word[:40] + "..."
            says(place, [run, "--interval", word, app("plain/plain")],
                 rf"cropdl-run: --interval: `{re.escape(shown)}` is not between 0.001 seconds and ten years "
                 r"\(see cropdl-run --help\)")
        for word in ("0", "-1", "1.5", "4" * 30, "x"):
            says(place, [restart, "--version", word, place.store],
                 rf"cropdl-restart: --version: `{re.escape(word)}` is not a version's number \(see cropdl-restart --help\)")
        says(place, [restart, "--interval", "nan", place.store],
             r"cropdl-restart: --interval: `nan` is not a number of seconds \(see cropdl-restart --help\)")
        expect(not os.path.exists(place.store), "a store was made")


@promise("bad_input.options_nobody_knows_are_refused")
def unknown_options():
    run = tool("cropdl-run")
    with Place("options") as place:
        for words in (["--intervall=60"], ["--intervall", "60"], ["--dir", place.store, "--verbose"], ["-x"],
                      ["--dir", place.store, "--verbose", "--"]):
            named = next(word for word in words if word not in ("--dir", place.store))
            says(place, [run, *words, app("plain/plain"), "--steps", "1"],
                 rf"cropdl-run: unknown option `{re.escape(named)}` \(see cropdl-run --help\)")
        for words in ([], ["--"], ["--dir", place.store]):
            says(place, [run, *words], r"cropdl-run: no program given \(see cropdl-run --help\)")
        expect(not os.path.exists(place.store), "a store was made")
        for options in ([], ["--"]):  # what follows the program is the program's
            place.store = place.path(f"store{len(options)}")
            status, text, _ = place.ask([run, "--dir", place.store, *options, "/bin/echo", "--interval", "nan", "--", "--dir"])
            expect(status == 0 and text == "--interval nan -- --dir", f"{status}: {text}")


# --- Files -------------------------------------------------------------------------------------------------------

@promise("bad_input.program_that_is_cut_short")
def cut_short():
    with Place("cut") as place:
        for size in (5000, 4096, 100, 0):
            program = place.path(f"program-{size}")
            shutil.copy(app("plain/plain"), program)
            whole = os.path.getsize(program)
            os.truncate(program, size)
            says(place, [tool("cropdl-run"), "--dir", place.store, program],
                 rf"cropdl-run: {program}: (is cut short: it has {size} bytes and should have \d+|damaged ELF header|not an "
                 r"ELF program)")
        expect(whole > 5000, "the program is too small to be cut")


@promise("bad_input.fifo_in_the_place_of_any_file_of_the_store")
def fifos():
    with Place("fifo") as place:
        made_store(place)
        version = place.version_path(place.versions()[-1])
        for name in ("lock", "job", "job.new", "phase", "store.json", os.path.join(version, "manifest.json"),
                     os.path.join(version, "rank-0.img")):
            path = os.path.join(place.store, name)
            kept = path + ".kept"
            if os.path.exists(path):
                os.rename(path, kept)
            os.mkfifo(path, 0o600)
            for command in ([tool("cropdl"), "list"], [tool("cropdl"), "status"], [tool("cropdl"), "verify"],
                            [tool("cropdl"), "checkpoint"], [tool("cropdl-restart")]):
                if name in ("job", "job.new", "phase") and command[-1].endswith("cropdl-restart"):
                    continue  # which replaces it and goes on
                try:
                    done = subprocess.run(command + [place.store], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                          timeout=20, cwd=place.root)
                except subprocess.TimeoutExpired:
                    raise Failure(f"{' '.join(command)} hangs: {name} is a FIFO")
                expect(0 <= done.returncode < 128, f"{command}: {done}")
                for line in done.stderr.splitlines():
                    expect(line.startswith(("cropdl: ", "cropdl-restart: ")), f"{command} with {name}: {line}")
                if name == "lock" and command[-1].endswith("cropdl-restart"):
                    expect(done.stderr == f"cropdl-restart: {path}: is not a regular file; remove it if no job runs\n",
                           done.stderr)
            if os.path.exists(kept):
                os.rename(kept, path)
            else:
                os.unlink(path)
        for name in ("job", "job.new", "phase"):
            path = os.path.join(place.store, name)
            if os.path.exists(path):
                os.unlink(path)
            os.mkfifo(path, 0o600)
        job = place.restart(environment={"CROPDL_TRACE_PHASE": "1"})
        job.wait_for_step(10)
        status, text, _ = place.checkpoint()
        expect(status == 0, text)
        job.kill_ranks()


@promise("bad_input.number_of_ranks_beyond_32_bits_is_not_taken_as_1")
def many_ranks():
    forge = os.path.join(BUILD, "tests", "driver", "forge_version")
    with Place("ranks") as place:
        made_store(place)
        subprocess.run([forge, place.version_path(place.versions()[0]), "manifest-ranks", "4294967297"], check=True)
        status, text, _ = place.ask([tool("cropdl-restart"), place.store])
        expect(status == 1 and "damaged: " in text and "expected a whole number from 0 to 4294967295" in text
               and len(text.splitlines()) == 1, f"{status}: {text}")


@promise("run.directories_that_are_not_utf8_keep_their_names")
def not_utf8():
    with Place("bytes") as place:
        odd = os.fsencode(place.root) + b"/caf\xe9"
        os.mkdir(odd)
        place.store = os.fsdecode(odd + b"/st\xffore")
        job = place.start([tool("cropdl-run"), "--dir", place.store, "--", app("plain/plain"), "--steps", "60", "--pace",
                           "20000", "--log", os.fsdecode(odd + b"/l\xfeog")], os.fsdecode(odd + b"/l\xfeog"))
        job.wait_for_step(5)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_ranks()
        before = Log(job.log)
        job = place.restart(log=job.log)
        job.finish()
        check_continued(before, Log(job.log), job.started, *bounds[job.log])
        check_whole(Log(job.log))


if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
