#!/usr/bin/env python3
"""Stores that other users wrote or can write to. Looking at any store is safe. Only its owner can restart from a store, and only if nobody
else can write to it. If the tests run as root, the other users are real ones."""

import fcntl
import json
import os
import re
import sys
import time

from driver import (BUILD, PATIENCE, Log, Place, Skipped, app, check_whole, expect, expect_taken, forge, installed_for_others, collects_into, native,
                    scenario_main, take_checkpoint, tool)

SCENARIOS = {}
scenario = collects_into(SCENARIOS)
OWNER, THIRD = 65534, 65533  # users need no entry in /etc/passwd


def by(user, command):
    return ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"] + command


def version_of(place, user=None, steps="40"):
    """Makes a store with version 1 of a program, then kills the program. Returns the program's log."""
    log = place.path("log")
    bin_, program = installed_for_others(place, "plain/plain") if user else (tool, app)
    command = [bin_("cropdl-run"), "--interval", "0", "--dir", place.store, "--", program("plain/plain"), "--steps", steps, "--pace", "25000", "--log", log]
    job = place.start(by(user, command) if user else command, log)
    job.wait_for_step(3)
    if user:
        status, text, _ = place.ask(by(user, [bin_("cropdl"), "checkpoint", place.store]))
        expect_taken(job, status, text)
    else:
        take_checkpoint(place, job)
    job.kill_running()
    return log


@scenario("store.of_a_program_with_restrictive_umask_stays_usable")
def umask_of_the_program():
    """Everything in a store is readable and writable for its owner, whatever the program's umask."""
    for mask in ("0277", "0777"):
        with Place("umask") as place:
            os.chmod(place.root, 0o755)
            log = place.path("log")
            bin_, program = installed_for_others(place, "plain/plain")
            with open(log, "w"):
                os.chown(log, OWNER, OWNER)  # the program could not reopen its own file either
            command = [bin_("cropdl-run"), "--interval", "0", "--dir", place.store, "--", program("plain/plain"), "--steps", "60", "--pace", "25000", "--log", log]
            os.mkdir(place.store, 0o700)
            os.chown(place.store, OWNER, OWNER)
            job = place.start(by(OWNER, ["sh", "-c", f'umask {mask}; exec "$@"', "sh", *command]), log)
            job.wait_for_step(3)
            for _ in range(2):
                status, text, _ = place.ask(by(OWNER, [bin_("cropdl"), "checkpoint", place.store]))
                expect_taken(job, status, f"umask {mask}: {text}")
            job.kill_running()
            for path, folders, files in os.walk(place.store):
                for name, mode in [(name, 0o700) for name in folders] + [(name, 0o600) for name in files]:
                    found = os.stat(os.path.join(path, name)).st_mode & 0o777
                    expect(found == mode, f"umask {mask}: {name} has mode {found:o}")
            again = place.start(by(OWNER, [bin_("cropdl-restart"), place.store]), log)
            again.finish()
            check_whole(Log(log))


def launcher_that_leaves_a_mark(place):
    """A program for a manifest to name. It leaves a file MARK-UID if anybody runs it."""
    path = place.path("launcher")
    with open(path, "w") as f:
        f.write(f"#!/bin/sh\ntouch {place.path('mark')}-$(id -u)\n")
    os.chmod(path, 0o755)
    return path


def marks(place):
    return sorted(name for name in os.listdir(place.root) if name.startswith("mark-"))


def refused(place, command, words):
    status, text, _ = place.ask(command, timeout=20)
    shown = text.replace(place.root, "@")
    expect(status not in (0, 124) and status < 128, f"ended with {status}: {shown}")
    expect(re.fullmatch("cropdl-restart: " + words, shown), f"not one line with the words {words!r}: {shown!r}")
    expect(not marks(place), f"a program named in the store was run: {marks(place)}")
    print(f"refused: {shown}")


NOT_YOURS = r"store @/store: belongs to user id %d, not to yours \(%d\); only its owner may restart it"


@scenario("store.is_restarted_only_by_its_owner")
def of_another():
    if os.geteuid() != 0:
        raise Skipped("only root can be two other users")
    with Place("another") as place:
        os.chmod(place.root, 0o777)
        version_of(place, OWNER)
        forge("forge_version", place.version_path(1), "manifest-launcher", launcher_that_leaves_a_mark(place))
        restart = [place.path("cropdl/bin/cropdl-restart"), place.store]
        refused(place, restart, NOT_YOURS % (OWNER, 0))
        refused(place, restart[:1] + ["--version", "1", place.store], NOT_YOURS % (OWNER, 0))
        refused(place, by(THIRD, restart), "store @/store: Permission denied")
        for at, _, names in os.walk(place.store):  # make it readable for all
            os.chmod(at, 0o755)
            for name in names:
                os.chmod(os.path.join(at, name), 0o644)
        refused(place, by(THIRD, restart), NOT_YOURS % (OWNER, THIRD))
        refused(place, by(OWNER, restart[:1]) + ["--version", "1", place.path("link")], "@/link: No such file or directory")
        # Checked also through a symbolic link, and for each file by itself: the folder may be root's and its contents another user's.
        os.symlink(place.store, place.path("link"))
        refused(place, restart[:1] + [place.path("link")], NOT_YOURS % (OWNER, 0))
        os.chown(place.store, 0, 0)
        refused(place, restart, NOT_YOURS.replace("store:", "store/store.json:") % (OWNER, 0))
        for name in os.listdir(place.store):
            os.chown(os.path.join(place.store, name), 0, 0)
        refused(place, restart, NOT_YOURS.replace("store @/store:", r"version 1 cannot be used: @/store/v000001/[-a-z0-9.]+:") % (OWNER, 0))
        for name in os.listdir(place.store):
            os.chown(os.path.join(place.store, name), OWNER, OWNER)
        os.chown(place.store, OWNER, OWNER)
        place.ask(by(OWNER, restart))
        expect(marks(place) == [f"mark-{OWNER}"], f"the launcher did not run even for the store's owner: {marks(place)}")


@scenario("store.writable_by_others_is_not_restarted")
def others_may_write():
    with Place("writable") as place:
        log = version_of(place)
        forge("forge_version", place.version_path(1), "manifest-launcher", launcher_that_leaves_a_mark(place))
        restart = [tool("cropdl-restart"), place.store]
        for name, before in {"": 0o700, "store.json": 0o600, "lock": 0o600, "v000001": 0o700, "v000001/manifest.json": 0o600,
                             "v000001/rank-0.img": 0o600, "v000001/rank-0.files": 0o700, "v000001/rank-0.files/0": 0o600}.items():
            path = os.path.join(place.store, name) if name else place.store
            for more in (0o020, 0o002):
                os.chmod(path, before | more)
                refused(place, restart, "(version 1 cannot be used: |store )" + re.escape(path.replace(place.root, "@")) +
                        r": others may write to it \(mode 0[0-7]+\); take that away \(chmod go-w\) if you know what is in it")
                os.chmod(path, before)
        # The lower half opens the store again, and checks it too.
        boot = {"restart": True, "directory": place.store, "interval": "", "max_overhead": 0, "mtbf": -1, "ends_at": -1, "at_sigterm": "", "keep": "", "quiet": False, "log": "text", "metrics": "", "program": "", "script": "", "preload": "", "version": 0, "installation":
                os.path.join(BUILD, "lib"), "sanitizer": "", "layout": 0, "personality": 0, "save_files": 0, "by_reference": False, "compress": False, "moved_variables": False,
                "files": "", "software_gpu": False, "software_gpus": 0, "software_nccl": False}
        os.chmod(place.version_path(1, "rank-0.img"), 0o620)
        refused(place, ["env", "CROPDL_BOOT=" + json.dumps(boot), tool("cropdl-lower-none")],
                r"version 1 cannot be used: @/store/v000001/rank-0.img: others may write to it \(mode 0620\); take that away .*")
        os.chmod(place.root, 0o1777)  # sticky, like /tmp; being readable for others is no reason to refuse
        os.chmod(place.version_path(1), 0o755)
        os.chmod(place.version_path(1, "rank-0.img"), 0o644)
        forge("forge_version", place.version_path(1), "manifest-launcher", "")
        place.restart(alone=True, log=log).finish()
        check_whole(Log(log))


@scenario("store.of_another_user_can_be_inspected")
def looked_at():
    """list, status, verify and inspect on hostile stores: they do not block on non-regular files, follow no links, and print no terminal
    control sequences."""
    with Place("looked") as place:
        two = os.geteuid() == 0
        if two:
            os.chmod(place.root, 0o777)
        else:
            print("only one's own store is looked at: only root can be another user")
        version_of(place, OWNER if two else None)
        cropdl = tool("cropdl")

        def look(status_of_verify, words, status_of_status=0, listed="damaged", lines=1):
            for command, wanted in (("list", 0), ("status", status_of_status), ("verify", status_of_verify)):
                status, text, _ = place.ask([cropdl, command, place.store], timeout=20)
                expect(status == wanted, f"{command} ended with {status}: {text}")
                expect(all(c.isprintable() or c == "\n" for c in text), f"{command} printed {text!r}")
                if command == "verify":
                    expect(words in text and len(text.splitlines()) == lines, f"not {words!r}: {text}")
                if command == "list":
                    expect(listed in text, f"not {listed}: {text}")
            for options in ((), ("--json",)):
                status, text, _ = place.ask([cropdl, "inspect", place.store, *options], timeout=20)
                expect(status == (0 if listed == "complete" else 1), f"inspect ended with {status}: {text}")
                expect(all(c.isprintable() or c == "\n" for c in text), f"inspect printed {text!r}")
                expect((status == 0 and not options) or len(text.splitlines()) == 1, f"not one line: {text}")

        look(0, "version 1: good", listed="complete")
        if two:
            status, text, _ = place.ask([cropdl, "prune", "--keep", "1", place.store])
            expect(status == 1 and "only its owner may prune it" in text, f"prune ended with {status}: {text}")
        outside = place.path("outside")
        for name in ("v000001/manifest.json", "v000001/rank-0.img", "v000001", "store.json", "lock", "job"):
            path = os.path.join(place.store, name)
            os.rename(path, outside) if os.path.exists(path) else open(outside, "w").close()
            whole = name in ("store.json", "lock", "job")
            unknown = name == "store.json"  # without it the owner is unknown: the versions are good, but a restart refuses them
            os.mkfifo(path)
            look(1 if unknown or not whole else 0, "good" if whole else "is not a ", 1 if name == "lock" else 0, "complete" if whole else "damaged",
                 2 if unknown else 1)
            os.unlink(path)
            os.symlink(outside, path)
            look(1 if unknown or not whole else 0, "good" if whole else "symbolic link" if name != "v000001" else "is not a directory",
                 1 if name == "lock" else 0, "complete" if whole else "damaged", 2 if unknown else 1)
            os.unlink(path)
            os.rename(outside, path)
        os.makedirs(place.version_path(1, "rank-0.files"), exist_ok=True)
        os.mkfifo(place.version_path(1, "rank-0.files/9"))
        with open(outside, "w"):
            pass
        nothing = '"identity": {"size": 0}, "checksum": "0x2d06800538d394c2"'  # an entry of zero bytes
        for stored, words in (("rank-0.files/9", "is not a regular file"), ("../../outside", "no name of a file saved"),
                              (outside, "no name of a file saved"), ("rank-0.files/../../../outside", "no name of a file saved"),
                              ("rank-0.img", "no name of a file saved"), ("/", "no name of a file saved")):
            forge("forge_version", place.version_path(1), "image-contents", '[{"stored": "%s", %s}]' % (stored, nothing))
            look(1, words, listed="complete")
        forge("forge_version", place.version_path(1), "image-contents", "[]")
        forge("forge_version", place.version_path(1), "manifest-program", "/bin/\x1b[2J\x07\x7f\x9b\r\nx")
        look(0, "version 1: good", listed="complete")
        status, text, _ = place.ask([cropdl, "status", place.store])
        expect(r"program: /bin/\x1b[2J\x07\x7f\xc2\x9b\r\nx" in text, f"not escaped: {text}")
        with open(os.path.join(place.store, "lock"), "r+") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            for written in ("", "0 node\n", "-1 node\n", "node\n"):
                lock.seek(0)
                lock.truncate()
                lock.write(written)
                lock.flush()
                status, text, _ = place.ask([cropdl, "status", place.store])
                expect(status == 0 and f"job:     running (pid {os.getpid()} on " in text, f"a lock that says {written!r}: {text}")


@scenario("store.with_fifos_does_not_block")
def not_waited_for():
    """A restart from the user's own store does not block on it either: the version counts as damaged."""
    with Place("none") as place:
        version_of(place)
        os.makedirs(place.version_path(1, "rank-0.files"), 0o700, exist_ok=True)
        os.mkfifo(place.version_path(1, "rank-0.files/9"), 0o600)
        with open(place.path("outside"), "w"):
            pass
        identity = '{"device": 1, "inode": 1, "born": -1, "modified": -1, "size": 0, "mode": 33152, "handle": ""}'
        for stored, words in (("rank-0.files/9", "is not a regular file"), ("../../outside", "no name of a file saved")):
            forge("forge_version", place.version_path(1), "image-contents", '[{"path": "%s", "stored": "%s", "identity": %s, "checksum": "0x2d06800538d394c2"}]' %
                  (place.path("outside"), stored, identity))
            status, text, _ = place.ask([tool("cropdl-restart"), place.store], timeout=20)
            expect(status == 1 and words in text, f"ended with {status}: {text}")


@scenario("store.keep_option_removes_old_versions")
def kept():
    """--keep of the start holds for restarts without one. The oldest version is removed after the one that makes it superfluous."""
    def settles(place, job, wanted):
        end = time.monotonic() + PATIENCE
        while place.versions() != wanted:
            job.must_run()
            expect(time.monotonic() < end, f"versions {place.versions()} stay instead of {wanted}: {job.output()}")
            time.sleep(0.02)

    with Place("keep") as place:
        reference = native(place, "plain/plain", ("--steps", "300", "--pace", "20000"))
        job = place.run("plain/plain", ("--steps", "300", "--pace", "20000"), options=("--keep", "2"))
        for wanted, then in (([3, 4], ()), ([5, 6], ("--keep", "3,24h")), ([6, 7, 8], ("--keep", "1"))):
            job.wait_for_step(Log(job.log).last_step() + 1)
            while (place.versions() or [0])[-1] < wanted[-1]:
                take_checkpoint(place, job)
            settles(place, job, wanted)
            job.kill_running()
            job = place.restart(options=then)
        job.finish()
        expect(Log(job.log).digest == reference[0].digest, "DIFFERENT")


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True))
