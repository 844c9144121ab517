#!/usr/bin/env python3
"""The job's last version: before a time limit and at SIGTERM a version is taken, the job ends with status 75, and a restart continues
without loss."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

from driver import (Changes, Failure, Log, PATIENCE, Place, check_continued, check_results, check_whole, describe, expect, is_zombie, collects_into,
                    logs_of, native, scenario_main, seeded, tail, too_late, tool)
from killed_scenarios import by_rank, freeze, send

SCENARIOS = {}
scenario = collects_into(SCENARIOS)
KINDS = (("alone", "plain/plain", "none", 1), ("openmpi", "openmpi/torture", "openmpi", 2), ("mpich", "mpich/torture", "mpich", 2))
LONG = ("--steps", "600", "--pace", "20000")
SHORT = ("--steps", "300", "--pace", "20000")  # enough steps for two restarts
AGAIN = 75  # EX_TEMPFAIL of sysexits.h


def ends_with(job, wanted):
    try:
        status = job.process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        state = describe(job)
        job.kill_all()
        raise Failure(f"still running after {PATIENCE:.0f} s: {' '.join(job.command)}\n{state}")
    if status == 0 and wanted == AGAIN and any(log.digest is not None for log in logs_of(job.log, 64)):
        too_late("the program ended before its last version")
    expect(status == wanted, f"ended with {status}, not with {wanted}: {' '.join(job.command)}\n{tail(job.output())}")


def check_nothing_unfinished(place):
    """After the job's end."""
    names = os.listdir(place.store)
    expect("job" not in names, "DIR/job is left behind")
    left = [name for name in names if name.startswith("tmp-") and not name.endswith("-removed")]
    expect(not left, f"half a version was left: {left}")


def ended_by_last_version(place, job, why, had=()):
    """The job took one more version, printed one line about it, and ended with status 75. Returns the logs at that time."""
    ends_with(job, AGAIN)
    new = [version for version in place.versions() if version not in had]
    expect(new, f"no version was taken:\n{tail(job.output())}")
    said = [line for line in job.output().splitlines() if line.startswith("cropdl: version")]
    line = (f"cropdl: version {new[-1]} was taken {why}; the job ends with status 75, and cropdl-restart "
            f"{place.store} continues it")
    expect(said == [line], f"printed {said} instead of {line!r}")
    check_nothing_unfinished(place)
    return {log.path: log for log in logs_of(job.log, 64)}


def continues(place, mpi, ranks, before, reference, environment=None):
    """A restart continues each rank from its last step, and ends with the undisturbed run's result."""
    job = place.restart(mpi, ranks, options=("--interval", "0"), environment=environment)
    job.finish()
    for path, log in before.items():
        # Plus one: at the cut, a step may have its time already while its line is not written yet.
        check_continued(log, Log(path), job.started, log.last_step(), log.last_step() + 1)
    check_results(job, reference, ranks)


# --- A time limit ------------------------------------------------------------------------------------------------

def ended_in_time(place, job, moment):
    """`moment`: the limit, in seconds since 1970, as a function of the time of the program's first step (which is after the command's
    start)."""
    before = ended_by_last_version(place, job, "before the time limit")
    late = os.path.getmtime(place.version_path(place.versions()[-1], "manifest.json")) - moment(before[job.log].steps[0][1])
    expect(late <= 0, f"the last version came {late:.2f} s after the limit")
    return before


def ended_before(moment, place, program, mpi, ranks, options, environment=None):
    reference = native(place, program, LONG, mpi, ranks)
    job = place.run(program, LONG, mpi, ranks, options=("--interval", "auto", *options), environment=environment)
    before = ended_in_time(place, job, moment)
    continues(place, mpi, ranks, before, reference)


def time_limit(program, mpi, ranks):
    seconds = round(seeded().uniform(5, 7), 2)
    with Place("limit") as place:
        ended_before(lambda first: first + seconds, place, program, mpi, ranks, ("--time-limit", str(seconds)))


for _kind, _program, _mpi, _ranks in KINDS:
    scenario(f"end.{_kind}.time_limit_ends_the_job_with_a_last_version")(lambda p=_program, m=_mpi, r=_ranks: time_limit(p, m, r))


@scenario("end.alone.time_limit_comes_from_the_batch_system")
def batch_system():
    limit = int(time.time() + seeded().uniform(6, 8))
    with Place("limit") as place:
        ended_before(lambda _: limit, place, "plain/plain", "none", 1, (), {"SLURM_JOB_END_TIME": str(limit)})


@scenario("end.alone.batch_system_whose_limit_is_unreadable_is_reported")
def unreadable_batch_system():
    with Place("unreadable") as place:
        job = place.run("plain/plain", ("--steps", "20", "--pace", "20000"), options=("--interval", "auto"),
                        environment={"SLURM_JOB_END_TIME": "tomorrow"})
        job.finish()
        expect(job.output().splitlines() == ["cropdl-run: SLURM_JOB_END_TIME=tomorrow is no time in seconds since 1970, so no last version is "
                                             "taken before the batch system's limit; set it by --time-limit"], job.output())


@scenario("end.alone.batch_system_is_not_asked_with_interval_0")
def batch_system_unasked():
    with Place("unasked") as place:
        job = place.run("plain/plain", ("--steps", "100", "--pace", "20000"),
                        environment={"SLURM_JOB_END_TIME": str(int(time.time()) + 2)})
        job.finish()
        expect(not place.versions() and not job.output(), f"{place.versions()}: {job.output()}")


def writer(place, seconds, options, before=""):
    """A Python program that prints a word into its buffer, waits that many seconds, and prints another word at its end."""
    code = ("import os, sys, time\nsys.stdout.write('begun ')\n" + before +
            "\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: time.sleep(0.02)\nprint('done')")
    return place.start([tool("cropdl-run"), "--dir", place.store, *options, "--", "/usr/bin/python3", "-E", "-c", code, str(seconds)])


@scenario("end.alone.stdio_buffers_are_written_once")
def buffers():
    with Place("buffers") as place:
        job = writer(place, 8, ("--interval", "auto", "--time-limit", "4"))
        ended_by_last_version(place, job, "before the time limit")
        expect("begun" not in job.output(), f"the end wrote the program's buffers: {job.output()}")
        job = place.restart(options=("--interval", "0"))
        job.finish()
        expect(job.output().splitlines()[-1] == "begun done", job.output())


def goes_on_behind(limit, seconds, line, before=""):
    """No last version is taken; the line gives this reason."""
    with Place("goes-on") as place:
        job = writer(place, seconds, ("--interval", "auto", "--time-limit", str(limit)), before)
        job.finish()
        lines = job.output().splitlines()
        expect(len(lines) == 2 and lines[1] == "begun done" and re.fullmatch("cropdl: " + line, lines[0]), job.output())
        expect(not place.versions(), f"{place.versions()}")
        check_nothing_unfinished(place)


scenario("end.alone.too_short_time_limit_is_reported_at_once")(lambda: goes_on_behind(
    1, 2, r"the time limit is 1 s from now, which is too short for a last version: one may take [0-9.]+ s, and 1\.[0-9]+ s are reserved for it; "
    "none is taken for it, unless another version proves quicker"))
scenario("end.alone.time_limit_of_a_refused_program_changes_nothing")(lambda: goes_on_behind(
    3, 5, r"no last version was taken before the time limit: checkpoint refused: rank 0: a pipe \(descriptor \d+\) cannot be saved yet; "
    "the program goes on", "pipe = os.pipe()"))


@scenario("end.openmpi.time_limit_before_any_cut_leaves_no_half_version")
def no_cut_before_limit():
    """Ranks reach each other's collectives later than the limit allows."""
    with Place("late") as place:
        job = place.run("openmpi/blocked_collective", ("--steps", "2", "--pace", "6000000"), "openmpi", 2,
                        options=("--interval", "auto", "--time-limit", "4"))
        job.finish()
        said = [line for line in job.output().splitlines() if line.startswith("cropdl")]
        expect(len(said) == 1 and said[0].startswith("cropdl: no last version was taken before the time limit: rank ") and
               said[0].endswith("; the program goes on"), job.output())
        expect(not place.versions(), f"{place.versions()}")
        check_nothing_unfinished(place)
        for one in logs_of(job.log, 2):
            check_whole(one)


# --- SIGTERM -----------------------------------------------------------------------------------------------------

def terminate(pid):
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


def at_sigterm(program, mpi, ranks, times):
    """SIGTERM, repeatedly: to one rank or all, once or twice in quick succession (as `timeout` and launchers send it), at a random moment;
    then a restart."""
    at_random = seeded()
    with Place("sigterm") as place:
        arguments = SHORT if times == 2 else LONG
        reference = native(place, program, arguments, mpi, ranks)
        job = place.run(program, arguments, mpi, ranks, options=("--interval", "auto"))
        for i in range(times):
            job.wait_for_step(Log(job.log).last_step() + 1)
            time.sleep(at_random.uniform(0, 0.7))
            had = place.versions()
            job.must_run()
            pids = job.ranks()
            for pid in at_random.choice((pids, pids[:1], pids[-1:])) * at_random.choice((1, 2)):
                terminate(pid)
            before = ended_by_last_version(place, job, "at SIGTERM", had)
            if i + 1 < times:
                job = place.restart(mpi, ranks)
        continues(place, mpi, ranks, before, reference)


for _kind, _program, _mpi, _ranks in KINDS:
    scenario(f"end.{_kind}.sigterm_to_a_rank_ends_the_job_with_a_last_version")(lambda p=_program, m=_mpi, r=_ranks: at_sigterm(p, m, r, 5 if m == "none" else 2))


def each_try(program, mpi, ranks, tries):
    """Jobs end at random moments, in turn at a time limit and by SIGTERM to a rank: each takes a whole last version in time. The first two
    are also restarted."""
    at_random = seeded()
    with Place("reference") as place:
        reference = native(place, program, LONG, mpi, ranks)
    for number in range(tries):
        seconds = round(at_random.uniform(2, 4) + (ranks > 1), 3)
        at_limit = number % 2 == 0
        with Place("each") as place:
            job = place.run(program, LONG, mpi, ranks, options=("--interval", "auto", *(("--time-limit", str(seconds)) if at_limit else ())))
            if at_limit:
                before = ended_in_time(place, job, lambda first: first + seconds)
            else:
                job.wait_for_step(1)
                time.sleep(at_random.uniform(0, 1))
                terminate(at_random.choice(job.ranks()))
                before = ended_by_last_version(place, job, "at SIGTERM")
            expect(len(place.versions()) == 1, f"try {number}: versions {place.versions()}")
            status, text, _ = place.ask([tool("cropdl"), "verify", place.store])
            expect(status == 0, f"try {number}: {text}")
            if number < 2:
                continues(place, mpi, ranks, before, reference)
    print(f"{tries} of {tries}")


# Fifty together.
EACH_TRY = {f"end.{kind}.each_of_many_tries_ends_with_a_whole_last_version": (program, mpi, ranks, 18 if kind == "alone" else 16)
            for kind, program, mpi, ranks in KINDS}
for _name, _how in EACH_TRY.items():
    scenario(_name)(lambda h=_how: each_try(*h))


def by_command(program, mpi, ranks, times):
    """`cropdl checkpoint --last` ends the job, repeatedly; only as many old versions stay as --keep says."""
    at_random = seeded()
    with Place("command") as place:
        arguments = SHORT if times == 2 else LONG
        reference = native(place, program, arguments, mpi, ranks)
        job = place.run(program, arguments, mpi, ranks, options=("--interval", "0", "--keep", "2"))
        for i in range(times):
            job.wait_for_step(Log(job.log).last_step() + 1)
            time.sleep(at_random.uniform(0, 0.5))
            had = place.versions()
            status, text, _ = place.checkpoint("--last")
            if status != 0:
                job.must_run()
            expect(status == 0, text)
            before = ended_by_last_version(place, job, "by `cropdl checkpoint --last`", had)
            expect(text.startswith(f"version {i + 1}: "), text)
            expect(place.versions() == [i, i + 1] or i == 0 and place.versions() == [1], f"{place.versions()} stay")
            if i + 1 < times:
                job = place.restart(mpi, ranks)
        continues(place, mpi, ranks, before, reference)


for _kind, _program, _mpi, _ranks in KINDS:
    scenario(f"end.{_kind}.command_ends_the_job_with_a_last_version")(lambda p=_program, m=_mpi, r=_ranks: by_command(p, m, r, 4 if m == "none" else 2))


@scenario("end.alone.refused_last_version_does_not_end_the_job")
def refused():
    with Place("refused") as place:
        job = sleeper(place, "pipe = os.pipe()", ("--interval", "0"), seconds=4)
        status, text, _ = place.checkpoint("--last")
        expect(status == 1 and "a pipe (descriptor" in text, text)
        job.finish()
        expect(job.output() == "begun\ndone\n" and not place.versions(), job.output())


def rank_that_ends_late(mpi):
    """Rank 1 is stopped while its image is written, until rank 0 has ended. A launcher may take a rank that exits without MPI_Finalize for
    a crashed one, kill the others, and end with another status."""
    seeded()  # the scheduler makes this test random
    with Place("late") as place:
        trace = {"CROPDL_TRACE_PHASE": "1"}
        reference = native(place, f"{mpi}/torture", LONG, mpi, 2)
        job = place.run(f"{mpi}/torture", LONG, mpi, 2, options=("--interval", "auto"), environment=trace)
        for _ in range(40):
            job.wait_for_step(Log(job.log).last_step() + 1)
            job.must_run()
            had, ranks = place.versions(), by_rank(job)
            terminate(ranks[0])
            changes = Changes(place.store)
            while place.phase() != "publishing" and not is_zombie(ranks[0]):
                changes.wait(0.01)
            freeze([ranks[1]])
            late = not is_zombie(ranks[1]) and not is_zombie(ranks[0])
            end = time.monotonic() + PATIENCE
            while not is_zombie(ranks[0]):
                expect(time.monotonic() < end, describe(job))
                time.sleep(0.01)
            time.sleep(0.3)  # time for the launcher to react
            expect(not late or mpi == "openmpi" or not is_zombie(ranks[1]), "the launcher killed the late rank")
            send([ranks[1]], signal.SIGCONT)
            before = ended_by_last_version(place, job, "at SIGTERM", had)
            if late:
                return continues(place, mpi, 2, before, reference)
            job = place.restart(mpi, 2, environment=trace)
        raise Failure("rank 1 never came late")


for _mpi in ("openmpi", "mpich"):
    scenario(f"end.{_mpi}.late_rank_does_not_change_the_exit_status")(lambda m=_mpi: rank_that_ends_late(m))


def sleeper(place, before, options=("--interval", "auto"), seconds=3):
    code = f"import os, signal, subprocess, sys, time\n{before}\nprint('begun', flush=True)\ntime.sleep({seconds})\nprint('done')"
    job = place.start([tool("cropdl-run"), "--dir", place.store, *options, "--", "/usr/bin/python3", "-c", code])
    end = time.monotonic() + PATIENCE
    while "begun\n" not in job.output():
        expect(job.alive() and time.monotonic() < end, f"did not begin: {job.output()}")
        time.sleep(0.01)
    return job


@scenario("end.alone.sigterm_handled_by_the_program_stays_its_own")
def own_sigterm():
    """SIGTERM handled, ignored or blocked by the program; sent to its children, and by the program to itself."""
    with Place("own") as place:
        for before, wanted, output in (
                ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))", 3, "begun\n"),
                ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", 0, "begun\ndone\n"),
                ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
                 "class Pending:\n def __del__(self): print(signal.sigpending() == {signal.SIGTERM})\npending = Pending()",
                 0, "begun\ndone\nTrue\n")):
            job = sleeper(place, before)
            terminate(job.process.pid)
            ends_with(job, wanted)
            expect(job.output() == output, f"{before}: {job.output()}")
            shutil.rmtree(place.store)  # the next case is another job
        for before, wanted, output in (
                ("child = os.fork()\nif child == 0: time.sleep(60)\nos.kill(child, signal.SIGTERM)\n"
                 "assert os.waitpid(child, 0)[1] == signal.SIGTERM", 0, "begun\ndone\n"),
                ("child = subprocess.Popen(['/bin/sleep', '60'])\nchild.terminate()\nassert child.wait() == -signal.SIGTERM",
                 0, "begun\ndone\n"),
                ("assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL", 0, "begun\ndone\n")):
            job = sleeper(place, before, seconds=0)
            ends_with(job, wanted)
            expect(job.output() == output, f"{before}: {job.output()}")
            shutil.rmtree(place.store)
        job = place.start([tool("cropdl-run"), "--dir", place.store, "--", "/usr/bin/python3", "-c",
                           "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nprint('lives')"])
        ends_with(job, -signal.SIGTERM)
        expect(job.output() == "" and not place.versions(), f"{place.versions()}: {job.output()}")


@scenario("end.alone.sigterm_does_not_interrupt_system_calls")
def waits():
    """Interrupted system calls continue after the restart and are no shorter. (Called through ctypes: Python would restart its own calls by
    itself.)"""
    for call in ("poll(None, 0, 3000)", "usleep(3000000)"):
        with Place("waits") as place:
            job = sleeper(place, f"import ctypes\nlibc, began = ctypes.CDLL(None), time.monotonic()\nprint('begun', flush=True)\n"
                                 f"result = libc.{call}\nprint(result, time.monotonic() - began >= 3)", seconds=0)
            terminate(job.process.pid)
            ended_by_last_version(place, job, "at SIGTERM")
            job = place.restart()
            job.finish()
            expect(job.output().splitlines()[-3:] == ["0 True", "begun", "done"], f"{call}: {job.output()}")


@scenario("end.alone.sigterm_kills_a_refused_program")
def refuses_at_sigterm():
    with Place("refuses") as place:
        job = sleeper(place, "pipe = os.pipe()", seconds=20)
        terminate(job.process.pid)
        ends_with(job, -signal.SIGTERM)
        lines = job.output().splitlines()
        expect(len(lines) == 2 and re.fullmatch(r"cropdl: no last version was taken at SIGTERM: checkpoint refused: rank 0: a pipe "
                                                r"\(descriptor \d+\) cannot be saved yet; the job dies of it", lines[1]), job.output())
        expect(not place.versions(), f"{place.versions()}")


@scenario("end.alone.at_sigterm_die_and_interval_0_end_as_natively")
def dies_if_wanted():
    with Place("dies") as place:
        for options in (("--at-sigterm", "die"), ("--interval", "0"), ("--interval", "0.5", "--at-sigterm=die")):
            job = sleeper(place, "", options, seconds=20)
            terminate(job.process.pid)
            ends_with(job, -signal.SIGTERM)
            expect(job.output() == "begun\n", f"{options}: {job.output()}")
        job = sleeper(place, "", ("--interval", "0", "--at-sigterm", "version"), seconds=20)
        had = place.versions()
        terminate(job.process.pid)
        ended_by_last_version(place, job, "at SIGTERM", had)


def second_sigterm(mpi, wanted):
    """The ranks cannot be cut for many seconds: the first SIGTERM waits, the second one kills."""
    with Place("second") as place:
        job = place.run(f"{mpi}/blocked_collective", ("--steps", "4", "--pace", "8000000"), mpi, 2, options=("--interval", "auto"))
        end = time.monotonic() + PATIENCE
        while Log(job.log + ".1").at is None:
            expect(job.alive() and time.monotonic() < end, job.output())
            time.sleep(0.01)
        time.sleep(0.3)
        rank = job.ranks()[0]
        terminate(rank)
        time.sleep(1)
        expect(job.alive() and os.path.exists(f"/proc/{rank}"), f"the first SIGTERM has killed it: {job.output()}")
        terminate(rank)
        ends_with(job, wanted)
        expect(not place.versions(), f"{place.versions()}")
        expect(Log(job.log).last_step() == 0, "it was killed only after the collective had completed")


scenario("end.openmpi.second_sigterm_kills_as_natively")(lambda: second_sigterm("openmpi", 128 + signal.SIGTERM))
scenario("end.mpich.second_sigterm_kills_as_natively")(lambda: second_sigterm("mpich", signal.SIGTERM))


@scenario("end.alone.sigterm_while_the_program_is_stopped")
def while_stopped():
    """SIGTERM while the program is stopped for a version: that version is the last one."""
    with Place("stopped") as place:
        reference = native(place, "plain/plain", LONG)
        job = place.run("plain/plain", LONG, options=("--interval", "0", "--at-sigterm", "version"), environment={"CROPDL_TRACE_PHASE": "1"})
        job.wait_for_step(2)
        pid, asked = job.process.pid, None
        while place.phase() != "writing":
            if asked:
                os.kill(pid, signal.SIGCONT)
                asked.communicate()
            job.must_run()
            asked = subprocess.Popen([tool("cropdl"), "checkpoint", place.store], stdout=subprocess.PIPE, text=True)
            while asked.poll() is None and place.phase() != "writing":
                pass
            os.kill(pid, signal.SIGSTOP)
        had = place.versions()
        terminate(pid)
        os.kill(pid, signal.SIGCONT)
        before = ended_by_last_version(place, job, "at SIGTERM", had)
        said = asked.communicate()[0]
        expect(f"version {place.versions()[-1]}:" in said, f"another version was taken: {place.versions()}, {said}")
        continues(place, "none", 1, before, reference)


@scenario("end.alone.sigterm_while_another_version_is_taken")
def while_another_is_taken():
    """With a version every tenth of a second, the last one still includes all steps before the signal."""
    at_random = seeded()
    with Place("another") as place:
        reference = native(place, "plain/plain", LONG)
        job = place.run("plain/plain", LONG, options=("--interval", "0.1"))
        for i in range(5):
            job.wait_for_step(Log(job.log).last_step() + 1)
            time.sleep(at_random.uniform(0, 0.5))
            terminate(job.process.pid)
            signaled = Log(job.log).last_step()
            ends_with(job, AGAIN)
            before = {job.log: Log(job.log)}
            expect(before[job.log].last_step() >= signaled, "steps are lost")
            expect("at SIGTERM; the job ends" in job.output(), job.output())
            if i < 4:
                job = place.restart()
        continues(place, "none", 1, before, reference)


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("end.alone.time_limit_ends", "end.openmpi.time_limit_ends"),
                          # rank 0 keeps the time limit, whatever the MPI
                          long=("end.mpich.time_limit_ends_the_job_with_a_last_version", *EACH_TRY)))
