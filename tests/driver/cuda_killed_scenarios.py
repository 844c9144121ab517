#!/usr/bin/env python3
"""Every program of tests/apps/cuda (none knows of steps or logs): a checkpoint is requested at a random moment, the program is killed and
restarted, and its result must equal the native run's. Programs for which the result is a refusal are in the tables here, with its exact
words. The software GPU is slowed down until the restart, so that the moment falls into the run. Without checkpoints, every way of building
a program gives the native result (cuda.run.*).

`FILE --table [NAME…]` runs all programs, or these, and prints a line for each and the counts. Fails if one failed, or if of all programs fewer
than forty ended equal."""

import itertools
import re
import sys
import time

from cuda_scenarios import PATIENCE, ended, programs, start
from driver import Failure, Place, Skipped, app, expect, launcher, scenario_main, seeded, tail, tool

QUIET = {"CROPDL_SOFTWARE_GPU_QUIET": "1"}
KINDS = ("launch", "copy", "memset", "malloc", "free", "host", "library", "nccl", "graph")
# how many times slower the GPU runs (which slows a checkpoint's copies too); runs of each program, with one request in each
SLOWEST, ATTEMPTS = 2e4, 16
SPAN = 1.0  # seconds after the start within which a checkpoint is requested
TOO_SLOW = "the device has not come to its end within 5 s: a kernel runs that long, or waits for the host; ask again"

# The words of a possible refusal, for as long as the program has this object.
_MALLOC = ("kernels of the program call malloc, and the device's heap cannot be saved yet",)
REFUSED = {
    "device_malloc": _MALLOC,
    "virtual_functions": _MALLOC,
    "graph_capture": ("cudaStreamEndCapture: what it made cannot be saved", "cudaStreamBeginCapture: what it made cannot be saved",
                      "cudaGraphInstantiate: what it made cannot be saved"),
    "graph_explicit": ("cudaGraphCreate: what it made cannot be saved", "cudaGraphInstantiate: what it made cannot be saved"),
    "nccl_graph": ("cudaStreamEndCapture_ptsz: what it made cannot be saved", "cudaStreamBeginCapture_ptsz: what it made cannot be saved",
                   "cudaGraphInstantiate: what it made cannot be saved"),
}
# Programs that have such an object for a moment: the checkpoint is requested again and must succeed then.
AT_TIMES = {"cublas_gemm": REFUSED["graph_capture"], "nccl_config": ("ncclCommRevoke: a communicator that was revoked cannot be made again",)}
# Programs that fork children which use a GPU: the children are told that they have none, and the program's own check of them ends it with
# these words. The parent of nccl_killed waits for its child's rank instead, which fails with these.
FORKS = {
    "assert": "differs: an assertion that holds: ended with 1: ",
    "illegal_address": "differs: what is allowed: ended with 1: ",
    "nccl_config": "differs: a mismatched call: ended with 1: ",
    "nccl_graph": "differs: graphs that outlive a communicator: ended with 1: ",
    "nccl_killed": "ncclCommInitRank(&comm, ranks, id, rank): an error in a child of fork(), which has no GPU with CropDL",
    "peer": "differs: a peer's memory without access: ended with 1: ",
    "printf": "differs: printing too much: ended with 1: ",
    "trap": "differs: trap: ended with 1: ",
}
WAITS = {"nccl_killed"}
# These do most of their work in the parent: killed and compared without their children.
WITHOUT_CHILDREN = {"nccl_config", "nccl_graph", "peer"}
LEAST_EQUAL = 40
NO_GPU = "a child of fork() has no GPU: its calls of CUDA fail (error 3); start processes that use one by exec (spawn), or as ranks"
# Functions that run in a child, by their number. Not those after which the program reads what the child has printed, and not accesses beside a
# block or to a freed one: in CropDL's arena, as on a GPU, there is other memory.
CHILDREN = {"assert": (1, 2), "illegal_address": (1, 5, 6, 8, 9), "peer": (1,), "printf": (1,), "trap": (1,)}
# It prints free device memory at two moments, which other processes change as well.
LOOKS_ELSEWHERE = {"device_facts"}
PROGRAMS = {name: one for name, one in programs().items() if name not in LOOKS_ELSEWHERE}
QUICK = ("vector_add",)
PLAIN = {"callbacks", "cublas_gemm", "curand_host", "driver_api", "graph_capture", "managed", "memory_pools", "multi_device", "nvrtc", "printf",
         "thread_streams", "vector_add"}  # the others run with scripts/test --long
RUN = {"assert", "graph_capture", "managed", "memory_pools", "plugin", "symbols", "thread_streams", "vector_add"}  # likewise, of cuda.run.*


def digest_of(job, status, output):
    found = re.findall(r"^ok ([0-9a-f]+)$", output, re.M)
    expect(status == 0 and len(found) == 1, f"ended with {status}: {' '.join(job.command)}\n{tail(output)}")
    return found[0]


def ask(place, job, moment):
    """Requests a checkpoint at that time, and again until it is answered. Returns (status, text), or None if the program has ended."""
    while time.monotonic() < moment and job.alive():
        time.sleep(0.001)
    while job.alive():
        status, text, _ = place.checkpoint()
        if "has ended its program" in text:
            return None
        if status == 0 or re.search("checkpoint (refused|failed)", text):
            return status, text
    return None


def under_cropdl(place, one, mpi, ranks, environment, arguments=(), way=None, devices=None, options=()):
    path = app(f"cuda/{way or one.ways[0]}/{one.name}" + (f".{mpi}" if mpi != "none" else ""))
    devices = devices or (one.devices if mpi == "none" else ranks)
    return place.start(launcher(mpi, ranks) + [tool("cropdl-run"), "--interval", "0", f"--software-gpu={devices}", *options, "--dir", place.store,
                                              "--", path, *arguments], environment=environment)


def once(one, mpi, ranks, arguments, reference, delay, slow):
    """One run. Returns "equal" after a kill, the words of a refusal, or "" if the program had ended before."""
    with Place("killed") as place:
        slowly = {"CROPDL_SOFTWARE_GPU_SLOW": ",".join(f"{kind}:{slow:.0f}" for kind in KINDS)}
        job = under_cropdl(place, one, mpi, ranks, QUIET | slowly, arguments)
        answer = ask(place, job, time.monotonic() + delay)
        if answer is None:
            expect(digest_of(job, *ended(job, PATIENCE)) == reference, "DIFFERENT under CropDL, without a checkpoint")
            return ""
        job.kill_ranks()
        job.kill_all()
        if answer[0] != 0:
            return re.sub(r"^.*?\brank \d+: ", "", answer[1], count=1, flags=re.S)
        job = place.restart(mpi, ranks, environment=QUIET)
        digest = digest_of(job, *ended(job, PATIENCE))
        expect(digest == reference, f"digest {digest}, natively {reference}: DIFFERENT")
        return "equal"


def killed(one, rng):
    """Returns (whether it was killed and restarted, the words of refusals before that)."""
    mpi, ranks = one.variants()[0]
    arguments = ("--no-children",) if one.name in FORKS else ()
    with Place("native") as place:
        job = start(place, one.name, one.ways[0], mpi, ranks, one.devices, arguments=arguments)
        reference = digest_of(job, *ended(job, PATIENCE))
    said, slow, soon = [], 300.0, 1.0
    while len(said) < ATTEMPTS and said[-1:] != ["equal"] and not set(said) & set(REFUSED.get(one.name, ())):
        delay = (0.05 + rng.random() * SPAN) * soon
        said.append(once(one, mpi, ranks, arguments, reference, delay, slow))
        print(f"{one.name}: asked after {delay:.2f} s, {slow:.0f} times slower: {said[-1] or 'it had ended'}", flush=True)
        if said[-1] == "" and slow < SLOWEST:
            slow = min(slow * 8, SLOWEST)
        elif said[-1] == "":
            soon /= 2
        elif said[-1] == TOO_SLOW:
            slow = max(slow / 8, 1)
    return said[-1] == "equal", sorted(set(said) - {"", "equal", TOO_SLOW})


def check_program(one, rng):
    """Returns what was seen: "equal", "refused by name", or "told of children"."""
    if one.name in FORKS:
        told_of_children(one)
        if one.name not in WITHOUT_CHILDREN:
            return "told of children"
    equal, words = killed(one, rng)
    expect(equal or (words and one.name in REFUSED), f"never saved: {words or 'it never occurred'}")
    for line in words:
        expect(line in REFUSED.get(one.name, ()) + AT_TIMES.get(one.name, ()), f"refused in other words: {line}")
    return "equal" if equal else "refused by name"


def told_of_children(one):
    with Place("forks") as place:
        job = under_cropdl(place, one, *one.variants()[0], QUIET)
        if one.name in WAITS:
            end = time.monotonic() + PATIENCE
            while FORKS[one.name] not in job.output() and time.monotonic() < end:
                time.sleep(0.05)
            expect(job.alive(), f"ended: {tail(job.output())}")
        else:
            status, output = ended(job, PATIENCE)
            expect(status == 1, f"ended with {status}: {tail(output)}")
        expect(NO_GPU in job.output() and FORKS[one.name] in job.output(), tail(job.output()))


def table(names):
    """Returns the exit status."""
    rng = seeded()
    counts = {"equal": 0, "refused by name": 0, "told of children": 0, "skipped": 0, "failed": 0}
    for one in (PROGRAMS[name] for name in names or PROGRAMS):
        try:
            seen = check_program(one, rng)
        except (Failure, OSError, Skipped) as why:
            seen = "skipped" if isinstance(why, Skipped) else "failed"
            print(why)
        counts[seen] += 1
        print("TABLE", one.name, seen, flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] or (not names and counts["equal"] < LEAST_EQUAL) else 0


def runs(one):
    """Every way of building, under cropdl-run, without checkpoints: the native digest for that number of ranks."""
    references = {}
    for way, (mpi, ranks) in itertools.product(one.ways, one.variants()):
        with Place("run") as place:
            if ranks not in references:
                job = start(place, one.name, way, mpi, ranks, one.devices)
                references[ranks] = digest_of(job, *ended(job, PATIENCE))
            job = under_cropdl(place, one, mpi, ranks, QUIET, way=way)
            digest = digest_of(job, *ended(job, PATIENCE))
            expect(digest == references[ranks], f"{way}, {mpi}, {ranks} ranks: digest {digest}, natively {references[ranks]}: DIFFERENT")


def runs_with_software_nccl(one):
    """NCCL over the driver's public functions (--software-nccl), which NVIDIA's driver has too: the native digest, also where ranks share one
    device. One MPI for each number of ranks."""
    arguments = ("--no-children",) if one.name in FORKS else ()
    needs_all = one.name in ("nccl_all", "nccl_config")  # their ranks are devices
    for mpi, ranks in {ranks: (mpi, ranks) for mpi, ranks in one.variants()}.values():
        with Place("run") as place:
            job = start(place, one.name, one.ways[0], mpi, ranks, one.devices, arguments=arguments)
            reference = digest_of(job, *ended(job, PATIENCE))
            for devices in {one.devices if mpi == "none" else ranks, one.devices if needs_all else 1}:
                job = under_cropdl(place, one, mpi, ranks, QUIET, arguments, devices=devices, options=("--software-nccl",))
                digest = digest_of(job, *ended(job, PATIENCE))
                expect(digest == reference, f"{mpi}, {ranks} ranks on {devices} devices: digest {digest}, natively {reference}: DIFFERENT")


def refuses_captures_with_software_nccl():
    with Place("run") as place:
        job = under_cropdl(place, PROGRAMS["nccl_graph"], "none", 1, QUIET, ("--no-children",), options=("--software-nccl",))
        status, output = ended(job, PATIENCE)
        expect(status == 1 and "invalid usage" in output, f"ended with {status}: {output}")
        expect("software NCCL: a call cannot be captured into a CUDA graph; launch it without one" in output, output)


def runs_what_children_do(one):
    """Most of these functions end the use of the device by a mistake: each ends as natively, in its status and in what it prints. (Which block
    makes the mistake first, and whether others still make it, is the scheduler's choice.)"""
    for way, number in itertools.product(one.ways, CHILDREN[one.name]):
        with Place("run") as place:
            results = []
            for job in (start(place, one.name, way, devices=one.devices, environment={"RUN_CHILD": str(number)}),
                        under_cropdl(place, one, "none", 1, QUIET | {"RUN_CHILD": str(number)}, way=way)):
                status, output = ended(job, PATIENCE)
                results.append((status, sorted(set(re.sub(r"0x[0-9a-f]+|(block:? [\[(])\d+", r"\1…", output).splitlines()))))
            expect(results[0] == results[1], f"{way}, {number}: {results[1]}, natively {results[0]}: DIFFERENT")


SCENARIOS = {f"cuda.killed.{name}": lambda one=one: check_program(one, seeded()) for name, one in PROGRAMS.items()}
SCENARIOS.update({f"cuda.run.{name}": lambda one=one: runs(one) for name, one in programs().items() if name not in FORKS})
SCENARIOS.update({f"cuda.run.{name}": lambda one=PROGRAMS[name]: runs_what_children_do(one) for name in CHILDREN if name in PROGRAMS})
SCENARIOS.update({f"cuda.software_nccl.{name}": lambda one=PROGRAMS[name]: runs_with_software_nccl(one)
                  for name in ("nccl_all", "nccl_config", "nccl_mpi", "nccl_threads") if name in PROGRAMS})
if "nccl_graph" in PROGRAMS:
    SCENARIOS["cuda.software_nccl.captures_are_refused"] = refuses_captures_with_software_nccl

if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        sys.exit(table(sys.argv[2:]))
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=[f"cuda.killed.{name}" for name in QUICK],
                          long=[name for name in SCENARIOS if not name.startswith("cuda.software_nccl.")
                                and name.rpartition(".")[2] not in (RUN if name.startswith("cuda.run.") else PLAIN)]))
