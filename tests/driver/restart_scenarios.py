#!/usr/bin/env python3
"""Programs are checkpointed at a random moment, all ranks are killed with SIGKILL, and the job is restarted, at least twice in a chain. The
final digest must be that of the undisturbed native run."""

import os
import sys
import time

from driver import (PATIENCE, Changes, Failure, Log, Place, Skipped, check_continued, check_whole, expect, logs_of, native, other, scenario_main,
                    seeded, take_checkpoint, too_late)


def survives(program, mpi="none", ranks=1, arguments=(), chain=("same", "alone"), attempts=1, earliest=0.0, latest=0.8,
             environment=None, options=(), folder=None, through=(), every_version=lambda place, version: None,
             restarts_keep=True, moments=None, within=None):
    """chain: one entry per version: kill and restart under the "same" MPI, the "other" one, or "alone" (without a launcher); or "on" without a
    kill. Versions fall between the fractions `earliest` and `latest` of the steps, so that the program does not end before the image is
    written. `folder`: the program's folder, if not its MPI's; `through`: see native(); `every_version`: called for each version;
    `restarts_keep`: whether restarts have the environment, too. `moments`: a set; while it has words, versions are requested when rank 0's log
    says that it is at one of them, and `every_version` removes words; then "on" is left out. `within`: in how many seconds each version must
    be there."""
    rng = seeded()
    folder = folder or ("plain" if mpi == "none" else mpi)
    name = f"{folder}/{program}"
    with Place(program) as place:
        arguments = [argument.replace("@", place.root) for argument in arguments]
        reference = native(place, name, arguments, mpi, ranks, environment, through)
        total = reference[0].last_step()
        job = place.run(name, arguments, mpi, ranks, options, environment=environment)
        under, reached = mpi, 0
        for kill, how in enumerate(chain):
            if how == "on" and not moments:
                continue
            low = max(reached + 1, int(total * earliest) + 1)
            aim = rng.randint(low, max(low, low + (int(total * latest) - low) // (len(chain) - kill)))
            at = job.wait_for_step(low if moments else aim)
            word = job.wait_for_word(moments) if moments else None
            if Log(job.log).digest is not None:
                too_late(f"the run was over before kill {kill + 1}")
            time.sleep(0 if word else rng.random() * 0.02)
            asked = time.monotonic()
            version, text, bounds = take_checkpoint(place, job, attempts)
            took = time.monotonic() - asked
            if within and took >= within:
                too_late(f"a checkpoint{f' at {word!r}' if word else ''} took {took:.1f} s")
            every_version(place, version)
            if how == "on":
                print(f"version at step {at}+{f', at {word!r}' if word else ''}, {text}, in {took:.2f} s")
                continue
            time.sleep(rng.random() * 0.1)
            expect(job.kill_running() >= ranks, "found fewer ranks than were started")  # possibly with children
            before = {path: Log(path) for path in bounds}
            if how == "other":
                under = other(under)
            job = place.restart(under, ranks, alone=how == "alone" or mpi == "none",
                                environment=environment if restarts_keep else None)
            going_on = [min(total, bounds[path][1] + 1) for path in bounds]
            try:
                job.wait_for_step(min(going_on))
                wait_for_new_steps(job, bounds, total)
            except Failure as failure:
                raise Failure(f"after restart {kill + 1} ({how}): {failure}") from None
            for path in bounds:
                reached = check_continued(before[path], Log(path), job.started, *bounds[path])
            print(f"kill {kill + 1} at step {at}+, {text}; restarted ({how}), went on from step {reached} of {total}")
        job.finish()
        results = logs_of(job.log, ranks)
        expect(len(results) == len(reference), "a rank's log is missing")
        for rank, (one, undisturbed) in enumerate(zip(results, reference)):
            check_whole(one)
            expect(one.last_step() == total, f"rank {rank}: {one.last_step()} steps, undisturbed {total}")
            expect(one.digest == undisturbed.digest,
                   f"rank {rank}: digest {one.digest}, undisturbed {undisturbed.digest}: DIFFERENT")


def wait_for_new_steps(job, bounds, total):
    """Waits until each log shows a step of the restarted run, or its end."""
    end = time.monotonic() + PATIENCE
    changes = Changes(os.path.dirname(job.log))
    for path in bounds:
        while True:
            log = Log(path)
            if log.digest is not None or any(moment >= job.started for _, moment in log.steps):
                break
            if not job.alive() and Log(path).digest is None:
                raise Failure(f"ended with {job.process.returncode}: {job.output()}")
            expect(time.monotonic() < end, f"{path}: no step after the restart (at {log.last_step()} of {total})")
            changes.wait(0.2)


SHORT = ("--steps", "48", "--pace", "25000")
FEW = ("--steps", "24", "--pace", "50000")  # few but long steps
SCENARIOS = {}


def scenario(name, *args, **kwargs):
    SCENARIOS[name] = lambda: survives(*args, **kwargs)


def tile_registers():
    """AMX: of four threads one keeps values in its tiles, one now and then, one from the middle of the run on, one never."""
    with open("/proc/cpuinfo") as cpus:
        if " amx_tile " not in cpus.read():
            raise Skipped("this CPU has no tile registers (AMX)")
    survives("tiles", arguments=SHORT, chain=("same", "same", "same"))


for _mpi in ("openmpi", "mpich"):
    scenario(f"restart.{_mpi}.training_equals_the_undisturbed_run", "train", _mpi, 2, ("--epochs", "1"),
            chain=("same", "alone", "same"), earliest=0.02)
    scenario(f"restart.{_mpi}.training_on_four_ranks", "train", _mpi, 4, ("--epochs", "1", "--batch", "128"), chain=("same",))
    scenario(f"restart.{_mpi}.rank_blocked_in_a_receive_for_long", "blocked_recv", _mpi, 2,
            ("--steps", "14", "--pace", "400000"), latest=0.5)
    scenario(f"restart.{_mpi}.rank_blocked_in_a_collective_for_long", "blocked_collective", _mpi, 3,
            ("--steps", "14", "--pace", "400000"), latest=0.5)
    scenario(f"restart.{_mpi}.computing_rank_is_stopped_where_it_is", "compute_only", _mpi, 2, SHORT)
    scenario(f"restart.{_mpi}.vector_and_contiguous_datatypes", "datatypes", _mpi, 2, SHORT)
    scenario(f"restart.{_mpi}.datatypes_by_every_constructor", "constructed_types", _mpi, 2, SHORT,
            chain=("same", "other", "other"))
    scenario(f"restart.{_mpi}.truncated_messages_on_the_way", "truncated", _mpi, 2, SHORT, chain=("same", "same"))
    scenario(f"restart.{_mpi}.sums_are_added_in_the_same_order", "sum_order", _mpi, 4, SHORT, chain=("same", "same"))
scenario("restart.openmpi.algorithms_chosen_by_a_hint", "preferred_sums", "openmpi", 4, SHORT, chain=("same", "same"))
scenario("restart.openmpi.algorithms_chosen_at_the_first_start", "sum_order", "openmpi", 4, ("linear", *SHORT), chain=("same", "same"),
        environment={"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": "1"}, restarts_keep=False)
scenario("restart.mpich.datatypes_of_more_than_2_to_the_31", "large_types", "mpich", 2, SHORT)
# Some MPICH builds name their library like this.
scenario("restart.mpich.program_linked_with_libmpi_so_12", "collectives", "mpich", 3, FEW, folder="named", chain=("same", "other"))
scenario("restart.openmpi.ranks_reach_each_other_by_process_id", "ranks_ids", "openmpi", 2, SHORT, chain=("same", "other"), attempts=20)
scenario("restart.openmpi.signals_between_ranks_arrive_exactly_once", "ranks_signals", "openmpi", 2, SHORT, chain=("same", "same"))
scenario("restart.openmpi.program_below_4_gib", "torture_nonpie", "openmpi", 2, SHORT)

# Started under each MPI, restarted under it, then under the other one.
for _mpi in ("openmpi", "mpich"):
    _first = "same" if _mpi == "openmpi" else "alone"
    for _name, _program, _ranks, _arguments, _attempts in (
            ("every_send_mode_and_probe", "p2p_modes", 3, SHORT, 1),
            ("pending_requests_and_every_completion_call", "requests", 2, SHORT, 1),  # the cut waits for synchronous sends
            ("messages_in_flight_keep_order_and_length", "in_flight", 2, ("--steps", "150", "--pace", "10000"), 1),
            ("persistent_requests_inactive_and_started", "persistent", 2, FEW, 20),
            ("nonblocking_collectives_outstanding", "icollectives", 3, FEW, 1),
            ("pending_reductions_round_as_the_program_does", "float_modes", 2, FEW, 1),
            ("pending_reductions_round_as_their_thread_does", "float_modes", 2, ("worker", *FEW), 1),
            ("overlapping_communicators", "communicators", 4, SHORT, 1),
            ("user_defined_operation", "user_op", 3, SHORT, 1),
            ("topologies", "topologies", 4, SHORT, 1),
            ("duplicates_completed_later", "idup", 4, SHORT, 20),
            ("every_blocking_collective", "collectives", 3, FEW, 1),
            ("wtime_never_runs_backwards", "wtime", 2, SHORT, 1),
            ("cxx_bindings_and_exceptions", "cxx_bindings", 2, SHORT, 1)):
        scenario(f"restart.{_mpi}.{_name}", _program, _mpi, _ranks, _arguments, chain=(_first, "other"), attempts=_attempts)
for _from, _to in (("openmpi", "mpich"), ("mpich", "openmpi")):
    scenario(f"restart.{_from}_to_{_to}.training_with_two_operand_sums", "train", _from, 2, ("--epochs", "1"), chain=("other",),
            earliest=0.02)
    scenario(f"restart.{_from}_to_{_to}.and_back_again", "torture", _from, 2, SHORT, chain=("other", "other"))
    scenario(f"restart.{_from}_to_{_to}.persistent_requests_and_back_again", "persistent", _from, 2, FEW, chain=("other", "other"), attempts=20)
scenario("restart.mpich_to_openmpi.topologies_and_back_again", "topologies", "mpich", 6, SHORT, chain=("other", "other"))

_three = ("same", "same", "same")
scenario("restart.alone.plain_program", "plain", arguments=SHORT, chain=_three)
scenario("restart.alone.memory_in_every_form", "memory", arguments=SHORT, chain=_three)
scenario("restart.alone.memory_of_a_program_below_4_gib", "memory_nonpie", arguments=SHORT)
scenario("restart.alone.files_at_their_offsets", "files", arguments=SHORT + ("--work", "@"), chain=_three)
scenario("restart.alone.descriptors_opened_and_closed_at_the_cut", "descriptor_races", arguments=("--steps", "60", "--pace", "20000"),
        chain=_three)
scenario("restart.alone.signal_handlers_mask_and_stack", "signals", arguments=("--steps", "60", "--pace", "12000"),
        chain=_three)
scenario("restart.alone.cut_inside_a_signal_handler", "handler_active", arguments=SHORT, chain=_three)
scenario("restart.alone.children_that_came_and_went", "children", arguments=SHORT, attempts=100, earliest=0.1)
scenario("restart.alone.thread_locals_rounding_and_vector_registers", "thread_state", arguments=SHORT, chain=_three)
SCENARIOS["restart.alone.tile_registers"] = tile_registers
scenario("restart.alone.process_and_thread_ids", "ids", arguments=SHORT, chain=_three)
scenario("restart.alone.environment_and_working_directory", "environment", arguments=SHORT, chain=_three)

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=[f"restart.{mpi}.{what}" for mpi in ("openmpi", "mpich") for what in
                          ("training_equals", "messages_in_flight")] + ["restart.openmpi_to_mpich.training", "restart.alone.plain"]))
