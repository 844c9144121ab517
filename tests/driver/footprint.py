"""What a running job takes: stall and images of a version, memory, descriptors, threads, files of shared memory. Programs that make and
destroy many objects must not make any of it grow."""

import collections
import os
import re
import time

from driver import PATIENCE, data_of, expect, stall_of, take_checkpoint

# memory to shared: the largest of any rank.
Held = collections.namedtuple("Held", "memory descriptors threads shared")
# The least of three versions, of which `version` is the last: seconds, bytes of all images without device memory, bytes of device memory.
# before, after: what was held (Held) before the first and after the last.
Footprint = collections.namedtuple("Footprint", "version stall images device before after")


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


def held_by(job, ranks):
    pids = job.ranks()
    expect(len(pids) >= ranks, f"{len(pids)} ranks found, {ranks} started")
    return Held(*(max(count(pid) for pid in pids) for count in (
        resident, lambda pid: len(os.listdir(f"/proc/{pid}/fd")), lambda pid: len(os.listdir(f"/proc/{pid}/task")),
        lambda pid: len(shared_files(pid)))))


def measure(place, job, ranks):
    before, found = held_by(job, ranks), []
    for _ in range(3):
        version, text, _ = take_checkpoint(place, job)
        folder = place.version_path(version)
        device = sum(size for rank in range(ranks) for kind in (1, 2) for _, _, size in data_of(place.version_path(version, f"rank-{rank}.img"), kind))
        found.append((stall_of(text), sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)) - device, device))
    return Footprint(version, *map(min, zip(*found)), before, held_by(job, ranks))


def check_stall(before, after, place=None, job=None):
    """A loaded machine lengthens a stall occasionally; a stall that grows with the number of objects is far beyond this. While the job runs, a
    long one is measured again."""
    stall, end = after.stall, time.monotonic() + PATIENCE
    while stall >= 2 * before.stall + 0.25 and job and time.monotonic() < end:
        stall = min(stall, stall_of(take_checkpoint(place, job)[1]))
    expect(stall < 2 * before.stall + 0.25, f"the stall went from {before.stall:.3f} s to {stall:.3f} s")
