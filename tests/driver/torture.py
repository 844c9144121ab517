#!/usr/bin/env python3
"""Kills all ranks or one rank, at random and at chosen moments. Restarts each time from the newest complete version, so restarts are
restarted too. At the end, the digest of every rank must equal that of the undisturbed native run.

  torture.py [--mpi openmpi|mpich|alternate] [--program plain|openmp|serialized|multiple|cuda|nccl] [--kills 50] [--ranks 2]
             [--interval 0.3] [--seed N] [--short]

Half of the kills fall at random moments. The other half are aimed at the phase that was hit least so far: the ranks are frozen
(SIGSTOP), then killed if they are in that phase, else continued. Half of the kills take a single rank (rank 0, where the hub runs, or
another), and the launcher has to end the rest. Between kills, one rank is stopped for a moment, often in the middle of a checkpoint, and
continued. Prints how many kills hit each phase and fails if a phase was never hit; with --short (the form that ctest runs) phases may be
missed. If the program ends before all kills are spent, it is started again in a new store, and compared again.

Programs with threads: OpenMP with MPI calls from the main thread (openmp) or from all threads in turn (serialized), and four threads per
rank that call MPI concurrently (multiple). For these, the report also says what the killed threads were doing, as the kernel saw it;
every other aimed kill targets such an activity, and none may be missed. cuda is one process without MPI on the software GPU, which
computes, launches, waits for a kernel and copies. nccl trains with one device per rank, and notes in its memory what its device is
doing: a kernel, an NCCL collective or a copy."""

import argparse
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time

from driver import Failure, Log, PATIENCE, SOURCE, Place, Skipped, check_whole, expect, logs_of, native, other, read_proc, tool

AT = {"collective": "blocked in a collective", "receive": "blocked in a receive", "launch": "launching", "kernel": "a kernel running",
      "copy": "copying", "all-reduce": "inside a collective of NCCL's"}  # what the program's log says it is about to do
TRACED = {"holding": "cutting", "stopping": "cutting", "draining": "draining", "writing": "writing",
          "publishing": "between sync and rename", "restarting": "restarting", "joining": "restarting"}
JOINING = "making communicators again"  # NCCL's communicators, during a restart
PROGRAMS = {"plain": ("torture", (), 500), "openmp": ("torture_openmp", (), 300),  # and the steps of one run
            "serialized": ("torture_openmp", ("--serialized",), 300), "multiple": ("torture_multiple", (), 120),
            "cuda": ("cuda/static/checkpoint-torture", (), 300), "nccl": ("cuda/static/checkpoint-trainer", ("--communicators", "24"), 600)}
DOING = ("computing", "waiting for another thread", "in another system call", "inside MPI", "held by the engine")
SEVERAL = "several of a rank at once inside MPI"  # only with MPI_THREAD_MULTIPLE
VICTIMS = ("all ranks", "rank 0, the hub", "another rank")
BLOCKED_AFTER = 0.001  # a thread counts as blocked after this many seconds in one call
WINDOW = range(0x4000_0000_0000, 0x5000_0000_0000)  # the program's addresses
LOW = range(0x1_0000, 0xfc00_0000)  # and below 4 GiB, where thread stacks may be
STATE = range(0x4000_0020_0000, 0x4000_0100_0000)  # the core's state: a parked thread waits on a futex in it
FUTEX = 202


def doing(pid):
    """What each thread of a stopped (SIGSTOP) rank is doing, as a list of members of DOING."""
    found, clock = [], range(0)
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for begin, end in re.findall(rb"^(\w+)-(\w+) .*\[vdso\]$", read_proc(pid, "maps"), re.MULTILINE):
        clock = range(int(begin, 16), int(end, 16))  # a page that a computing program reads
    for thread in threads:
        end = time.monotonic() + 1
        words = ["running"]
        while words == ["running"] and time.monotonic() < end:  # the thread has not stopped yet
            words = read_proc(pid, f"task/{thread}/syscall").decode().split()
        if len(words) < 3:
            continue
        call, pointers = int(words[0]), [int(word, 16) for word in words[1:]]
        stack, at = pointers[-2:]
        if stack not in WINDOW and stack not in LOW:  # a lower-half thread, or the main thread while it serves the agent
            found += ["held by the engine"] if int(thread) == pid else []
        elif at not in WINDOW and at not in LOW and at not in clock:
            found.append("inside MPI")
        elif call == FUTEX:
            found.append("held by the engine" if pointers[0] in STATE else "waiting for another thread")
        else:
            found.append("computing" if call < 0 else "in another system call")
    return found


class Torture:
    def __init__(self, options, place):
        self.options, self.place = options, place
        self.rng = random.Random(options.seed)
        self.program, arguments, _ = PROGRAMS[options.program]
        self.cuda, self.nccl = options.program == "cuda", options.program == "nccl"
        self.at = {word: AT[word] for word in ({"cuda": ("launch", "kernel", "copy"), "nccl": ("launch", "kernel", "copy", "all-reduce")}
                                               .get(options.program, ("collective", "receive")))}
        self.traced = TRACED | ({"joining": JOINING} if self.nccl else {})
        self.hits = dict.fromkeys(("before the first version", "computing", *self.at.values(), *self.traced.values()), 0)
        activities = DOING + (SEVERAL,) if options.program == "multiple" else DOING
        self.doing = dict.fromkeys(activities if options.program not in ("plain", "cuda", "nccl") else (), 0)
        self.victims = dict.fromkeys(VICTIMS[:3 if options.ranks > 1 else 1], 0)
        self.stops = 0
        self.mpi = "none" if self.cuda else "openmpi" if options.mpi == "alternate" else options.mpi
        self.first_mpi = self.mpi
        self.path = self.program if self.cuda else f"{self.program}.{self.first_mpi}" if self.nccl else f"{self.first_mpi}/{self.program}"
        self.devices = (f"--software-gpu={options.ranks}",) if self.cuda or self.nccl else ()
        self.arguments = ("--steps", str(options.steps), "--pace", str(options.pace), *arguments)
        self.kills = self.round = self.deepest = self.depth = 0
        self.job = self.asked = None

    def start(self):
        self.round += 1
        self.depth = 0
        self.place.store = self.place.path(f"store-{self.round}")
        self.mpi = self.first_mpi
        self.launch_new()

    def launch_new(self):
        log = self.place.path(f"log-{self.round}")
        for name in [log] + [f"{log}.{rank}" for rank in range(1, self.options.ranks)]:
            if os.path.exists(name):  # of a killed run without versions; a version may come before the program begins its own
                os.remove(name)
        self.job = self.place.run(self.path, self.arguments, self.mpi, self.options.ranks,
                                  options=("--interval", str(self.options.interval), *self.devices),
                                  environment={"CROPDL_TRACE_PHASE": "1"}, log=log)
        self.restarted_from = None

    def restart(self):
        if self.options.mpi == "alternate" and not self.cuda:
            self.mpi = other(self.mpi)
        log = self.job.log
        try:
            os.remove(os.path.join(self.place.store, "phase"))  # left by the killed run
        except FileNotFoundError:
            pass
        # With the short interval of the start, a checkpoint attempt during the restart would overwrite the traced restart phases.
        self.job = self.place.restart(self.mpi, self.options.ranks, environment={"CROPDL_TRACE_PHASE": "1"}, log=log,
                                      options=("--interval", "1") if self.nccl else ())

    # --- Where the ranks are -------------------------------------------------------------------------------------

    def freeze(self, pids=None):
        pids = pids or self.job.ranks()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                pass
        return pids

    def thaw(self, pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def rank_of(self, pid):
        found = re.search(rb"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)\0", read_proc(pid, "environ"))
        return int(found.group(1)) if found else -1

    def stop_one(self):
        """Stops one rank for a moment. The other ranks and a running checkpoint wait; nothing may break."""
        while self.job.alive() and not self.job.ranks():  # only the launcher exists yet
            time.sleep(0.005)
        pids = self.job.ranks()
        if not pids:
            return
        self.versions_before_request = len(self.place.versions())
        self.request()
        time.sleep(self.rng.random() * 0.05)
        pid = self.rng.choice(pids)
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.rng.random() * 0.5)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        self.stops += 1

    def choose(self, pids):
        """Chooses which of the frozen ranks to kill: a description, and their process ids."""
        who = VICTIMS[0] if self.kills % 4 < 2 or len(self.victims) == 1 else min(VICTIMS[1:], key=lambda v: self.victims[v])
        wanted = [pid for pid in pids if (self.rank_of(pid) == 0) == (who == VICTIMS[1])]
        if who == VICTIMS[0] or len(wanted) == 0:
            return VICTIMS[0], pids
        return who, [self.rng.choice(wanted)]

    def strike(self, pids, who, victims):
        """Kills the chosen frozen ranks and waits until the job is dead. Returns False if no rank was there."""
        if who == VICTIMS[0]:
            return self.job.kill_ranks() > 0
        os.kill(victims[0], signal.SIGKILL)
        self.thaw(pids)
        try:
            self.job.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"{who} was killed, and {PATIENCE:.0f} s later the launcher and the others still run:\n{self.job.left()}")
        self.job.kill_all()
        return True

    def phase_now(self):
        """The phase of frozen or dead ranks."""
        if not self.place.versions():
            return "before the first version"
        traced = self.traced.get(self.place.phase())
        if traced == "between sync and rename" and len(self.place.versions()) > self.versions_before_request:
            traced = None  # already renamed
        if traced:
            return traced
        logs = logs_of(self.job.log, self.options.ranks)
        if self.restarted_from is not None and not any(t >= self.job.started for log in logs for _, t in log.steps):
            return "restarting"
        if self.nccl:
            return min(self.at_on_devices(logs), key=lambda phase: self.hits[phase], default="computing")
        now, blocked = time.time(), []
        for log in logs:
            if log.at in self.at and now - os.stat(log.path).st_mtime > BLOCKED_AFTER:
                blocked.append(self.at[log.at])
        if blocked:
            return min(blocked, key=lambda phase: self.hits[phase])
        return "computing"

    def at_on_devices(self, logs):
        """Which kernels frozen ranks launch and what their devices are doing, from the notes in the program's memory."""
        by_rank = {self.rank_of(pid): pid for pid in self.job.ranks()}
        found = set()
        for rank, log in enumerate(logs):
            if log.at == "launch":
                found.add(AT["launch"])
            if log.words is None or rank not in by_rank:
                continue
            try:
                with open(f"/proc/{by_rank[rank]}/mem", "rb") as memory:
                    memory.seek(log.words)
                    compute, copy = struct.unpack("2I", memory.read(8))
            except (OSError, ValueError, struct.error):
                continue
            found |= {AT[what] for what, is_so in (("kernel", compute == 1), ("all-reduce", compute == 2), ("copy", copy == 1)) if is_so}
        return sorted(found)

    def doing_now(self, pids):
        """How many threads of these frozen ranks are in each state of DOING."""
        if not self.doing:
            return {}
        by_rank = [doing(pid) for pid in pids]
        counts = {what: sum(rank.count(what) for rank in by_rank) for what in self.doing}
        if SEVERAL in counts:
            counts[SEVERAL] = sum(rank.count("inside MPI") > 1 for rank in by_rank)
        return {what: count for what, count in counts.items() if count}

    # --- Kills ---------------------------------------------------------------------------------------------------

    def request(self):
        """Starts `cropdl checkpoint` without waiting for it, unless one is running already."""
        if self.asked and self.asked.poll() is None:
            return
        self.versions_before_request = len(self.place.versions())
        self.asked = subprocess.Popen([tool("cropdl"), "checkpoint", self.place.store], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def aim(self, target):
        """Waits until the ranks are in the phase and leaves them frozen in it. Returns False if it did not happen in time."""
        end = time.monotonic() + 20
        wanted = {traced for traced, phase in self.traced.items() if phase == target}
        while time.monotonic() < end and self.job.alive() and Log(self.job.log).digest is None:
            pids = None
            if target in ("cutting", "draining", "writing", "between sync and rename"):
                if not self.place.versions():
                    time.sleep(0.01)
                    continue
                self.request()
                near = time.monotonic() + 2
                while self.place.phase() not in wanted and self.asked.poll() is None and time.monotonic() < near:
                    pass
            elif target == JOINING:  # lasts milliseconds and happens once
                while self.place.phase() != "restarting" and time.monotonic() < end and self.job.alive():
                    time.sleep(0.001)
                while len(pids or ()) < self.options.ranks and time.monotonic() < end:
                    pids = self.job.ranks()
                while self.place.phase() == "restarting" and time.monotonic() < end:
                    pass
                if self.place.phase() not in wanted:
                    return False
            elif target != "restarting":
                time.sleep(self.rng.random() * 0.02)
            pids = self.freeze(pids)
            if len(pids) >= self.options.ranks and (self.phase_now() == target or target in self.doing_now(pids)):
                return True
            self.thaw(pids)
        return False

    def kill(self):
        counts = [count for phase, count in self.hits.items() if phase != "before the first version"]
        joins = self.restarted_from is not None and self.kills % 2 and self.hits.get(JOINING) == min(counts)
        if self.kills and not joins:
            self.stop_one()
        self.versions_before_request = len(self.place.versions())
        at_random = self.kills % 2 == 0
        target = None
        if at_random and self.kills == 0:
            time.sleep(self.rng.random() * self.options.interval * 0.7)  # later kills come after the first version
        elif at_random:
            time.sleep(self.rng.random() * self.options.interval * 4)
        elif self.doing and self.kills % 8 in (1, 7):  # one kill of all ranks and one of a single rank
            target = min(self.doing, key=lambda what: self.doing[what])
            self.aim(target)
        else:
            reachable = [phase for phase in self.hits if phase not in ("restarting", JOINING) or self.restarted_from is not None]
            if self.place.versions():
                reachable.remove("before the first version")
            least = min(self.hits[phase] for phase in reachable)
            target = JOINING if joins else self.rng.choice([phase for phase in reachable if self.hits[phase] == least])
            self.aim(target)
        while self.job.alive() and not self.job.ranks():  # only the launcher exists yet
            time.sleep(0.005)
        frozen = self.freeze() if self.job.alive() else []
        if not frozen:
            return False
        if all(log.digest is not None for log in logs_of(self.job.log, self.options.ranks)):
            self.thaw(self.job.ranks())
            return False
        phase = self.phase_now()
        killed, victims = self.choose(frozen)
        threads = self.doing_now(victims)
        if not self.strike(frozen, killed, victims):
            return False
        self.hits[phase] += 1
        self.victims[killed] += 1
        for what in threads:
            self.doing[what] += 1
        self.kills += 1
        print(f"kill {self.kills:3d} {'at random' if at_random else 'aimed at ' + target:38s} fell: {phase:26s} {killed:15s}"
              f" {self.mpi} step {Log(self.job.log).last_step()} of {self.options.steps}, version "
              f"{self.place.versions()[-1:] or 'none'}", flush=True)
        if threads:
            print("         threads: " + ", ".join(f"{count} {what}" if what in DOING else what for what, count in threads.items()),
                  flush=True)
        return True

    def after_kill(self):
        """Restarts, and checks at once that the run continues from the newest version."""
        versions = self.place.versions()
        before = logs_of(self.job.log, self.options.ranks)
        if not versions:
            self.depth = 0
            self.launch_new()
            return
        self.restarted_from = versions[-1]
        published = os.stat(self.place.version_path(versions[-1], "manifest.json")).st_mtime
        self.pending = (before, published)
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        self.restart()

    def check_last_restart(self):
        """Checks the latest restart by its logs, if it has made a step. Called when the ranks are dead."""
        if self.restarted_from is None or not getattr(self, "pending", None):
            return
        before, published = self.pending
        for old in before:
            new = Log(old.path)
            # A version taken before the first step may also precede the draw of the nonce, which the restarted run may not have come to.
            expect(new.nonces == old.nonces or (len(new.nonces) <= 1 and old.last_step_at(published) == 0), f"{old.path}: nonce {old.nonces}, then {new.nonces}: started over")
            steps = [step for step, moment in new.steps if moment >= self.job.started]
            if not steps:
                continue
            most, least = old.last_step_at(published), old.last_step_at(published - 10)
            expect(least <= steps[0] - 1 <= most,
                   f"{old.path}: went on from step {steps[0] - 1}; the version was taken between {least} and {most}")
        self.pending = None

    def finish_round(self, reference):
        self.job.finish(timeout=3 * PATIENCE)
        self.check_last_restart()
        for rank, (one, undisturbed) in enumerate(zip(logs_of(self.job.log, self.options.ranks), reference)):
            check_whole(one)
            expect(one.last_step() == self.options.steps, f"rank {rank}: {one.last_step()} steps")
            expect(one.digest == undisturbed.digest, f"rank {rank}: {one.digest}, undisturbed {undisturbed.digest}: DIFFERENT")
        print(f"round {self.round}: digest {reference[0].digest} equal after {self.depth} restarts in a chain", flush=True)

    def run(self):
        through = (os.path.join(SOURCE, "scripts", "software-gpu"), "--devices", str(self.options.ranks), "--quiet") if self.devices else ()
        reference = native(self.place, self.path, self.arguments, self.first_mpi, self.options.ranks, through=through)
        self.start()
        while self.kills < self.options.kills:
            if self.kill():
                self.check_last_restart()
                self.after_kill()
            else:
                self.finish_round(reference)
                self.start()
        self.finish_round(reference)
        print(f"\n{self.kills} kills, longest chain {self.deepest} restarts, {self.round} rounds, {self.options.mpi}, {self.program}")
        for phase, count in self.hits.items():
            print(f"  {count:4d}  {phase}")
        for who in self.victims:
            print(f"  {self.victims[who]:4d}  {who} killed")
        print(f"  {self.stops:4d}  ranks stopped and continued")
        for what, count in self.doing.items():
            print(f"  {count:4d}  kills of threads {what}")
        missed = [what for what, count in (self.hits | self.doing).items() if not count]
        expect(self.options.short or not missed, f"never hit: {', '.join(missed)}")
        expect(all(self.victims.values()) or self.kills < 6, f"never killed: {self.victims}")
        expect(self.stops or self.kills < 6, "no rank was ever stopped")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", choices=("openmpi", "mpich", "alternate"), default="openmpi")
    parser.add_argument("--program", choices=PROGRAMS, default="plain")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--interval", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--pace", type=int, default=20000)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    options.ranks = options.ranks or (1 if options.program == "cuda" else 2)
    options.steps = options.steps or PROGRAMS[options.program][2] * 3 // (10 if options.short else 3)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"torture: {options.mpi}, {options.program}, {options.ranks} ranks, {options.kills} kills, seed {options.seed}", flush=True)
    try:
        with Place("torture") as place:
            Torture(options, place).run()
    except (Failure, Skipped) as failure:
        print(f"FAILED: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
