#!/usr/bin/env python3
"""Unmodified CUDA programs (tests/apps/cuda) on the software GPU. Each checks its own results, is built in three ways, and runs with
in-order and with random scheduling. Data races fail visibly. The trainer learns, and every run gives the same result.

`FILE --only NAME [WAY] [SEED]` runs one program and shows its output."""

import glob
import gzip
import itertools
import os
import re
import struct
import subprocess
import sys
import time

from driver import BUILD, PATIENCE, SOURCE, Failure, Place, app, expect, launcher, scenario_main, tail

PROGRAMS = os.path.join(SOURCE, "tests", "apps", "cuda")
SOFTWARE_GPU = os.path.join(SOURCE, "scripts", "software-gpu")
ON_SOFTWARE = os.environ.get("CROPDL_TEST_DEVICE", "software") == "software"  # else on the machine's own GPUs (scripts/gpu-test)
ONE_DEVICE = {} if ON_SOFTWARE else {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
SEEDS = 10
RACES = {"missing_syncthreads": "a missing __syncthreads", "missing_dependency": "a missing dependency between streams",
         "read_after_free": "a read of freed memory", "freed_too_early": "memory freed while another stream reads it"}
TRAINING = ("--epochs", "3", "--hidden", "64")  # enough for 85 % on two ranks, as in tests/apps/train.cpp
DATA = "/usr/share/datasets/fashion-mnist"
FEW = {"train": 1280, "t10k": 512}  # number of images: 10 steps per epoch


def left_out():
    """Programs that were not built, since the toolkit lacks something (see tests/apps/cuda/CMakeLists.txt)."""
    try:
        with open(os.path.join(BUILD, "tests", "apps", "cuda", "left_out")) as names:
            return set(names.read().split())
    except FileNotFoundError:
        return set()


def built_ways():
    """{program: the ways in which it was built}"""
    with open(os.path.join(BUILD, "tests", "apps", "cuda", "ways")) as lines:
        return {name: ways.split(",") for name, ways in (line.split() for line in lines)}


class Program:
    """A program and the settings in its comments `// run: KEY=VALUE …` (see tests/apps/cuda/CMakeLists.txt)."""

    def __init__(self, path, ways):
        stem = re.sub(r"(/main)?\.(cu|cpp)$", "", path)
        self.name = os.path.basename(stem)
        with open(path) as source:
            said = dict(word.split("=") for line in re.findall(r"^// run: (.*)$", source.read(), re.M) for word in line.split())
        if self.name not in LEFT_OUT:
            self.ways = ways[self.name]  # each must have been built in at least one way
        self.devices = int(said.get("devices", 1))
        self.ranks = [int(n) for n in said.get("ranks", "0").split(",")]  # 0: not an MPI program

    def variants(self):
        """(mpi, ranks)"""
        return [(mpi, ranks) for mpi in ("openmpi", "mpich") for ranks in self.ranks] if self.ranks != [0] else [("none", 1)]


LEFT_OUT = left_out()


def programs():
    ways = built_ways()
    found = [Program(path, ways) for pattern in ("*.cu", "*/main.cu", "*.cpp") for path in sorted(glob.glob(os.path.join(PROGRAMS, pattern)))]
    return {one.name: one for one in found if one.name not in LEFT_OUT | {"train"}}


def start(place, program, way, mpi="none", ranks=1, devices=1, seed=None, arguments=(), environment=None):
    path = app(f"cuda/{way}/{program}" + (f".{mpi}" if mpi != "none" else ""))
    options = ["--devices", str(devices if mpi == "none" else ranks), "--quiet"]
    if seed is not None:
        options += ["--seed", str(seed)]
    environment = dict({"CROPDL_SOFTWARE_GPU_DIRECTORY": os.path.join(BUILD, "software-gpu")}, **(environment or {}))
    through = [SOFTWARE_GPU] + options if ON_SOFTWARE else []
    return place.start(launcher(mpi, ranks) + through + [path] + list(arguments), environment=environment)


def ended(job, limit):
    """(exit status, output)"""
    try:
        status = job.process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        job.kill_all()
        raise Failure(f"still running after {limit:.0f} s: {' '.join(job.command)}\n{tail(job.output())}") from None
    return status, job.output()


def result(place, *arguments, **named):
    """The digest of a run, which must succeed."""
    job = start(place, *arguments, **named)
    status, output = ended(job, PATIENCE)
    digests = re.findall(r"^ok ([0-9a-f]+)$", output, re.M)
    expect(status == 0 and len(digests) == 1, f"ended with {status}: {' '.join(job.command)}\n{tail(output)}")
    return digests[0]


def is_right(program):
    """Every way of building, in order and at random: one digest per number of ranks. MPI programs need many runs and poll, so only every
    other run is at random."""
    digests = {}
    with Place("cuda") as place:
        for number, (way, (mpi, ranks)) in enumerate(itertools.product(program.ways, program.variants())):
            at_random = 1000 * int(time.time()) + number
            for seed in (None, at_random) if mpi == "none" else ((None, at_random)[number % 2],):
                digest = result(place, program.name, way, mpi, ranks, program.devices, seed)
                others = digests.setdefault(ranks, digest)
                expect(digest == others, f"{way}, {mpi}, {ranks} ranks, seed {seed}: digest {digest} instead of {others}")


def shows(race):
    """The race shows in at least 9 of 10 runs; its corrected twin never fails."""
    with Place("races") as place:
        wrong = []
        for seed in range(1, SEEDS + 1):
            result(place, race, "static", seed=seed, arguments=["right"])
            status, output = ended(start(place, race, "static", seed=seed, arguments=["wrong"]), PATIENCE)
            if status != 0 and "differs: " in output:
                wrong.append(seed)
        print(f"{RACES[race]} was seen in {len(wrong)} of {SEEDS} runs")
        expect(len(wrong) >= 9, f"{RACES[race]} was seen with the seeds {wrong} only")


def read_log(path):
    """[(loss, accuracy) of each epoch], the final hash, and whether the nonce stayed the same."""
    with open(path) as log:
        text = log.read()
    epochs = [(float(loss), float(accuracy)) for loss, accuracy in re.findall(r"^epoch \d+ loss (\S+) accuracy (\S+)$", text, re.M)]
    final = re.findall(r"^final hash=(\S+) accuracy=\S+ nonce=(\S+)$", text, re.M)
    expect(len(final) == 1, f"no final line in {path}: {tail(text)}")
    expect(re.findall(r"^nonce (\S+)$", text, re.M) == [final[0][1]], f"{path}: the nonce changed")
    return epochs, final[0][0]


def trained(place, program, mpi, log, arguments, limit, **named):
    job = start(place, program, "static", mpi, 2, arguments=list(arguments) + ["--log", log], **named)
    status, output = ended(job, limit)
    expect(status == 0, f"ended with {status}: {' '.join(job.command)}\n{tail(output)}")
    return read_log(log)


def trained_hash(mpi):
    """The file in which gpu.train.MPI leaves its final hash for gpu.train.same."""
    return os.path.join(os.environ.get("CROPDL_TEST_REFERENCES", os.path.join(BUILD, "tests")), f"train.{mpi}.hash")


def trains(mpi, few=False):
    """Reaches 85 % within 3 minutes, with the losses of the CPU trainer within 1e-4. `few`: only the losses, on the first images."""
    with Place("train") as place:
        arguments = (*TRAINING, "--data", beginning_of_the_data(place.path("data")) if few else DATA)
        began = time.monotonic()
        epochs, final = trained(place, "train", mpi, place.path("cuda.log"), arguments, limit=180 * PATIENCE / 60)
        seconds = time.monotonic() - began
        status, output = ended(place.start(launcher(mpi, 2) + [app(f"{mpi}/train"), *arguments, "--log", place.path("cpu.log")]), PATIENCE)
        expect(status == 0, f"the trainer on the CPU ended with {status}: {tail(output)}")
        expected, _ = read_log(place.path("cpu.log"))
        print(f"{seconds:.0f} s; {epochs}; on the CPU {expected}")
        expect(few or epochs[-1][1] >= 0.85, f"accuracy {epochs[-1][1]}")
        expect(len(epochs) == len(expected) == 3, f"{len(epochs)} epochs, on the CPU {len(expected)}")
        for (loss, _), (other, _) in zip(epochs, expected):
            expect(abs(loss - other) <= 1e-4 + 1e-9, f"loss {loss}, on the CPU {other}")  # both are printed with four digits
        if few:
            return
        with open(trained_hash(mpi), "w") as record:
            record.write(final)
        for other in ("openmpi", "mpich"):  # if that test ran before
            if os.environ.get("CROPDL_TEST_REFERENCES") and os.path.exists(trained_hash(other)):
                with open(trained_hash(other)) as record:
                    expect(record.read() == final, f"the weights under {mpi} are not those under {other}: DIFFERENT")


def beginning_of_the_data(directory):
    """A directory like DATA with only the first images."""
    os.mkdir(directory)
    for part, count in FEW.items():
        for kind, header, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
            name = f"{part}-{kind}-ubyte.gz"
            with gzip.open(os.path.join(DATA, name)) as whole, gzip.open(os.path.join(directory, name), "wb", 1) as cut:
                head = whole.read(header)
                cut.write(head[:4] + struct.pack(">I", count) + head[8:] + whole.read(count * size))
    return directory


def trains_the_same():
    """Five scheduler seeds, under either MPI, give the same weights. Settings are those of gpu.train.MPI except for the number of images.
    With CROPDL_TEST_LONG=1 (an hour, not under ctest) all images are used, and the weights must equal those of gpu.train.MPI."""
    in_full = os.environ.get("CROPDL_TEST_LONG") == "1"
    hashes = {}
    if in_full:
        for mpi in ("openmpi", "mpich"):
            expect(os.path.exists(trained_hash(mpi)), f"gpu.train.{mpi} has to run first")
            with open(trained_hash(mpi)) as record:
                hashes[f"in full under {mpi}"] = record.read()
    with Place("train") as place:
        data = DATA if in_full else beginning_of_the_data(place.path("data"))
        for seed in range(1, 6):
            mpi = ("openmpi", "mpich")[seed % 2]
            limit = (30 if in_full else 3) * PATIENCE
            began = time.monotonic()
            hashes[f"seed {seed}"] = trained(place, "train", mpi, place.path(f"{seed}.log"), TRAINING + ("--data", data), limit, seed=seed)[1]
            print(f"seed {seed}: {time.monotonic() - began:.0f} s", flush=True)
        expect(len(set(hashes.values())) == 1, f"five runs, five seeds: {hashes}")


SCENARIOS = {f"gpu.program.{name}": lambda one=one: is_right(one) for name, one in programs().items()}
SCENARIOS.update({f"gpu.race.{name}": lambda n=name: shows(n) for name in RACES if name not in LEFT_OUT})
if "train" not in LEFT_OUT:
    SCENARIOS.update({f"gpu.train.{mpi}": lambda m=mpi: trains(m) for mpi in ("openmpi", "mpich")})
    SCENARIOS["gpu.train.first_images"] = lambda: trains("openmpi", few=True)
    SCENARIOS["gpu.train.same"] = trains_the_same

if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--only":
        _one = programs()[sys.argv[2]]
        with Place("cuda") as _place:
            for _mpi, _ranks in _one.variants():
                _job = start(_place, _one.name, sys.argv[3] if len(sys.argv) > 3 else _one.ways[0], _mpi, _ranks, _one.devices,
                             sys.argv[4] if len(sys.argv) > 4 else None)
                print(*ended(_job, PATIENCE))
        sys.exit(0)
    sys.exit(scenario_main(SCENARIOS, long=("gpu.train.openmpi", "gpu.train.mpich", "gpu.train.same"), quick=("gpu.program.vector_add", "gpu.program.matmul", "gpu.program.nccl_all")))
