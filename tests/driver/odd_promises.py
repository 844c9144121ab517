#!/usr/bin/env python3
"""More than two hundred unusual but legal programs (tests/apps/odd and tests/apps/odd_mpi, one file per theme). Each is run natively, under
cropdl-run alone, and checkpointed, killed and restarted in a chain. Either every run ends as the native one, or the checkpoint is
refused in exactly the words given here, and the program continues undisturbed.

    odd_promises.py odd.files.shrinking   one program, as ctest runs it
    odd_promises.py --only NAME           every program with NAME in its name
    odd_promises.py --oddities            their names and the expected result of each"""

import ctypes
import mmap
import os
import re
import resource
import signal
import sys
import time
from typing import NamedTuple

from driver import (Failure, Log, Place, Skipped, app, as_pattern, check_continued, check_whole, expect, launcher, logs_of, promise_main,
                    TooLate, seeded, take_checkpoint, tool, with_slower_programs)
from restart_promises import wait_for_new_steps

RESTORED = None  # stands for the words of a refusal


class Oddity(NamedTuple):
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
        return f"odd/odd_{self.theme}" if self.mpi == "none" else f"odd_{self.mpi}/odd_mpi"


ODDITIES = {}


def has_landlock():
    landlock_create_ruleset, version = 444, 1
    return ctypes.CDLL(None).syscall(landlock_create_ruleset, None, ctypes.c_size_t(0), version) > 0


def odd(theme, name, words=RESTORED, shell="", again="", mpi="none", ranks=1, attempts=1, steps=20, only=False, terminal=False):
    key = f"{theme}.{name.replace(',', '+')}"
    assert key not in ODDITIES, key
    ODDITIES[key] = Oddity(theme, name, words, shell, again, mpi, ranks, attempts, steps, only, terminal)


# Known failures, and how they show. A known failure that passes fails the test (remove it from here then), unless it shows only "at times".
KNOWN = {
    "openmpi.bridges_for_a_moment": "at times: each request meets an inter-communicator that is alive",
    "mpich.bridges_for_a_moment": "at times: each request meets an inter-communicator that is alive",
    "files.renamed_in_every_step": "at times: the restart asks to put back what was renamed after the checkpoint",
    "files.rotated_log": "at times: the file of that name is another one: refused, --files decides",
    "process.whole_status": "real process id in the status after a restart",
    "memory.view_of_itself": "differs without a checkpoint",
    "signals.masks_seen_by_an_executed_child": "SIGSYS and signal 33 are never blocked (docs/limitations.md)",
    "process.identity_by_every_call": "changed or lost by a restart",
    "process.own_directory_of_tasks": "differs without a checkpoint",
    "process.child_looks_at_its_parent": "changed or lost by a restart",
    "execution.second_segment_register": "GS base is refused to the program, with a line (docs/limitations.md)",
}

for _name in """shared_offsets append_beside_plain changed_in_place changed_in_place_by_stdio renamed_while_open renamed_in_every_step
        half_read_directory getdents_by_hand relative_to_a_descriptor two_thousand_files sparse devices status_flags
        names_of_descriptors kept_open_system_files odd_names symbolic_link_turned_elsewhere rotated_log kernel_side_copies time_stamps
        permissions_taken_away shrinking punched private_map_of_replaced_file discarded_private_map same_number_another_file
        file_opened_by_resolve_flags descriptor_sent_to_oneself own_descriptor_taken_by_pidfd closed_by_range""".split():
    odd("files", _name)
odd("files", "opened_by_a_child_with_shared_files", attempts=100)
for _name, _words in {
        "mapped_and_written": "the shared mapping of @/mapped cannot be saved yet",
        "unlinked": "the deleted file @/gone (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "path_descriptors": "@/pointer (descriptor 5) cannot be saved yet",
        "deleted_working_directory": "the program's directory is gone: No such file or directory",
        "memfd_with_seals": "the deleted file /memfd:odd memory (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "flocks": "a file lock or lease on @/locked (descriptor 4) cannot be saved yet",
        "record_locks": "a file lock or lease on @/records (descriptor 4) cannot be saved yet",
        "description_locks": "a file lock or lease on @/described (descriptor 5) cannot be saved yet",
        "lease": "a file lock or lease on @/leased (descriptor 4) cannot be saved yet",
        "temporary_file_linked_at_the_end": "the deleted file @/#<n> (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "opened_by_int_0x80": "the program makes 32-bit system calls (int 0x80), which cannot be followed",
        "read_only_map_of_growing_file": "the shared mapping of @/grows cannot be saved yet",
        "no_access_map_made_writable": "the shared mapping of @/later cannot be saved yet",
        "unlinked_with_another_link": "the deleted file @/first (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "deleted_directory": "the deleted directory @/dead (deleted) (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "owner_and_signal": "SIGIO or SIGURG for @/owned (descriptor 4) (fcntl F_SETOWN or F_SETSIG) cannot be saved yet",
        "directory_notification": "the program has asked to be told of changes in a directory (fcntl F_NOTIFY), which cannot be saved",
        "kept_open_proc_files": "/proc/<n>/statm (descriptor 4) cannot be saved: it is of this very process; close it before the checkpoint",
        "path_beyond_path_max": "the file of descriptor 5 has a path that is too long to be opened again",
        "descriptors_of_high_numbers": "the program's descriptor <n> leaves no room above it for a restart below the hard limit (ulimit -Hn <n>); use lower numbers or raise that",
        }.items():
    odd("files", _name, _words)
for _name, _words in {
        "pipe_with_data": "a pipe (descriptor 4) cannot be saved yet",
        "fifo": "a pipe (descriptor 4) cannot be saved yet",
        "socket_pair": "a socket (descriptor 4) cannot be saved yet",
        "listening_socket": "a socket (descriptor 4) cannot be saved yet",
        "unconnected_socket": "a socket (descriptor 4) cannot be saved yet",
        "event_counter": "an open eventfd (descriptor 4) cannot be saved yet",
        "event_poll": "an open eventpoll (descriptor 4) cannot be saved yet",
        "inotify": "an open inotify (descriptor 4) cannot be saved yet",
        "timer_descriptor": "an open timerfd (descriptor 4) cannot be saved yet",
        "signal_descriptor": "an open signalfd (descriptor 4) cannot be saved yet",
        "process_descriptor": "an open pidfd (descriptor 4) cannot be saved yet",
        "secret_memory": "the shared mapping of /secretmem (deleted) cannot be saved yet",
        "io_ring": "an open <w> (descriptor 4) cannot be saved yet",
        "performance_counter": "an open <w> (descriptor 4) cannot be saved yet",
        "user_faults": "an open <w> (descriptor 4) cannot be saved yet",
        "posix_message_queue": "the POSIX message queue /odd-<n>-<x> (deleted) (descriptor 4) cannot be saved yet",
        "fanotify": "an open <w> (descriptor 4) cannot be saved yet",
        "opened_namespace": "the deleted file uts:[<n>] (descriptor 4) cannot be saved yet: no restart could open it by its name",
        "shared_segment": "System V shared memory (shmat) cannot be saved yet",
        "detached_segment": "System V shared memory (shmat) cannot be saved yet",
        "named_semaphore": "the shared mapping of /dev/shm/sem.<w> (deleted) cannot be saved yet",
        "shared_object": "the shared mapping of /dev/shm/odd-<n>-<x> (deleted) cannot be saved yet",
        "shared_anonymous": "the shared mapping of /dev/zero (deleted) cannot be saved yet",
        "segment_of_others": "the System V shared memory <n> (shmget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "semaphore_set": "the System V semaphore set <n> (semget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "semaphore_undone_at_exit": "the System V semaphore set <n> (semget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "message_queue": "the System V message queue <n> (msgget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "pseudo_terminal": "the device /dev/ptmx (descriptor 4) cannot be saved yet: it has a state of its own",
        "pseudo_terminal_by_ioctl": "the device /dev/pts/<n> (deleted) (descriptor 5) cannot be saved yet: it has a state of its own",
        "own_memory_file": "/proc/<n>/mem (descriptor 4) cannot be saved: it is of this very process; close it before the checkpoint",
        "own_page_map": "/proc/<n>/pagemap (descriptor 4) cannot be saved: it is of this very process; close it before the checkpoint",
        "asynchronous_context": "a context of asynchronous input and output (io_setup) cannot be saved yet",
        }.items():
    odd("kinds", _name, _words)
for _name in """separate_touched_pages five_hundred_and_twenty_pages many_small_mappings holes_without_access guard_pages
        changes_protection_from_the_fault grows_down wiped_on_fork advice_of_every_kind not_reserved locked_memory
        all_of_the_future_locked droppable shared_read_only_file beyond_the_end_of_a_file executable_memory
        system_call_in_generated_code at_places_of_its_own moved_and_resized moved_and_left_behind replaced_in_the_middle
        unusual_lengths the_break mapping_above_the_break freed_lazily named_memory huge_page_wanted sealed view_of_itself
        auxiliary_vector vdso_function_found_by_hand read_through_the_kernel residence memory_policy policy_of_the_process
        resized_at_a_place_of_its_own""".split():
    odd("memory", _name, attempts=50)
for _name, _words in {
        "grows_down_at_a_place_of_its_own": "memory that grows by itself (MAP_GROWSDOWN) at an address of the program's choice cannot be saved yet",
        "two_views_of_one_memory": "the shared mapping of /memfd:ring (deleted) cannot be saved yet",
        }.items():
    odd("memory", _name, _words)
with open("/proc/cpuinfo") as _cpus:
    _has_keys = re.search(r"^flags.* ospke\b", _cpus.read(), re.M)  # otherwise there are none to allocate
odd("memory", "protection_keys", "memory with a protection key (pkey_mprotect) at <x>-<x> cannot be saved yet" if _has_keys else RESTORED)
for _name in """queued_real_time_signals pending_kill_keeps_its_sender pending_for_process_or_thread every_signal_has_an_action
        every_signal_is_delivered last_real_time_signals handler_changes_the_context handler_changes_the_mask trapped_steps
        one_shot_and_nested exit_under_fast_timer clocks_only_go_forward clock_of_the_process_by_number time_by_every_call
        waits_until_a_moment waits_for_any_signal timeouts_that_stay stack_of_another_context masks_of_handlers_that_end_a_wait""".split():
    odd("signals", _name)
for _name in """children_that_die_of_signals ignored_by_an_executed_child masks_seen_by_an_executed_child suspended_in_sigsuspend
        jumps_out_of_handlers jump_out_of_a_blocking_open timers_that_tell_a_thread""".split():
    odd("signals", _name, attempts=100)
for _name, _words in {
        "interval_timer": "the running timer ITIMER_REAL (setitimer or alarm) cannot be saved yet",
        "processor_time_timer": "the running timer ITIMER_PROF cannot be saved yet",
        "posix_timer": "a POSIX timer (timer_create) cannot be saved yet",
        "disarmed_timer": "a POSIX timer (timer_create) cannot be saved yet",
        "alarm_far_away": "the running timer ITIMER_REAL (setitimer or alarm) cannot be saved yet",
        }.items():
    odd("signals", _name, _words)
for _name in """whole_status name_of_the_thread limits few_descriptors little_address_space nice_value affinity scheduling_class
        idle_class_and_reset timer_slack signal_at_the_parent_s_death not_dumpable keeps_capabilities secure_bits machine_check_policy
        no_huge_pages speculation_disabled no_new_privileges process_personality killed_first what_a_core_file_holds
        priority_of_input_and_output registered_for_barriers mode_of_new_files in_its_own_session in_its_own_group
        identity_by_every_call own_directory_of_tasks command_line_and_environment title_changed_in_place supplementary_groups
        groups_given_up capabilities_dropped""".split():
    odd("process", _name, attempts=20)  # many read their own /proc files in each step, and an open one is refused
for _name in """reaper_of_grandchildren children_never_waited_for children_by_every_call child_looks_at_its_parent
        child_beside_a_high_descriptor""".split():
    odd("process", _name, attempts=100)
for _name, _words in {
        "user_given_up": "the program runs as user 4321 now and was started as user 0, whose store it may not write; that cannot be saved yet",
        "effective_user_for_a_while": "the program runs as user 4321 now and was started as user 0, whose store it may not write; that cannot be saved yet",
        "user_of_files": "the program's file @/log (descriptor 3) cannot be looked at by its name: Permission denied",
        "living_child": "the program has a child process that it has not waited for",
        "child_without_a_signal": "the program has a child process that it has not waited for",
        "zombie": "the program has a child process that it has not waited for",
        "child_in_our_memory": "the program has a child process that it has not waited for",
        "filter_of_its_own": "the program has changed its set of seccomp filters (from <n> <n> to <n> <n>), which cannot be saved yet",
        "filter_that_traps": "the program has changed its set of seccomp filters (from <n> <n> to <n> <n>), which cannot be saved yet",
        "filter_that_kills": "the program has changed its set of seccomp filters (from <n> <n> to <n> <n>), which cannot be saved yet",
        "name_of_the_host": "the program has changed its uts namespace (from uts:[<n>] to uts:[<n>]), which cannot be saved yet",
        "restricted_by_landlock": "the program has restricted itself by Landlock (landlock_restrict_self), which cannot be saved yet" if has_landlock() else RESTORED,
        "another_root": "the program has changed its root directory (chroot), which cannot be saved yet",
        "largest_file": "cannot find out which memory is readable: File too large (the program's hard limit of file sizes, RLIMIT_FSIZE)",
        "child_with_our_files_closes_many": "the program has a child process that it has not waited for or: a child made with CLONE_FILES has shared the program's descriptors, and what it opened or closed is not known",
        }.items():
    odd("process", _name, _words)
for _name in """coroutines_on_4_kib coroutines_on_6_kib neighbours_of_a_small_stack small_alternate_stack alternate_stack_seen_from_inside
        recovers_from_stack_overflow seven_megabytes_deep ninety_megabytes_deep jumps_between_frames below_the_stack_pointer
        stack_of_its_own rounding_and_masks control_words values_on_the_x87_stack vector_registers vector_registers_across_calls
        division_by_zero_is_trapped direction_and_alignment_flags libraries_loaded_and_closed loaded_objects another_namespace
        thread_local_storage indirect_function keys_of_threads threads_that_come_and_go second_segment_register
        first_segment_register_moved robust_mutex restartable_sequences calls_of_odd_arguments waits_in_a_futex waits_for_signals
        waits_in_poll_select_and_sleep names_and_numbers_of_the_system""".split():
    odd("execution", _name)
odd("execution", "waits_for_a_lock", attempts=100)
for _name, _words in {
        "waits_in_a_semaphore": "the System V semaphore set <n> (semget) is the machine's and cannot be saved yet; remove it (ipcrm, IPC_RMID)",
        "calls_of_32_bits": "the program makes 32-bit system calls (int 0x80), which cannot be followed",
        }.items():
    odd("execution", _name, _words)

# Standard streams: # becomes the number of the run, so that each run has its own files.
_FILES = '"$@" <input >out# 2>err#'
for _name in """copies_input_to_output reads_input_by_bytes error_closed_and_data_in_its_place output_closed_and_data_in_its_place
        all_three_closed redirected_to_a_file_and_back output_kept_in_the_buffer pushed_back streams_in_memory wide_stream
        conversion_in_the_middle locale_of_the_thread half_a_character closed_under_stdio written_in_an_exit_handler talks""".split():
    odd("streams", _name, shell=_FILES)
odd("streams", "talks_on_a_terminal", shell=_FILES, terminal=True)
odd("streams", "input_that_keeps_nobody_waiting", shell='"$@" </dev/null')
odd("streams", "inherited_descriptors", shell='"$@" 3<input 7>seven', again='"$@"')
odd("streams", "inherited_and_unused", "a pipe (descriptor 3) cannot be saved yet; the program was started with it, and if it has no use for it, start it with 3>&-", shell='cat input | "$@" 3<&0 </dev/null')
odd("streams", "inherited_with_its_writer", "the program has a child process that it has not waited for", shell='"$@" 3< <(cat input; sleep 3)')


# MPI: all members of TOGETHER run in one program, in step, so that each cut meets the states of all.
TOGETHER = """many_duplicates splits create_group bridges_for_a_moment attributes predefined names_and_infos groups
        error_handlers wildcard_probes self_messages nothing_at_all largest_tags cancelled_receives forgotten_sends
        types_freed_in_use buffered_sends many_unexpected mixed_requests nested_types hints_of_some_ranks own_operations many_operations
        rare_collectives matched_message topology pending_collective persistent_requests""".split()
_ALIVE = ": a communicator is alive that cannot be saved"
MPI_REFUSED = {
    "generalized_request": "MPI_Grequest_start: a request is not complete",
    "bridge_held": "MPI_Intercomm_create" + _ALIVE,
    "merged_bridge": "MPI_Intercomm_merge" + _ALIVE,
    "window": "MPI_Win_allocate: a window is alive that cannot be saved",
    "session": "MPI_Session_init: processes or sessions outside MPI_COMM_WORLD cannot be saved",
    }
for _mpi in ("openmpi", "mpich"):
    odd(_mpi, "together", mpi=_mpi, ranks=3, attempts=20)
    for _name in TOGETHER:
        odd(_mpi, _name, mpi=_mpi, ranks=3, attempts=20, only=f"{_mpi}.{_name}" not in KNOWN)
    for _name, _words in MPI_REFUSED.items():
        if _name != "session" or _mpi == "mpich":  # Open MPI 4.1 has no sessions
            odd(_mpi, _name, _words, mpi=_mpi, ranks=3)


if os.geteuid():  # these need root
    for _key in ("user_given_up", "effective_user_for_a_while", "user_of_files", "name_of_the_host", "another_root"):
        ODDITIES[f"process.{_key}"] = ODDITIES[f"process.{_key}"]._replace(words=RESTORED)


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
    if one.name in ("opened_by_int_0x80", "calls_of_32_bits") and not has_32_bit_calls():
        raise Skipped("this machine has no 32-bit system calls (int 0x80)")
    with Place("native") as place:
        undisturbed = results(place, one, start(place, one, [], 1000))
    if one.words is RESTORED and one.mpi == "none":  # other programs start too slowly
        with Place("under") as place:
            try:
                results(place, one, start(place, one, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"], 1000), undisturbed)
            except Failure as failure:
                raise Failure(f"even without a checkpoint: {failure}") from None
    with Place("odd") as place:
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
        outcome, kept = with_slower_programs(lambda: judge(ODDITIES[key], rng)), True
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
PROMISES = {f"odd.{key}": lambda k=key: all_judged([k]) for key, one in ODDITIES.items()
            if not one.only and not KNOWN.get(key, "").startswith("at times: ")}
QUICK = {f"odd.{key}" for key in ("files.append_beside_plain", "kinds.pipe_with_data", "memory.guard_pages", "signals.queued_real_time_signals",
                                  "process.limits", "execution.robust_mutex", "streams.talks", "openmpi.together", "mpich.window")}
assert QUICK <= set(PROMISES), QUICK - set(PROMISES)

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unknown = [key for key in KNOWN if key not in ODDITIES]
    assert not unknown, unknown
    if sys.argv[1:] == ["--oddities"]:
        for _key, _one in ODDITIES.items():
            print(f"{_key:60} {'restored' if _one.words is RESTORED else 'refused: ' + _one.words}")
        sys.exit(0)
    if len(sys.argv) == 3 and sys.argv[1] == "--only":
        _keys = [key for key in ODDITIES if sys.argv[2] in key]
        try:
            expect(_keys, f"no oddity has {sys.argv[2]!r} in its name")
            all_judged(_keys)
        except Failure as _failure:
            print(f"FAILED: {_failure}")
            sys.exit(1)
        sys.exit(0)
    sys.exit(promise_main(PROMISES, at_random=True, quick=tuple(QUICK)))
