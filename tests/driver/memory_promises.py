#!/usr/bin/env python3
"""The program's memory: the kind, contents and advice of every mapping are restored, or the checkpoint is refused with a line that names
the mapping."""

import json
import os
import resource
import subprocess
import sys

from command_promises import fails_in_one_line, refused, refused_here, without_privileges
from driver import BUILD, Log, Place, Skipped, app, check_whole, expect, native, promise_main, take_checkpoint, tool
from restart_promises import survives

PROMISES = {}
STEPS = ("--steps", "48", "--pace", "25000")


def promise(name, function, *args, **kwargs):
    PROMISES[name] = lambda: function(*args, **kwargs)


promise("memory.thousands_of_separate_pages_in_one_mapping", survives, "scattered_pages", arguments=STEPS)
promise("memory.impossible_lengths_fail_as_natively", survives, "impossible_lengths", arguments=STEPS)
promise("memory.huge_pages_fail_as_natively", survives, "huge_pages", arguments=STEPS, chain=("same",))
promise("memory.stack_grows_after_all_addresses_were_used_once", survives, "wraps_around", arguments=STEPS, chain=("same",))
promise("memory.flags_of_every_kind_of_mapping", survives, "mapping_flags", arguments=STEPS, attempts=20)
promise("memory.library_with_large_alignment", survives, "plain", arguments=STEPS,
        environment={"LD_PRELOAD": os.path.join(BUILD, "tests", "apps", "plain", "aligned_library.so")})
promise("memory.locks_on_future_memory", survives, "mapping_flags", arguments=("--future", "1") + STEPS, attempts=20)
promise("memory.growsdown_mappings_keep_growing", survives, "grows_down", arguments=STEPS)
promise("memory.guard_pages", survives, "guard_pages", arguments=STEPS)
promise("memory.thousands_of_fixed_mappings_mostly_unmapped_again", survives, "fixed_ranges", arguments=STEPS)
promise("memory.private_mappings_of_a_file_that_grows", survives, "file_mappings", arguments=STEPS + ("--work", "@"))
promise("memory.addresses_taken_in_the_new_process_are_freed_by_another_layout", survives, "nowhere_else", arguments=STEPS)
promise("memory.read_only_shared_mapping_of_a_file", survives, "shared_mappings", arguments=("read-only",) + STEPS + ("--work", "@"))


def on_a_disk(place):
    """Mappings of files on a tmpfs are saved, so this needs a disk."""
    if subprocess.run(["stat", "-f", "-c", "%T", place.root], check=True, capture_output=True, text=True).stdout.strip() == "tmpfs":
        raise Skipped(f"{place.root} is in memory")


def image_without_it(place, version):
    on_a_disk(place)
    size = os.path.getsize(place.version_path(version, "rank-0.img"))
    expect(size < 20e6, f"the image has {size} bytes: the data set of 40 MB is in it")


def data_set():
    """A shared mapping of a file that the program cannot write is not saved. If the file is missing or changed, restart and `cropdl verify`
    name it; the user may decide to use the changed file."""
    with Place("data") as place:
        arguments = ["data-set", *STEPS, "--work", place.root]
        native(place, "plain/shared_mappings", arguments, "none", 1)  # creates the file: data written while the job runs would be saved
        job = place.run("plain/shared_mappings", arguments)
        job.wait_for_step(5)
        version, _, _ = take_checkpoint(place, job)
        image_without_it(place, version)
        job.kill_running()
        restart = [tool("cropdl-restart"), place.store]
        uses = json.loads(place.ask([tool("cropdl"), "inspect", "--json", place.store])[1])["memory"]
        name = next(use["name"] for use in uses if use["use"] == "file" and use["by_reference"] == 40 << 20)
        was = os.stat(name)

        def verified(status, words=""):
            got, text, _ = place.ask([tool("cropdl"), "verify", "--json", place.store])
            (told,) = json.loads(text)["versions"]
            expect(got == status and told["good"] == (status == 0) and told["data_sets"] == [name] and words in (told["damage"] or ""), f"{got}: {text}")

        verified(0)
        text = place.ask([tool("cropdl"), "verify", place.store])[1]
        expect(f"needs {name}, which is not saved" in text, text)
        archive = place.path("version.tar")
        text = place.ask([tool("cropdl"), "export", place.store, "--output", archive])[1]
        expect(f"({name}, not saved): it can be imported where those are" in text, text)
        os.rename(name, name + ".away")
        verified(1, f"{name}, which the program has mapped and only reads, is not saved, and cannot be found")
        fails_in_one_line(place, [tool("cropdl"), "import", place.path("elsewhere"), archive], f"{name}, which the program has mapped")
        refused_here(place, restart, f"{name}, which the program has mapped and only reads, is not saved, and cannot be found", "put it back")
        os.rename(name + ".away", name)
        os.utime(name, ns=(was.st_atime_ns, was.st_mtime_ns + 1))
        verified(1, f"{name}, which the program has mapped and only reads, is not saved, and is not as it was")
        refused_here(place, restart, f"{name}, which the program has mapped and only reads, is not saved, and is not as it was",
                     "cropdl-restart --files=keep")
        before = Log(job.log).last_step()
        job = place.restart(options=("--files=keep",))
        job.finish()
        check_whole(Log(job.log))
        expect(Log(job.log).last_step() > before, "no step after the restart")


promise("memory.read_only_data_set_stays_in_its_file", survives, "shared_mappings", arguments=("data-set",) + STEPS + ("--work", "@"),
        every_version=image_without_it)
promise("memory.changed_read_only_data_set_is_named", data_set)
for _how, _of in {"read-write-descriptor": "@/shared-<n>", "none": "@/shared-<n>", "anonymous": "/dev/zero (deleted)",
                  "memfd": "/memfd:shared (deleted)"}.items():
    promise(f"memory.refused.shared_mapping.{_how.replace('-', '_')}", refused, "shared_mappings", _how,
            f"the shared mapping of {_of} cannot be saved yet")


def limited(resource_number, limit, program, arguments):
    """Under a resource limit that the program alone would meet (as set by `ulimit`)."""
    resource.setrlimit(resource_number, (limit, limit))
    survives(program, arguments=arguments)


promise("memory.address_space_limited_to_8_gb", limited, resource.RLIMIT_AS, 8_000_000 << 10, "plain", STEPS)
promise("memory.data_limited_to_4_gb", limited, resource.RLIMIT_DATA, 4 << 30, "plain", STEPS)
promise("memory.stacks_limited_to_64_kb", limited, resource.RLIMIT_STACK, 64 << 10, "plain", STEPS)


def too_little_for_a_checkpoint():
    """A program whose limit leaves no memory for a checkpoint continues, and is saved once memory is free."""
    with Place("little") as place:
        job = place.run("plain/little_memory", ["--pace", "25000", "--work", place.root])
        job.wait_for_step(3)
        # Succeeds or fails. Either way CropDL allocates what it needs on the second thread, so that later that thread itself lacks memory.
        place.checkpoint()

        def change(name):
            open(place.path(name), "w").close()
            job.wait_for_step(Log(job.log).last_step() + 4)

        for lacks in ("full", "alone"):  # the second thread, then the main thread
            change(lacks)
            status, text, _ = place.checkpoint()
            expect(status != 0 and "memory" in text.lower() and len(text.splitlines()) == 1, f"{status}: {text}")
            job.must_run()
        change("more")
        take_checkpoint(place, job)
        job.kill_running()
        job = place.restart()
        job.finish()
        check_whole(Log(job.log))


promise("memory.checkpoint_without_memory_fails_and_the_program_continues", too_little_for_a_checkpoint)


def stack_under_a_smaller_limit():
    """The stack can grow as far as before the restart, whatever the new limit; where that is impossible, the restart is refused."""
    arguments = STEPS
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    with Place("deep") as place:
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, hard))
        reference = native(place, "plain/deep_stack", arguments, "none", 1)[0]
        job = place.run("plain/deep_stack", arguments)
        job.wait_for_step(5)
        take_checkpoint(place, job)
        job.kill_running()
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, hard))
        refused_here(place, ["prlimit", f"--stack={8 << 20}:{8 << 20}"] + without_privileges([tool("cropdl-restart"), place.store]),
                     "stack", "ulimit -Hs 65536")
        job = place.restart()
        job.finish()
        check_whole(Log(job.log))
        expect(Log(job.log).digest == reference.digest, f"digest {Log(job.log).digest}, undisturbed {reference.digest}: DIFFERENT")


promise("memory.stack_grows_as_before_under_a_smaller_limit", stack_under_a_smaller_limit)


def places(job):
    """The addresses that the program printed: {part: address}, at its start and at its end."""
    job.finish()
    check_whole(Log(job.log))
    with open(job.log) as f:
        said = [line.split()[1].split("=") for line in f if line.startswith("at ")]
    half = len(said) // 2
    return dict(said[:half]), dict(said[half:])


def addresses_drawn(program, fixed):
    """Every new run has different addresses; a restart has those of the killed run. `fixed`: the parts whose addresses are fixed in the
    executable."""
    with Place("where") as place, Place("again") as again:
        one, _ = places(place.run(program, ("--steps", "3", "--pace", "1000")))
        job = again.run(program, STEPS)
        job.wait_for_step(5)
        take_checkpoint(again, job)
        job.kill_running()
        other, kept = places(again.restart())
        for part in one:
            expect((one[part] == other[part]) == (part in fixed), f"{part} is at {one[part]} in a run, at {other[part]} in the next")
        expect(kept == other, f"at {other}; after a restart at {kept}")


def addresses_not_drawn():
    """Address space randomisation is off, by setarch(1)."""
    seen = []
    for _ in range(2):
        with Place("where") as place:
            seen += places(place.start(["setarch", "-R", tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/where"),
                                        "--steps", "3", "--log", place.path("log")]))
    expect(all(one == seen[0] for one in seen), f"not the same: {seen}")


promise("memory.addresses_are_random_per_run_and_kept_by_a_restart", addresses_drawn, "plain/where", ())
promise("memory.addresses_of_a_position_dependent_program_are_its_own", addresses_drawn, "plain/where_nonpie", ("code",))
promise("memory.addresses_are_the_same_without_randomization", addresses_not_drawn)

if __name__ == "__main__":
    sys.exit(promise_main(PROMISES, at_random=True, quick=("memory.guard_pages", "memory.flags_of")))
