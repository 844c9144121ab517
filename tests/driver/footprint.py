"""What a running job takes: stall and images of a version, memory, descriptors, threads, files of shared memory. Programs that make and
destroy many objects must not make any of it grow."""

import collections
import os
import re

from driver import expect, stall_of, take_checkpoint

# stall: seconds, the best of three versions; images: bytes of the last of them, `version`. The others are the largest of any rank.
Footprint = collections.namedtuple("Footprint", "version stall images memory descriptors threads shared")


def resident(pid):
    """Bytes of private memory of the process, both halves (an MPI's shared memory varies)."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) << 10


def shared_files(pid):
    """The files in /dev/shm that the process has open or mapped, also those without a name by now. A segment that nobody has open any more
    but that still has its name is not seen: nothing tells whose it is."""
    with open(f"/proc/{pid}/maps") as maps:
        found = {line.split(maxsplit=5)[5].strip() for line in maps if " /dev/shm/" in line}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            path = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:  # closed meanwhile
            continue
        if path.startswith("/dev/shm/"):
            found.add(path)
    return found


def measure(place, job, ranks):
    """Takes three versions. Memory and the rest are those before them."""
    pids = job.ranks()
    expect(len(pids) >= ranks, f"{len(pids)} ranks found, {ranks} started")
    held = [max(count(pid) for pid in pids) for count in (
        resident, lambda pid: len(os.listdir(f"/proc/{pid}/fd")), lambda pid: len(os.listdir(f"/proc/{pid}/task")),
        lambda pid: len(shared_files(pid)))]
    stalls = []
    for _ in range(3):
        version, text, _ = take_checkpoint(place, job)
        stalls.append(stall_of(text))
    folder = place.version_path(version)
    return Footprint(version, min(stalls), sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)), *held)


def check_stall(before, after):
    """A loaded machine lengthens a stall occasionally; a stall that grows with the number of objects is far beyond this."""
    expect(after.stall < 2 * before.stall + 0.25, f"the stall went from {before.stall:.3f} s to {after.stall:.3f} s")
