#!/usr/bin/env python3
"""The MPI library of the lower half: programs that communicate while a checkpoint is requested, and programs that make and free a million
objects, which must leave nothing behind: no memory, no bytes in images, no longer stall.

`mpi_scenarios.py --churn MPI WHAT COUNT` runs one of the latter with any count (docs/testing.md has a table)."""

import re
import sys
import time

from driver import (Failure, Log, PATIENCE, Place, Skipped, app, check_whole, expect, launcher, logs_of, scenario_main, take_checkpoint,
                    too_late, tool)
from footprint import check_stall, measure
from restart_scenarios import survives

STEPS = 30


def churn(mpi, what, count, ranks=2, patience=3 * PATIENCE):
    """Measures before and after `count` objects, with a version in between. The last version is restarted."""
    with Place("churn") as place:
        arguments = [what, str(count), "--steps", str(STEPS), "--pace", "300000"]
        job = place.run(f"{mpi}/churn", arguments, mpi, ranks)
        job.wait_for_step(2)
        before = measure(place, job, ranks)
        job.wait_for_step(STEPS // 3 + 1, patience)
        began = time.monotonic()
        place.checkpoint(timeout=patience)
        during = time.monotonic() - began
        job.wait_for_step(2 * STEPS // 3 + 1, patience)
        after = measure(place, job, ranks)
        print(f"{mpi} {what} {count}: stall {before.stall:.3f} s before, {during:.3f} s (with the command) during, {after.stall:.3f} s after; "
              f"image {before.images >> 10} KiB, {after.images >> 10} KiB; memory {before.before.memory >> 10} KiB, {after.before.memory >> 10} KiB")
        job.kill_running()
        again = place.restart(mpi, ranks)
        again.finish(timeout=patience)
        for log in logs_of(again.log, ranks):
            check_whole(log)
        return before, during, after


def leaves_nothing(mpi, what, count, ranks=2, growth=4 << 20):
    before, during, after = churn(mpi, what, count, ranks)
    check_stall(before, after)
    if during >= 15:
        too_late(f"a checkpoint meanwhile took {during:.1f} s")
    expect(after.images < before.images + (growth >> 1), f"images grew from {before.images} to {after.images} bytes")
    expect(after.before.memory < before.before.memory + growth, f"memory grew from {before.before.memory} to {after.before.memory} bytes")


def says_done(mpi, program, ranks, interval=None, attempts=0, versions=0, silent_mpi=True):
    """Runs a program, which prints problems or just "done", to its end, with this many checkpoint attempts and at least this many versions.
    silent_mpi=False: MPICH and UCX may print remarks on how the program ended."""
    with Place(program) as place:
        job = place.start(launcher(mpi, ranks) + [tool("cropdl-run"), "--interval", str(interval or 0), "--dir", place.store, "--", app(f"{mpi}/{program}")])
        job.finish()
        lines = [line for line in job.output().splitlines() if not (interval and line.startswith("cropdl"))]
        expect(lines == ["done"] or (not silent_mpi and "done" in lines), job.output())
        there, refused = len(place.versions()), job.output().count("checkpoint refused")
        expect(there >= versions and there + refused >= attempts, f"{there} versions, {refused} refused: {job.output()}")


def synchronous(mpi):
    """No MPI_Ssend returns before its receive has begun, although checkpoints are taken all the time."""
    says_done(mpi, "synchronous", 2, 0.05, versions=1)


def duplicates(mpi):
    """If ranks are held while MPI_Comm_idup is pending, every rank still gets the same duplicate."""
    says_done(mpi, "idup_beside", 3, 0.005, attempts=3)


def objects_beside(mpi):
    """Objects that threads make and free concurrently stay separate, although handle numbers are reused."""
    says_done(mpi, "objects_beside", 1)


def error_handlers(mpi):
    """More error handlers in sequence than there are numbers for them: each behaves as the program's own."""
    says_done(mpi, "many_errhandlers", 1)


def uneven_end(mpi):
    """Nonblocking collectives that only one rank started do not block the others in MPI_Finalize."""
    says_done(mpi, "uneven_end", 3, silent_mpi=False)


def cut_again_and_again(mpi, what, ranks, times):
    """Checkpoints as often as possible during such calls: each one is taken, or refused with the name of the object that is alive (an
    inter-communicator); none hangs or harms the program."""
    with Place("meetings") as place:
        steps = {"openmpi": 300, "mpich": 120}[mpi]  # a few seconds
        job = place.run(f"{mpi}/meetings", [what, "--steps", str(steps), "--pace", "100"], mpi, ranks)
        job.wait_for_step(1)
        taken = refused = 0
        longest = 0.0
        while job.alive() and Log(job.log).digest is None and taken + refused < times:
            status, text, seconds = place.checkpoint()
            if not job.alive() or Log(job.log).digest is not None:
                break
            if status == 0:
                taken += 1
            else:
                expect("is alive that cannot be saved" in text, f"`cropdl checkpoint`: {status}: {text}\n{job.output()}")
                refused += 1
            longest = max(longest, seconds)
        print(f"{taken} versions, {refused} refusals, the longest took {longest:.2f} s")
        if taken + refused <= 2:
            too_late(f"only {taken + refused} attempts")
        if longest >= 8:
            too_late(f"a checkpoint took {longest:.1f} s: it was given up and tried again")
        job.finish()
        for log in logs_of(job.log, ranks):
            check_whole(log)


def crossing_attempts(mpi, steps):
    """Returns (versions, refusals) of a program in which one rank has a pipe open half of the time."""
    with Place("crossing") as place:
        job = place.run(f"{mpi}/threads_cross", ["refuse", "--steps", str(steps), "--pace", "5000"], mpi, 2)
        job.wait_for_step(1)
        taken = refused = 0
        while job.alive() and Log(job.log).last_step() < steps - 10:
            status, text, _ = place.checkpoint()
            over = "has ended its program" in text or Log(job.log).digest is not None or not job.alive()
            expect(status == 0 or "rank 1: a pipe" in text or over, text)
            taken += status == 0
            refused += "rank 1: a pipe" in text
        job.finish()
        for log in logs_of(job.log, 2):
            check_whole(log)
        print(f"{taken} versions, {refused} refused, of {steps} steps")
        return taken, refused


def crossing(mpi, times=3):
    """Versions while threads of both ranks send to each other: each succeeds at the first attempt. Attempts that another rank refuses
    meanwhile do no harm. Then kills and restarts."""
    # A step takes 2 to 60 ms, depending on the receivers.
    expect(any(min(crossing_attempts(mpi, steps)) > 0 for steps in (60, 600, 2400)), "none was taken, or none refused")
    with Place("crossing") as place:
        job = place.run(f"{mpi}/threads_cross", ["--steps", "1000", "--pace", "20000"], mpi, 2)
        job.wait_for_step(3)
        for _ in range(times):
            _, text, _ = take_checkpoint(place, job)
            expect(float(re.search(r"stall ([\d.]+) s", text).group(1)) < 5, text)
            status, text, seconds = place.checkpoint()
            expect(status == 0 and seconds < 8, f"{status}: {text}: took {seconds:.1f} s: it was given up and tried again")
        print(f"{2 * times} versions")
    survives("threads_cross", mpi, 2, ("--steps", "60", "--pace", "20000"), chain=("same", "other"), latest=0.5)


def attributes_beside(mpi):
    """Threads change attributes of one communicator concurrently: no change is lost; a version is taken meanwhile."""
    with Place("attributes") as place:
        job = place.run(f"{mpi}/attributes_beside", ["--steps", "40", "--pace", "20000"], mpi, 1)
        job.wait_for_step(3)
        take_checkpoint(place, job)
        job.finish()
        for log in logs_of(job.log, 1):
            check_whole(log)


SCENARIOS = {}
# The object tables are CropDL's own and do not depend on the MPI.
LONG = ("openmpi.operations", "openmpi.objects_freed_while_in_use", "mpich.communicators", "mpich.datatypes", "mpich.messages_of_ten_thousand_tags")
for _mpi in ("openmpi", "mpich"):
    for _what, _count in (("comm", 20000), ("op", 20000), ("type", 20000), ("tags", 30000), ("early", 4000)):
        _name = {"comm": "communicators", "op": "operations", "type": "datatypes", "tags": "messages_of_ten_thousand_tags",
                 "early": "objects_freed_while_in_use"}[_what]
        SCENARIOS[f"mpi.{_mpi}.{_name}_leave_nothing_behind"] = (
            lambda mpi=_mpi, what=_what, count=_count: leaves_nothing(mpi, what, count))
    SCENARIOS[f"mpi.{_mpi}.synchronous_sends_wait_for_their_receives"] = lambda mpi=_mpi: synchronous(mpi)
    SCENARIOS[f"mpi.{_mpi}.idup_during_collectives_is_equal_on_all_ranks"] = lambda mpi=_mpi: duplicates(mpi)
    SCENARIOS[f"mpi.{_mpi}.crossing_sends_of_threads_are_cut_at_once"] = lambda mpi=_mpi: crossing(mpi)
    SCENARIOS[f"mpi.{_mpi}.attributes_changed_by_threads_are_not_lost"] = lambda mpi=_mpi: attributes_beside(mpi)
    SCENARIOS[f"mpi.{_mpi}.collectives_started_by_one_rank_do_not_block_finalize"] = lambda mpi=_mpi: uneven_end(mpi)
    SCENARIOS[f"mpi.{_mpi}.error_handler_numbers_are_reused"] = lambda mpi=_mpi: error_handlers(mpi)
    SCENARIOS[f"mpi.{_mpi}.objects_made_by_threads_stay_separate"] = lambda mpi=_mpi: objects_beside(mpi)
    SCENARIOS[f"mpi.{_mpi}.objects_freed_while_in_use_survive"] = (
        lambda mpi=_mpi: survives("churn", mpi, 2, ("early", "3000", "--steps", "60", "--pace", "50000"), chain=("same",), attempts=60,
                                 latest=0.4))
    SCENARIOS[f"mpi.{_mpi}.drained_messages_are_received_by_threads"] = (
        lambda mpi=_mpi: survives("drained_threads", mpi, 2, ("--steps", "40", "--pace", "30000"), attempts=60))
    SCENARIOS[f"mpi.{_mpi}.partly_freed_communicators_are_restored"] = (
        lambda mpi=_mpi: survives("freed_late", mpi, 3, ("--steps", "60", "--pace", "30000"), ("same", "other", "same"), latest=0.7))
    SCENARIOS[f"mpi.{_mpi}.tens_of_thousands_of_info_objects_at_once"] = (
        lambda mpi=_mpi: survives("many_infos", mpi, 1, ("--steps", "40", "--pace", "30000"), ("same", "other")))
    for _what, _ranks in (("alone", 2), ("groups", 3), ("create_group", 3)):
        _name = {"alone": "intercommunicators_of_single_ranks", "groups": "intercommunicators_of_groups",
                 "create_group": "communicators_of_some_members"}[_what]
        SCENARIOS[f"mpi.{_mpi}.{_name}_are_cut_or_refused_at_once"] = (
            lambda mpi=_mpi, what=_what, ranks=_ranks: cut_again_and_again(mpi, what, ranks, 10))

if __name__ == "__main__":
    if sys.argv[1:2] == ["--churn"] and len(sys.argv) == 5:
        try:
            churn(sys.argv[2], sys.argv[3], int(sys.argv[4]), patience=3600)
        except (Failure, Skipped) as failure:
            sys.exit(f"FAILED: {failure}")
        sys.exit(0)
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("mpi.openmpi.drained", "mpi.mpich.communicators_of_some"),
                          long=[f"mpi.{name}_leave_nothing_behind" for name in LONG] + ["mpi.mpich.error_handler_numbers_are_reused"]))
