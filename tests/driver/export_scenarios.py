#!/usr/bin/env python3
"""`cropdl export` and `cropdl import`: an imported version equals the exported one, and a file that is no archive is refused."""

import io
import json
import os
import subprocess
import sys
import tarfile

from command_scenarios import LONG, MIDDLE, fails_in_one_line, fingerprint, made_store
from driver import Log, Place, check_continued, check_results, expect, collects_into, native, scenario_main, seeded, take_checkpoint, tool
from file_scenarios import ends_well, kept_open
from restart_scenarios import wait_for_new_steps

SCENARIOS = {}
scenario = collects_into(SCENARIOS)


def exported(place, name, *options):
    """Exports the version to a file of that name."""
    status, text, _ = place.ask([tool("cropdl"), "export", place.store, "--output", place.path(name), *options])
    expect(status == 0, f"{status}: {text}")
    expect(os.stat(place.path(name)).st_mode & 0o777 == 0o600, "others may read a program's memory")
    return place.path(name)


def imported(place, store, file):
    """Imports the file into a new store, which becomes the place's store."""
    place.store = place.path(store)
    status, text, _ = place.ask([tool("cropdl"), "import", "--json", place.store, file])
    expect(status == 0, f"{status}: {text}")
    return json.loads(text)


@scenario("export.version_of_two_ranks_continues_in_another_store")
def of_ranks():
    """Exports the older of two versions, and restarts it under the other MPI."""
    with Place("export") as place:
        reference = native(place, "openmpi/torture", MIDDLE, "openmpi", 2)
        job = place.run("openmpi/torture", MIDDLE, "openmpi", 2)
        job.wait_for_step(5)
        first, _, bounds = take_checkpoint(place, job)
        job.wait_for_step(40)
        take_checkpoint(place, job)
        job.kill_running()
        before = {path: Log(path) for path in bounds}
        file = exported(place, "version.tar.zst", "--version", str(first))
        os.rename(place.store, place.path("lost"))
        told = imported(place, "moved", file)
        expect(told["version"] == 1 and told["former"] == first and told["images"] == 2, f"{told}")
        job = place.restart("mpich", 2)
        job.finish()
        for path in bounds:
            check_continued(before[path], Log(path), job.started, *bounds[path])
        check_results(job, reference, 2)


@scenario("export.saved_files_are_exported_too")
def with_files():
    """A file that the program writes in place goes through a pipe, with its holes, and is restored."""
    with Place("export") as place:
        job, bounds = kept_open(place)
        content = next(os.path.join(folder, name) for folder, _, names in os.walk(place.version_path(1)) for name in names
                       if os.path.basename(folder) == "rank-0.files")
        first, place.store = place.store, place.path("moved")
        pipe = f"'{tool('cropdl')}' export '{first}' --output - | gzip | '{tool('cropdl')}' import '{place.store}' -"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True)
        expect(done.returncode == 0 and not done.stderr, f"{done.returncode}: {done.stderr}")
        copy = content.replace(first, place.store)
        with open(content, "rb") as one, open(copy, "rb") as other:
            expect(one.read() == other.read(), f"{copy} is another file")
        job = place.restart()
        wait_for_new_steps(job, bounds, 60)
        ends_well(job)


@scenario("export.import_becomes_the_newest_version")
def becomes_newest():
    with Place("export") as place:
        made_store(place, 2)
        file = exported(place, "version.tar.gz", "--version", "1")
        status, text, _ = place.ask([tool("cropdl"), "import", place.store, file])
        expect(status == 0 and text.startswith("version 3: was version 1, 1 image, "), f"{status}: {text}")
        told = json.loads(place.ask([tool("cropdl"), "list", "--json", place.store])[1])["versions"]
        expect([one["version"] for one in told] == [3, 2, 1] and told[0]["parent"] is None and told[0]["created"] == told[2]["created"], f"{told}")
        expect(place.ask([tool("cropdl"), "verify", place.store])[0] == 0, "is damaged")


@scenario("export.overwrites_nothing")
def changes_nothing():
    with Place("export") as place:
        made_store(place, 1)
        with open(place.path("mine"), "w") as f:
            f.write("years of work")
        before = fingerprint(place.store)
        export = [tool("cropdl"), "export", place.store, "--output"]
        exported(place, "first.tar")
        fails_in_one_line(place, [*export, place.path("mine")], "is there already")
        fails_in_one_line(place, [*export, place.path("store/page.tar")], "lies in the store")
        fails_in_one_line(place, [*export, place.path("nowhere/version.tar")], "nowhere")
        fails_in_one_line(place, [*export, place.path("version.tar"), "--version", "7"], "has no version 7")
        small = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh"]
        fails_in_one_line(place, [*small, *export, place.path("version.tar")], "version.tar", "File too large")
        expect(fingerprint(place.store) == before, "the store was changed")
        with open(place.version_path(1, "rank-0.img"), "r+b") as image:
            image.seek(4096)
            image.write(b"changed")
        fails_in_one_line(place, [*export, place.path("version.tar")], "version 1")
        with open(place.path("mine")) as f:
            expect(f.read() == "years of work", "a file was overwritten")
        expect(not [name for name in os.listdir(place.root) if "version.tar" in name or name.endswith(".part")], f"{os.listdir(place.root)}")


@scenario("export.import_into_the_store_of_a_running_or_another_job_is_refused")
def into_others():
    with Place("export") as place:
        made_store(place, 1)
        file = exported(place, "version.tar")
        first, place.store = place.store, place.path("other")
        job = place.run("plain/plain", LONG, log=place.path("other-log"))
        job.wait_for_step(2)
        status, text, _ = place.checkpoint()
        expect(status == 0, text)
        fails_in_one_line(place, [tool("cropdl"), "import", place.store, file], "belongs to another job")
        place.store = first
        job = place.restart()
        job.wait_for_step(Log(job.log).last_step() + 2)
        fails_in_one_line(place, [tool("cropdl"), "import", place.store, file], "is used by a running job")


def member(name, data=b"", **facts):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in facts.items():
        setattr(info, key, value)
    return info, io.BytesIO(data)


@scenario("export.invalid_archives_are_refused")
def hostile():
    rng = seeded()
    with Place("export") as place:
        made_store(place, 1)
        good = exported(place, "version.tar")
        with open(good, "rb") as f:
            whole = f.read()
        with tarfile.open(good) as archive:
            members = [(info, archive.extractfile(info).read()) for info in archive.getmembers()]
        names = [info.name for info, _ in members]
        expect(names == ["v000001/manifest.json", "v000001/rank-0.img", "v000001/rank-0.files/0"], f"{names}")

        def written(name, entries):
            with tarfile.open(place.path(name), "w") as archive:
                for info, data in entries:
                    archive.addfile(info, data if hasattr(data, "read") else io.BytesIO(data))

        def raw(name, data):
            with open(place.path(name), "wb") as f:
                f.write(data)

        manifest, image, content = members
        raw("empty", b"")
        raw("noise", bytes(rng.randrange(256) for _ in range(20000)))
        raw("cut", whole[:rng.randrange(len(whole) // 10, len(whole) - 20000)])
        at = rng.randrange(len(whole) // 4, len(whole) // 2)
        raw("flipped", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        written("without-image", [manifest])
        written("image-first", [image, manifest])
        written("twice", [manifest, image, image])
        written("short", [manifest, member("v000001/rank-0.img", image[1][:-1])])
        written("more", [manifest, image, content, member("v000001/rank-1.img", b"x")])
        written("unnamed", [manifest, image, content, member("v000001/rank-0.files/1", b"x")])
        written("without-content", [manifest, image])
        written("other-content", [manifest, image, member("v000001/rank-0.files/0", content[1][:-1] + b"?")])
        written("beside", [manifest, image, member("v000002/rank-0.img", b"x")])
        written("climbs", [manifest, image, member("v000001/../../climbed", b"x")])
        written("climbs-deeper", [manifest, image, member("v000001/rank-0.files/../../../climbed", b"x")])
        written("absolute", [manifest, image, member(place.path("climbed"), b"x")])
        written("link", [manifest, image, member("v000001/rank-0.files", type=tarfile.SYMTYPE, linkname=place.root)])
        written("hard-link", [manifest, member("v000001/rank-0.img", type=tarfile.LNKTYPE, linkname=place.path("version.tar"))])
        written("fifo", [manifest, member("v000001/rank-0.img", type=tarfile.FIFOTYPE)])
        written("own-manifest", [manifest, image, member("v000001/manifest.json", b"{}")])
        for case in ("empty", "noise", "cut", "flipped", "without-image", "image-first", "twice", "short", "more", "unnamed", "without-content", "other-content", "beside", "climbs",
                     "climbs-deeper", "absolute", "link", "hard-link", "fifo", "own-manifest"):
            place.store = place.path(f"store-{case}")
            fails_in_one_line(place, [tool("cropdl"), "import", place.store, place.path(case)], case)
            left = [name for _, folders, names in os.walk(place.store) for name in folders + names]
            expect(set(left) <= {"lock"}, f"{case}: left {left}")
            expect(not os.path.exists(place.path("climbed")), f"{case}: wrote outside of the store")
        place.store = place.path("store-cut")  # a failed import does not block the next one
        job = place.run("plain/plain", LONG)
        job.wait_for_step(2)
        job.kill_running()


@scenario("export.archive_of_another_user_is_refused")
def of_others():
    with Place("export") as place:
        made_store(place, 1)
        file = exported(place, "version.tar")
        place.store = place.path("moved")
        os.chmod(file, 0o666)
        fails_in_one_line(place, [tool("cropdl"), "import", place.store, file], "others may write to it")
        with open(file, "rb") as theirs:
            done = subprocess.run([tool("cropdl"), "import", place.store, "-"], stdin=theirs, capture_output=True, text=True)
        expect(done.returncode != 0 and "standard input: others may write to it" in done.stdout + done.stderr, f"{done}")
        os.chmod(file, 0o644)
        if os.geteuid() == 0:
            os.chown(file, 65534, 65534)
            fails_in_one_line(place, [tool("cropdl"), "import", place.store, file], "belongs to user id 65534")
        expect(not os.path.exists(place.store), "a store was made")


@scenario("export.contains_only_the_version")
def alone():
    """A version saved by reference says so, and extra files in its folder are not exported."""
    with Place("export") as place:
        job = place.run("plain/plain", LONG, options=("--by-reference",))
        job.wait_for_step(3)
        take_checkpoint(place, job)
        job.kill_running()
        with open(place.version_path(1, "README"), "w") as f:
            f.write("best one so far")
        os.symlink("/etc/passwd", place.version_path(1, "link"))
        status, text, _ = place.ask([tool("cropdl"), "export", place.store, "--output", place.path("version.tar")])
        expect(status == 0 and "by reference" in text, text)
        piped = subprocess.run([tool("cropdl"), "export", place.store, "--output", "-"], capture_output=True)
        expect(piped.returncode == 0 and piped.stdout and b"by reference" in piped.stderr and piped.stderr.count(b"\n") == 1, f"{piped.stderr}")
        imported(place, "moved", place.path("version.tar"))
        expect(set(os.listdir(place.version_path(1))) <= {"manifest.json", "rank-0.img", "rank-0.files"}, f"{os.listdir(place.version_path(1))}")


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("export.version_of_two",)))
