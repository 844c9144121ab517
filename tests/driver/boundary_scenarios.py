#!/usr/bin/env python3
"""Iterations: each shape of a main loop is recognised, a version is cut at the end of an iteration, and its iteration number is the one
that the program counts, before and after a restart."""

import json
import os
import subprocess
import sys
import time

from cuda_checkpoint_scenarios import WAYS, program_of, saved_on
from driver import (SOURCE, Log, Place, app, check_continued, check_results, check_whole, expect, iteration_of, logs_of, manifest_of, metadata_of, native,
                    scenario_main, seeded, take_checkpoint, tool)

# After how many steps the iterations of each shape of loop must be known.
SHAPES = {
    "plain": 8, "work_between_calls": 8, "one_call": 16, "conjugate_gradients": 8, "equal_layers": 8, "overlapped_buckets": 8, "accumulation": 8,
    "evaluation": 10, "long_evaluation": 50, "first_rank_evaluates": 10, "first_rank_runs_ahead": 10, "small_last_batch": 12,
    "alternating": 8, "nested": 14, "pipeline": 16,
    # 46: three calls per iteration, recognised by their call sites after some 130 calls
    "random_lengths": 46, "communicators": 8, "communicator_each_step": 46, "two_phases": 27}
IN_PYTHON = {
    "gradients": 8, "flat_gradients": 12, "objects": 40, "accumulation": 8, "evaluation": 10, "last_batch": 12, "overlapped": 8, "alternating": 8,
    "lengths": 40, "pipeline": 16, "phases": 27}
ON_DEVICES = {"trainer": 8, "pipeline": 8}
# Where three iterations do not prove it: one or two calls in each, in varying order, or with other roots or counts each time.
FOUND_WITHIN = {"one_call": 5, "pipeline": 5, "two_phases": 4, "random_lengths": 45, "communicator_each_step": 45}
FOUND_WITHIN_IN_PYTHON = {"overlapped": 5, "phases": 5, "objects": 40, "lengths": 40}
FOUND_WITHIN_ON_DEVICES = {"trainer": 5}


def check_listed(place, version, iteration):
    """`cropdl list` shows this as the iteration of the newest version."""
    head, row = (line.split() for line in place.ask([tool("cropdl"), "list", place.store])[1].splitlines()[:2])
    newest = json.loads(place.ask([tool("cropdl"), "list", "--json", place.store])[1])["versions"][0]
    expect(row[head.index("VERSION")] == str(newest["version"]) == str(version), f"the newest is not version {version}: {row} {newest}")
    expect(row[head.index("ITERATION")] == str(newest["iteration"]) == str(iteration), f"not iteration {iteration}: {row} {newest}")


def cut_at_iterations(program, mpi, steps, shape="", options=(), more=60, ranks=2, within=3):
    """`steps`: after how many steps the iterations must be known (the agent looks every 20 ms, and a loop may first have to be told from another
    one); `more`: steps after that; `within`: after how many iterations the calls themselves must have shown it."""
    rng = seeded()
    arguments = (["--shape", shape] if shape else []) + ["--steps", str(steps + more), "--pace", "8000"]
    with Place("loop") as place:
        job = place.run(program, arguments, mpi, ranks, options)
        known = steps
        for turn in range(2):
            job.wait_for_step(known + rng.randrange(6))
            version, _, _ = take_checkpoint(place, job)
            iteration = iteration_of(place, version)
            found_after = [metadata_of(place.version_path(version, f"rank-{r}.img"))["iterations"]["found_after"] for r in range(ranks)]
            expect(all(0 < after <= within for after in found_after), f"found after {found_after} iterations, not within {within}")
            if shape == "work_between_calls":  # most random moments are in the middle of an iteration
                begun = [metadata_of(place.version_path(version, f"rank-{r}.img"))["iterations"]["symbols"] for r in range(ranks)]
                expect(begun == [0] * ranks, f"cut in the middle of iteration {iteration + 1}: {begun} of its calls were begun")
            if shape == "first_rank_runs_ahead":
                waited = manifest_of(place, version)["wait_seconds"]
                expect(0 < waited < 60, f"rank 0 was held {waited} s until rank 1 came to the end of the iteration")
            job.kill_running()
            check_listed(place, version, iteration)
            before = logs_of(job.log, ranks)
            again = place.restart(mpi, ranks)
            known = again.wait_for_step(iteration + 5)
            for old, new in zip(before, logs_of(again.log, ranks)):
                # The line of the last step may be written just after the cut.
                check_continued(old, new, again.own_since, iteration - 1, iteration)
            job = again
        job.finish()
        for log in logs_of(job.log, ranks):
            check_whole(log)


SCENARIOS = {f"boundary.{_mpi}.{_shape}": lambda s=_shape, m=_mpi: cut_at_iterations(f"{m}/loops", m, SHAPES[s], s, within=FOUND_WITHIN.get(s, 3))
             for _mpi in ("openmpi", "mpich") for _shape in SHAPES}
# Debian's mpi4py is built for Open MPI.
LOOPS = ("/usr/bin/python3", os.path.join(SOURCE, "tests", "apps", "python", "loops.py"))
SCENARIOS.update({f"boundary.openmpi.python_{_shape}": lambda s=_shape: cut_at_iterations(LOOPS, "openmpi", IN_PYTHON[s], s, within=FOUND_WITHIN_IN_PYTHON.get(s, 3))
                  for _shape in IN_PYTHON})
SCENARIOS.update({f"boundary.openmpi.cuda_{_name}": lambda n=_name: cut_at_iterations(program_of(n, "openmpi"), "openmpi", ON_DEVICES[n], options=saved_on(2), more=250,
                                                                                     within=FOUND_WITHIN_ON_DEVICES.get(n, 3))
                 for _name in ON_DEVICES if "static" in WAYS.get(f"checkpoint-{_name}", ())})


def loop_has_ended(mpi):
    """The loop ends in the middle of an iteration. The end of that iteration, at which the cut is to be made, never comes: it is waited for
    in vain, and then the ranks are cut where they are."""
    arguments = ("--shape", "ends", "--steps", "60", "--pace", "20000")
    with Place("ends") as place:
        reference = native(place, f"{mpi}/loops", arguments, mpi, 2)
        job = place.run(f"{mpi}/loops", arguments, mpi, 2)
        job.wait_for_log(lambda log: log.at == "end" or log.last_step() > 30, lambda log: "the end of the loop")
        began = time.monotonic()
        version, text, between = take_checkpoint(place, job)
        expect(time.monotonic() - began > 1, f"the end of the iteration was not waited for: {text}")
        expect(iteration_of(place, version) == 30, f"not after iteration 30: {text}")
        begun = [metadata_of(place.version_path(version, f"rank-{r}.img"))["iterations"]["symbols"] for r in range(2)]
        expect(begun == [1, 1], f"{begun} calls of the last iteration were begun")
        job.kill_running()
        before = logs_of(job.log, 2)
        job = place.restart(mpi, 2)
        job.finish()
        for old, new in zip(before, logs_of(job.log, 2)):
            check_continued(old, new, job.own_since, *between[new.path])
        check_results(job, reference, 2)


for _mpi in ("openmpi", "mpich"):
    SCENARIOS[f"boundary.{_mpi}.loop_that_ends_before_the_predicted_cut"] = lambda m=_mpi: loop_has_ended(m)


def functions_of(program):
    told = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    return {words[2]: int(words[0], 16) for words in map(str.split, told.splitlines()) if words[1] in "tT"}


def calls_are_shown():
    """`cropdl inspect` shows the collectives of an iteration, with the program's functions that call them, for each rank, also right after
    a restart. In a store that others can write to, it shows no symbols, since it would have to open the program that the store names."""
    with Place("calls") as place:
        job = place.run("openmpi/loops", ("--shape", "communicators", "--steps", "100000", "--pace", "8000"), "openmpi", 2)
        job.wait_for_step(8)
        for _ in range(2):
            take_checkpoint(place, job)
            job.kill_running()
            status, text, _ = place.ask([tool("cropdl"), "inspect", "--json", place.store])
            expect(status == 0, text)
            for image in json.loads(text)["images"]:
                calls = image["iteration"]
                expect([call["communicator"] for call in calls] == [1, 0, 2, 3] and {call["function"] for call in calls} == {"MPI_Allreduce"}, f"{calls}")
                expect({call["file"] for call in calls} == {app("openmpi/loops")}, f"{calls}")
                functions = functions_of(app("openmpi/loops"))
                names = [call["symbol"].partition("+")[0] for call in calls]
                expect(set(names) <= set(functions) and len({call["symbol"] for call in calls}) > 1, f"{calls}")
                # Both refer to the same instruction: file offset and address differ by whole pages.
                begins = [call["offset"] - int(call["symbol"].partition("+")[2], 16) for call in calls]
                expect(all((begin - functions[name]) % 4096 == 0 for begin, name in zip(begins, names)), f"{calls} {functions}")
                expect(all(call["outer"]["symbol"].partition("+")[0] in functions for call in calls), f"{calls}")
                expect(len({call["outer"]["offset"] for call in calls}) > 1, f"{calls}")
            job = place.restart("openmpi", 2)
            job.wait_for_step(Log(job.log).last_step() + 1)
        job.kill_running()
        text = place.ask([tool("cropdl"), "inspect", place.store])[1]
        lines = [line for line in text.splitlines() if line.startswith("  MPI_")]
        expect("iteration of rank 0: 4 collectives" in text and all("(loops)" in line for line in lines) and len(lines) > 1, text)
        os.chmod(place.store, 0o777)  # others may have put a hostile file name there
        text = place.ask([tool("cropdl"), "inspect", place.store])[1]
        expect("(loops)" not in text and ", loops+0x" in text, text)


SCENARIOS["boundary.openmpi.calls_of_an_iteration_are_shown_with_their_functions"] = calls_are_shown

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("boundary.openmpi.plain",), long=[name for name in SCENARIOS if ".mpich." in name]))
