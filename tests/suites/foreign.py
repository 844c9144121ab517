#!/usr/bin/env python3
"""Programs of others with threads: each runs twice natively, which must give equal results, and once through CropDL: at a random moment
(of a program that prints its steps, after the first dozen) a checkpoint is requested, shortly afterwards all ranks are killed, and the run
is restarted; three times. The final results must be the native ones.

    python3 tests/suites/foreign.py                      # all of them
    python3 tests/suites/foreign.py numpy tbb --kills 5
    python3 tests/suites/foreign.py --list               # the programs, and the Debian packages they need
    apt-get source hpcc; python3 tests/suites/foreign.py hpcc-openmp --hpcc hpcc-1.5.0

Installs nothing: a program whose packages are missing counts as failed, with the command that installs them. Built files stay in
build/suites/foreign. Each of our own programs (tests/suites/foreign) writes a random number to a file at its start, keeps it in memory,
and ends only if the two are equal: so it cannot have been started again."""

import argparse
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import suite  # noqa: E402
from driver import Failure, Place, expect, iteration_of, launcher  # noqa: E402

SOURCES = os.path.join(suite.HERE, "foreign")
WORK = os.path.join(suite.BUILD, "suites", "foreign")
POLITE = {"OMP_WAIT_POLICY": "passive", "OMPI_MCA_mpi_yield_when_idle": "1"}  # there are more threads than processors
PATIENCE = float(os.environ.get("CROPDL_TEST_PATIENCE", "60"))
KNOWN_AFTER = 12  # steps; CropDL must have found the program's iterations by then
OPTIONS = argparse.Namespace(hpcc=None, hpcg=None)
NOT_UP = "has not joined|no job is running|store .*: No such file"  # while the job is alive: not ready yet
BLAS = "/usr/lib/x86_64-linux-gnu/openblas-pthread"  # the threaded OpenBLAS, whatever Debian's alternatives select


class Program:
    """A program and its needs. `inputs`: returns the input files for the run's directory. `result`: a regular expression for the lines that
    are the result, in standard output or in the file `output`. `step`: a regular expression for lines, printed at once, with the number
    of main loop steps done; between two versions, CropDL's iterations must advance as far as these. `others`: one in so many steps makes other
    calls, and is not counted."""

    def __init__(self, what, packages, command, mpi="none", ranks=1, build=None, environment=None, inputs=None,
                 result=r"result.*", output=None, step=None, others=None):
        self.what, self.packages, self.command, self.mpi, self.ranks = what, packages, command, mpi, ranks
        self.build, self.environment, self.inputs = build, environment or {}, inputs or dict
        self.result, self.output = re.compile(result), output
        self.step = re.compile(step) if step else None
        self.others = others

    def missing(self):
        known = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *self.packages],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        return [name for name in self.packages if f"{name} installed" not in known.splitlines()]


def ours(name):
    return os.path.join(SOURCES, name)


def built(name):
    return os.path.join(WORK, name)


def compiled(name, source, *compiler, libraries=()):
    """Builds one of our sources. The environment selects the compiler behind an MPI's wrapper."""
    def build():
        subprocess.run(["env", *compiler, "-O2", "-g", "-o", built(name), ours(source), *libraries], check=True)
    return build


def water():
    """A box of water for GROMACS, from GROMACS's own files."""
    folder = built("water")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "topol.top"), "w") as f:
        f.write('#include "oplsaa.ff/forcefield.itp"\n#include "oplsaa.ff/spce.itp"\n[ system ]\nwater\n[ molecules ]\n')
    with open(os.path.join(folder, "md.mdp"), "w") as f:
        f.write("integrator = md\ndt = 0.001\nnsteps = 3000\ngen-vel = yes\ngen-seed = 7\nld-seed = 7\ntcoupl = v-rescale\ntc-grps = System\n"
                "tau-t = 0.1\nref-t = 300\ncoulombtype = PME\nrcoulomb = 1.0\nrvdw = 1.0\nconstraints = h-bonds\n")
    with open(os.path.join(folder, "log"), "w") as log:
        for command in ("solvate -cs spc216.gro -box 2.6 2.6 2.6 -p topol.top -o water.gro",
                        "grompp -f md.mdp -c water.gro -p topol.top -o topol.tpr -maxwarn 2"):
            subprocess.run(["gmx", "-quiet", *command.split()], cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=True)


def hpcc_input():
    """hpccinf.txt for two ranks: the example of Debian's package with a larger system of equations and without lookahead. Lookahead splits
    matrix updates where messages happen to arrive, which changes the rounding."""
    with open("/usr/share/doc/hpcc/examples/_hpccinf.txt") as f:
        text = f.read()
    text = re.sub(r"(?m)^1000( +Ns)", r"2000\1", text)
    text = re.sub(r"(?m)^1( +DEPTHs)", r"0\1", text)
    return {"hpccinf.txt": re.sub(r"(?m)^2( +Ps)", r"1\1", text)}


def hpcc_openmp():
    """Builds HPCC from source with OpenMP, under MPICH (Open MPI's mpi.h lacks MPI_Address) and with threaded OpenBLAS."""
    source = OPTIONS.hpcc
    expect(source and os.path.isdir(os.path.join(source, "RandomAccess")), "--hpcc FOLDER: HPCC's source (apt-get source hpcc)")
    tree = built("hpcc-source")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree)
    with open(os.path.join(source, "hpl", "setup", "Make.Linux_PII_FBLAS")) as f:
        text = f.read()
    for name, value in (("MPinc", ""), ("MPlib", ""), ("LAlib", f"{BLAS}/libblas.so.3"), ("F2CDEFS", "-DAdd__ -DF77_INTEGER=int -DStringSunStyle"),
                        ("CC", "mpicc.mpich"), ("LINKER", "mpicc.mpich"), ("CCFLAGS", "$(HPL_DEFS) -w -O2 -fopenmp")):
        text = re.sub(rf"(?m)^{name} *=.*(\\\n.*)*", f"{name} = {value}", text)
    with open(os.path.join(tree, "hpl", "Make.threads"), "w") as f:
        f.write(text)
    with open(built("hpcc.log"), "w") as log:
        subprocess.run(["make", "arch=threads"], cwd=tree, stdout=log, stderr=subprocess.STDOUT, check=True)


def melt():
    """A melting crystal for LAMMPS, which checks in each step whether an atom has moved so far that the neighbour lists must be rebuilt."""
    return {"in.melt": "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 16 0 16 0 16\ncreate_box 1 box\ncreate_atoms 1 box\n"
                       "mass 1 1.0\nvelocity all create 3.0 87287\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\n"
                       "neigh_modify every 1 delay 0 check yes\nfix 1 all nve\nthermo 1\nthermo_modify flush yes\nrun 400\n"}


# Results that do not depend on time: norms, residuals, errors, numbers of threads. With OpenMP, updates of the one-process RandomAccess
# race, which its rules allow.
HPCC = (r"HPL_(RnormI|[AX]norm[1I]|BnormI|N)=.*|PTRANS_residual=.*|MPIRandomAccess_(LCG_)?Errors=.*|MPIFFT_(maxErr|N)=.*|"
        r"Success=.*|.*(PASSED|FAILED) *|omp_get_max_threads=.*|STREAM_Threads=.*")


def hpcg():
    """HPCG is not in Debian. The program takes the size, the seconds and the number of sets from its command line, and prints "step N" for each
    iteration of conjugate gradients and its result in lines that begin with "result"."""
    expect(OPTIONS.hpcg and os.access(OPTIONS.hpcg, os.X_OK), "--hpcg PROGRAM: HPCG, built with Open MPI")
    shutil.copy(OPTIONS.hpcg, built("hpcg"))


PROGRAMS = {
    "torch": Program("PyTorch, two intra-op threads; gradients averaged by mpi4py", ["python3-torch", "python3-mpi4py", "python3-numpy"],
                     ["/usr/bin/python3", ours("gradients.py"), "120"], "openmpi", 2, environment={"OMP_NUM_THREADS": "2", **POLITE}, step=r"step ([0-9]+)"),
    "numpy": Program("numpy with threaded OpenBLAS, four threads", ["python3-numpy", "libopenblas0-pthread"],
                     ["/usr/bin/python3", ours("matmul.py")], environment={"LD_LIBRARY_PATH": BLAS}),
    "tbb": Program("Threading Building Blocks, four threads", ["libtbb-dev"], [built("tbb")],
                   build=compiled("tbb", "tbb.cpp", "g++", "-std=c++20", libraries=["-ltbb"])),
    "cg-libgomp": Program("OpenMP (GCC's libgomp) and Open MPI: conjugate gradients of HPCG's kind", ["libopenmpi-dev"], [built("cg-libgomp")],
                          "openmpi", 2, compiled("cg-libgomp", "cg.c", "mpicc.openmpi", "-fopenmp", libraries=["-lm"]),
                          {"OMP_NUM_THREADS": "4", **POLITE}, step=r"step ([0-9]+)"),
    "cg-libomp": Program("OpenMP (LLVM's libomp) and MPICH: conjugate gradients of HPCG's kind", ["libmpich-dev", "clang", "libomp-dev"],
                         [built("cg-libomp")], "mpich", 2,
                         compiled("cg-libomp", "cg.c", "MPICH_CC=clang", "mpicc.mpich", "-fopenmp", libraries=["-lm"]),
                         {"OMP_NUM_THREADS": "4", **POLITE}, step=r"step ([0-9]+)"),
    "gromacs": Program("GROMACS, a box of water, reproducibly (-reprod)", ["gromacs", "gromacs-data"],
                       ["/usr/bin/gmx_mpi", "-quiet", "mdrun", "-s", built("water/topol.tpr"), "-ntomp", "2", "-reprod", "-pin", "off", "-notunepme"],
                       "openmpi", 2, water, POLITE, result=r".+", output="confout.gro"),
    "lammps": Program("LAMMPS, a melting crystal", ["lammps"], ["/usr/bin/lmp", "-in", "in.melt"], "openmpi", 2, environment={"OMP_NUM_THREADS": "1", **POLITE},
                      inputs=melt, result=r" +[0-9]+( +-?[0-9.]+){5} *", output="log.lammps", step=r" +([0-9]+)( +-?[0-9.]+){5} *"),
    "hpcc": Program("HPC Challenge as Debian has it, on threaded OpenBLAS", ["hpcc", "libopenblas0-pthread"], ["/usr/bin/hpcc"], "openmpi", 2,
                    environment={"LD_LIBRARY_PATH": BLAS, **POLITE}, inputs=hpcc_input, result=HPCC, output="hpccoutf.txt"),
    "hpcc-openmp": Program("HPC Challenge from its source (--hpcc), with OpenMP, MPICH and threaded OpenBLAS",
                           ["hpcc", "libopenblas0-pthread", "libmpich-dev", "make", "gcc"], [built("hpcc-source/hpcc")], "mpich", 2,
                           hpcc_openmp, {"OMP_NUM_THREADS": "4", **POLITE}, hpcc_input, HPCC, "hpccoutf.txt"),
    "hpcg": Program("HPCG (--hpcg)", ["libopenmpi-dev"], [built("hpcg"), "32", "32", "32", "10", "24"], "openmpi", 2, hpcg, POLITE,
                    step=r"step ([0-9]+)", others=50),  # the first of each set
}


def results(program, place, job):
    """The result lines. If a program reopens a file for every addition, the file may contain a line from between version and kill, and then
    again: duplicates count once."""
    text = job.output()
    if program.output:
        with open(place.path(program.output), errors="replace") as f:
            text = f.read()
    return list(dict.fromkeys(line for line in text.splitlines() if program.result.fullmatch(line)))


def settle(program, place):
    for name, text in program.inputs().items():
        with open(place.path(name), "w") as f:
            f.write(text)


def native(program):
    """An undisturbed run: its results, its duration, and the most threads seen in a rank."""
    with Place("foreign") as place:
        settle(program, place)
        job = place.start(launcher(program.mpi, program.ranks) + program.command, environment=program.environment)
        began, most = time.monotonic(), 0
        while job.alive():
            expect(time.monotonic() - began < 10 * PATIENCE, "the native run does not end")
            most = max([most] + [len(os.listdir(f"/proc/{pid}/task")) for pid in job.ranks() if os.path.isdir(f"/proc/{pid}/task")])
            time.sleep(0.05)
        seconds = time.monotonic() - began
        expect(job.process.returncode == 0, f"the native run ended with {job.process.returncode}:\n{job.output()[-2000:]}")
        found = results(program, place, job)
        expect(found, f"the native run has no result:\n{job.output()[-2000:]}")
        return found, seconds, most


def take(place, job):
    """Takes a checkpoint as soon as one is possible. Returns the output of `cropdl checkpoint`."""
    end = time.monotonic() + PATIENCE
    while True:
        expect(job.alive(), f"the job ended before its checkpoint, with {job.process.returncode}:\n{job.output()[-2000:]}")
        status, text, _ = place.checkpoint()
        if status == 0:
            return text
        expect(re.search(NOT_UP, text) and time.monotonic() < end, text)
        time.sleep(0.05)


def printed_step(program, job, nth):
    """The nth step that this run prints, once it has."""
    end = time.monotonic() + PATIENCE
    while True:
        alive = job.alive()
        found = [match.group(1) for line in job.output().splitlines()[:-1] if (match := program.step.fullmatch(line))]
        if len(found) >= nth:
            return int(found[nth - 1])
        expect(alive and time.monotonic() < end, f"prints {len(found)} steps, and {nth} are waited for:\n{job.output()[-2000:]}")
        time.sleep(0.02)


def through(program, seconds, kills, rng):
    """The run through CropDL. Returns its results and the number of versions."""
    places = []  # for each version: CropDL's iteration and the program's step
    with Place("foreign") as place:
        settle(program, place)
        launch = launcher(program.mpi, program.ranks)
        job = place.start(launch + [suite.tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + program.command, environment=program.environment)
        if program.step:
            began = time.monotonic()
            printed_step(program, job, KNOWN_AFTER)
            seconds -= min(time.monotonic() - began, 0.8 * seconds)
        for kill in range(kills):
            time.sleep(seconds * rng.uniform(0.03, 0.6 / kills))
            text = take(place, job)
            time.sleep(seconds * rng.uniform(0, 0.05))
            expect(job.alive(), f"the job ended before kill {kill + 1}")
            expect(job.kill_ranks() >= program.ranks, "found fewer ranks than were started")
            print(f"    kill {kill + 1}: {text}", flush=True)
            job = place.start(launch + [suite.tool("cropdl-restart"), place.store], environment=program.environment)
            if program.step:
                places.append((iteration_of(place, place.versions()[-1]), printed_step(program, job, 1) - 1))
        job.finish(timeout=10 * PATIENCE)
        print(f"    versions are of iterations and steps {places}" if len(places) > 1 else "    its steps are not compared", flush=True)
        # A line may be printed just after the cut.
        for (j, m), (i, k) in itertools.combinations(places, 2):
            uncounted = (k - m) // program.others + 1 if program.others else 0
            expect(-1 <= (k - m) - (i - j) <= uncounted + 1, "iterations are not the program's steps")
        return results(program, place, job), len(place.versions())


def prove(name, program, options, rng):
    """Returns a row of the table with the findings."""
    missing = program.missing()
    expect(not missing, f"packages are missing: apt-get install -y --no-install-recommends {' '.join(missing)}")
    if program.build:
        os.makedirs(WORK, exist_ok=True)
        program.build()
    one, seconds, threads = native(program)
    two, again, _ = native(program)
    expect(one == two, "two native runs differ; nothing can be shown:\n" + "\n".join(one + two))
    print(f"{name}: natively twice the same, {seconds:.1f} s and {again:.1f} s; up to {threads} threads a process", flush=True)
    print("\n".join("    " + line for line in one[:4]), flush=True)
    mine, versions = through(program, min(seconds, again), options.kills, rng)
    expect(mine == one, "DIFFERENT from natively:\n" + "\n".join(mine))
    return [name, program.ranks, threads, versions, options.kills, "yes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="these programs")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--list", action="store_true", help="print the programs and what they need")
    parser.add_argument("--hpcg", metavar="PROGRAM", type=os.path.abspath, help="HPCG, for hpcg")
    parser.add_argument("--hpcc", metavar="FOLDER", type=os.path.abspath, help="HPCC's source, for hpcc-openmp")
    options = parser.parse_args(namespace=OPTIONS)
    unknown = [name for name in options.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    if options.list:
        print(suite.table([["program", "what", "ranks", "packages"]] +
                          [[name, p.what, p.ranks, " ".join(p.packages)] for name, p in PROGRAMS.items()]))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end the jobs anyway
    rng, rows, failed = random.Random(options.seed), [["program", "ranks", "threads", "versions", "kills", "equal"]], 0
    print(f"seed {options.seed}", flush=True)
    for name in options.names or PROGRAMS:
        try:
            rows.append(prove(name, PROGRAMS[name], options, rng))
        except (Failure, subprocess.CalledProcessError) as failure:
            failed += 1
            print(f"FAILED {name}: {failure}", flush=True)
            rows.append([name, PROGRAMS[name].ranks, "", "", "", "NO"])
    print("\n" + suite.table(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
