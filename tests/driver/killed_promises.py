#!/usr/bin/env python3
"""Kills exactly one rank (SIGKILL) in the middle of each phase of a checkpoint or a restart; stops ranks; kills a `cropdl checkpoint`. In
every case: nothing of a torn version is visible, older versions are whole, the job ends as a native one, nothing is left over, and a
restart from the newest whole version ends with the undisturbed native run's digest.

`killed_promises.py --random MPI KILLS [SEED]` kills at random, in chains of restarts (docs/testing.md)."""

import fcntl
import os
import random
import re
import signal
import subprocess
import sys
import time

from driver import (Changes, Failure, Log, PATIENCE, Place, STARTING, Skipped, TooLate, app, check_results, check_whole, describe, expect,
                    launcher, logs_of, native, promise_main, read_proc, tail, take_checkpoint, too_late, tool, without_waiting)

# The argument of tests/apps/mpi/phases.c that makes a phase long enough to be hit.
PHASES = {"holding": "holding", "stopping": "stopping", "draining": "draining", "writing": "writing", "publishing": "publishing"}
RANKS = 3
CRASH = re.compile(r"terminate called|Segmentation|Assertion|self check failed|signal 11|signal 6\b")
PROMISES = {}


def promise(name, function, *args):
    PROMISES[name] = lambda: function(*args)


# --- Processes ---------------------------------------------------------------------------------------------------

def rank_of(pid):
    found = re.search(rb"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)\0", read_proc(pid, "environ"))
    return int(found.group(1)) if found else -1


def by_rank(job):
    return {rank_of(pid): pid for pid in job.ranks()}


def states(pid):
    try:
        return [read_proc(f"{pid}/task/{task}", "stat").rpartition(b")")[2].split()[:1] for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def freeze(pids):
    """Stops all threads of the ranks; those in an uninterruptible system call stop when it returns."""
    send(pids, signal.SIGSTOP)
    end = time.monotonic() + 0.2
    while any(s not in ([b"T"], [b"D"]) for pid in pids for s in states(pid)) and time.monotonic() < end:
        pass


def sockets():
    with open("/proc/net/unix") as f:
        return f.read()


def wait_until(condition, text, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, text() if callable(text) else text)
        time.sleep(0.005)


# --- A run, and its kills ----------------------------------------------------------------------------------------

class Run:
    """A run of tests/apps/mpi/phases.c that is killed and restarted any number of times."""

    def __init__(self, place, mpi, what, steps=0):
        self.place, self.mpi = place, mpi
        steps, pace = (steps or 150, 20000) if what in ("writing", "publishing") else (steps or 24, 10000)
        self.arguments = (what, "--steps", str(steps), "--pace", str(pace))
        self.program = f"{mpi}/phases"
        self.reference = native(place, self.program, self.arguments, mpi, RANKS)
        self.natively = {victim: self.native_end(victim) for victim in range(RANKS)}
        self.environment = {"CROPDL_TRACE_PHASE": "1"}
        self.restarts = False  # the job is being restarted and has not continued yet
        self.job = place.run(self.program, self.arguments, mpi, RANKS, environment=self.environment, log=place.path("log"))

    def over(self):
        return any(log.digest is not None for log in logs_of(self.job.log, RANKS))

    def native_end(self, victim):
        """The launcher's exit status when that rank of a native job is killed. Measured once per run of scripts/test."""
        kept = os.environ.get("CROPDL_TEST_REFERENCES")
        if kept is None:
            return self.look_at_native_end(victim)
        name = os.path.join(kept, f"ends-{self.mpi}-{victim}")
        with open(name, "a+") as known:
            fcntl.flock(known, fcntl.LOCK_EX)
            known.seek(0)
            text = known.read()
            if not text:
                text = str(self.look_at_native_end(victim))
                known.write(text)
            return int(text)

    def look_at_native_end(self, victim):
        log = self.place.path(f"natively-{victim}")
        job = self.place.start(launcher(self.mpi, RANKS) + [app(self.program), *self.arguments, "--log", log], log)
        job.wait_for_step(1)
        os.kill(by_rank(job)[victim], signal.SIGKILL)
        status = job.process.wait(timeout=PATIENCE)
        job.kill_all()
        return status

    def address(self):
        try:
            with open(os.path.join(self.place.store, "job")) as f:
                return re.search(r"cropdl-[0-9a-f]+", f.read()).group(0)
        except OSError:
            return ""  # a restart that has no socket yet

    def a_version(self):
        self.job.wait_for_step(Log(self.job.log).last_step() + 1)
        take_checkpoint(self.place, self.job)

    def ask(self):
        return subprocess.Popen([tool("cropdl"), "checkpoint", self.place.store], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def find(self, phase):
        """Asks for checkpoints until the ranks are in that phase, and leaves them frozen. Returns the request, or None if the run ended."""
        end = time.monotonic() + PATIENCE
        asked = None
        ranks = by_rank(self.job)
        pids = [ranks[rank] for rank in sorted(ranks)]  # rank 0 first: it sets the phase
        changes = Changes(self.place.store)
        while not self.over() and self.job.alive():
            expect(time.monotonic() < end, f"never found {phase}: {describe(self.job)}")
            if asked is None or asked.poll() is not None:
                wait_until(lambda: self.place.phase() == "idle" or not self.job.alive(), "no end of a checkpoint that was reported")
                asked = self.ask()
            if self.place.phase() != phase:
                changes.wait(0.05)
                continue
            freeze(pids)
            if self.place.phase() == phase and asked.poll() is None:
                return asked
            send(pids, signal.SIGCONT)
        return None

    def kill(self, victim, asked=None):
        """Kills that rank, continues the others, and checks how the job and the request end."""
        before = self.place.versions()
        address = self.address()
        pids = self.job.ranks()
        ranks = {rank_of(pid): pid for pid in pids}
        os.kill(ranks[victim], signal.SIGKILL)
        send(pids, signal.SIGCONT)
        self.ends(victim, self.natively[victim])
        # A dying rank keeps its socket while one of its threads waits for the disk in a sync, even if it is a zombie already.
        wait_until(lambda: not address or address not in sockets(), f"the socket {address} is left over")
        if asked:
            text = without_waiting(asked.communicate(timeout=PATIENCE)[0]).strip()
            # The launcher then ends the other ranks, and rank 0 may notice one of these first.
            words = (*(rf"cropdl: checkpoint refused: rank {rank} is gone: its process \(pid {pid}\) died( or left the job)?" for rank, pid in ranks.items()),
                     rf"cropdl: the job on {re.escape(self.place.store)} ended before the checkpoint was complete",
                     rf"cropdl: no job is running on {re.escape(self.place.store)}",  # the request came after the end
                     rf"cropdl: checkpoint refused: rank \d+: {STARTING}",
                     r"version \d+: .*")
            expect(any(re.fullmatch(w, text) for w in words), f"`cropdl checkpoint` says: {text!r}")
            expect(asked.returncode == 0 or not text.startswith("version"), text)
            if asked.returncode == 0:
                expect(int(text.split(":")[0].split()[1]) in self.place.versions(), f"{text}, and it is not there")
        # The images being written became a version completely or not at all.
        now = self.place.versions()
        expect(now[-1] >= before[-1] and len(set(now) - set(before)) <= 1, f"versions {before}, then {now}")
        status, text, _ = self.place.ask([tool("cropdl"), "verify", self.place.store])
        expect(status == 0 and len(text.splitlines()) == len(now), f"verify: {status}: {text}")
        return now[-1] > before[-1]

    def ends(self, victim, expected):
        try:
            status = self.job.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"rank {victim} was killed, and the job still runs\n{describe(self.job)}")
        # An MPI that was reading the killed rank's memory reports that, and may abort. Hydra reports the signal of the killed rank or of
        # one that it ended afterwards. Open MPI's launcher reports the first end that it sees: during a restart, this may be another rank
        # that reports the missing one.
        allowed = {expected, 9, 15} if self.mpi == "mpich" else {expected, 1} if self.restarts else {expected}
        reading = re.search(r"process_vm_readv|Read -1, expected", self.job.output())
        expect(status in allowed or reading, f"rank {victim} was killed: the launcher ends with {status}, natively {expected}\n{tail(self.job.output(), 60)}")
        wait_until(lambda: not self.job.processes(), lambda: f"left over: {describe(self.job)}", 20)
        output = self.job.output()
        own = [line for line in output.splitlines() if line.startswith("cropdl") and not re.search("continues from version|all threads stopped after", line)]
        expect(len(own) <= 1 and (reading or not CRASH.search(output)), f"not one clear line:\n{output}")

    def restart(self, wait=True):
        self.before = logs_of(self.job.log, RANKS)
        self.newest = self.place.versions()[-1]
        self.restarts = True
        self.job = self.place.restart(self.mpi, RANKS, environment=self.environment, log=self.job.log)
        if wait:
            self.goes_on()

    def goes_on(self):
        """The job continues from the newest version with the same memory, and leftovers of the killed job are gone from the store."""
        self.restarts = False
        line = f"cropdl-restart: continues from version {self.newest}"
        wait_until(lambda: line in self.job.output() or not self.job.alive(), lambda: f"does not go on: {describe(self.job)}")
        expect(line in self.job.output(), f"no line {line!r}: {self.job.output()}")
        left = [name for name in os.listdir(self.place.store) if name.startswith(("tmp-", "apart-"))]
        expect(not left, f"left in the store: {left}")
        for old in self.before:
            expect(Log(old.path).nonces == old.nonces, f"{old.path}: started over")

    def finish(self):
        self.job.finish()
        names = set(os.listdir(self.place.store))
        expect(not [n for n in names if not re.fullmatch(r"v\d+|store\.json|lock|phase", n)], f"left in the store: {sorted(names)}")
        for rank, (one, undisturbed) in enumerate(zip(logs_of(self.job.log, RANKS), self.reference, strict=True)):
            check_whole(one)
            expect(one.digest == undisturbed.digest, f"rank {rank}: digest {one.digest}, undisturbed {undisturbed.digest}: DIFFERENT")


def killed_while(mpi, phase):
    """Kills the hub's rank, then, in the restarted job, another one."""
    with Place("killed") as place:
        run = Run(place, mpi, PHASES[phase])
        run.a_version()
        for victim in (0, RANKS - 1):
            asked = run.find(phase)
            if not asked:
                raise TooLate("the run was over before it could be killed")
            torn = "all of it" if run.kill(victim, asked) else "nothing"
            print(f"rank {victim} killed while {phase}: {torn} of the version is there")
            run.restart()
        run.finish()


for _mpi in ("openmpi", "mpich"):
    for _phase in PHASES:
        promise(f"killed.{_mpi}.rank_while_{_phase}", killed_while, _mpi, _phase)
# Phases do not depend on the MPI, so each is killed under one MPI only, except in the long form.
LONG = ["killed.openmpi.rank_while_draining", "killed.openmpi.rank_while_publishing", "killed.mpich.rank_while_holding",
        "killed.mpich.rank_while_stopping", "killed.mpich.rank_while_writing", "killed.openmpi.stopped_rank_is_named_while_writing"]


# --- Restarts ----------------------------------------------------------------------------------------------------

MEMORY = 64 << 20  # bytes per rank of `phases writing`


def memory_of(pid):
    found = re.search(rb"RssAnon:\s+(\d+)", read_proc(pid, "status"))
    return int(found.group(1)) << 10 if found else 0


# In order of time. Recognised from outside: by the memory that is mapped, and by the MPI's shared memory.
MOMENTS = ("starting", "loading", "before MPI is up", "right after")


def moment(run):
    ranks = by_rank(run.job)
    if len(ranks) < RANKS:
        return ""
    if "continues from version" in run.job.output():
        return "right after"
    memory = [memory_of(pid) for pid in ranks.values()]
    if max(memory) < MEMORY // 8:
        return "starting"
    if min(memory) < MEMORY:
        return "loading"
    return "" if any(b"/dev/shm/" in read_proc(pid, "maps") for pid in ranks.values()) else "before MPI is up"


def find_moment(run, wanted):
    """Restarts until all ranks are found at that moment; leaves them frozen."""
    for _ in range(12):
        run.restart(wait=False)
        while run.job.alive():
            now = moment(run)
            if now == wanted:
                pids = run.job.ranks()
                freeze(pids)
                if moment(run) == wanted:
                    return
                send(pids, signal.SIGCONT)
            elif now == "right after":
                break
        run.job.kill_ranks()
    raise Failure(f"never found the ranks {wanted}")


def killed_in_restart(mpi, victim):
    with Place("killed") as place:
        run = Run(place, mpi, "writing")
        run.a_version()
        run.kill(0)
        for wanted in MOMENTS:
            find_moment(run, wanted)
            run.kill(victim)
            print(f"rank {victim} killed in a restart: {wanted}")
        run.restart()
        run.finish()


for _mpi in ("openmpi", "mpich"):
    for _who, _victim in (("rank", RANKS - 1), ("hub", 0)):
        promise(f"killed.{_mpi}.{_who}_while_restarting", killed_in_restart, _mpi, _victim)
LONG += ["killed.openmpi.rank_while_restarting", "killed.mpich.hub_while_restarting"]


def client_killed(mpi):
    """A `cropdl checkpoint` that is killed or stopped disturbs nobody: the attempt continues, and the next checkpoint succeeds."""
    with Place("client") as place:
        run = Run(place, mpi, "writing", 150)
        run.a_version()
        for number in (signal.SIGKILL, signal.SIGSTOP):
            had = run.place.versions()[-1]
            asked = run.find("writing")
            if not asked:
                raise TooLate("the run was over before the command could be killed")
            asked.send_signal(number)
            send(run.job.ranks(), signal.SIGCONT)
            wait_until(lambda: run.place.versions()[-1] > had, lambda: f"the version does not come\n{describe(run.job)}")
            run.a_version()
            asked.kill()
            asked.communicate()
        run.kill(0)
        run.restart()
        run.finish()


promise("killed.mpich.checkpoint_command", client_killed, "mpich")


def stopped(mpi, where):
    """A stopped rank is named within seconds, in every phase. When it continues, the job continues and the next checkpoint succeeds."""
    with Place("stopped") as place:
        run = Run(place, mpi, "writing", 120)
        run.a_version()
        for phase, victim in where:
            pid = by_rank(run.job)[victim]
            while True:
                if phase == "before":
                    os.kill(pid, signal.SIGSTOP)
                    asked = run.ask()
                else:
                    asked = run.find(phase)
                    if not asked:
                        raise TooLate("the run was over before a rank could be stopped")
                    send([p for p in run.job.ranks() if p != pid], signal.SIGCONT)
                began, before = time.monotonic(), run.place.versions()
                text = without_waiting(asked.communicate(timeout=PATIENCE)[0]).strip()
                if asked.returncode != 0:
                    break
                os.kill(pid, signal.SIGCONT)  # it had already written its image
            words = (rf"checkpoint refused: rank {victim} has been stopped for [\d.]+ s \(SIGSTOP, or a debugger\); let its process go on "
                     rf"\(kill -CONT {pid}\) and try again" if victim else
                     rf"rank 0 of the job on {re.escape(place.store)} has been stopped \(SIGSTOP, or a debugger\); the checkpoint goes on when its "
                     rf"process does \(kill -CONT {pid}\)")
            expect(asked.returncode != 0 and re.fullmatch("cropdl: " + words, text), text)
            expect(before == run.place.versions(), f"versions {before}, then {run.place.versions()}")
            print(f"{phase}: {text} (after {time.monotonic() - began:.1f} s)")
            os.kill(pid, signal.SIGCONT)
            wait_until(lambda: run.place.phase() == "idle", "the checkpoint does not end")
            run.a_version()
        run.kill(0)
        run.restart()
        run.finish()


promise("killed.openmpi.stopped_rank_is_named_while_writing", stopped, "openmpi", (("writing", RANKS - 1),))
promise("killed.mpich.stopped_rank_is_named_before_and_rank_0_while_writing", stopped, "mpich", (("before", 1), ("writing", 0)))


def refused_meanwhile(mpi):
    """Another rank refuses the checkpoint, repeatedly, while this one still inspects its many threads: no harm is done."""
    with Place("refused") as place:
        arguments = ("--steps", "100", "--pace", "20000")
        reference = native(place, f"{mpi}/threads_refused", arguments, mpi, 2)
        job = place.run(f"{mpi}/threads_refused", arguments, mpi, 2)
        job.wait_for_step(2)
        asked = 0
        while asked < 10 and min(log.last_step() for log in logs_of(job.log, 2)) < 40:
            status, text, seconds = place.checkpoint()
            if status == 0 and max(log.last_step() for log in logs_of(job.log, 2)) >= 50:
                break  # the pipe was closed before the answer
            expect(status != 0 and re.fullmatch(r"cropdl: checkpoint refused: rank 1: a pipe \(descriptor \d+\) cannot be saved yet", text), text)
            if seconds >= 8:
                too_late(f"refused after {seconds:.1f} s")
            asked += 1
        print(f"refused {asked} times")
        if asked <= 3:
            raise TooLate(f"only {asked} requests until step 40")
        job.wait_for_step(60)
        take_checkpoint(place, job)
        job.kill_ranks()
        job = place.restart(mpi, 2)
        job.finish()
        check_results(job, reference, 2)


for _mpi in ("openmpi", "mpich"):
    promise(f"killed.{_mpi}.refusal_while_many_threads_are_inspected", refused_meanwhile, _mpi)

def no_room(mpi, *how):
    """If a rank has no memory for a message, the checkpoint is refused at once, and the program still receives the message. With `threads`,
    this happens before the ranks have stopped."""
    with Place("noroom") as place:
        arguments = (*how, "--steps", "80", "--pace", "20000")
        job = place.run(f"{mpi}/no_room", arguments, mpi, 2)

        def both_at(step):  # with threads the ranks do not step together
            wait_until(lambda: min(log.last_step() for log in logs_of(job.log, 2)) >= step or not job.alive(), job.output)

        both_at(3)
        status, text, _ = place.checkpoint()
        who = "[01]" if how else "1"
        late = max(log.last_step() for log in logs_of(job.log, 2)) >= 38
        if status == 0 and late:
            raise TooLate("the answer came after the program had made room")
        expect(status != 0 and re.fullmatch(f"cropdl: checkpoint failed: rank {who}: messages under way do not fit into the "
                                            "persistent heap", text), text)
        if late:
            raise Skipped("too slow to tell: the answer came after the program had made room")
        both_at(45)
        take_checkpoint(place, job)
        job.finish()
        for log in logs_of(job.log, 2):
            check_whole(log)


for _mpi in ("openmpi", "mpich"):
    promise(f"killed.{_mpi}.message_without_memory_is_not_lost", no_room, _mpi)
    promise(f"killed.{_mpi}.crossing_messages_without_memory_are_not_lost", no_room, _mpi, "threads")

# --- At random ---------------------------------------------------------------------------------------------------

def at_random(mpi, kills, seed):
    """Kills any rank, in any phase or restart, after any time, program after program. Prints how often each was hit."""
    rng = random.Random(seed)
    hits, torn, done, programs = {}, 0, 0, []

    def struck(run, where, victim, asked=None):
        nonlocal done, torn
        published = run.kill(victim, asked)
        torn += asked is not None and not published
        done += 1
        key = (where, "the hub's" if victim == 0 else "another")
        hits[key] = hits.get(key, 0) + 1
        print(f"kill {done:3d}: rank {victim} while {where}; versions {run.place.versions()}", flush=True)

    while done < kills:
        with Place("random") as place:
            programs = programs or rng.sample(sorted(set(PHASES.values())), 4)
            what = programs.pop()
            run = Run(place, mpi, what, 80)
            run.a_version()
            until = min(kills, done + 8)
            while done < until and not run.over():
                victim = rng.randrange(RANKS)
                phases = [phase for phase, needs in PHASES.items() if needs == what] + ["computing", "any"]
                phase = rng.choice(phases)
                asked = None
                if phase == "any":
                    asked = run.ask()
                    time.sleep(rng.random() * 0.4)
                    freeze(run.job.ranks())
                    phase = f"{place.phase()}, by chance"
                elif phase == "computing":
                    time.sleep(rng.random() * 0.2)
                else:
                    asked = run.find(phase)
                    if asked is None:
                        break
                if run.over():
                    send(run.job.ranks(), signal.SIGCONT)
                    if asked:
                        asked.communicate()
                    break
                struck(run, phase, victim, asked)
                while done < until and what == "writing" and rng.random() < 0.4:
                    wanted = rng.choice(MOMENTS)
                    find_moment(run, wanted)
                    struck(run, f"restarting, {wanted}", rng.randrange(RANKS))
                run.restart()
            run.finish()
            print(f"`phases {what}` ended with the undisturbed run's digest", flush=True)
    print(f"\n{mpi}, seed {seed}: {done} kills, {torn} versions that were under way are not there, and nothing of them")
    for (where, whose), count in sorted(hits.items()):
        print(f"  {count:4d}  {where}: {whose}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--random"] and len(sys.argv) in (4, 5):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            at_random(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) == 5 else random.randrange(1 << 30))
        except (Failure, Skipped) as failure:
            sys.exit(f"FAILED: {failure}")
        sys.exit(0)
    sys.exit(promise_main(PROMISES, at_random=True, quick=("killed.openmpi.rank_while_writing", "killed.mpich.rank_while_draining"),
                          long=LONG))
