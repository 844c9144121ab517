#!/usr/bin/env python3
"""CUDA programs (tests/apps/cuda/checkpoint) on the software GPU: each is checkpointed at random moments, killed and restarted, in chains;
its digest must be the undisturbed native run's. What cannot be saved is refused with a line that names it. Losses never pass unnoticed:
forge_memory removes parts of an image to test that.

The short form kills few times. The long form (NAME.long, or CROPDL_TEST_LONG=1) kills ten times, and removes every part in turn. With
CROPDL_TEST_DEVICE=real (scripts/gpu-test) the programs run on the machine's own GPUs."""

import os
import random
import re
import shutil
import sys

from command_scenarios import refused_here, says_what_it_waits_for, wait_for_collective
from cuda_scenarios import LEFT_OUT, ON_SOFTWARE, ONE_DEVICE, built_ways
from driver import (BUILD, Failure, Log, PATIENCE, Place, SOURCE, Skipped, TooLate, check_continued, check_refused, check_results, check_whole,
                    data_of, expect, forge, in_long_form, launcher, logs_of, metadata_of, native, recipes_of, scenario_main, take_checkpoint, too_late,
                    tool)
from footprint import check_stall, measure
from restart_scenarios import survives

LONG = in_long_form()
SOFTWARE_GPU = os.path.join(SOURCE, "scripts", "software-gpu")
STEPS = ("--steps", "200", "--pace", "20000") if LONG else ("--steps", "50", "--pace", "20000")
LONG_CHAIN = 600  # on a busy machine a kill and a restart take fifty
DEVICE_MEMORY, DEVICE_VARIABLES = "1", "2"  # docs/image-format.md
CUDA = "1"  # seam::kLibraryCudart
QUIET = {"CROPDL_SOFTWARE_GPU_QUIET": "1"}
# The number of recipes that a restart needs for each rank, the same at every step: none is lost, none accumulates.
RECIPES = {"trainer": 37, "forms": 14, "found": 6, "driver_only": 8, "products": 19, "managed": 12, "variables": 23, "managed_variables": 11, "pools": 15,
           # a stream and an event exist only at some steps
           "host_functions": 8, "two_threads": 10, "graphs": 14, "allocations": range(7, 10)}
SCENARIOS = {}
# Programs of NCCL that are built by default: without --long they run under this MPI alone.
ALWAYS = {"managed_pinned": "openmpi", "async_alloc": "mpich", "captured": "mpich", "grid": "openmpi", "nonblocking": "openmpi", "oddments": "mpich"}
ONLY_LONG = {"cuda.mpich.waiting_checkpoint_names_what_it_waits_for", "cuda.openmpi.checkpoint_that_waits_in_vain_is_given_up"}
WITH_LONG_FORM = []  # names of tests
WAYS = built_ways()
DEVICES = int(os.environ.get("CROPDL_TEST_DEVICES", "16"))  # how many there are: as many as a test wants, or this machine's (gpu_test.py)


def program_of(name, mpi="none", way="static"):
    return f"cuda/{way}/checkpoint-{name}" + (f".{mpi}" if mpi != "none" else "")


def natively(ranks=1):
    """The command that starts a program natively."""
    return (SOFTWARE_GPU, "--devices", str(ranks), "--quiet") if ON_SOFTWARE else ()


def saved_on(ranks=1):
    """cropdl-run's options for the devices."""
    return (f"--software-gpu={ranks}",) if ON_SOFTWARE else ()


def needs_own_nccl(place, _version):
    """The running job's NCCL is the one of --software-nccl."""
    ranks = place.jobs[-1].ranks()
    expect(ranks, "no rank runs")
    for pid in ranks:
        with open(f"/proc/{pid}/maps") as lines:
            found = set(re.findall(r"/(\S+/libnccl\.so\S*)", lines.read()))
        expect(any("/software-nccl/" in path for path in found) and not any("/software-gpu/" in path for path in found), f"rank {pid}: {found}")


def need_devices(count):
    if DEVICES < count:
        raise Skipped(f"it needs {count} devices")


def on_the_device(name, mpi="none", ranks=1, way="static", arguments=STEPS, chain=("same", "same"), recipes=None, devices=0, long_steps=LONG_CHAIN,
                  more=(), **named):
    """`recipes`: how many each rank's image must have, if not RECIPES[name]. `devices`: how many, if not one per rank. `long_steps`: how many
    steps the program makes in the long form, in which it is killed ten times; at least those of `arguments`. `more`: options of cropdl-run."""
    recipes = recipes or RECIPES.get(name)
    need_devices(devices or ranks)
    if LONG:
        chain = (chain * 10)[:10]
        arguments = (arguments[0], str(max(int(arguments[1]), long_steps)), *arguments[2:])

    def counted(place, version):
        found = recipes_of(place, version, ranks)
        print(f"version {version}: {found} recipes")
        right = recipes if isinstance(recipes, range) else (recipes,)
        if recipes is None or all(count in right for count in found):
            return
        if Log(place.path("log")).last_step() >= int(arguments[1]):
            raise TooLate("the program had begun to free its device memory")
        raise Failure(f"{found} recipes instead of {recipes} in version {version}")
    folder, _, program = program_of(name, mpi, way).rpartition("/")
    survives(program, mpi, ranks, arguments, chain, folder=folder, options=(*saved_on(devices or ranks), *more), through=natively(devices or ranks), latest=0.55,
             every_version=counted, **named)


def on_one_device(mpi):
    """NVIDIA's NCCL refuses two ranks on one device, so on a real one the undisturbed run is one under CropDL, too. Restarts have no option."""
    option = "--software-nccl"
    survives(f"checkpoint-trainer.{mpi}", mpi, 2, STEPS, ("same", "alone"), folder="cuda/static", options=(*saved_on(1), option),
             through=natively(1) if ON_SOFTWARE else (tool("cropdl-run"), option, "--interval", "0", "--"), latest=0.55, environment=ONE_DEVICE,
             every_version=needs_own_nccl)


def scenario(test, name, mpi="none", ranks=1, way="static", **kwargs):
    """A test of the program, if it was built in this way."""
    if way in WAYS.get(f"checkpoint-{name}", ()):
        SCENARIOS[test] = lambda: on_the_device(name, mpi, ranks, way, **kwargs)
        WITH_LONG_FORM.append(test)


def named(name, software_only=False, long_form=False):
    def take(function):
        if ON_SOFTWARE or not software_only:
            SCENARIOS[name] = function
            if long_form:
                WITH_LONG_FORM.append(name)
        return function
    return take


for _mpi in ("openmpi", "mpich"):
    scenario(f"cuda.{_mpi}.training_equals_the_undisturbed_run", "trainer", _mpi, 2, chain=("same", "alone"))
scenario("cuda.openmpi.training_with_the_shared_runtime_continues_under_the_other_mpi", "trainer", "openmpi", 2, "shared", chain=("other", "other"))
scenario("cuda.openmpi.pipeline_of_several_communicators", "pipeline", "openmpi", 4)
scenario("cuda.mpich.pipeline_of_several_communicators", "pipeline", "mpich", 2, chain=("same", "other"))
scenario("cuda.mpich.training_on_four_ranks", "trainer", "mpich", 4, chain=("other",))
for _mpi in ("openmpi", "mpich"):
    scenario(f"cuda.{_mpi}.nccl_groups_threads_and_several_devices", "communicators", _mpi, 2, chain=("same", "other"))

if "checkpoint-trainer" not in LEFT_OUT:
    named("cuda.openmpi.ranks_share_a_device_with_the_software_nccl")(lambda: on_one_device("openmpi"))


def words_at(place, version, ranks):
    """What the ranks' logs say that they were at when this version was cut."""
    found = set()
    for rank in range(ranks):
        log = place.path("log") + (f".{rank}" if rank else "")
        files = metadata_of(place.version_path(version, f"rank-{rank}.img"))["files"]
        with open(log, "rb") as lines:
            last = lines.read(next(file["offset"] for file in files if file["path"] == log)).splitlines()[-1].decode().split()
        found.update(last[1:2] if last[0] == "at" else ())
    return found


def cut_in_every_order(mpi, ranks, chain):
    """Versions are requested in steps of each kind until one was cut there; each request needs one attempt only (limited to 10 s)."""
    need_devices(ranks)
    left = set()

    def found(place, version):
        words = words_at(place, version, ranks)
        print(f"version {version} was cut at {words or 'none'}")
        left.difference_update(words)
    for _ in range(3 if LONG else 1):
        left |= {"burst", "crossed", "late", "by-turns", "messages", "some"}
        survives(f"checkpoint-orders.{mpi}", mpi, ranks, ("--steps", "40", "--pace", "20000"), chain, folder="cuda/static", options=saved_on(ranks),
                 through=natively(ranks), moments=left, within=8, every_version=found)
        if left:
            too_late(f"no version was cut at {left}")


def waits_for_a_collective(mpi, given_up=False):
    """`cropdl checkpoint` names the rank that has not launched the collective for which another one waits in cudaStreamSynchronize. Once it
    has, the version is taken, and its restart ends like the undisturbed run; also after a request that waited in vain."""
    need_devices(2)
    with Place("waits") as place:
        file = place.path("now")
        arguments = ("--until", file, "--steps", "20", "--pace", "20000")
        open(file, "w").close()
        reference = native(place, program_of("orders", mpi), arguments, mpi, 2, through=natively(2))
        os.remove(file)
        job = place.run(program_of("orders", mpi), arguments, mpi, 2, options=saved_on(2))
        if given_up:
            wait_for_collective(job)
            status, text, _ = place.checkpoint(timeout=20 * 11 + PATIENCE)
            expect(status == 1 and text == "cropdl: checkpoint given up after 20 attempts of 10 s: rank 1 has not reached a collective that rank 0 has begun "
                   "(it computes, or waits); try again later", f"{status}: {text}")
        says_what_it_waits_for(place, job, file)
        job.kill_running()
        job = place.restart(mpi, 2, log=job.log)
        job.finish()
        check_results(job, reference, 2)


if "checkpoint-orders" not in LEFT_OUT:
    SCENARIOS["cuda.openmpi.collectives_in_every_order"] = lambda: cut_in_every_order("openmpi", 2, (*("on",) * 3, "same", *("on",) * 12, "same"))
    SCENARIOS["cuda.mpich.collectives_in_every_order_on_four_ranks"] = lambda: cut_in_every_order("mpich", 4, (*("on",) * 15, "other"))
    for _mpi in ("openmpi", "mpich"):
        SCENARIOS[f"cuda.{_mpi}.waiting_checkpoint_names_what_it_waits_for"] = lambda m=_mpi: waits_for_a_collective(m)
    SCENARIOS["cuda.openmpi.checkpoint_that_waits_in_vain_is_given_up"] = lambda: waits_for_a_collective("openmpi", given_up=True)

if "train" not in LEFT_OUT:  # the trainer of scripts/demo
    for _mpi, _memory in (("openmpi", ()), ("mpich", ("--memory", "managed"))):
        SCENARIOS[f"cuda.{_mpi}.fashion_mnist_training{'_in_managed_memory' if _memory else ''}"] = lambda m=_mpi, a=_memory: survives(
            f"train.{m}", m, 2, ("--epochs", "1", "--hidden", "32", *a), ("same", "alone"), folder="cuda/static", options=saved_on(2),
            through=natively(2))

for _name, _what, _ways in (
        ("forms", "runtime_in_each_form", ("static", "shared", "per-thread")),
        ("found", "runtime_found_by_dlopen", ("none",)),
        ("driver_only", "driver_found_by_name", ("none",)),
        ("products", "products_and_streams", ("static",)),
        ("managed", "managed_memory_with_advice", ("static",)),
        ("variables", "device_variables", ("static", "shared")),
        ("managed_variables", "managed_variables", ("static", "shared")),
        ("pools", "stream_ordered_memory", ("static",)),
        ("host_functions", "host_functions", ("static",)),
        ("two_threads", "two_threads_that_launch", ("static", "per-thread")),
        ("kept", "state_other_than_memory", ("shared",)),
):
    for _way in _ways:
        scenario(f"cuda.{_what}" + (f".{_way}" if len(_ways) > 1 else ""), _name, way=_way)
scenario("cuda.managed_memory_in_compressed_versions", "managed", more=("--compress",))
scenario("cuda.defaults_of_devices_and_threads", "devices", devices=2)
scenario("cuda.threads_with_and_without_a_context", "contexts", devices=2)
scenario("cuda.context_of_a_program_without_driver_calls", "contexts", arguments=(*STEPS, "--runtime"), chain=("same", "same"))
# Each checkpoint may meet a child, which refuses it.
scenario("cuda.children_get_cuda_s_own_error", "contexts", arguments=(*STEPS, "--children"), chain=("same", "same"), attempts=100)
scenario("cuda.objects_made_after_a_reset", "contexts", devices=2, arguments=(*STEPS, "--reset"), chain=("same", "same"))
scenario("cuda.unused_first_device_stays_unused", "devices", devices=2, arguments=(*STEPS, "--second"), chain=("same",))
scenario("cuda.memory_mapped_by_the_program", "driver_only", way="none", arguments=(*STEPS, "--mapped"), recipes=10)
scenario("cuda.modules_and_libraries_of_kernels", "modules", way="shared")
for _way in ("static", "shared"):
    scenario(f"cuda.code_loaded_and_unloaded_in_any_order.{_way}", "code_order", way=_way, chain=("same", "same"))
    scenario(f"cuda.code_with_queried_addresses_loaded_and_unloaded.{_way}", "code_order", way=_way, arguments=(*STEPS, "--addresses"), chain=("same", "same"))
    scenario(f"cuda.code_unloaded_before_a_device_was_used.{_way}", "code_order", way=_way, devices=2, arguments=(*STEPS, "--second"), chain=("same", "same"))
scenario("cuda.graphs_between_checkpoints", "graphs", attempts=200)
scenario("cuda.a_hundred_thousand_allocations", "allocations", chain=("same",))

# These programs were written from NVIDIA's documentation alone.
for _mpi in ("openmpi", "mpich"):
    for _name, _what, _named in (
            ("halo", "stencil_with_halos_by_sends_and_receives", {}),
            ("experts", "all_to_all_of_uneven_counts_and_splits", {}),
            ("late", "alternating_collectives_of_mpi_and_nccl", {}),
            ("microbatch", "microbatches_in_a_pipeline_that_is_never_empty", {}),
            ("grid", "grid_of_communicators_with_destroyed_parents", {}),
            ("redops", "operations_with_scalars_of_ten_types", {}),
            ("captured", "collectives_in_graphs_between_steps", {"attempts": 200}),
            ("managed_pinned", "collectives_on_managed_and_pinned_memory", {}),
            ("comm_threads", "threads_that_hand_over_their_communicators", {}),
            ("nonblocking", "nonblocking_communicators", {"attempts": 200}),
            ("async_alloc", "stream_ordered_memory_behind_collectives", {}),
            # Longer, since checkpoint attempts at work that waits for nothing are given up after 10 s and repeated.
            ("aborted", "aborted_communicators", {"arguments": ("--steps", "200", "--pace", "20000")}),
            ("aborted", "communicators_aborted_in_the_step_of_their_use", {"arguments": ("--steps", "200", "--pace", "20000", "--at-once")}),
            ("late_making", "communicators_joined_late", {"attempts": 20}),
            ("oddments", "rare_uses_of_nccl", {})):
        scenario(f"cuda.{_mpi}.{_what}", f"blind_{_name}", _mpi, 2, chain=("same", "other") if LONG else ("other",), **_named)
        scenario(f"cuda.{_mpi}.{_what}_on_four_ranks", f"blind_{_name}", _mpi, 4, chain=("alone",), **_named)
        ONLY_LONG |= {f"cuda.{_mpi}.{_what}_on_four_ranks"} | ({f"cuda.{_mpi}.{_what}"} if ALWAYS.get(_name) != _mpi else set())
    scenario(f"cuda.{_mpi}.host_functions_that_wait_between_collectives", "blind_late_making", _mpi, 2, chain=("same", "other"),
            arguments=("--steps", "200", "--pace", "20000", "--host"), attempts=20)
    scenario(f"cuda.{_mpi}.rank_that_is_late_for_seconds", "blind_late", _mpi, 2, arguments=("--steps", "24", "--pace", "50000", "--late"), chain=("same", "other"),
            long_steps=120)
for _name, _what, _ways, _named in (
        ("initall", "two_devices_of_one_process", ("static", "shared"), {"devices": 2}),
        ("bad_device", "failed_call_keeps_the_current_device", ("static",), {"devices": 2}),
        ("identities", "ids_and_entry_points_kept_by_a_program", ("static",), {}),
        ("first_call", "first_call_of_sleeping_threads_uses_their_device", ("static",), {"devices": 2}),
        ("objects", "objects_with_virtual_functions", ("static", "shared"), {}),
        ("managed", "managed_memory_with_pointers_and_advice", ("static",), {}),
        ("pools", "pools_over_three_streams", ("static",), {}),
        ("threads", "threads_with_unread_errors", ("static", "per-thread"), {}),
        ("settings", "settings_are_read_back", ("static", "shared"), {}),
        ("blas", "scalars_on_the_device_and_generators_with_offsets", ("static",), {}),
        ("graphs", "graphs_of_every_kind_between_steps", ("static",), {"attempts": 200}),
        ("pinned", "pinned_and_registered_memory_and_boxes", ("static",), {}),
        ("ahead", "launches_far_ahead_of_the_device", ("static",), {}),
        ("mapped", "physical_memory_at_two_addresses", ("static",), {}),
        ("library", "kernel_libraries_by_the_runtime", ("static", "shared"), {}),
        ("waits", "streams_that_wait_for_words_in_memory", ("static", "per-thread"), {"attempts": 20}),
        ("plugin", "plugins_with_functions_called_by_the_program", ("static", "shared"), {})):
    for _way in _ways:
        scenario(f"cuda.{_what}" + (f".{_way}" if len(_ways) > 1 else ""), f"blind_{_name}", way=_way, **_named)
scenario("cuda.long_kernels_far_ahead_of_the_host", "blind_ahead", arguments=(*STEPS, "--spin"))


def nothing_grows(name, each, recipes, images, memory, mpi="none", ranks=1):
    """Nothing grows by objects that the program made and destroyed, `each` of every kind in a step, between the second measurement and the third.
    (The second may show more than the first: space was allocated.) `images`, `memory`: bytes by which a rank's image and memory may be larger."""
    program = program_of(name, mpi)
    arguments = ("--steps", "80", "--pace", "20000", "--each", str(each))
    limit = 3600 if LONG else 3 * PATIENCE
    with Place(name) as place:
        reference = native(place, program, arguments, mpi, ranks, through=natively(ranks), limit=limit)
        job = place.run(program, arguments, mpi, ranks, options=saved_on(ranks))
        found = []
        for step in (3, 30, 30 + STEPS_BETWEEN):
            job.wait_for_step(step, limit)
            found.append(measure(place, job, ranks))
            counts = recipes_of(place, found[-1].version, ranks)
            print(f"step {step}: {found[-1]}, {counts} recipes")
            expect(set(counts) <= set(recipes), f"recipes have accumulated: {counts}")
        first, second, third = found
        check_stall(first, third, place, job)
        expect(third.images - second.images < images * ranks, f"the images have grown: {found}")
        expect(third.device - second.device < IN_USE * ranks, f"the device memory has grown: {found}")
        # Taking versions allocates memory as well, so that between those of the two is not counted.
        before, after = second.after, third.before
        expect(after.memory - before.memory < memory, f"the memory has grown: {found}")
        for what in ("descriptors", "threads", "shared"):  # a few may just be in use
            expect(getattr(after, what) < getattr(before, what) + STEPS_BETWEEN * 2 // 3, f"there are more {what}: {found}")
        job.kill_running()
        expect(goes_on(place, job.log, ranks, mpi, limit=limit) == reference[0].digest, "DIFFERENT")


STEPS_BETWEEN = 24
IN_USE = 256 << 10  # device memory of a round


@named("cuda.destroyed_objects_leave_nothing_behind", long_form=True)
def objects_destroyed():
    """24 000 launches and 2 400 each of allocations, streams and events between the measurements; 40 times as many in the long form. A stream and
    an event exist only at times. Growth is seen from 7 bytes per round on in the image, and from 55 in memory (in the long form from a fifth of a
    byte, and from 1.4): without any, the image differed by 26 bytes, and memory, by the allocator, by up to 76 KiB."""
    nothing_grows("churn", 4000 if LONG else 100, range(8, 11), 16 << 10, 128 << 10)


if "static" in WAYS.get("checkpoint-nccl_churn", ()):
    @named("cuda.openmpi.communicators_leave_nothing_behind", long_form=True)
    def communicators_destroyed():
        """1 900 communicators in all, three per round; 144 000 in the long form. Until the next version, 100 bytes of a round's are kept: the counts
        of those that ended, and those that were aborted."""
        each = 600 if LONG else 8
        nothing_grows("nccl_churn", each, range(3, 12), 16 << 10, (128 << 10) + 120 * each * STEPS_BETWEEN, "openmpi", 2)


# --- What stands in the way --------------------------------------------------------------------------------------

HELD = {  # what the program has, and the words of the refusal
    "graph": "cudaStreamEndCapture: what it made cannot be saved",
    "executable_graph": "cudaGraphInstantiate: what it made cannot be saved",
    "capture": "cudaStreamBeginCapture: what it made cannot be saved",
    "captured_draw": "curandGenerateUniform: what it made cannot be saved",
    "spinning_kernel": "the device has not come to its end within 5 s: a kernel runs that long, or waits for the host; ask again",
    "awaited_kernel": "the device has not come to its end within 5 s: a kernel runs that long, or waits for the host; ask again",
    "failed_kernel": "a kernel or copy on the device has failed (CUDA error 719): what the device holds is lost",
    "protected_memory": "cuMemHostRegister: of the registered memory at 0x<x> (4096 bytes) pages are unmapped, or protected (mprotect): unregister it before",
    "unloaded_malloc": "cuModuleUnload: kernels of unloaded code call malloc, whose memory outlives the code, and the device's heap cannot be saved yet",
    "variable": "the environment variable CURAND_ANYTHING was changed after cuRAND was first used, and a restart would set only its last value; set it before",
    "context": "cuCtxCreate_v4: there is a context besides the device's primary one",
}
if not ON_SOFTWARE:  # the software GPU has none
    HELD["ipc_event"] = "cudaIpcGetEventHandle: an event is shared with another process"
COMMUNICATORS = {  # likewise of held_communicators
    "revoked": "ncclCommRevoke: a communicator that was revoked cannot be made again",
    "reset": "cudaDeviceReset: the device was reset while NCCL communicators of it were there",
}
if ON_SOFTWARE:  # NVIDIA's NCCL waits, crashes or takes long
    COMMUNICATORS |= {
        "device_communicator": "ncclDevCommCreate: kernels read the addresses in a device communicator",
        "failed": "ncclCommGetAsyncError: a communicator has failed (remote process exited or there was a network error), which cannot be saved",
        "shared_id": "ncclCommInitRank: two communicators were made with one id (NCCL_COMM_ID?)",
        "ids": "ncclGetUniqueId: a rank has got more than 2000 ids with which it has not joined",
    }

# After these, no checkpoint succeeds any more.
FOR_GOOD = {"context", "failed_kernel", "ipc_event", "revoked", "reset", "device_communicator", "shared_id", "ids"}
STOPPED = {"spinning_kernel", "awaited_kernel", "failed_kernel", "failed"}  # found only after the program was stopped
SMALL = {"captured_draw": {"CROPDL_SOFTWARE_GPU_MEMORY": "64M"}}


def refused_while_held(what, words, program="held"):
    """The checkpoint is refused soon, in exactly these words, and the program continues. After it releases the object, it is saved and
    restarted."""
    with Place(program) as place:
        arguments, small = (what, "--steps", "60", "--pace", "20000"), SMALL.get(what)
        reference = native(place, program_of(program), arguments, through=natively())
        job = place.run(program_of(program), arguments, options=saved_on(), environment=small)
        job.wait_for_step(3)
        status, text, seconds = place.checkpoint()
        if what not in FOR_GOOD and Log(job.log).last_step() >= 30:
            raise TooLate(f"the {what} may have been given up before the answer")
        if seconds >= 8:
            too_late(f"that took {seconds:.1f} s")  # one attempt is limited to 10 s, and repeated 19 times
        check_refused(place, status, text.replace("checkpoint failed", "checkpoint refused") if what in STOPPED else text, words)
        if what in FOR_GOOD:
            job.finish()
            expect(Log(job.log).digest == reference[0].digest, "DIFFERENT")
            return
        job.wait_for_step(32)
        take_checkpoint(place, job, attempts=3)
        job.kill_running()
        job = place.restart(environment=small)
        job.finish()
        after = Log(job.log)
        check_whole(after)
        expect(after.digest == reference[0].digest, "DIFFERENT")


for _what, _words in HELD.items():
    SCENARIOS[f"cuda.refused.{_what}"] = lambda w=_what, k=_words: refused_while_held(w, k)
if "checkpoint-held_communicators" not in LEFT_OUT:
    for _what, _words in COMMUNICATORS.items():
        SCENARIOS[f"cuda.refused.communicators.{_what}"] = lambda w=_what, k=_words: refused_while_held(w, k, "held_communicators")
for _what, _maker in (("flat", "cudaMallocArray"), ("box", "cudaMalloc3DArray")):
    SCENARIOS[f"cuda.refused.{_what}_array"] = lambda w=_what, m=_maker: refused_while_held(f"--{w}", f"{m}: what it made cannot be saved", "blind_arrays")


# Functions of unsaved_calls.cu. The first call of one of these refuses checkpoints for good, also if the device lacks the function.
SHARING = {
    "device memory is shared with another process": (
        "cudaIpcGetMemHandle", "cudaIpcOpenMemHandle", "cudaIpcCloseMemHandle", "cudaMemPoolExportToShareableHandle",
        "cudaMemPoolImportFromShareableHandle", "cudaMemPoolExportPointer", "cudaMemPoolImportPointer", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2",
        "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemPoolExportToShareableHandle", "cuMemPoolImportFromShareableHandle",
        "cuMemPoolExportPointer", "cuMemPoolImportPointer"),
    "an event is shared with another process": ("cudaIpcGetEventHandle", "cudaIpcOpenEventHandle", "cuIpcGetEventHandle", "cuIpcOpenEventHandle"),
    "memory of several devices is bound to one address": ("cuMulticastCreate",),
}
FOREIGN = ("cudaImportExternalMemory", "cudaImportExternalSemaphore", "cuImportExternalMemory", "cuImportExternalSemaphore")
TEXTURES = ("cudaCreateTextureObject", "cudaCreateSurfaceObject", "cuTexObjectCreate", "cuSurfObjectCreate")


@named("cuda.refused.functions_that_share_memory_or_events_or_make_textures")
def sharing():
    everything = [(name, why) for why, names in SHARING.items() for name in names]
    if not LONG:  # a process for each; others are checked with the generator (tests/gen/one_abi)
        everything = [(name, why) for name, why in everything if name in ("cudaIpcGetMemHandle", "cuIpcOpenEventHandle", "cuMemExportToShareableHandle",
                                                                          "cudaMemPoolImportPointer", "cuMulticastCreate")]
    if not ON_SOFTWARE:  # the software GPU has none
        everything += [(name, "what it made cannot be saved") for name in TEXTURES if "Tex" in name]
    for name, why in everything:
        with Place("sharing") as place:
            job = place.run(program_of("unsaved_calls"), (name, "--steps", "1000", "--pace", "20000"), options=saved_on())
            job.wait_for_step(1)
            status, text, _ = place.checkpoint()
            check_refused(place, status, text, f"{name}: {why}")


@named("cuda.foreign_memory_and_textures_that_do_not_exist_are_no_obstacle", software_only=True)
def foreign():
    """The calls fail, with a line that names the function. Versions are taken and restarted."""
    arguments = (*FOREIGN, *TEXTURES, *STEPS)
    with Place("foreign") as place:
        reference = native(place, program_of("unsaved_calls"), arguments, through=natively())
        job, _ = stopped(place, "unsaved_calls", arguments)
        said = job.output().splitlines()
        for name in FOREIGN:
            expect(said.count(f"cropdl: {name} is not offered: memory and semaphores of another library cannot be made again") == 1, job.output())
        for name in TEXTURES:
            expect(any(line.startswith(f"software GPU: {name} is not built") for line in said), job.output())
        expect(goes_on(place, job.log) == reference[0].digest, "DIFFERENT")


# --- Restarts that cannot be --------------------------------------------------------------------------------------

def stopped(place, name, arguments=STEPS, mpi="none", ranks=1, way="static", step=5, devices=None):
    """Takes a version of the program, then kills the program."""
    job = place.run(program_of(name, mpi, way), arguments, mpi, ranks, options=saved_on(devices or ranks))
    job.wait_for_step(step)
    version, _, _ = take_checkpoint(place, job)
    job.kill_running()
    return job, version


def goes_on(place, log, ranks=1, mpi="none", environment=None, says="", limit=None):
    """Restarts it: refused restarts before this one lost nothing. Returns the digest."""
    job = place.restart(mpi, ranks, environment=environment, log=log)
    job.finish(limit)
    expect(re.search(says, job.output()), job.output())
    for one in logs_of(log, ranks):
        check_whole(one)
    return Log(log).digest


def refused_elsewhere(*words, environment, name="forms", mpi="none", ranks=1, options=None):
    """On devices as in `environment` the restart is refused, and so it is with `options`, which cropdl-restart passes through the launcher that it
    starts. On the original devices it succeeds afterwards."""
    with Place("elsewhere") as place:
        job, _ = stopped(place, name, mpi=mpi, ranks=ranks)
        refused_here(place, launcher(mpi, ranks) + [tool("cropdl-restart"), place.store], *words, environment=QUIET | environment)
        if options:
            refused_here(place, [tool("cropdl-restart"), *options, place.store], *words, environment=QUIET)
        goes_on(place, job.log, ranks, mpi)


@named("cuda.bad_input.device_of_another_capability", software_only=True)
def other_capability():
    refused_elsewhere("device 0", "compute capability 9.0", "8.0", environment={"CROPDL_SOFTWARE_GPU_CAPABILITY": "8.0"})


@named("cuda.bad_input.device_with_too_little_memory", software_only=True)
def little_memory():
    refused_elsewhere("MB of device 0", environment={"CROPDL_SOFTWARE_GPU_MEMORY": "16M"}, name="allocations")


if "checkpoint-trainer" not in LEFT_OUT:
    @named("cuda.bad_input.fewer_devices", software_only=True)
    def fewer_devices():
        refused_elsewhere("device 1", "1 devices here", environment={"CROPDL_SOFTWARE_GPUS": "1"}, name="trainer", mpi="openmpi", ranks=2,
                          options=["--software-gpu=1"])


@named("cuda.versions_show_their_device_memory")
def told_device_memory():
    """list, status and verify show how much device memory a version has, and of which device."""
    with Place("told") as place:
        job, version = stopped(place, "forms")
        amount = r"(\d+\.\d [kM]B)"
        texts = {}
        for command in ("list", "status", "verify"):
            status, texts[command], _ = place.ask([tool("cropdl"), command, place.store])
            expect(status == 0, f"{command}: {texts[command]}")
        found = [re.search(pattern, texts[command], re.M) for command, pattern in (
            ("list", rf"^{version} .* {amount} +\d+\.\d+ s "),
            ("status", rf"^devices: .* \(compute capability \d+\.\d\), {amount} of memory on them$"),
            ("verify", rf"^version {version}: good, .*, {amount} of them device memory$"))]
        expect(all(found) and len({one.group(1) for one in found}) == 1, str(texts))
        goes_on(place, job.log)


@named("cuda.device_of_the_same_architecture_is_accepted", software_only=True)
def same_architecture():
    """More memory, more multiprocessors, or fewer unused devices: one line names the other device, and the result is the same."""
    with Place("another") as place:
        reference = native(place, program_of("forms"), STEPS, through=natively())
        job, _ = stopped(place, "forms", devices=2)
        other = {"CROPDL_SOFTWARE_GPU_MEMORY": "8G", "CROPDL_SOFTWARE_GPU_MULTIPROCESSORS": "7", "CROPDL_SOFTWARE_GPUS": "1"}
        line = r"device 0: .* \(4 multiprocessors\) before, .* \(7 multiprocessors\) here: "
        expect(goes_on(place, job.log, environment=other, says=line) == reference[0].digest, "DIFFERENT")


def installed_copy(place):
    """An installed copy of CropDL whose files can be removed."""
    os.mkdir(place.path("copy"))
    for folder in ("bin", "lib", "software-gpu"):
        os.mkdir(place.path(f"copy/{folder}"))
        for name in os.listdir(os.path.join(BUILD, folder)):
            if folder != "bin" or name.startswith("cropdl"):
                source, target = os.path.join(BUILD, folder, name), place.path(f"copy/{folder}/{name}")
                if os.path.isfile(source):
                    shutil.copy2(source, target, follow_symlinks=False)
    return place.path("copy/bin")


if "checkpoint-products" not in LEFT_OUT:
    @named("cuda.bad_input.missing_library", software_only=True)
    def library_missing():
        with Place("missing") as place:
            job, _ = stopped(place, "products")
            there = installed_copy(place)
            for name in ("libcublas.so", "libcublas.so.13"):
                os.remove(place.path(f"copy/software-gpu/{name}"))
            refused_here(place, [os.path.join(there, "cropdl-restart"), place.store], "libcublas.so.13", environment=QUIET)
            goes_on(place, job.log)


if "checkpoint-trainer" not in LEFT_OUT:
    @named("cuda.openmpi.software_nccl_from_a_restart_on", software_only=True)
    def own_nccl_from_a_restart_on():
        """The option's words reach the launcher that cropdl-restart starts. An installation without that NCCL refuses it."""
        with Place("later") as place:
            reference = native(place, program_of("trainer", "openmpi"), STEPS, "openmpi", 2, through=natively(2))
            job, _ = stopped(place, "trainer", mpi="openmpi", ranks=2)
            restart = [os.path.join(installed_copy(place), "cropdl-restart"), "--software-nccl", place.store]
            refused_here(place, restart, "the software NCCL", "not installed", environment=QUIET)
            job = place.restart(alone=True, options=["--software-nccl"], log=job.log)
            job.wait_for_step(10)
            needs_own_nccl(place, None)
            job.finish()
            expect(Log(job.log).digest == reference[0].digest, "DIFFERENT")


@named("cuda.bad_input.no_device", software_only=True)
def no_device():
    """The program ran on software devices; the restart's installation has none."""
    with Place("nodevice") as place:
        job, _ = stopped(place, "forms")
        there = installed_copy(place)
        shutil.rmtree(place.path("copy/software-gpu"))
        refused_here(place, [os.path.join(there, "cropdl-restart"), place.store], "the software GPU", "not installed")
        goes_on(place, job.log)


# --- Nothing is lost silently -------------------------------------------------------------------------------------

def missed(name, count_words, drop_words, most, way="static", arguments=STEPS, environment=None):
    """Removes one part after another from an image. Each time, the restart is refused, or the program fails or ends with another digest.
    Returns how each loss was noticed."""
    rng = random.Random(int(os.environ.get("CROPDL_TEST_SEED", random.randrange(1 << 30))))
    with Place("missed") as place:
        reference = native(place, program_of(name, way=way), arguments, through=natively())
        job, version = stopped(place, name, arguments, way=way)
        shutil.copytree(place.store, place.path("kept"))
        log = open(job.log, "rb").read()
        count = int(forge("forge_memory", place.version_path(version), "0", *count_words)[1])
        expect(count > 0, f"there is nothing to remove by {drop_words}")
        noticed, kept = [], []
        for number in rng.sample(range(count), count):
            if not LONG and len(noticed) == most:
                break
            shutil.rmtree(place.store)
            shutil.copytree(place.path("kept"), place.store)
            with open(job.log, "wb") as back:
                back.write(log)
            status, _ = forge("forge_memory", place.version_path(version), "0", *drop_words, str(number), statuses=(0, 3))
            if status == 3:
                kept.append(number)
                continue
            restarted = place.restart(log=job.log, environment=environment)
            status = restarted.process.wait(timeout=3 * PATIENCE)
            after = Log(job.log)
            restarted.kill_all()
            if status == 0 and after.digest == reference[0].digest:
                raise Failure(f"the loss of number {number} of {count} by {drop_words} went unnoticed")
            noticed.append((number, "the program's own check" if after.failed else "another digest" if status == 0 else
                            "a line" if "cannot restart" in restarted.output() else f"status {status}"))
        expect(noticed, f"nothing could be removed: others need all {count}")
        print(f"{len(noticed)} of {count} removed by {drop_words}, all losses noticed: {noticed}; not removed, since others need them: {kept}")
        return [how for _, how in noticed]


@named("cuda.loss_of_any_recipe_is_noticed", long_form=True)
def recipes_missed():
    """Lost recipes are noticed by their number. If the number was corrected, the program notices the lost object."""
    noticed = missed("products", ("recipes", CUDA), ("recipe", CUDA), 2)
    expect(set(noticed) == {"a line"}, f"{noticed}")
    noticed = missed("products", ("recipes", CUDA), ("object", CUDA), 4)
    expect("a line" not in noticed, f"{noticed}: a restart that counts needs no replay")


@named("cuda.loss_of_any_device_page_is_noticed", long_form=True)
def pages_missed():
    missed("forms", ("pages", DEVICE_MEMORY), ("page", DEVICE_MEMORY), 6)


@named("cuda.loss_of_any_variable_page_is_noticed", long_form=True)
def variables_missed():
    missed("variables", ("pages", DEVICE_VARIABLES), ("page", DEVICE_VARIABLES), 6)


@named("cuda.loss_of_one_variable_is_noticed")
def variable_missed():
    """A variable that nobody writes is noticed by its value."""
    with Place("variable") as place:
        job, version = stopped(place, "variables")
        forge("forge_memory", place.version_path(version), "0", "bytes", DEVICE_VARIABLES, (123456789).to_bytes(4, "little").hex(), "00000000")
        restarted = place.restart(log=job.log)
        status = restarted.process.wait(timeout=3 * PATIENCE)
        expect(status != 0 and Log(job.log).failed, f"ended with {status}: {restarted.output()}")


@named("cuda.address_of_a_variable_stays_or_the_restart_is_refused")
def addresses_of_variables():
    """The driver chooses the addresses of variables. The software GPU can be made to choose the same again; a real one may force a refusal."""
    for name, way, variable in (("variables", "static", "table"), ("found", "none", "launches"), ("driver_only", "none", "launches")):
        with Place("addresses") as place:
            arguments = (*STEPS, "--addresses")
            reference = native(place, program_of(name, way=way), arguments, through=natively())
            job, _ = stopped(place, name, arguments, way=way)
            restarted = place.restart(log=job.log)
            status = restarted.process.wait(timeout=3 * PATIENCE)
            if status == 0:
                expect(Log(job.log).digest == reference[0].digest, f"{name}: DIFFERENT")
            else:
                expect(not ON_SOFTWARE, f"{name}: refused: {restarted.output()}")
                words = f"cannot restart: the program has the address of its device variable {variable} "
                expect(words in restarted.output(), f"{name}: {restarted.output()}")
            print(f"{name}: {'it stayed' if status == 0 else 'refused'}")


@named("cuda.variables_that_cannot_be_restored_are_refused", software_only=True)
def variables_of_taken_addresses():
    """The program's memory occupies the driver's or the device's addresses: variables that cannot be saved there are refused."""
    for arguments, words in (
            (("--addresses", "--taken", "driver"), "CUDA: the driver put its addresses where it wanted to, and the program has that of the variable table (0x<x>), "
                                                   "which cannot be had again by a restart"),
            (("--taken", "arena"), "CUDA: the variable <w> (0x<x>) of device 0 cannot be saved: there is no device memory")):
        with Place("taken") as place:
            job = place.run(program_of("variables"), (*STEPS, *arguments), options=saved_on())
            job.wait_for_step(3)
            status, text, _ = place.checkpoint()
            check_refused(place, status, text.replace("checkpoint failed", "checkpoint refused"), words)
            job.finish()


@named("cuda.restart_falls_back_past_damaged_device_memory")
def device_memory_damaged():
    """One bit of the newest version's device memory, and of its variables, is flipped: a line names the region, and the restart goes on from
    the version before."""
    for kind, region in ((DEVICE_MEMORY, r"\[device 0\]"), (DEVICE_VARIABLES, r"\[variables of device 0\]")):
        with Place("damaged") as place:
            reference = native(place, program_of("variables"), STEPS, through=natively())
            job = place.run(program_of("variables"), STEPS, options=saved_on())
            job.wait_for_step(5)
            _, _, bounds = take_checkpoint(place, job)
            job.wait_for_step(20)
            second, _, _ = take_checkpoint(place, job)
            job.kill_running()
            before, image = Log(job.log), place.version_path(second, "rank-0.img")
            _, offset, size = data_of(image, int(kind))[0]
            with open(image, "r+b") as file:
                file.seek(offset + size // 2)
                byte = file.read(1)[0]
                file.seek(offset + size // 2)
                file.write(bytes([byte ^ 1]))
            job = place.restart()
            job.finish()
            line = [line for line in job.output().splitlines() if f"version {second} cannot be used" in line]
            words = rf"damaged in region {region}, memory from 0x[0-9a-f]+ \(.*: its checksum differs"
            expect(len(line) == 1 and re.search(words, line[0]), f"not one line with {words!r}: {job.output()}")
            print(line[0])
            check_continued(before, Log(job.log), job.started, *bounds[job.log])
            check_whole(Log(job.log))
            expect(Log(job.log).digest == reference[0].digest, "DIFFERENT")


@named("cuda.images_of_another_checkpoint_are_refused")
def mixed_images():
    """One rank's image (with its device memory) is replaced by that of another version: refused with a line that names it."""
    if "checkpoint-trainer" in LEFT_OUT:
        raise Skipped("its program was not built: there is no NCCL")
    with Place("mixed") as place:
        job = place.run(program_of("trainer", "openmpi"), STEPS, "openmpi", 2, options=saved_on(2))
        job.wait_for_step(3)
        first, _, _ = take_checkpoint(place, job)
        job.wait_for_step(12)
        second, _, _ = take_checkpoint(place, job)
        job.kill_running()
        shutil.copy2(place.version_path(first, "rank-1.img"), place.version_path(second, "rank-1.img"))
        restarted = place.restart("openmpi", 2, log=job.log)
        restarted.wait_for_step(50)
        line = [line for line in restarted.output().splitlines() if "cannot be used" in line]
        expect(len(line) == 1 and f"version {second}" in line[0] and re.search("is not the image that the manifest names|truncated|too long|pack .* cannot be opened", line[0]), restarted.output())
        restarted.finish()


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("cuda.runtime_in_each_form.static",), long=ONLY_LONG, twins=WITH_LONG_FORM))
