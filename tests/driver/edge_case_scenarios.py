#!/usr/bin/env python3
"""Two hundred unusual but legal programs (tests/apps/edge_cases and tests/apps/edge_cases_mpi, one file per theme). Each is run
natively, under cropdl-run alone, and checkpointed, killed and restarted in a chain. Either every run ends as the native one, or the
checkpoint is refused in exactly the words given here, and the program continues undisturbed.

    edge_case_scenarios.py edge_case.files.shrinking   one program, as ctest runs it
    edge_case_scenarios.py --only NAME                 every program with NAME in its name
    edge_case_scenarios.py --names                     their names and the expected result of each"""

import ctypes
import mmap
import os
import re
import resource
import signal
import sys
import time
from typing import NamedTuple

from driver import (Failure, Log, Place, Skipped, app, as_pattern, check_continued, check_whole, expect, launcher, logs_of, scenario_main,
                    TooLate, seeded, take_checkpoint, tool, with_slower_programs)
from restart_scenarios import wait_for_new_steps

RESTORED = None  # stands for the words of a refusal


class EdgeCase(NamedTuple):
    theme: str
    name: str
    words: str  # words of the expected refusal; <n> stands for a number, @ for the test's directory
    shell: str  # the command line, in a shell; $@ is the command
    again: str  # the same for the restart
    mpi: str
    ranks: int
    attempts: int  # how often a checkpoint is requested: more than once if the program has children at times
    steps: int
    only: bool  # judged only with --only, since it is part of another
    terminal: bool  # the first run has a terminal, its restarts do not

    @property
    def program(self):
        return f"edge_cases/{self.theme}" if self.mpi == "none" else f"edge_cases_{self.mpi}/edge_cases_mpi"


EDGE_CASES = {}


def has_landlock():
    landlock_create_ruleset, version = 444, 1
    return ctypes.CDLL(None).syscall(landlock_create_ruleset, None, ctypes.c_size_t(0), version) > 0


def edge_case(theme, name, words=RESTORED, shell="", again="", mpi="none", ranks=1, attempts=1, steps=20, only=False, terminal=False):
    key = f"{theme}.{name.replace(',', '+')}"
    assert key not in EDGE_CASES, key
    EDGE_CASES[key] = EdgeCase(theme, name, words, shell, again, mpi, ranks, attempts, steps, only, terminal)


# Known failures, and how they show. A known failure that passes fails the test (remove it from here then), unless it shows only "at times".
KNOWN = {
    "openmpi.short_lived_intercommunicators": "at times: each request meets an inter-communicator that is alive",
    "mpich.short_lived_intercommunicators": "at times: each request meets an inter-communicator that is alive",
    "files.renamed_in_every_step": "at times: the restart asks to put back what was renamed after the checkpoint",
    "files.rotated_log": "at times: the file of that name is another one: refused, --files decides",
    "process.every_line_of_proc_status": "real process id in the status after a restart",
    "memory.reads_its_own_maps": "differs without a checkpoint",
    "signals.masks_seen_by_an_executed_child": "SIGSYS and signal 33 are never blocked (docs/limitations.md)",
    "process.ids_by_every_call": "changed or lost by a restart",
    "process.proc_self_task_directory": "differs without a checkpoint",
    "process.child_reads_its_parent_s_ids": "changed or lost by a restart",
    "execution.gs_base_set": "GS base is refused to the program, with a line (docs/limitations.md)",
}

for _name in """shared_offsets append_beside_plain changed_in_place changed_in_place_by_stdio renamed_while_open renamed_in_every_step
        half_read_directory getdents_by_hand opened_relative_to_a_descriptor two_thousand_files sparse devices status_flags
        paths_of_descriptors kept_open_system_files unusual_names mapped_under_unusual_names redirected_symbolic_link rotated_log in_kernel_copies time_stamps
        removed_permissions shrinking punched private_map_of_replaced_file discarded_private_map number_reused_for_another_file
        file_opened_by_resolve_flags descriptor_sent_to_itself own_descriptor_fetched_by_pidfd closed_by_range""".split():
    edge_case("files", _name)
edge_case("files", "opened_by_a_child_sharing_descriptors", attempts=100)
for _name, _words in {
        "unlinked": "the deleted file @/gone (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "path_descriptors": "@/pointer (descriptor 5) cannot be saved yet",
        "deleted_working_directory": "the program's directory is gone: No such file or directory",
        "memfd_with_seals": "the deleted file /memfd:odd memory (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "temporary_file_linked_at_the_end": "the deleted file @/#<n> (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "opened_by_int_0x80": "the program makes 32-bit system calls (int 0x80), which cannot be followed",
        "read_only_map_of_growing_file": "the shared mapping of @/grows cannot be saved yet",
        "no_access_map_made_writable": "the shared mapping of @/later cannot be saved yet",
        "directory_notification": "the program has asked to be told of changes in a directory (fcntl F_NOTIFY), which cannot be saved; no checkpoint of this process is possible any more",
        "path_beyond_path_max": "the file of descriptor 5 has a path that is too long to be opened again",
        "descriptors_of_high_numbers": "the program's descriptor <n> leaves no room above it for a restart below the hard limit (ulimit -Hn <n>); use lower numbers or raise that",
        }.items():
    edge_case("files", _name, _words)
_WITHOUT_CAPABILITIES = 'setpriv --bounding-set -all --inh-caps -all "$@"' if os.geteuid() == 0 else '"$@"'
edge_case("files", "closed_working_directory", "the program's directory @/closed cannot be entered by its name: Permission denied",
          shell=_WITHOUT_CAPABILITIES)
edge_case("files", "closed_directory_descriptor",
          "the program's directory @/closed (descriptor 4) cannot be opened again by its name: Permission denied", shell=_WITHOUT_CAPABILITIES)
for _name, _words in {
        "fifo": "a pipe (descriptor 4) cannot be saved yet",
        "listening_socket": "a socket (descriptor 4) cannot be saved yet",
        "unconnected_socket": "a socket (descriptor 4) cannot be saved yet",
        "inotify": "an open inotify (descriptor 4) cannot be saved yet",
        "process_descriptor": "an open pidfd (descriptor 4) cannot be saved yet",
        "secret_memory": "the shared mapping of /secretmem (deleted) cannot be saved yet",
        "io_ring": "an open <w> (descriptor 4) cannot be saved yet",
        "performance_counter": "an open <w> (descriptor 4) cannot be saved yet",
        "user_faults": "an open <w> (descriptor 4) cannot be saved yet",
        "posix_message_queue": "the POSIX message queue /odd-<n>-<x> (deleted) (descriptor 4) cannot be saved yet",
        "fanotify": "an open <w> (descriptor 4) cannot be saved yet",
        "opened_namespace": "the deleted file uts:[<n>] (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "shared_segment": "System V shared memory (shmat) cannot be saved yet, nor once it is detached; use other memory",
        "detached_segment": "System V shared memory (shmat) cannot be saved yet, nor once it is detached; use other memory",
        "named_semaphore": "the shared mapping of /dev/shm/sem.<w> (deleted) cannot be saved yet",
        "shared_object": "the deleted file /dev/shm/odd-<n>-<x> (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "segment_of_others": "the System V shared memory <n> (shmget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "semaphore_set": "the System V semaphore set <n> (semget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "proc_self_mem": "/proc/<n>/mem (descriptor 4) cannot be saved: it is of this very process; close it before the checkpoint",
        "proc_self_pagemap": "/proc/<n>/pagemap (descriptor 4) cannot be saved: it is of this very process; close it before the checkpoint",
        "asynchronous_context": "a context of asynchronous input and output (io_setup) cannot be saved yet; io_destroy it",
        }.items():
    edge_case("kinds", _name, _words)
edge_case("kinds", "many_removed_objects", attempts=50)
for _name in """separate_touched_pages five_hundred_and_twenty_pages many_small_mappings holes_without_access guard_pages
        protection_changed_in_the_fault_handler grows_down wiped_on_fork advice_of_every_kind not_reserved locked_memory
        future_mappings_locked droppable shared_read_only_file beyond_the_end_of_a_file executable_memory system_call_in_generated_code
        mapped_at_fixed_addresses moved_and_resized moved_and_left_behind replaced_in_the_middle unusual_lengths program_break
        mapping_above_the_break freed_lazily named_memory huge_page_wanted sealed reads_its_own_maps auxiliary_vector
        vdso_function_found_in_the_elf_image read_by_other_system_calls resident_pages memory_policy policy_of_the_process
        resized_at_a_fixed_address""".split():
    edge_case("memory", _name, attempts=50)
for _name, _words in {
        "grows_down_at_a_fixed_address": "memory that grows by itself (MAP_GROWSDOWN) at an address of the program's choice cannot be saved yet",
        "two_views_of_one_memory": "the shared mapping of /memfd:ring (deleted) cannot be saved yet",
        }.items():
    edge_case("memory", _name, _words)
with open("/proc/cpuinfo") as _cpus:
    _has_keys = re.search(r"^flags.* ospke\b", _cpus.read(), re.M)  # otherwise there are none to allocate
edge_case("memory", "protection_keys", "memory with a protection key (pkey_mprotect) at <x>-<x> cannot be saved yet" if _has_keys else RESTORED)
for _name in """queued_real_time_signals pending_kill_keeps_its_sender pending_for_process_or_thread every_signal_has_an_action
        every_signal_is_delivered last_real_time_signals handler_changes_the_context handler_changes_the_mask
        single_stepped_by_trap_flag one_shot_and_nested_handlers exit_under_fast_timer processor_time_timer distant_alarm
        alarms_that_are_awaited clocks_only_go_forward
        clock_of_the_process_by_number time_by_every_call absolute_time_waits waits_for_any_signal timeouts_that_are_not_updated
        alternate_stack_of_another_context masks_in_handlers_that_end_a_wait""".split():
    edge_case("signals", _name)
for _name in """children_that_die_of_signals ignored_by_an_executed_child masks_seen_by_an_executed_child suspended_in_sigsuspend
        jumps_out_of_handlers jump_out_of_a_blocking_open timers_that_signal_a_thread""".split():
    edge_case("signals", _name, attempts=100)
for _name, _words in {
        "disarmed_timer": "a POSIX timer (timer_create) cannot be saved yet; timer_delete it, or use setitimer",
        }.items():
    edge_case("signals", _name, _words)
for _name in """every_line_of_proc_status thread_name limits few_descriptors little_address_space nice_value affinity scheduling_class
        idle_class_and_reset timer_slack parent_death_signal not_dumpable keeps_capabilities secure_bits machine_check_policy
        no_huge_pages speculation_disabled no_new_privileges process_personality out_of_memory_score core_dump_filter
        input_output_priority membarrier_registration file_mode_creation_mask own_session own_process_group ids_by_every_call
        proc_self_task_directory command_line_and_environment title_changed_in_place supplementary_groups dropped_groups
        capabilities_dropped""".split():
    edge_case("process", _name, attempts=20)  # many read their own /proc files in each step, and an open one is refused
for _name in """reaper_of_grandchildren children_never_waited_for children_by_every_call child_reads_its_parent_s_ids
        child_beside_a_high_descriptor""".split():
    edge_case("process", _name, attempts=100)
for _name, _words in {
        "dropped_user": "the program runs as user 4321 now and was started as user 0, whose store it may not write; that cannot be saved yet",
        "temporary_effective_user": "the program runs as user 4321 now and was started as user 0, whose store it may not write; that cannot be saved yet",
        "changed_file_system_user": "the program's file @/log (descriptor 3) cannot be looked at by its name: Permission denied",
        "zombie": "the program has a child process that it has not waited for (pid <n>, <w>); end it and wait for it (PyTorch: num_workers=0)",
        "trapping_seccomp_filter": "the program has changed its set of seccomp filters (from <n> <n> to <n> <n>), which cannot be saved yet",
        "killing_seccomp_filter": "the program has changed its set of seccomp filters (from <n> <n> to <n> <n>), which cannot be saved yet",
        "restricted_by_landlock": "the program has restricted itself by Landlock (landlock_restrict_self), which cannot be saved yet" if has_landlock() else RESTORED,
        "largest_file": "cannot find out which memory is readable: File too large (the program's hard limit of file sizes, RLIMIT_FSIZE)",
        "child_sharing_descriptors_closes_many": "the program has a child process that it has not waited for (pid <n>, <w>); end it and wait for it (PyTorch: num_workers=0) or: a child made with CLONE_FILES has shared the program's descriptors, and what it opened or closed is not known; no checkpoint of this process is possible any more",
        }.items():
    edge_case("process", _name, _words)
for _name in """coroutines_on_4_kib coroutines_on_6_kib data_next_to_a_small_stack small_alternate_stack alternate_stack_seen_from_inside
        recovers_from_stack_overflow seven_megabytes_deep ninety_megabytes_deep jumps_between_frames below_the_stack_pointer
        permanently_switched_stack rounding_and_masks control_words values_on_the_x87_stack vector_registers
        vector_registers_across_calls division_by_zero_is_trapped direction_and_alignment_flags libraries_loaded_and_closed
        loaded_objects linker_namespace thread_local_storage indirect_function thread_specific_keys short_lived_threads gs_base_set
        fs_base_moved_temporarily robust_mutex restartable_sequences calls_of_unusual_arguments waits_in_a_futex waits_for_signals
        waits_in_poll_select_and_sleep system_names_and_sizes""".split():
    edge_case("execution", _name)
edge_case("execution", "waits_for_a_lock", attempts=100)
for _name, _words in {
        "waits_in_a_semaphore": "the System V semaphore set <n> (semget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "int_0x80_calls": "the program makes 32-bit system calls (int 0x80), which cannot be followed",
        }.items():
    edge_case("execution", _name, _words)

# Standard streams: # becomes the number of the run, so that each run has its own files.
_FILES = '"$@" <input >out# 2>err#'
for _name in """copies_input_to_output reads_input_by_bytes standard_error_replaced_by_a_data_file standard_output_replaced_by_a_data_file
        all_three_closed redirected_to_a_file_and_back unflushed_output pushed_back_characters streams_in_memory wide_stream
        conversion_in_the_middle locale_of_the_thread half_read_multibyte_character descriptor_closed_behind_stdio
        written_in_an_exit_handler dialogue_on_standard_streams""".split():
    edge_case("streams", _name, shell=_FILES)
edge_case("streams", "dialogue_on_a_terminal", shell=_FILES, terminal=True)
edge_case("streams", "nonblocking_input", shell='"$@" </dev/null')
edge_case("streams", "inherited_descriptors", shell='"$@" 3<input 7>seven', again='"$@"')
edge_case("streams", "inherited_and_unused", "a pipe (descriptor 3) cannot be saved yet; the program was started with it, and if it has no use for it, start it with 3>&-", shell='cat input | "$@" 3<&0 </dev/null')
edge_case("streams", "inherited_with_its_writer", "the program has a child process that it has not waited for (pid <n>, <w>); end it and wait for it (PyTorch: num_workers=0)", shell='"$@" 3< <(cat input; sleep 3)')


# MPI: all members of TOGETHER run in one program, in step, so that each cut meets the states of all.
TOGETHER = """many_duplicates splits create_group short_lived_intercommunicators attributes predefined names_and_infos groups error_handlers
        wildcard_probes self_messages empty_messages_and_requests largest_tags cancelled_receives forgotten_sends types_freed_in_use
        buffered_sends many_unexpected mixed_requests nested_types hints_of_some_ranks own_operations many_operations rare_collectives
        matched_message topology pending_collective persistent_requests""".split()
_ALIVE = ": a communicator is alive that cannot be saved"
MPI_REFUSED = {
    "generalized_request": "MPI_Grequest_start: a request is not complete",
    "merged_intercommunicator": "MPI_Intercomm_merge" + _ALIVE,
    "window": "MPI_Win_allocate: a window is alive that cannot be saved",
    "session": "MPI_Session_init: processes or sessions outside MPI_COMM_WORLD cannot be saved",
    }
for _mpi in ("openmpi", "mpich"):
    edge_case(_mpi, "together", mpi=_mpi, ranks=3, attempts=20)
    for _name in TOGETHER:
        edge_case(_mpi, _name, mpi=_mpi, ranks=3, attempts=20, only=f"{_mpi}.{_name}" not in KNOWN)
    for _name, _words in MPI_REFUSED.items():
        if _name != "session" or _mpi == "mpich":  # Open MPI 4.1 has no sessions
            edge_case(_mpi, _name, _words, mpi=_mpi, ranks=3)


if os.geteuid():  # these need root
    for _key in ("dropped_user", "temporary_effective_user", "changed_file_system_user"):
        EDGE_CASES[f"process.{_key}"] = EDGE_CASES[f"process.{_key}"]._replace(words=RESTORED)


# --- Judging -----------------------------------------------------------------------------------------------------

def in_shell(line, run, command):
    return ["/bin/bash", "-c", "exec " + line.replace("#", str(run)), "bash", *command] if line else command


def start(place, one, command, pace):
    log = place.path("log")
    with open(place.path("input"), "w") as f:
        f.writelines(f"line {k} of the input\n" for k in range(200))
    name = one.name
    if name == "together":
        name = ",".join(each for each in TOGETHER if f"{one.mpi}.{each}" not in KNOWN)
    arguments = [app(one.program), name, "--steps", str(one.steps), "--pace", str(pace), "--log", log]
    line = ON_TERMINAL if one.terminal and command else one.shell
    return place.start(in_shell(line, 0, launcher(one.mpi, one.ranks) + command + arguments), log)


ON_TERMINAL = """python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@" >terminal"""


def written(place, one, run=None):
    """What the program wrote to the files that are its standard streams, without CropDL's lines."""
    texts = {}
    if one.terminal and not run and os.path.exists(place.path("terminal")):
        with open(place.path("terminal"), "rb") as f:
            lines = f.read().replace(b"\r\n", b"\n").splitlines(keepends=True)
        return {name: b"".join(line for line in lines if line.startswith(name[:3].encode())) for name in ("out#", "err#")}
    for name in re.findall(r">(\w+#?)", one.shell):
        if run is None or name.endswith("#"):
            with open(place.path(name.replace("#", str(run or 0))), "rb") as f:
                texts[name] = b"".join(line for line in f.readlines() if not line.startswith((b"cropdl-restart: ", b"cropdl-run: ")))
    return texts


def joined(before, after, whole):
    """Joins the output of a killed run with that of its restart, which continued somewhere within it."""
    for end in range(len(before), -1, -1):
        if whole.startswith(before[:end] + after):
            return before[:end] + after
    raise Failure(f"written before the restart: {before}, after it: {after}, undisturbed: {whole}")


def results(place, one, job, undisturbed=None, last=0):
    job.finish()
    logs = logs_of(job.log, one.ranks)
    for log in logs:
        check_whole(log)
        expect(log.last_step() == one.steps, f"{log.last_step()} steps of {one.steps}")
    digests, texts = [log.digest for log in logs], written(place, one)
    if undisturbed is not None:
        expect(digests == undisturbed[0], f"the digests differ from the undisturbed run's: {digests}, {undisturbed[0]}")
        for run in range(1, last + 1):
            for name, text in written(place, one, run).items():
                texts[name] = joined(texts[name], text, undisturbed[1][name])
        expect(texts == undisturbed[1], f"what was written differs from the undisturbed run's: {texts}, {undisturbed[1]}")
    return digests, texts


def words_of(text, place):
    """The words of a refusal, without the prefix."""
    text = re.sub(r"^.*?\brank \d+: ", "", text, count=1, flags=re.S)
    return text.replace(place.root, "@")


def refused_as_expected(one, text, place):
    pattern = "|".join(as_pattern(words) for words in one.words.split(" or: "))
    return re.fullmatch(pattern, words_of(text, place)) is not None


def has_32_bit_calls():
    """Some virtual machines have no 32-bit calls."""
    child = os.fork()
    if child == 0:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes.fromhex("b814000000cd80c3"))  # mov $20 (getpid), %eax; int $0x80; ret
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def judge(one, rng):
    """Returns the result in a few words; raises Failure if it is not the expected one."""
    if one.name in ("opened_by_int_0x80", "int_0x80_calls") and not has_32_bit_calls():
        raise Skipped("this machine has no 32-bit system calls (int 0x80)")
    with Place("native") as place:
        undisturbed = results(place, one, start(place, one, [], 1000))
    if one.words is RESTORED and one.mpi == "none":  # other programs start too slowly
        with Place("under") as place:
            try:
                results(place, one, start(place, one, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"], 1000), undisturbed)
            except Failure as failure:
                raise Failure(f"even without a checkpoint: {failure}") from None
    with Place("edge") as place:
        job = start(place, one, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"], 36000)
        job.wait_for_step(1)
        for kill in range(2):
            last = max(log.last_step() for log in logs_of(job.log, one.ranks))
            job.wait_for_step(min(last + rng.randint(0, 3), one.steps * 3 // 4))
            time.sleep(rng.random() * 0.04)
            if one.words is not RESTORED:
                status, text, _ = place.checkpoint(timeout=60)
                expect(status != 0, f"a checkpoint was taken that was to be refused: {one.words!r}")
                if not refused_as_expected(one, text, place):
                    job.must_run()  # if it ended meanwhile, the test is repeated with longer steps
                expect(refused_as_expected(one, text, place), f"refused with other words: {words_of(text, place)!r}")
                expect(not place.versions(), f"refused, but there are versions {place.versions()}")
                results(place, one, job, undisturbed)
                return "refused: " + words_of(text, place)
            if Log(job.log).digest is not None:
                break
            job = killed_and_restarted(place, one, job, kill, rng)
        results(place, one, job, undisturbed, len(place.jobs) - 1)
    return "restored"


def killed_and_restarted(place, one, job, kill, rng):
    answers = []
    for attempt in range(one.attempts):
        try:
            _, _, bounds = take_checkpoint(place, job)
            break
        except TooLate:
            raise
        except Failure as failure:
            answers.append(str(failure).splitlines()[0])
            if attempt + 1 == one.attempts or not job.alive():
                raise Failure(" then ".join(dict.fromkeys(answers))) from None
            time.sleep(0.01)
    time.sleep(rng.random() * 0.1)
    job.kill_running()
    before = {path: Log(path) for path in bounds}
    command = launcher(one.mpi, one.ranks) + [tool("cropdl-restart"), place.store]
    job = place.start(in_shell(one.again or one.shell, kill + 1, command), job.log)
    try:
        wait_for_new_steps(job, bounds, one.steps)
        for path in bounds:
            check_continued(before[path], Log(path), job.started, *bounds[path])
    except Failure as failure:
        raise Failure(f"after restart {kill + 1}: {failure}") from None
    return job


def judged(key):
    """Returns (as expected, line). A known failure is as expected; one that passes is not."""
    rng = seeded()
    began = time.monotonic()
    try:
        outcome, kept = with_slower_programs(lambda: judge(EDGE_CASES[key], rng)), True
    except (Failure, OSError) as failure:
        outcome, kept = str(failure), False
    seconds = f"{time.monotonic() - began:.1f} s"
    if key in KNOWN:
        if kept and KNOWN[key].startswith("at times: "):
            return True, f"known  {key} ({seconds}): {KNOWN[key]}; not this time"
        if kept:
            return False, f"FAILED {key} ({seconds}): as expected now ({outcome}): remove it from KNOWN"
        return True, f"known  {key} ({seconds}): {KNOWN[key]}\n    {short(outcome)}"
    return kept, f"{'kept   ' if kept else 'FAILED '}{key} ({seconds}): {outcome}"


def short(outcome):
    return " | ".join(line.strip(" |") for line in outcome.splitlines() if line.strip(" |") and "wchan" not in line)[:600]


def all_judged(keys):
    good = True
    for key in keys:
        kept, line = judged(key)
        print(line, flush=True)
        good = good and kept
    expect(good, "see above")


# Tests that fail at times would pass in any case, so they run only with --only.
SCENARIOS = {f"edge_case.{key}": lambda k=key: all_judged([k]) for key, one in EDGE_CASES.items()
             if not one.only and not KNOWN.get(key, "").startswith("at times: ")}
QUICK = {f"edge_case.{key}" for key in ("files.append_beside_plain", "kinds.fifo", "memory.guard_pages", "signals.queued_real_time_signals",
                                        "process.limits", "execution.robust_mutex", "streams.dialogue_on_standard_streams", "streams.dialogue_on_a_terminal",
                                        "openmpi.together", "mpich.merged_intercommunicator")}
assert QUICK <= set(SCENARIOS), QUICK - set(SCENARIOS)

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unknown = [key for key in KNOWN if key not in EDGE_CASES]
    assert not unknown, unknown
    if sys.argv[1:] == ["--names"]:
        for _key, _one in EDGE_CASES.items():
            print(f"{_key:60} {'restored' if _one.words is RESTORED else 'refused: ' + _one.words}")
        sys.exit(0)
    if len(sys.argv) == 3 and sys.argv[1] == "--only":
        _keys = [key for key in EDGE_CASES if sys.argv[2] in key]
        try:
            expect(_keys, f"no edge case has {sys.argv[2]!r} in its name")
            all_judged(_keys)
        except Failure as _failure:
            print(f"FAILED: {_failure}")
            sys.exit(1)
        sys.exit(0)
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=tuple(QUICK)))
