#!/usr/bin/env python3
"""Descriptors, standard streams and files: each is restored, or refused with a line that names it. Files are changed only if they provably
belong to the program."""

import ctypes
import errno
import os
import pty
import shutil
import struct
import sys
import tempfile
import time

from driver import Log, PATIENCE, Place, Skipped, TooLate, app, check_refused, check_whole, expect, collects_into, launcher, logs_of, scenario_main, take_checkpoint, tool
from command_scenarios import one_line, refused, without_privileges
from restart_scenarios import SHORT, survives, wait_for_new_steps

SCENARIOS = {}
scenario = collects_into(SCENARIOS)
STEPS = ("--steps", "60", "--pace", "20000")


# --- Standard streams --------------------------------------------------------------------------------------------

def by_shell(place, redirections, command):
    """The command, started by a shell that redirects its standard streams; @ stands for the test's directory."""
    return ["sh", "-c", f'exec "$@" {redirections.replace("@", place.root)}', "sh", *command]


def protected(place, program, arguments=()):
    return [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app(f"plain/{program}"), *arguments, "--log", place.path("log")]


def lines(place, name):
    with open(place.path(name), errors="replace") as f:
        return f.read().splitlines()


def ends_well(job, total=60):
    job.finish()
    log = Log(job.log)
    check_whole(log)
    expect(log.last_step() == total, f"{log.last_step()} steps of {total}: {job.output()}")


@scenario("files.standard_input_file_continues_at_its_offset")
def input_file():
    with Place("input") as place:
        with open(place.path("in"), "w") as f:
            f.write("".join(f"{i:09d}\n" for i in range(60)) + "x" * 4096)
        job = place.start(by_shell(place, "<@/in", protected(place, "streams", ("--input", "60") + STEPS)))
        for _ in range(2):
            job.wait_for_step(Log(job.log).last_step() + 4)
            _, _, bounds = take_checkpoint(place, job)
            job.kill_running()
            job = place.restart()
            wait_for_new_steps(job, bounds, 60)
        ends_well(job)


@scenario("files.with_read_only_modes_are_still_written")
def sealed_files():
    """Run without capabilities, so that file modes apply. The files' modes are the same afterwards."""
    with Place("sealed") as place:
        os.mkdir(place.path("work"))
        job = place.start(without_privileges(protected(place, "sealed_files", STEPS + ("--work", place.path("work")))))
        for _ in range(2):
            job.wait_for_step(Log(job.log).last_step() + 4)
            _, _, bounds = take_checkpoint(place, job)
            job.wait_for_step(Log(job.log).last_step() + 3)  # so that the restart has something to undo
            job.kill_running()
            job = place.start(without_privileges([tool("cropdl-restart"), place.store]))
            job.own_since = job.started
            wait_for_new_steps(job, bounds, 60)
        ends_well(job)


@scenario("files.standard_input_pipe_is_refused_after_data_was_read")
def input_pipe():
    with Place("input") as place:
        with open(place.path("in"), "w") as f:
            f.write("".join(f"{i}\n" for i in range(3)))
        # Data was read but end of file was not seen: refused. After end of file, nothing can be lost.
        job = place.start(["sh", "-c", 'f=$1; g=$2; shift 2; (cat "$f"; until [ -e "$g" ]; do sleep 0.05; done) | exec "$@"', "sh",
                           place.path("in"), place.path("go"),
                           *protected(place, "streams", ("--input", "3", "--steps", "200", "--pace", "20000"))])
        job.wait_for_step(5)
        status, text, _ = place.checkpoint()
        job.must_run()
        expect(status != 0 and "the standard input is a pipe" in one_line(text), f"{status}: {text}")
        open(place.path("go"), "w").close()
        job.wait_for_step(Log(job.log).last_step() + 10)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        job = place.restart()
        wait_for_new_steps(job, bounds, 200)
        ends_well(job, 200)


@scenario("files.standard_input_pipe_without_reads_is_accepted")
def unread_pipe():
    with Place("input") as place:
        job = place.start(["sh", "-c", 'sleep 100 | exec "$@"', "sh", *protected(place, "streams", STEPS)])
        job.wait_for_step(3)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)


def streams_apart(place, job):
    job.wait_for_step(4)
    _, _, bounds = take_checkpoint(place, job)
    job.kill_running()
    job = place.start(by_shell(place, "</dev/null >@/o 2>@/e", [tool("cropdl-restart"), place.store]))
    wait_for_new_steps(job, bounds, 60)
    ends_well(job)
    out, err = lines(place, "o"), lines(place, "e")
    expect(out and all(line.startswith("out ") for line in out), f"the restart's standard output has {out[:3]}")
    ours = [line for line in err if line.startswith("cropdl-restart: ")]
    expect(ours[-1:] == ["cropdl-restart: continues from version 1"] and any(line.startswith("err ") for line in err), f"standard error: {err[:4]}")
    expect(not any(line.startswith("out ") for line in err), f"both streams are in one: {err[:5]}")


@scenario("files.terminal_streams_become_the_streams_of_the_restart")
def from_terminal():
    with Place("streams") as place:
        spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
        streams_apart(place, place.start([sys.executable, "-c", spawn, *protected(place, "streams", STEPS)]))


@scenario("files.two_streams_in_one_file_become_the_streams_of_the_restart")
def both_in_one():
    with Place("streams") as place:
        streams_apart(place, place.start(by_shell(place, ">@/both 2>&1", protected(place, "streams", STEPS))))


@scenario("files.lines_of_cropdl_never_enter_a_file_of_the_program")
def own_lines():
    with Place("lines") as place:
        data = place.path("data")
        job = place.start(protected(place, "streams", ("--second", data) + STEPS))
        for _ in range(2):
            job.wait_for_step(Log(job.log).last_step() + 4)
            _, _, bounds = take_checkpoint(place, job)
            job.kill_running()
            job = place.restart()
            wait_for_new_steps(job, bounds, 60)
            expect("continues from version" in job.output(), f"the restart says nothing: {job.output()}")
        ends_well(job)
        expect(lines(place, "data") == [f"err {i}" for i in range(60)], f"in the program's file: {lines(place, 'data')[:5]}")


# --- Descriptors -------------------------------------------------------------------------------------------------

def with_limit(ulimit, command):
    return ["sh", "-c", f'ulimit {ulimit}; exec "$@"', "sh", *command]


def restarts_with_limit(place, job, ulimit):
    """Takes a checkpoint, kills, restarts under another limit, and waits for the end at step 30."""
    job.wait_for_step(3)
    _, _, bounds = take_checkpoint(place, job)
    job.kill_running()
    job = place.start(with_limit(ulimit, [tool("cropdl-restart"), place.store]))
    wait_for_new_steps(job, bounds, 30)
    ends_well(job, 30)


@scenario("files.two_thousand_descriptors_keep_their_offsets")
def many():
    with Place("many") as place:
        arguments = ("--files", "2000", "--work", place.root, "--steps", "30", "--pace", "20000")
        job = place.start(with_limit("-n 4096", protected(place, "many_files", arguments)))
        restarts_with_limit(place, job, "-n 4096")


@scenario("files.streams_under_a_low_descriptor_limit")
def few():
    """Soft and hard limit below the usual 1024, at the start and at the restart."""
    with Place("few") as place:
        limited = lambda command: with_limit("-n 256", by_shell(place, "</dev/null >@/o 2>@/e", command))
        job = place.start(limited(protected(place, "streams", STEPS)))
        job.wait_for_step(4)
        ours = [int(fd) for pid in job.ranks() for fd in os.listdir(f"/proc/{pid}/fd") if 3 < int(fd) < 100]  # 3 is the program's log
        expect(not ours, f"the program's low numbers are taken: {ours}")
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        job = place.start(limited([tool("cropdl-restart"), place.store]))
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)
        expect("out 59" in lines(place, "o") and "err 59" in lines(place, "e"), f"lost: {lines(place, 'o')[-2:]} {lines(place, 'e')[-2:]}")


@scenario("files.high_descriptors_under_a_lower_limit")
def high_numbers():
    """Numbers above 65536 if the hard limit allows; restarted under a smaller soft limit."""
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (80000, max(hard, 80000)))
    except (OSError, ValueError):
        print(f"no descriptor above 65536 here: the hard limit is {hard}")
    with Place("high") as place:
        arguments = ("--files", "20", "--work", place.root, "--steps", "30", "--pace", "20000")
        job = place.start(protected(place, "many_files", arguments))
        job.wait_for_step(3)
        print(job.output().strip())
        restarts_with_limit(place, job, "-S -n 1024")


def forbid(call):
    """In this process and its children, as a sandbox does."""
    not_permitted, no_new_privileges, set_seccomp, filter_mode = 0x50000 | errno.EPERM, 38, 22, 2
    steps = b"".join(struct.pack("HBBI", *step) for step in (
        (0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, not_permitted), (0x06, 0, 0, 0x7fff0000)))  # seccomp(2)
    buffer = ctypes.create_string_buffer(steps)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    expect(libc.prctl(set_seccomp, filter_mode, program, 0, 0) == 0, f"cannot forbid system call {call}")
    expect(libc.syscall(call, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, f"system call {call} is still there")


@scenario("files.shared_offsets_without_kcmp")
def without_kcmp():
    forbid(312)
    survives("files", arguments=SHORT + ("--work", "@"))


@scenario("files.without_descriptor_tables_of_threads")
def without_unshare():
    forbid(272)
    survives("files", arguments=SHORT + ("--work", "@"))


_LOCK = "a file lock or lease on {} (descriptor <n>) cannot be saved yet"
_SIGNAL = "SIGIO or SIGURG for @/output-<n> (descriptor 1) (fcntl F_SETOWN or F_SETSIG) cannot be saved yet"
_GONE = "the deleted {} /tmp/refused-files-<w> (deleted) (descriptor <n>) cannot be saved yet: no restart could open it by its name"
for _what, _words in {
        "scm": "a pipe (descriptor <n>) cannot be saved yet",
        "ptmx": "the device /dev/ptmx (descriptor <n>) cannot be saved yet: it has a state of its own",
        "pts": "the device /dev/pts/<n> (deleted) (descriptor <n>) cannot be saved yet: it has a state of its own",
        "peer": "the device /dev/pts/<n> (deleted) (descriptor <n>) cannot be saved yet: it has a state of its own",
        "proc": "/proc/<n>/status (descriptor <n>) cannot be saved: it is of this very process; close it before the checkpoint",
        "queue": "the POSIX message queue /refused-files-<n> (deleted) (descriptor <n>) cannot be saved yet",
        "linked": _GONE.format("file"), "directory": _GONE.format("directory"), "lock": _LOCK.format("@/output-<n>"),
        "record": _LOCK.format("/tmp/refused-files-<w>"), "ofd": _LOCK.format("/tmp/refused-files-<w>"),
        "lease": _LOCK.format("/tmp/refused-files-<w>"), "owner": _SIGNAL, "signal": _SIGNAL}.items():
    SCENARIOS[f"refused.descriptor.{_what}"] = lambda w=_what, k=_words: refused("refused_files", w, k)


def locked_on_fuse(what):
    """The server of the file system keeps the lock, and the kernel does not show it."""
    with Place("fuse") as place:
        os.mkdir(place.path("fuse"))
        mounted = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
        mounted += [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuse_server.py"), place.path("fuse")]
        status, text, _ = place.ask(mounted + ["true"])
        if status != 0:
            raise Skipped(f"cannot mount a FUSE file system: {text.splitlines()[-1:]}")
        job = place.start(mounted + protected(place, "refused_files", (what,) + STEPS))
        job.wait_for_step(3)
        status, text, _ = place.checkpoint()
        if status == 0 and Log(job.log).last_step() >= 30:
            raise TooLate("the file may have been closed before the answer")
        check_refused(place, status, text, _LOCK.format("@/fuse/locked"))
        job.wait_for_step(40)
        take_checkpoint(place, job)
        ends_well(job)


SCENARIOS["refused.descriptor.lock_on_fuse"] = lambda: locked_on_fuse("fuse")
SCENARIOS["refused.descriptor.record_lock_on_fuse"] = lambda: locked_on_fuse("fuse-record")
SCENARIOS["refused.descriptor.lock_on_fuse_after_many"] = lambda: locked_on_fuse("fuse-many")


@scenario("refused.descriptor.pressure")
def pressure():
    try:
        with open("/proc/pressure/memory", "r+b", buffering=0) as trigger:
            trigger.write(b"some 150000 2000000\0")
    except OSError as why:
        raise Skipped(f"the kernel has no triggers of memory pressure: {why}")
    refused("refused_files", "pressure", "/proc/pressure/memory (descriptor <n>) cannot be saved yet: it is open for writing, and the kernel "
                                         "does not tell what was written to it; close it before the checkpoint")


def refused_for_good(what, words):
    with Place("refused") as place:
        job = place.start(protected(place, "refused_files", (what,) + STEPS))
        job.wait_for_step(3)
        status, text, _ = place.checkpoint()
        check_refused(place, status, text, words)
        ends_well(job)


for _what, _words in {
        "notify": "the program has asked to be told of changes in a directory (fcntl F_NOTIFY), which cannot be saved; no checkpoint of this process is possible any more",
        "shared": "a child made with CLONE_FILES has shared the program's descriptors, and what it opened or closed is not known; no checkpoint of this process is possible any more"}.items():
    SCENARIOS[f"refused.descriptor.{_what}"] = lambda w=_what, k=_words: refused_for_good(w, k)


@scenario("files.sharing_child_closes_no_descriptor_of_cropdl")
def spared():
    survives("refused_files", arguments=("sharedmemory",) + SHORT, chain=("same",))


GIVES_A_PIPE = "import os, sys; os.dup2(os.pipe()[1], 47); os.execvp(sys.argv[1], sys.argv[1:])"


def given(mpi):
    with Place("given") as place:
        job = place.start([*launcher(mpi, 1), sys.executable, "-c", GIVES_A_PIPE, *protected(place, "refused_files", ("given",) + STEPS)])
        job.wait_for_step(3)
        status, text, _ = place.checkpoint()
        if status == 0 and Log(job.log).last_step() >= 30:
            raise TooLate("the pipe may have been given up before the answer")
        check_refused(place, status, text, "a pipe (descriptor 47) cannot be saved yet; the program was started with it, and if it has no use "
                                           "for it, start it with 47>&-")
        job.wait_for_step(40)
        take_checkpoint(place, job)
        end = time.monotonic() + PATIENCE
        while Log(job.log).digest is None and job.alive() and time.monotonic() < end:
            time.sleep(0.05)
        check_whole(Log(job.log))


for _mpi, _giver in {"none": "the_shell", "openmpi": "a_script_behind_openmpi", "mpich": "a_script_behind_mpich"}.items():
    SCENARIOS[f"refused.descriptor.given_by_{_giver}"] = lambda m=_mpi: given(m)


@scenario("refused.descriptor.offset_that_ranks_share")
def shared_by_ranks():
    """MPICH's launcher passes its own open descriptors to all ranks. The offset of one opened with O_APPEND does not matter."""
    for redirection in ("9<@/in", "9>>@/in"):
        with Place("given") as place:
            with open(place.path("in"), "w") as f:
                f.write("x" * 100)
            job = place.start(by_shell(place, redirection, [
                *launcher("mpich", 2), tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("mpich/collectives"),
                *STEPS, "--log", place.path("log")]))
            job.wait_for_step(3)
            if redirection == "9>>@/in":
                take_checkpoint(place, job)
            else:
                status, text, _ = place.checkpoint()
                check_refused(place, status, text, "@/in (descriptor 9) was open when the ranks were started, and the place in it that they share "
                                                   "cannot be saved yet; let each rank open it, or start them with 9>&-")
            job.kill_running()


# --- Files -------------------------------------------------------------------------------------------------------

@scenario("files.replaced_file_is_left_alone")
def rotated():
    with Place("rotated") as place:
        data = place.path("data")
        job = place.start(protected(place, "streams", ("--second", data) + STEPS))
        job.wait_for_step(10)
        take_checkpoint(place, job)
        job.kill_running()
        os.rename(data, data + ".1")
        foreign = "somebody else's\n" * 1000
        with open(data, "w") as f:
            f.write(foreign)
        job = place.restart()
        status = job.process.wait(timeout=PATIENCE)
        expect(status != 0 and "is not the file of the checkpoint" in one_line(job.output()), f"{status}: {job.output()}")
        with open(data) as f:
            expect(f.read() == foreign, "the other file was changed")


def kept_open(place, arguments=()):
    """Takes a version of `changing`, which writes in place and at the end of its files; kills it some steps later."""
    job = place.run("plain/changing", ("--work", place.root) + arguments + STEPS)
    job.wait_for_step(8)
    _, _, bounds = take_checkpoint(place, job)
    job.wait_for_step(Log(job.log).last_step() + 5)
    job.kill_running()
    return job, bounds


@scenario("files.changed_in_place_are_restored")
def changed():
    with Place("changing") as place:
        _, bounds = kept_open(place)
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)


@scenario("files.deleted_since_the_checkpoint_are_restored")
def made_again():
    """Twice from the same version: the second restart knows the file that the first one has made. The program checks the file's attributes."""
    with Place("changing") as place:
        _, bounds = kept_open(place)
        for attribute in ("user.sum", "system.posix_acl_access"):
            try:
                os.getxattr(place.path("in_place"), attribute)
            except OSError as why:
                print(f"skipped: {attribute}: {why}")
        os.rename(place.path("in_place"), place.path("elsewhere"))
        for said in ("in_place was made again", "in_place was put back"):
            job = place.restart()
            wait_for_new_steps(job, bounds, 60)
            expect(said in job.output(), job.output())
            if said.endswith("again"):
                job.kill_running()
        ends_well(job)
        status, text, _ = place.ask([tool("cropdl"), "verify", place.store])
        expect(status == 0, f"{status}: {text}")


@scenario("files.option_decides_about_changed_files")
def policies():
    with Place("changing") as place:
        kept_open(place)
        with open(place.path("in_place"), "rb") as f:
            before = f.read()
        status, text, _ = place.ask([tool("cropdl-restart"), "--files=fail", place.store])
        expect(status != 0 and "--files=fail leaves it so" in text, f"{status}: {text}")
        with open(place.path("in_place"), "rb") as f:
            expect(f.read() == before, "refused, but the file was changed")
        status, text, _ = place.ask([tool("cropdl-restart"), "--files=keep", place.store])
        expect(status == 1 and "in_place differs" in text, f"{status}: {text}")
        status, text, _ = place.ask([tool("cropdl-restart"), "--files=sometimes", place.store])
        expect(status != 0 and "--files" in one_line(text), f"{status}: {text}")


def read_version(place):
    """Takes a version of `reads`, which reads a line of a file in each step; kills it."""
    with open(place.path("in"), "w") as f:
        f.write("".join(f"line {i}\n" for i in range(60)))
    # Its log is its standard output, so that no other file of it differs afterwards.
    job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/reads"), "--in", place.path("in"), *STEPS],
                      place.path("output-0"))
    job.wait_for_step(8)
    _, _, bounds = take_checkpoint(place, job)
    job.kill_running()
    return bounds[job.log][1]


def reads_on(place, after, options=()):
    job = place.restart(options=options, log=place.path("output-1"))
    job.process.wait(timeout=PATIENCE)
    text = job.output().splitlines()
    steps = [int(line.split()[1]) for line in text if line.startswith("step ")]
    expect(job.process.returncode == 0 and steps == list(range(steps[0], 61)) and steps[0] <= after + 1, job.output())
    return [line for line in text if line.startswith("cropdl-restart: ")]


@scenario("files.changed_input_files_are_named")
def changed_input():
    with Place("reads") as place:
        after = read_version(place)
        with open(place.path("in"), "a") as f:
            f.write("line 60\n")
        status, text, _ = place.ask([tool("cropdl-restart"), "--files=fail", place.store])
        expect(status != 0 and "/in (descriptor 3): is not as it was when the checkpoint was taken (478 bytes, then 470 bytes), and "
               "--files=fail accepts no difference" in one_line(text), f"{status}: {text}")
        said = reads_on(place, after)
        expect(said == [f"cropdl-restart: {place.path('in')} is not as it was at the checkpoint (478 bytes, then 470 bytes) and is used as it is",
                        "cropdl-restart: continues from version 1"], said)


@scenario("files.unchanged_input_files_are_not_mentioned")
def unchanged_input():
    with Place("reads") as place:
        said = reads_on(place, read_version(place), ("--files=fail",))
        expect(said == ["cropdl-restart: continues from version 1"], said)


@scenario("files.half_read_directory_that_changed_is_refused_on_tmpfs")
def counted_names():
    """On a tmpfs, where directory offsets count names. If the directory is unchanged, each name is read exactly once."""
    with Place("directories") as place, tempfile.TemporaryDirectory(dir="/dev/shm") as names:
        for i in range(60):
            open(f"{names}/{i}", "w").close()
        with open(place.path("in"), "w") as f:
            f.write("".join(f"line {i}\n" for i in range(60)))
        job = place.start(protected(place, "reads", ("--in", place.path("in"), "--directory", names) + STEPS))
        job.wait_for_step(8)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        then = os.stat(names)
        open(f"{names}/late", "w").close()
        refused_restart(place, f"the program had read a part of the names in its directory {names} (descriptor 5), which has changed since")
        os.unlink(f"{names}/late")
        os.utime(names, ns=(then.st_atime_ns, then.st_mtime_ns))
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)


@scenario("files.replaced_directories_are_named_or_refused")
def other_directories():
    """A replaced working directory only causes a warning; a replaced directory that the program has half read causes a refusal."""
    with Place("directories") as place:
        with open(place.path("in"), "w") as f:
            f.write("".join(f"line {i}\n" for i in range(60)))

        def make(name, entries):
            os.mkdir(place.path(name))
            for i in range(entries):
                open(place.path(f"{name}/{i}"), "w").close()

        make("here", 0)
        make("list", 60)
        there = ["sh", "-c", 'cd here; exec "$@"', "sh"]
        job = place.start([*there, *protected(place, "reads", ("--in", place.path("in"), "--directory", place.path("list")) + STEPS)])
        job.wait_for_step(8)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        for name, entries, options, words in (
                ("here", 0, ("--files=fail",), f"the program's directory {place.path('here')} is not that of the checkpoint but another one of that name"),
                ("list", 60, (), f"the program's directory {place.path('list')} (descriptor 5) is not that of the checkpoint but another one")):
            os.rename(place.path(name), place.path(name + ".aside"))
            make(name, entries)
            refused_restart(place, words, options)
            shutil.rmtree(place.path(name))
            os.rename(place.path(name + ".aside"), place.path(name))
        os.rename(place.path("here"), place.path("here.aside"))
        make("here", 0)
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)
        said = f"cropdl-restart: {place.path('here')} is another directory than at the checkpoint and is used as it is"
        expect(said in job.output().splitlines(), job.output())


for _mpi in ("openmpi", "mpich"):
    scenario(f"files.{_mpi}.log_appended_by_all_ranks_is_complete")(
        lambda m=_mpi: survives("shared_log", m, 2, ("--work", "@", "--steps", "60", "--pace", "20000"), ("same", "same")))
scenario("files.openmpi.mapped_by_all_ranks_and_written_by_one")(
    lambda: survives("mapped_by_others", "openmpi", 2, ("--work", "@") + STEPS, ("same", "other", "same")))


@scenario("files.openmpi.mapped_by_all_ranks_and_then_changed_or_deleted")
def mapped_and_changed():
    """Files are restored before they are mapped again: a large data set that no image contains and that one rank writes to later, and a
    deleted file that is made again and whose mapping must show later writes."""
    for change in ("large", "deleted"):
        with Place("mapped") as place:
            os.mkdir(place.path("work"))
            if change == "large":
                with open(place.path("work/large"), "wb") as f:
                    f.write(bytes(20 << 20))
                    os.fsync(f.fileno())
                then = time.time() - 100
                os.utime(place.path("work/large"), (then, then))
            job = place.run("openmpi/mapped_by_others", ("--work", place.path("work")) + STEPS, "openmpi", 2)
            job.wait_for_step(4)
            _, _, bounds = take_checkpoint(place, job)
            job.wait_for_step(34)
            job.kill_running()
            if change == "deleted":
                os.unlink(place.path("work/placed"))
            job = place.restart("openmpi", 2)
            wait_for_new_steps(job, bounds, 60)
            job.finish()
            for log in logs_of(job.log, 2):
                check_whole(log)
                expect(log.last_step() == 60, f"{change}: {log.last_step()} steps of 60: {job.output()}")


def two_names(place):
    """Takes a version of `two_names`, which has one file open by two hard links and one by two symbolic links; kills it."""
    shutil.rmtree(place.store, ignore_errors=True)
    if os.path.exists(place.path("log")):
        os.remove(place.path("log"))
    job = place.run("plain/two_names", ("--work", place.root) + STEPS)
    job.wait_for_step(8)
    _, _, bounds = take_checkpoint(place, job)
    job.wait_for_step(Log(job.log).last_step() + 5)
    job.kill_running()
    return bounds


@scenario("files.two_names_stay_one_file")
def both_names():
    with Place("names") as place:
        bounds = two_names(place)
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)


def refused_restart(place, words, options=()):
    status, text, _ = place.ask([tool("cropdl-restart"), *options, place.store])
    expect(status != 0 and any(words in line for line in text.splitlines()), f"{status}: {text}")
    print(text)


@scenario("files.one_of_two_names_replaced_is_refused")
def replaced_name():
    with Place("names") as place:
        bounds = two_names(place)
        for name, foreign, words in (("second", b"somebody else's", "second (descriptor 5): was the same file as "),
                                     ("first", b"somebody else's", "first: is not the file of the checkpoint"),
                                     ("second", None, "second is gone; put it back (ln) and try again"),
                                     ("first", None, "first is gone; put it back (ln) and try again")):
            os.rename(place.path(name), place.path("aside"))
            if foreign:
                with open(place.path(name), "wb") as f:
                    f.write(foreign)
            refused_restart(place, words)
            os.rename(place.path("aside"), place.path(name))
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)


@scenario("files.renamed_directory_is_refused_by_name")
def renamed_directory():
    with Place("names") as place:
        bounds = two_names(place)
        os.rename(place.path("below"), place.path("elsewhere"))
        refused_restart(place, f"the program's file {place.path('below/file')}: is gone, and cannot be made again: {place.path('below')}: No such file")
        os.symlink("elsewhere", place.path("below"))
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)


@scenario("files.symbolic_link_in_a_file_s_place_is_refused")
def became_link():
    with Place("names") as place:
        two_names(place)
        os.rename(place.path("below/file"), place.path("below/moved"))
        os.symlink("moved", place.path("below/file"))
        refused_restart(place, f"{place.path('below/file')}: is a symbolic link now")
        job = place.restart(options=("--files=keep",))  # --files=keep: nothing is written through the link
        end = time.monotonic() + PATIENCE
        while "continues from version 1" not in job.output() and time.monotonic() < end:
            expect(job.alive() or "continues from version 1" in job.output(), job.output())
            time.sleep(0.05)
        expect("continues from version 1" in job.output(), job.output())


@scenario("files.restarted_version_is_not_held_open")
def not_held():
    with Place("held") as place:
        job = place.run("plain/plain", ("--steps", "2000", "--pace", "20000"))
        job.wait_for_step(5)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        job = place.restart()
        wait_for_new_steps(job, bounds, 2000)
        ranks = job.ranks()
        expect(ranks, "no rank is left to inspect")
        held = [os.readlink(f"/proc/{pid}/fd/{fd}") for pid in ranks for fd in os.listdir(f"/proc/{pid}/fd")]
        expect(not any("/v0000" in name for name in held), f"open after the restart: {held}")
        job.kill_running()


@scenario("files.beyond_the_save_limit_are_refused")
def too_much():
    with Place("changing") as place:
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--save-files", "4096", "--", app("plain/changing"),
                           "--work", place.root, *STEPS, "--log", place.path("log")], place.path("log"))
        job.wait_for_step(3)
        status, text, _ = place.checkpoint()
        job.must_run()
        expect(status != 0 and "more than 4096 bytes; raise that (cropdl-run --save-files BYTES)" in one_line(text), f"{status}: {text}")
        ends_well(job)


@scenario("files.damaged_copy_is_detected")
def damaged():
    with Place("changing") as place:
        kept_open(place)
        folder = os.path.join(place.version_path(1), "rank-0.files")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "r+b") as f:
                f.write(b"X")
        status, text, _ = place.ask([tool("cropdl"), "verify", place.store])
        expect(status != 0 and "its content is damaged (checksum)" in text, f"{status}: {text}")
        status, text, _ = place.ask([tool("cropdl-restart"), place.store])
        expect(status != 0 and "its content is damaged (checksum)" in text, f"{status}: {text}")


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("files.changed_in_place", "files.option", "files.mpich.log")))
