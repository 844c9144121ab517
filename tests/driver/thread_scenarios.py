#!/usr/bin/env python3
"""Programs with several threads: checkpointed at random moments, killed and restarted, in chains."""

import os
import random
import sys
import threading
import time

from driver import Job, Place, app, expect, scenario_main, seeded, take_checkpoint, tool, went_into_namespaces
from restart_scenarios import survives

SHORT = ("--steps", "48", "--pace", "25000")
THREE = ("same", "same", "same")
EARLY = 0.55  # busy threads slow the driver down: the last moment leaves it time to kill
SCENARIOS = {}


def scenario(name, *args, **kwargs):
    SCENARIOS[name] = lambda: survives(*args, **kwargs)


def input_from_nobody():
    """Standard input is a pipe that stays open for writing during the block, and stays empty."""
    Job.standard_input, _ = os.pipe()
    survives("threads_input", arguments=SHORT, chain=THREE, latest=EARLY)


SCENARIOS["threads.alone.that_wait_for_input"] = input_from_nobody

def blocks_in_low_memory():
    """MPI calls of a thread are as fast as those of main if the thread's TLS block lies below 4 GiB. There is room for several hundred
    blocks."""
    with Place("blocks") as place:
        for count, least in ((3, 3), (400, 200)):
            status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", f"{place.store}-{count}", "--", app("plain/threads_blocks"), str(count)])
            expect(status == 0, f"{status}: {text}")
            found = [int(line.split()[0]) for line in text.splitlines()]
            expect(len(found) == 3 and min(found) >= least, f"of {count} threads, blocks below 4 GiB: {found}")


SCENARIOS["threads.alone.have_tls_blocks_below_4_gib"] = blocks_in_low_memory


def ids_of_the_first_run_again():
    """As in a container that has its own process ids: the kernel gives new threads the ids that the program's first threads had. In a namespace
    of ids, where the next one can be chosen."""
    name = "threads.alone.that_get_ids_of_the_first_run_from_the_kernel"
    if went_into_namespaces(name, "--pid", "--fork", "--mount-proc"):
        return
    rng, ids, ended, again = seeded(), [], threading.Event(), set()

    def choose(last):
        while not ended.wait(0.0005):
            if first := list(ids):
                os.pwrite(last, b"%d" % (random.choice(first) - 1), 0)

    with open("/proc/sys/kernel/ns_last_pid", "wb") as last:
        os.pwrite(last.fileno(), b"100", 0)  # here, for the failure of a machine that does not permit it to end the test
        chooser = threading.Thread(target=choose, args=(last.fileno(),))
        chooser.start()
        try:
            for _ in range(4):
                with Place("ids") as place:
                    job = place.run("plain/threads_robust", ("--steps", "60", "--pace", "3000"))
                    for turn in range(3):
                        job.wait_for_step(4 + 12 * turn + rng.randrange(6))
                        time.sleep(0.03 * rng.random())
                        take_checkpoint(place, job)
                        present = [int(thread) for pid in job.ranks() for thread in os.listdir(f"/proc/{pid}/task")]
                        again.update(set(present) & set(ids))
                        job.kill_running()
                        ids[:] = present
                        job = place.restart()
                    job.finish()
                    ids.clear()
        finally:
            ended.set()
            chooser.join()
    expect(again, "the kernel has given no id again")

SCENARIOS["threads.alone.that_get_ids_of_the_first_run_from_the_kernel"] = ids_of_the_first_run_again

for _program, _what in (
        ("threads_compute", "that_compute_and_take_turns"),
        ("threads_queue", "producers_and_consumers"),
        ("threads_barrier", "barriers"),
        ("threads_rwlock", "rwlocks_and_semaphores"),
        ("threads_come_go", "that_come_and_go"),
        ("threads_detached", "detached_that_make_their_successors"),
        ("threads_sleep", "that_sleep_do_not_wake_early"),
        ("threads_timed", "that_wait_until_a_time"),
        ("threads_tls", "thread_local_storage_of_libraries_and_keys"),
        ("threads_robust", "robust_mutexes"),
        ("threads_mutex_kinds", "recursive_and_error_checking_mutexes"),
        ("threads_inherit", "mutexes_with_priority_inheritance"),
        ("threads_cancel", "that_are_cancelled"),
        ("threads_signals", "masks_pending_signals_and_alternate_stacks"),
        ("threads_attributes", "attributes_and_times_of_work"),
        ("threads_ids", "ids_in_calls_and_senders_of_signals"),
        ("threads_senders", "senders_of_signals_that_interrupt_each_other"),
        ("threads_many", "five_hundred_that_sleep"),
        ("threads_cxx", "of_cxx"),
        ("threads_deep", "deep_in_small_stacks"),
        ("threads_once", "pthread_once_under_way"),
        ("threads_rseq", "that_know_their_processor"),
):
    scenario(f"threads.alone.{_what}", _program, arguments=SHORT, chain=THREE, latest=EARLY)

for _end in ("return", "exit", "group"):
    scenario(f"threads.alone.main_exited_and_the_last_ends_by_{_end}", "threads_main_gone", arguments=(*SHORT, "--end", _end), chain=THREE, latest=EARLY)

scenario("threads.alone.openmp", "threads_openmp", arguments=SHORT, chain=THREE, latest=EARLY, environment={"OMP_WAIT_POLICY": "passive"})
scenario("threads.alone.that_change_the_process", "threads_process", arguments=(*SHORT, "--work", "@"), chain=THREE, latest=EARLY)
# The checkpoint is refused while a child lives.
scenario("threads.alone.that_start_children", "threads_spawn", arguments=SHORT, chain=THREE, latest=EARLY, attempts=100)

for _mpi in ("openmpi", "mpich"):
    scenario(f"threads.{_mpi}.that_call_mpi_at_the_same_time", "threads", _mpi, 2, ("--steps", "60", "--pace", "20000"),
            chain=("same", "other", "same"), latest=0.4)
    for _name, _arguments in (("that_compute_while_main_calls_mpi", SHORT), ("that_call_mpi_in_turn", (*SHORT, "--serialized"))):
        scenario(f"threads.{_mpi}.{_name}", "threads_pooled", _mpi, 2, _arguments,
                chain=("same", "other", "same"), latest=EARLY)

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("threads.alone.barriers", "threads.openmpi.that_call_mpi_at", "threads.mpich.that_call_mpi_in")))
