#!/usr/bin/env python3
"""Hazards of two programs in one address space: signals, children, descriptors, placement, clocks, threads, the way into and out of the
lower half. If its hazard occurs, a program here fails, hangs, or differs from its undisturbed run."""

import ctypes
import errno
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import types

from driver import (BUILD, Log, PATIENCE, Place, SOURCE, Skipped, app, check_results, check_whole, expect, launcher, native, scenario_main,
                    read_proc, seeded, take_checkpoint, too_late, tool)
from command_scenarios import kill_and_restart_once, refused, wait_for_output
from restart_scenarios import SHORT, survives, wait_for_new_steps

SCENARIOS = {}


def scenario(name, function, *args, **kwargs):
    SCENARIOS[name] = lambda: function(*args, **kwargs)


def checkpointed_all_the_time(program, mpi, ranks, arguments, kills):
    """Takes a version every 50 ms, and kills at random moments."""
    rng = seeded()
    name = f"{'plain' if mpi == 'none' else mpi}/{program}"
    with Place(program) as place:
        reference = native(place, name, arguments, mpi, ranks)
        total = reference[0].last_step()
        job = place.run(name, arguments, mpi, ranks, options=("--interval", "0.05"))
        versions = 0
        for kill in range(kills):
            had = max(place.versions(), default=0)
            end = time.monotonic() + PATIENCE
            while max(place.versions(), default=0) < had + 3 and Log(job.log).digest is None:
                job.must_run()
                expect(time.monotonic() < end, f"no versions in {PATIENCE:.0f} s: {job.output()}")
                time.sleep(0.005)
            time.sleep(rng.random() * 0.1)
            if Log(job.log).digest is not None:
                break
            job.kill_running()
            versions = max(place.versions())
            job = place.restart(mpi, ranks)
        job.finish()
        check_results(job, reference, ranks)
        expect(Log(job.log).last_step() == total, f"{Log(job.log).last_step()} steps, undisturbed {total}")
        if versions < 3 * kills:
            too_late(f"the program ended after only {versions} versions")
        print(f"{versions} versions, {kills} kills")


scenario("hazard.clock_reads_survive_every_cut", checkpointed_all_the_time, "clocks", "none", 1,
        ("--steps", "200", "--pace", "20000"), 5)
scenario("hazard.long_getrandom_is_never_cut_short", checkpointed_all_the_time, "long_random", "none", 1,
        ("--steps", "60", "--pace", "0"), 2)
for _mpi in ("openmpi", "mpich"):
    scenario(f"hazard.{_mpi}.cut_anywhere_on_the_way_into_the_lower_half", checkpointed_all_the_time, "hot_calls", _mpi, 2,
            ("--steps", "250", "--pace", "20000"), 4)


class Signals(threading.Thread):
    """Sends SIGUSR2 to all ranks of a job, again and again while the block runs."""

    def __init__(self, job):
        super().__init__()
        self.pids, self.ended, self.sent = job.ranks(), threading.Event(), 0

    def run(self):
        while not self.ended.wait(0.025):
            for pid in self.pids:
                try:
                    os.kill(pid, signal.SIGUSR2)
                    self.sent += 1
                except ProcessLookupError:
                    pass

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def interrupted(mpi):
    """Handlers run during blocking MPI calls and while images are written; nothing is torn, lost or deadlocked."""
    with Place("interrupted") as place:
        arguments = ("--steps", "14", "--pace", "200000")
        reference = native(place, f"{mpi}/interrupted", arguments, mpi, 2)
        job = place.run(f"{mpi}/interrupted", arguments, mpi, 2)
        job.wait_for_step(1)
        bounds = {}
        for kill in range(2):
            with Signals(job) as signals:
                job.wait_for_step(Log(job.log).last_step() + 2)
                version, _, bounds = take_checkpoint(place, job)
            expect(signals.sent > 10, "no signals were sent")
            job.kill_running()
            for path in bounds:
                with open(path) as f:
                    expect(f.read().count("at handler") > 3 * (kill + 1), f"{path}: the handlers hardly ever ran")
            job = place.restart(mpi, 2)
            wait_for_new_steps(job, bounds, 14)
        with Signals(job):
            job.wait_for_step(12)
        job.finish()
        check_results(job, reference, 2)


for _mpi in ("openmpi", "mpich"):
    scenario(f"hazard.{_mpi}.handlers_run_in_blocking_calls", interrupted, _mpi)
    scenario(f"hazard.{_mpi}.before_init_and_after_finalize", survives, "lifecycle", _mpi, 2,
            ("--steps", "60", "--pace", "25000", "--level", "funneled"), chain=("same", "same", "same"))
    scenario(f"hazard.{_mpi}.other_mpi_before_init_and_after_finalize", survives, "lifecycle", _mpi, 2,
            ("--steps", "60", "--pace", "25000", "--level", "serialized"), chain=("other", "other", "other"))
    scenario(f"hazard.{_mpi}.lent_and_remapped_memory", survives, "lent_memory", _mpi, 2, SHORT)
    scenario(f"hazard.{_mpi}.faults_reach_the_program_s_handlers", survives, "faults", _mpi, 2, ("recover",) + SHORT)
    scenario(f"hazard.{_mpi}.main_ends_by_pthread_exit", survives, "main_leaves", _mpi, 2, SHORT, chain=("same",))


def ended_by_a_signal_that_comes_in_a_stop(*arguments):
    """A wait that is interrupted by a checkpoint, then by a handler without SA_RESTART, ends with EINTR, as after the handler alone."""
    steps, found = 6, 0
    with Place("interrupted_wait") as place:
        job = place.run("plain/interrupted_wait", (*arguments, "--steps", str(steps), "--pace", "0"), environment={"CROPDL_TRACE_PHASE": "1"})
        for step in range(1, steps + 1):
            end = time.monotonic() + PATIENCE
            while not os.path.exists(job.log) or open(job.log).read().count("at wait") < step:
                expect(time.monotonic() < end and job.alive(), f"it did not wait a {step}th time: {job.output()}")
                time.sleep(0.01)
            pid, = job.ranks()
            asked = subprocess.Popen([tool("cropdl"), "checkpoint", place.store], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            while asked.poll() is None and place.phase() != "writing":
                time.sleep(0.001)
            found += asked.poll() is None
            os.kill(pid, signal.SIGUSR2)
            expect(asked.wait(timeout=PATIENCE) == 0, f"no checkpoint: {job.output()}")
            job.wait_for_step(step)
        if found == 0:
            raise Skipped("too slow to tell: no signal came while an image was written")
        job.finish()
        check_whole(Log(job.log))


def vector_ended_by_a_signal_that_comes_in_a_stop():
    futex_waitv = 449
    if ctypes.CDLL(None, use_errno=True).syscall(futex_waitv, None, 0, 0, None, 0) == -1 and ctypes.get_errno() == errno.ENOSYS:
        raise Skipped("needs Linux 5.16")
    ended_by_a_signal_that_comes_in_a_stop("vector")


SCENARIOS["hazard.signal_during_a_stop_ends_a_wait"] = ended_by_a_signal_that_comes_in_a_stop
SCENARIOS["hazard.signal_during_a_stop_ends_futex_waitv"] = vector_ended_by_a_signal_that_comes_in_a_stop

BLOCKED = ("import ctypes, os, sys; ctypes.CDLL(None).syscall(14, 2, ctypes.byref(ctypes.c_uint64(2**64 - 1)), None, 8); "
           "os.execvp(sys.argv[1], sys.argv[1:])")  # rt_sigprocmask(SIG_SETMASK, all signals)


def started_with_every_signal_blocked():
    """Its parent blocked every signal, including those by which CropDL stops threads and traps system calls."""
    rng = seeded()
    with Place("begun_blocked") as place:
        reference = native(place, "plain/plain", SHORT)
        log = place.path("log")
        job = place.start([sys.executable, "-c", BLOCKED, tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain"),
                           *SHORT, "--log", log], log)
        job.wait_for_step(2 + rng.randrange(20))
        take_checkpoint(place, job)
        job.kill_running()
        job = place.restart()
        job.finish()
        check_results(job, reference, 1)


SCENARIOS["hazard.started_with_every_signal_blocked"] = started_with_every_signal_blocked


def python_program(place, code, environment=None):
    return place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", "/usr/bin/python3", "-E", "-c", code], environment=environment)


def no_room_for_signals():
    """No thread can be asked to stop, and the reason is told."""
    with Place("queue") as place:
        job = python_program(place, "import resource, sys, time\n"
                             "resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))\nprint('begun', flush=True)\ntime.sleep(1000)")
        wait_for_output(job, "begun")
        status, text, _ = place.checkpoint()
        line = "cropdl: checkpoint failed: rank 0: its threads cannot be stopped: the queue of signals is full; raise its limit (ulimit -i)"
        expect(status == 1 and text.splitlines()[-1] == line, f"{status}: {text}")
        job.kill_running()


SCENARIOS["hazard.full_queue_of_signals_is_told"] = no_room_for_signals


def refused_again():
    """A program that was refused for a mapping need not be stopped again to be refused again."""
    with Place("again") as place:
        # With this variable it says when it has stopped.
        job = python_program(place, "import mmap, time\nshared = mmap.mmap(-1, 4096)\nprint('begun', flush=True)\ntime.sleep(1000)",
                             {"CROPDL_TRACE_PHASE": "1"})
        wait_for_output(job, "begun")
        for _ in range(3):
            status, text, _ = place.checkpoint()
            expect(status == 1 and "checkpoint refused: rank 0: the shared mapping of /dev/zero" in text, f"{status}: {text}")
        expect(job.output().count("all threads stopped") == 1, job.output())
        job.kill_running()


SCENARIOS["hazard.program_refused_for_a_mapping_is_not_stopped_again"] = refused_again


def another_program_in_its_place():
    """The search in PATH, and a child that executes a program, say nothing."""
    with Place("replaced") as place:
        job = python_program(place, "import os, subprocess\nsubprocess.run(['/bin/echo', 'a child'])\n"
                             "os.environ['PATH'] = '/nonexistent:/bin'\nos.execvp('echo', ['echo', 'its successor'])")
        job.finish()
        expect(job.output().splitlines() == ["a child", "cropdl: no more checkpoints of this process: it executes another program in its place",
                                             "its successor"], job.output())


SCENARIOS["hazard.program_that_executes_another_in_its_place_says_so"] = another_program_in_its_place


def forbid(*steps):
    """Installs a seccomp filter for this process and its descendants (seccomp(2))."""
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    expect(libc.prctl(set_seccomp, filter_mode, program, 0, 0) == 0, "cannot install a filter")
    return libc


CLONE, MODIFY_LDT, SECCOMP, CLONE3 = 56, 154, 317, 435


def without_call(number):
    """As on a kernel that does not have this system call."""
    libc = forbid((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno.ENOSYS), (0x06, 0, 0, 0x7fff0000))
    expect(libc.syscall(number, 0, 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS, f"system call {number} is still there")


def without_segments(function, *arguments):
    """On a kernel without modify_ldt(2), the gate switches by wrfsbase."""
    without_call(MODIFY_LDT)
    function(*arguments)


def without_fsgsbase(function, *arguments, **options):
    """As on a machine without FSGSBASE instructions: FS and GS bases are set by system calls."""
    os.environ["CROPDL_NO_FSGSBASE"] = "1"
    function(*arguments, **options)


for _mpi in ("openmpi", "mpich"):
    scenario(f"hazard.{_mpi}.machine_without_fsgsbase", without_fsgsbase, without_segments, survives, "hot_calls", _mpi, 2, SHORT)
    scenario(f"hazard.{_mpi}.kernel_without_segments", without_segments, survives, "hot_calls", _mpi, 2, SHORT)
    scenario(f"hazard.{_mpi}.program_with_two_thread_blocks", survives, "two_blocks", _mpi, 2, SHORT, chain=("same",) * 3)
for _name in ("threads_spawn", "threads_come_go", "signal_corners"):
    scenario(f"hazard.machine_without_fsgsbase.{_name}", without_fsgsbase, survives, _name, arguments=SHORT, attempts=100)
scenario("hazard.plain_program_on_a_kernel_without_segments", without_segments, survives, "clocks", "none", 1, SHORT)


LIBC_S_MMAP = "import ctypes; print(ctypes.string_at(ctypes.CDLL(None).mmap, 64).hex())"


def patched():
    """The C library's mmap is patched to jump to the core, unless CROPDL_NO_PATCH is set. (A missing patch would cost only a factor of
    1.10, which nobody would notice.)"""
    call = "b8090000000f05"  # mov $9, %eax; syscall
    with Place("patched") as place:
        def mmap_in(*command, environment=None):
            status, text, _ = place.ask([*command, sys.executable, "-c", LIBC_S_MMAP], environment=environment)
            expect(status == 0 and len(text) == 128, f"ended with {status}: {text}")
            return text
        run = [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"]
        expect(call in mmap_in(), "this C library's mmap looks different: teach interpose/upper/patch.cpp")
        expect(call not in mmap_in(*run), "mmap has not been patched")
        shutil.rmtree(place.store)
        expect(call in mmap_in(*run, environment={"CROPDL_NO_PATCH": "1"}), "CROPDL_NO_PATCH has no effect")


scenario("hazard.c_library_s_placement_calls_are_patched", patched)


def unpatched():
    """Where writable memory must not become executable (SELinux, PR_SET_MDWE), the C library stays unpatched."""
    mprotect, executable, denied = 10, 4, 0x50000 | errno.EACCES
    libc = forbid((0x20, 0, 0, 0), (0x15, 0, 3, mprotect), (0x20, 0, 0, 32), (0x45, 0, 1, executable), (0x06, 0, 0, denied),
                  (0x06, 0, 0, 0x7fff0000))
    expect(libc.syscall(mprotect, 0, 0, executable) == -1 and ctypes.get_errno() == errno.EACCES, "memory can still be made executable")
    with Place("unpatched") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", sys.executable, "-c", LIBC_S_MMAP])
        expect(status == 0 and "b8090000000f05" in text, f"ended with {status}: {text}")


scenario("hazard.c_library_is_not_patched_where_that_is_forbidden", unpatched)


REPLACES_MEMORY = """import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes, libc.mremap.argtypes = [ctypes.c_long] * 6, [ctypes.c_long] * 5
at, private_anonymous, fixed, failed = 0xfffe0000, 0x22, 0x10, ctypes.c_void_p(-1).value
print(libc.mmap(at - (1 << 27), 4096, 3, private_anonymous | fixed, -1, 0) == at - (1 << 27))
print(libc.mmap(at, 1 << 17, 3, private_anonymous | fixed, -1, 0) == failed and ctypes.get_errno())
page = libc.mmap(0, 4096, 3, private_anonymous, -1, 0)
print(libc.mremap(page, 4096, 4096, 3, at) == failed and ctypes.get_errno())"""


def kept_apart():
    """A program that maps over the lower half's blocks gets an error; natively nothing is there."""
    with Place("apart") as place:
        command = [sys.executable, "-c", REPLACES_MEMORY]
        _, text, _ = place.ask(command)
        expect(text.split() == ["True", "False", "False"], f"natively: {text}")
        _, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", *command])
        expect(text.split() == ["True", str(errno.ENOMEM), str(errno.ENOMEM)], f"under cropdl-run: {text}")


scenario("hazard.lower_half_s_blocks_cannot_be_mapped_over", kept_apart)

REPLACES_BLOCKS = """import ctypes, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.pthread_self.restype = libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes, libc.mremap.argtypes = [ctypes.c_long] * 6, [ctypes.c_long] * 5
failed = ctypes.c_void_p(-1).value
def over_the_block():
    block = libc.pthread_self()
    at = block & ~4095
    print(block < 1 << 32)
    print(libc.mmap(at, 8192, 3, 0x32, -1, 0) == failed and ctypes.get_errno())
    page = libc.mmap(0, 8192, 3, 0x22, -1, 0)
    print(libc.mremap(page, 8192, 8192, 3, at) == failed and ctypes.get_errno())
over_the_block()
thread = threading.Thread(target=over_the_block)
thread.start()
thread.join()"""


def thread_blocks_kept():
    """Natively, thread-local storage lies above 4 GiB. A program that maps over it below 4 GiB gets an error, and one line is printed."""
    with Place("blocks") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", sys.executable, "-c", REPLACES_BLOCKS])
        lines = text.splitlines()
        said = [line for line in lines if line.startswith("cropdl: the program places memory (MAP_FIXED) below 4 GiB")]
        answers = [line for line in lines if line not in said]
        expect(status == 0 and answers == ["True", str(errno.ENOMEM), str(errno.ENOMEM)] * 2, f"ended with {status}: {text}")
        expect(len(said) == 1, f"said {len(said)} times: {text}")


scenario("hazard.thread_blocks_cannot_be_mapped_over", thread_blocks_kept)


def crashes(mpi):
    """A crashing program ends the job as natively, with the same status."""
    with Place("crash") as place:
        command = [app(f"{mpi}/faults"), "crash", "--steps", "5", "--pace", "1000", "--log", place.path("log")]
        wanted, _, _ = place.ask(launcher(mpi, 2) + command)
        status, text, _ = place.ask(launcher(mpi, 2) + [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + command)
        expect(wanted != 0 and status == wanted, f"ended with {status}, natively {wanted}: {text}")
        expect(Log(place.path("log")).last_step() == 5, "it crashed too early")


def real_library_outside(mpi):
    """The window contains the shim under libmpi's name, and never the site's MPI."""
    with Place("outside") as place:
        job = place.run(f"{mpi}/torture", ("--steps", "300", "--pace", "20000"), mpi, 2)
        job.wait_for_step(3)
        checked = 0
        for pid in job.ranks():
            with open(f"/proc/{pid}/maps") as f:
                lines = [line.split() for line in f]
            inside = {line[5] for line in lines
                      if len(line) > 5 and 0x4000_0000_0000 <= int(line[0].split("-")[0], 16) < 0x5000_0000_0000}
            names = {path for path in inside if re.search(r"/lib(mpi|mpich|open-rte|open-pal|pmix|ucp|ucs|fabric)\.so", path)}
            if not inside:
                continue
            checked += 1
            expect(names, f"no MPI at all in the window: {inside}")
            ours = os.path.realpath(os.path.join(BUILD, "lib"))
            expect(all(path.startswith(ours) for path in names), f"in the window: {names}")
        expect(checked == 2, f"only {checked} processes have a window")
        job.kill_running()


def control_page_is_read_only():
    """The upper half calls through function pointers that the program cannot overwrite, before and after a restart."""
    with Place("control") as place:
        job = place.run("plain/plain", ("--steps", "3000", "--pace", "20000"))
        for restarted in (False, True):
            job.wait_for_step(Log(job.log).last_step() + 2)
            pid = [one for one in job.ranks() if "--pace" in read_proc(one, "cmdline").decode()][0]
            with open(f"/proc/{pid}/maps") as f:
                pages = [line.split()[1] for line in f if line.startswith("400000000000-")]
            expect(pages and pages[0].startswith("r--"), f"the control page is mapped {pages}")
            if not restarted:
                take_checkpoint(place, job)
                job.kill_running()
                job = place.restart()
        job.kill_running()


def by_shell(mpi, preload):
    """The program is started by `bash -c 'exec PROGRAM'`, under cropdl-run or with LD_PRELOAD set by the launcher."""
    with Place("shell") as place:
        arguments = ("--steps", "80", "--pace", "20000")
        reference = native(place, f"{mpi}/torture", arguments, mpi, 2)
        log = place.path("log")
        shell = ["/bin/bash", "-c", ': $(echo a child | cat); exec "$@"', "bash", app(f"{mpi}/torture"), *arguments, "--log", log]
        if preload:
            settings = {"LD_PRELOAD": os.path.join(BUILD, "lib", "libcropdl.so"), "CROPDL_DIR": place.store,
                        "CROPDL_INTERVAL": "0"}
            command = launcher(mpi, 2, settings) + shell
        else:
            command = launcher(mpi, 2) + [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + shell
        job = place.start(command, log)
        job.wait_for_step(5)
        kill_and_restart_once(place, job, mpi, 2, reference)


def by_launcher(mpi):
    """`cropdl-run mpirun PROGRAM`: the launcher runs natively, the ranks that it starts are protected."""
    with Place("launcher") as place:
        arguments = ("--steps", "80", "--pace", "20000")
        reference = native(place, f"{mpi}/torture", arguments, mpi, 2)
        log = place.path("log")
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + launcher(mpi, 2) +
                          [app(f"{mpi}/torture"), *arguments, "--log", log], log)
        job.wait_for_step(5)
        kill_and_restart_once(place, job, mpi, 2, reference)


for _mpi in ("openmpi", "mpich"):
    scenario(f"hazard.{_mpi}.crash_ends_the_job_as_natively", crashes, _mpi)
    scenario(f"hazard.{_mpi}.real_library_is_not_in_the_window", real_library_outside, _mpi)
    scenario(f"hazard.{_mpi}.launcher_under_cropdl_run", by_launcher, _mpi)
scenario("hazard.openmpi.exec_by_a_shell_under_cropdl_run", by_shell, "openmpi", False)
scenario("hazard.mpich.exec_by_a_shell_with_preload", by_shell, "mpich", True)

def executes(how):
    """A program that replaces itself by exec runs to its end unprotected; a checkpoint is refused with one line."""
    with Place("executes") as place:
        arguments = (how, "--steps", "100", "--pace", "20000")
        reference = native(place, "plain/executes", arguments)
        job = place.run("plain/executes", arguments)
        job.wait_for_step(3)
        status, text, seconds = place.checkpoint()
        expect(status != 0 and seconds < 5 and len(text.splitlines()) == 1, f"{status} after {seconds:.1f} s: {text}")
        job.finish()
        check_results(job, reference, 1)


scenario("hazard.control_page_cannot_be_written_by_the_program", control_page_is_read_only)
scenario("hazard.program_that_executes_another_keeps_running", executes, "by-name")
scenario("hazard.program_that_executes_itself_by_proc_self_exe", executes, "self")


def debugger(program, mpi, ranks):
    """scripts/cropdl-gdb finds the program's functions and variables, before and after a restart."""
    expect(shutil.which("gdb"), "gdb is not installed (scripts/setup installs it)")
    with Place("gdb") as place:
        job = place.run(program, ("--steps", "3000", "--pace", "20000"), mpi, ranks)
        for restarted in (False, True):
            job.wait_for_step(Log(job.log).last_step() + 2)
            pid = [one for one in job.ranks() if "--pace" in read_proc(one, "cmdline").decode()][0]
            status, text, _ = place.ask([os.path.join(SOURCE, "scripts", "cropdl-gdb"), str(pid), "-batch", "-ex", "backtrace",
                                         "-ex", "print steplog_done", "-ex", "info line steplog_step", "-ex", "info address PMPI_Init", "-ex", "detach"])
            expect(status == 0 and "symbols of" in text, f"{status}: {text}")
            done = re.search(r"^\$1 = (\d+)", text, re.M)
            expect(done and 0 < int(done.group(1)) <= Log(job.log).last_step() + 1, f"steplog_done is not the program's: {text}")
            expect(re.search(r"starts at address 0x4\w{11} ", text), f"no line of the program in the window: {text}")
            expect(mpi == "none" or re.search(r"PMPI_Init\b.* is (?:a function )?at address 0x4\w{11}", text), f"no shim: {text}")
            if not restarted:
                version, _, _ = take_checkpoint(place, job)
                job.kill_running()
                job = place.restart(mpi, ranks)
        job.kill_running()


def named_like_commands():
    """A process says where its files are: scripts/cropdl-gdb passes on no name that holds the end of a line or of a quotation."""
    given = []
    names, gdb = {}, types.ModuleType("gdb")
    gdb.error, gdb.execute = RuntimeError, lambda command, to_string: given.append(command)
    with open(os.path.join(SOURCE, "scripts", "cropdl-gdb")) as f:
        text = f.read()
    sys.modules["gdb"] = gdb
    try:
        exec(compile(text[:text.rindex("load_symbols()")], "cropdl-gdb", "exec"), names)
    finally:
        del sys.modules["gdb"]
    names["loaded"] = lambda: [(0, name) for name in ("/tmp/a\nshell id", "/tmp/a'\nshell id\n#", "/tmp/a' -o 1", "/tmp/a\\", "/tmp/a b")]
    names["load_symbols"]()
    expect([command for command in given if "symbol" in command] == ["add-symbol-file '/tmp/a b' -o 0"], f"gdb was given {given}")


scenario("debug.gdb_gets_no_commands_from_the_process", named_like_commands)
scenario("debug.plain.gdb_shows_the_program_before_and_after_a_restart", debugger, "plain/plain", "none", 1)
scenario("debug.openmpi.gdb_shows_the_program_before_and_after_a_restart", debugger, "openmpi/torture", "openmpi", 2)

_steps = ("--steps", "50", "--pace", "16000")
scenario("hazard.every_signal_blocked", survives, "blocked_signals", arguments=_steps)
scenario("hazard.descriptors_closed_copied_and_numbered", survives, "descriptors", arguments=_steps + ("--work", "@"))
scenario("hazard.memory_at_fixed_and_reused_addresses", survives, "placement", arguments=_steps)
scenario("hazard.parent_and_child_ids_work_after_a_restart", survives, "family", arguments=_steps, attempts=20)
scenario("hazard.children_of_every_kind", survives, "offspring", arguments=_steps, attempts=20)
scenario("hazard.program_and_children_see_the_native_environment", survives, "natively", arguments=_steps, attempts=20,
        environment={"LD_PRELOAD": "libm.so.6", "LD_LIBRARY_PATH": "/tmp/nothing:/usr/lib/x86_64-linux-gnu",
                     "GLIBC_TUNABLES": "glibc.malloc.tcache_count=3", "GIVEN": "with spaces = and signs"})
scenario("hazard.executable_stack_of_the_program", survives, "executable_stack", arguments=_steps)
scenario("hazard.executable_stack_for_a_library", lambda: survives(
    "loads_library", arguments=_steps + ("--library", app("plain/executable_stack_library.so"))))
scenario("hazard.main_thread_exits_alone", survives, "last_thread", arguments=_steps)
scenario("hazard.main_thread_exits_before_another_thread", survives, "last_thread", arguments=_steps + ("--thread", "1"), latest=0.4)

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("hazard.every_signal_blocked", "hazard.openmpi.before_init", "hazard.mpich.handlers_run")))
