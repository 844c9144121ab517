#!/usr/bin/env python3
"""What an image contains, what it only refers to (--by-reference), and how it is compressed (--compress)."""

import json
import os
import re
import shutil
import sys

from driver import Log, Place, app, as_pattern, check_continued, check_whole, expect, collects_into, scenario_main, take_checkpoint, tool
from restart_scenarios import survives

SCENARIOS = {}
scenario = collects_into(SCENARIOS)


def saved(place, options):
    """Runs a copy of the program in the test's directory, takes a version, kills it. Returns the image's size, the log, the bounds of the
    step."""
    program = place.path("program")
    shutil.copy(app("plain/plain"), program)
    job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store] + options + ["--", program, "--steps", "200", "--pace", "10000",
                                                                             "--log", place.path("log")])
    job.wait_for_step(5)
    version, _, bounds = take_checkpoint(place, job)
    size = os.path.getsize(place.version_path(version, "rank-0.img"))
    job.kill_running()
    return size, Log(job.log), bounds[job.log]


def saved_smaller(place, option, largest):
    """saved() with this option, whose image has less than largest(size of one without it) bytes, and which `cropdl verify` accepts. Returns
    the image's size, the most that it may have, the log, the bounds of the step."""
    small, before, bounds = saved(place, [option])
    with Place("whole") as other:
        whole, _, _ = saved(other, [])
    expect(small < largest(whole), f"an image has {small} bytes with {option}, {whole} without")
    status, text, _ = place.ask([tool("cropdl"), "verify", place.store])
    expect(status == 0, f"verify: {text}")
    return small, largest(whole), before, bounds


def saved_once_more(place, job, small, most):
    """The restarted program is saved in the same way, and killed. Returns the version and the bounds of the step."""
    version, _, bounds = take_checkpoint(place, job)
    again = os.path.getsize(place.version_path(version, "rank-0.img"))
    expect(again < most, f"after a restart an image has {again} bytes, {small} before")
    job.kill_running()
    return version, bounds


def goes_on(place, before, bounds):
    job = place.restart(alone=True)
    job.wait_for_step(bounds[1] + 3)
    check_continued(before, Log(job.log), job.started, *bounds)
    return job


def refused(place, words):
    """The restart and `cropdl verify` both refuse the version."""
    for command, prefix in (([tool("cropdl-restart"), place.store], "cropdl-restart: "), ([tool("cropdl"), "verify", place.store], "")):
        status, text, _ = place.ask(command)
        text = text.replace(place.root, "@")
        expect(status != 0 and len(text.splitlines()) == 1 and re.search(re.escape(prefix) + ".*" + as_pattern(words) + "$", text),
               f"{command[0]} says with status {status}:\n  {text}\nwanted:\n  {prefix}...{words}")


@scenario("saving.by_reference_omits_contents_of_programs_and_libraries")
def by_reference():
    with Place("reference") as place:
        small, most, before, bounds = saved_smaller(place, "--by-reference", lambda whole: whole - 1_000_000)  # libc's code alone is larger
        job = goes_on(place, before, bounds)
        _, bounds = saved_once_more(place, job, small, most)
        job = goes_on(place, Log(job.log), bounds[job.log])
        job.finish()
        check_whole(Log(job.log))


@scenario("saving.by_reference_a_changed_program_is_refused_by_name")
def changed():
    with Place("changed") as place:
        _, before, bounds = saved(place, ["--by-reference"])
        program = place.path("program")
        with open(program, "rb") as f:
            content = f.read()
        for at in (100, len(content) // 2):  # as an upgrade does: a new file of the same name
            with open(program + ".new", "wb") as f:
                f.write(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
            os.chmod(program + ".new", 0o755)
            os.rename(program + ".new", program)
            if at == 100:
                refused(place, "@/program was changed after the checkpoint, and the image has its contents by reference; put it "
                               "back and try again")
        os.unlink(program)
        refused(place, "@/program cannot be read, and the image has its contents by reference: No such file or directory; put it "
                       "back and try again")
        with open(program, "wb") as f:  # another file with the same contents is as good
            f.write(content)
        job = goes_on(place, before, bounds)
        job.finish()
        check_whole(Log(job.log))


@scenario("saving.full_images_do_not_need_the_program_file")
def whole():
    with Place("nofile") as place:
        _, before, bounds = saved(place, [])
        os.unlink(place.path("program"))
        job = goes_on(place, before, bounds)
        expect("gone or changed: the contents come from the image" in job.output(), job.output())
        job.finish()
        check_whole(Log(job.log))


@scenario("saving.compressed_versions_are_smaller_and_restart_compressed")
def compressed():
    with Place("compressed") as place:
        small, most, before, bounds = saved_smaller(place, "--compress", lambda whole: whole * 0.7)
        status, text, _ = place.ask([tool("cropdl"), "inspect", "--json", place.store])
        told = json.loads(text)
        image = told["images"][0]
        expect(image["bytes"] == small == image["in_file"] + image["index"] + image["metadata"] + image["frame"], f"does not add up: {image}")
        expect(image["in_file"] == sum(use["in_file"] for use in told["memory"]) < image["memory"] * 0.7, f"{image} {told['memory']}")
        status, text, _ = place.ask([tool("cropdl"), "inspect", place.store])
        expect(re.search(r"^images:  \S+ MB = \S+ MB of memory \(of \S+ MB, compressed\) \+ ", text, re.MULTILINE), text)
        job = goes_on(place, before, bounds)
        version, _ = saved_once_more(place, job, small, most)
        path = place.version_path(version, "rank-0.img")
        with open(path, "r+b") as f:  # damage in the last version: the one before is restarted
            f.seek(5000)
            byte = f.read(1)
            f.seek(5000)
            f.write(bytes([byte[0] ^ 1]))
        job = place.restart(alone=True)
        job.finish()
        expect("continues from version 1" in job.output(), job.output())
        check_whole(Log(job.log))


@scenario("saving.variable_of_compression_counts_unless_it_is_zero")
def by_variable():
    for value, wanted in (("1", 3), ("0", 2)):
        with Place("variable") as place:
            job = place.run("openmpi/train", ("--epochs", "50"), "openmpi", 1, preload=True, environment={"CROPDL_COMPRESS": value})
            job.wait_for_step(5)
            version, _, _ = take_checkpoint(place, job)
            with open(place.version_path(version, "rank-0.img"), "rb") as image:
                found = int.from_bytes(image.read(12)[8:], "little")
            expect(found == wanted, f"CROPDL_COMPRESS={value}: format {found}, not {wanted}")
            job.kill_running()


SCENARIOS["saving.openmpi.compressed_equals_the_undisturbed_run"] = lambda: survives(
    "p2p_modes", "openmpi", 2, ("--steps", "48", "--pace", "25000"), ("same", "other"), options=("--compress",))
SCENARIOS["saving.mpich.by_reference_equals_the_undisturbed_run"] = lambda: survives(
    "p2p_modes", "mpich", 2, ("--steps", "48", "--pace", "25000"), options=("--by-reference",))
SCENARIOS["saving.by_reference_private_mappings_of_a_file_that_grows"] = lambda: survives(
    "file_mappings", arguments=("--steps", "48", "--pace", "25000", "--work", "@"), options=("--by-reference",))

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("saving.",)))
