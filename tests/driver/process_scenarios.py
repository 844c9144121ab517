#!/usr/bin/env python3
"""Process attributes that the kernel keeps, other than memory and files: ids, credentials, limits, scheduling, clocks, namespaces. A
restart restores each one, or the checkpoint is refused with a line that names it."""

import ctypes
import os
import re
import sys
import time

from command_scenarios import refused, refused_here
from driver import (Failure, Log, Place, Skipped, app, check_continued, check_refused, check_whole, expect, expect_taken, forge, installed_for_others,
                    collects_into, metadata_of, scenario_main, take_checkpoint, tool)
from restart_scenarios import survives, wait_for_new_steps

SCENARIOS = {}
scenario = collects_into(SCENARIOS)


SHORT = ("--steps", "48", "--pace", "25000")


def goes_on(starter, restarter, program, *arguments, kills=(5, 20), attempts=1):
    """Starts the program by one command, kills it at the given steps, restarts it by the other command each time; it must end normally."""
    with Place(program) as place:
        log = place.path("log")
        command = [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app(f"plain/{program}"), *arguments, *SHORT, "--log", log]
        job = place.start([*starter, *command], log)
        for step in kills:
            job.wait_for_step(step)
            _, _, bounds = take_checkpoint(place, job, attempts)
            job.kill_running()
            before = Log(log)
            job = place.start([*restarter, tool("cropdl-restart"), place.store], log)
            wait_for_new_steps(job, bounds, 48)
            check_continued(before, Log(log), job.started, *bounds[log])
        job.finish()
        check_whole(Log(log))


@scenario("process.own_pid_reaches_the_program_itself")
def own_number():
    survives("own_ids", arguments=SHORT, chain=("same", "same"), attempts=20)


@scenario("process.clocks_never_go_back")
def clocks_go_on():
    survives("clocks_go_on", arguments=SHORT, chain=("same", "same"))


@scenario("process.clocks_continue_after_a_later_boot")
def younger_boot():
    """Started in a time namespace whose clocks are eleven days ahead, restarted outside of it, as on a machine that booted later."""
    ahead = ["unshare", "--time", "--monotonic", "1000000", "--boottime", "1000000"]
    ahead += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    with Place("younger") as place:
        status, text, _ = place.ask(ahead + ["cat", "/proc/uptime"])
        expect(status == 0 and float(text.split()[0]) > 1e6, f"needs a time namespace (root, or user namespaces): {text}")
    goes_on(ahead, [], "clocks_go_on")


@scenario("process.child_with_the_program_s_pid_is_not_taken_for_it")
def number_taken():
    """The program has pid 41 in its pid namespace. It is restarted in a fresh namespace, where a child soon gets that pid."""
    space = ["unshare", "--pid", "--fork", "--mount-proc"]
    space += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    goes_on(space + ["sh", "-c", 'echo 40 > /proc/sys/kernel/ns_last_pid && "$@"; true', "sh"], space + ["sh", "-c", '"$@"; true', "sh"],
            "number_taken", kills=(3,), attempts=100)


@scenario("process.attributes_set_by_the_program_are_restored")
def attributes():
    survives("kept_attributes", arguments=SHORT, chain=("same", "same"))


@scenario("process.processors_beyond_those_of_the_first_machine_are_not_used")
def more_processors():
    """A version as of a machine with fewer processors; each of its restarts keeps all threads to as many."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Skipped("needs two processors")
    first, number = allowed[0], allowed[0] + 1
    with Place("processors") as place:
        job = place.run("plain/processors", SHORT)
        log = job.log
        for step, version in ((5, 1), (20, 2)):
            job.wait_for_step(step)
            _, _, bounds = take_checkpoint(place, job)
            job.kill_running()
            before = Log(log)
            if version == 1:
                forge("forge_version", place.version_path(1), "image-processors", str(number))
                refused_here(place, ["taskset", "-c", str(allowed[1]), tool("cropdl-restart"), place.store], f"bound to {allowed[1]};")
            known = metadata_of(place.version_path(version, "rank-0.img"))["processors"]
            expect(known == number, f"version {version} is of a machine with {known} processors, not {number}")
            job = place.restart()
            wait_for_new_steps(job, bounds, 48)
            check_continued(before, Log(log), job.started, *bounds[log])
            expect(f"is kept to as many here: it may run on {first} " in job.output(), job.output())
            with open(log) as f:
                lines = [line.split() for line in f if line.startswith("at ")]
            seen = {words[1] for words in lines if float(words[2]) >= job.started}
            expect(seen == {f"highest={first}"}, f"{seen}, not {first} alone")
        job.finish()
        check_whole(Log(log))


# Starts a command on a simulated kernel before Linux 6.3, which cannot report membarrier registrations.
OLDER_KERNEL = """
import ctypes, os, struct, sys
code = struct.pack("<" + 6 * "HBBI", 0x20, 0, 0, 0,  # the number of the call
                   0x15, 0, 3, 324, 0x20, 0, 0, 16,  # membarrier: its command
                   0x15, 0, 1, 1 << 9, 0x06, 0, 0, 0x50000 | 22, 0x06, 0, 0, 0x7fff0000)
memory = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 6, ctypes.addressof(memory)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[1], sys.argv[1:])
"""


@scenario("process.membarrier_registrations_are_restored_on_old_kernels")
def older_kernel():
    starter = [sys.executable, "-c", OLDER_KERNEL]
    goes_on(starter, starter, "kept_attributes")


# Calls that need root: an ordinary user runs them as root of a user namespace, where that is allowed.
AS_ROOT = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]


def dropped(what):
    """Groups and capabilities that the program dropped stay dropped."""
    goes_on(AS_ROOT, AS_ROOT, "dropped_privileges", what)


scenario("process.dropped_capabilities_and_groups_stay_dropped")(lambda: dropped("capabilities"))
if os.geteuid() == 0:  # a user namespace that maps one user has no other ids
    scenario("process.dropped_group_ids_stay_dropped")(lambda: dropped("group"))


def refused_for_good(what, words, needs=(), program="refused_attributes"):
    """The program changes the attribute for good: every checkpoint is refused with a line that names it, and the program ends normally."""
    with Place("changed") as place:
        log = place.path("log")
        program = [app(f"plain/{program}"), what, *SHORT, "--log", log]
        job = place.start(list(needs) + [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + program, log)
        job.wait_for_step(5)
        status, text, _ = place.checkpoint()
        check_refused(place, status, text, words)
        job.finish()
        check_whole(Log(log))


@scenario("process.missing_threads_are_reported_before_the_program_runs")
def no_more_threads():
    """A limit on processes that is too low fails the start, and the restart, with one line; the store stays unchanged."""
    with Place("nothreads") as place:
        os.chmod(place.root, 0o777)
        log = place.path("log")
        # Root has no such limit.
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
        program = [app("plain/plain"), *SHORT, "--log", log]
        command = [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + program

        def refused_until_enough(command, untouched):
            name = os.path.basename(command[0])
            for limit in range(1, 10):
                status, text, _ = place.ask(user + ["prlimit", f"--nproc={limit}"] + command)
                if status == 0:
                    expect(limit > 1, "the limit has no effect")
                    print(f"{name}: refused below a limit of {limit}")
                    return
                expect(status == 1 and re.fullmatch(f"{name}: cannot start a thread of the lower half: Resource temporarily unavailable.*", text),
                       f"limit {limit}: {status}: {text}")
                untouched()
            raise Failure(f"{name} needs more than {limit} threads")

        refused_until_enough(command, lambda: expect(not os.path.exists(log), "the program was begun"))
        os.remove(log)
        job = place.start(user + command, log)
        job.wait_for_step(5)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        before = Log(log)
        there = content(place.store)
        began = time.time()
        refused_until_enough([tool("cropdl-restart"), place.store],
                             lambda: expect(content(place.store) == there, f"the store was changed: {content(place.store)}, {there}"))
        check_continued(before, Log(log), began, *bounds[log])
        check_whole(Log(log))


def content(folder):
    """Every file below the folder, with data that changes when the file is written; excludes the files that describe the running job."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in set(names) - {"job", "lock"}:
            info = os.stat(os.path.join(path, name))
            found[os.path.join(path, name)] = (info.st_ino, info.st_size, info.st_mtime_ns)
    return found


_CHANGED = "the program has changed its {} (from {} to {}), which cannot be saved yet"
for _what, _words in {
        "seccomp": _CHANGED.format("set of seccomp filters", "2 1", "2 2"),
        "uts": _CHANGED.format("uts namespace", "uts:[<n>]", "uts:[<n>]"),
        "net": _CHANGED.format("net namespace", "net:[<n>]", "net:[<n>]"),
        "time": _CHANGED.format("time_for_children namespace", "time:[<n>]", "time:[<n>]"),
        "counter": "the program has forbidden a thread the time stamp counter (PR_SET_TSC), which cannot be saved yet",
        "keyring": _CHANGED.format("process keyring", "<w>", "<n>"),
        "root": "the program has changed its root directory (chroot), which cannot be saved yet"}.items():
    scenario(f"refused.process.{_what}")(
        lambda w=_what, k=_words: refused_for_good(w, k, () if w in ("seccomp", "keyring", "counter") else AS_ROOT))


@scenario("refused.process.ports")
def ports():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ioperm(0x80, 1, 1) != 0:
        raise Skipped(f"cannot open a port here: {os.strerror(ctypes.get_errno())}")
    libc.ioperm(0x80, 1, 0)
    refused_for_good("ports", "the program has opened input and output ports (iopl, ioperm), which cannot be saved yet")


if os.geteuid() == 0:
    scenario("refused.process.user")(
        lambda: refused_for_good("user", "the program runs as user 1000 now and was started as user 0, whose store it may not write; "
                                                  "that cannot be saved yet", program="dropped_privileges"))

    @scenario("refused.process.version_of_a_user_is_not_restarted_by_root")
    def restarted_by_root():
        with Place("byroot") as place:
            os.chmod(place.root, 0o777)
            log = place.path("log")
            # Not the user of the test above, which counts that user's processes.
            somebody = ["setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups"]
            tools, programs = installed_for_others(place, "plain/plain")
            command = [tools("cropdl-run"), "--interval", "0", "--dir", place.store, "--", programs("plain/plain"), *SHORT, "--log", log]
            job = place.start(somebody + command, log)
            job.wait_for_step(5)
            status, text, _ = place.ask(somebody + [tools("cropdl"), "checkpoint", place.store])
            expect_taken(job, status, text)
            job.kill_running()
            status, text, _ = place.ask([tool("cropdl-restart"), place.store])
            expect(status != 0 and "belongs to user id 65533" in text, f"{status}: {text}")
            status, text, _ = place.ask(somebody + [tools("cropdl-restart"), place.store])
            expect(status == 0, text)
            check_whole(Log(log))


for _what, _words in {
        "child-without-signal": "the program has a child process that it has not waited for (pid <n>, <w>); end it and wait for it (PyTorch: num_workers=0)",
        "child-in-our-memory": "the program has a child process that it has not waited for (pid <n>, <w>); end it and wait for it (PyTorch: num_workers=0)",
        "semaphore-undo": "the System V semaphore set <n> (semget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "message-queue": "the System V message queue <n> (msgget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        }.items():
    scenario(f"refused.process.{_what}")(lambda w=_what, k=_words: refused("refused_objects", w, k))


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("process.clocks",)))
