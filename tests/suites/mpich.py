#!/usr/bin/env python3
"""MPICH's own test suite, natively and through CropDL: each program's exit status and output must be the same.

    apt-get source mpich                       # or any other way to its source; nothing is downloaded here
    python3 tests/suites/mpich.py mpich-4.0.2 [--mpi openmpi] [--only coll] [--interval 0.05]

Configures and builds the suite once per MPI (test/mpi of the source, with that MPI's mpicc), runs every line of its
testlists natively and under cropdl-run, prints a line per difference and a table. A program that natively fails, or runs out of
time, must do the same through CropDL. Native outcomes are kept beside the build and used again (--again: not)."""

import argparse
import json
import os
import re
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import suite  # noqa: E402

DIRECTORIES = ("attr coll comm datatype errhan errors group info init io mpi_t pt2pt rma threads topo").split()
HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="MPICH's source directory")
    parser.add_argument("--mpi", choices=("mpich", "openmpi"), default="mpich")
    parser.add_argument("--only", action="append", metavar="DIR[/PROGRAM]", help="these parts of the suite")
    parser.add_argument("--interval", type=float, help="a checkpoint every so many seconds, of slowed programs")
    parser.add_argument("--slow", type=int, metavar="MICROSECONDS", help="with --interval: the nap before MPI calls (5000)",
                        default=5000)
    parser.add_argument("--jobs", type=int, default=1, help="programs at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a run")
    parser.add_argument("--work", help="where to build (default: build/suites/MPI)")
    parser.add_argument("--again", action="store_true", help="run natively although the outcome is known")
    parser.add_argument("--list", action="store_true", help="print the tests and end")
    parser.add_argument("--verbose", action="store_true", help="print both outputs where they differ")
    parser.add_argument("--times", action="store_true", help="print the time of every program")
    return parser.parse_args()


class Test:
    """A line of a testlist."""

    def __init__(self, directory, line):
        words = line.split()
        self.directory, self.program = directory, words[0]
        self.ranks = int(words[1]) if len(words) > 1 and words[1].isdigit() else 2
        options = [word.partition("=")[::2] for word in words[1:] if "=" in word]
        self.arguments = [value for key, value in options if key == "arg"]
        self.environment = dict(value.split("=", 1) for key, value in options if key == "env")
        self.launcher = [value for key, value in options if key == "mpiexecarg"]
        self.name = " ".join([f"{directory}/{self.program}", str(self.ranks)] + self.arguments +
                             [f"{k}={v}" for k, v in self.environment.items()])

    @property
    def top(self):
        return self.directory.split("/")[0]


def build(source, work, mpi):
    """The suite, once; further calls only see to what is missing."""
    os.makedirs(work, exist_ok=True)
    if not os.path.exists(os.path.join(work, "Makefile")):
        print(f"configuring {work}", flush=True)
        strict = [] if mpi == "mpich" else ["--enable-strictmpi"]
        with open(os.path.join(work, "configure.log"), "w") as log:
            status = subprocess.run([os.path.join(os.path.abspath(source), "test/mpi/configure"), "--disable-fortran",
                                     "--disable-cxx", f"CC=mpicc.{mpi}", f"MPICC=mpicc.{mpi}"] + strict, cwd=work,
                                    stdout=log, stderr=log).returncode
        if status:
            sys.exit(f"{work}: configure failed, see configure.log there")
    slow = os.path.join(work, "slow.o")
    if not os.path.exists(slow):
        subprocess.run([f"mpicc.{mpi}", "-O1", "-c", os.path.join(HERE, "slow.c"), "-o", slow], check=True)
    stamp = os.path.join(work, "built")
    if os.path.exists(stamp):
        return
    print(f"building {work}", flush=True)
    with open(os.path.join(work, "make.log"), "w") as log:
        for directory in ["util", "dtpools"] + DIRECTORIES:  # -k: what an MPI lacks fails to build, and is counted
            extra = [] if directory in ("util", "dtpools") else [f"LIBS={slow}"]
            subprocess.run(["make", "-k", f"-j{os.cpu_count() or 1}", "-C", directory] + extra, cwd=work, stdout=log, stderr=log)
    open(stamp, "w").close()


def tests(source, work):
    """All lines of the testlists below the directories, in order."""
    def below(directory):
        for root in (work, os.path.join(source, "test/mpi")):
            path = os.path.join(root, directory, "testlist")
            if os.path.exists(path):
                break
        else:
            return
        with open(path) as f:
            lines = [line.split("#")[0].strip() for line in f]
        for line in lines:
            if not line or line.startswith("!"):
                continue
            inner = os.path.join(directory, line.split()[0])
            if os.path.isdir(os.path.join(work, inner)):
                yield from below(inner)
            else:
                yield Test(directory, line)
    for directory in DIRECTORIES:
        yield from below(directory)


class Verdict:
    """What of an outcome must be equal. `status` and `found`: the suite's own words; `lines`: the rest."""

    def __init__(self, status, lines):
        self.status = status
        self.found = sorted(line for line in lines if re.search(r"No Errors|Found \d+ errors", line))
        self.lines = sorted(normal(line) for line in lines)

    def same(self, other):
        return self.status == other.status and self.found == other.found

    def short(self):
        status = "timeout" if self.status is None else f"exit {self.status}"
        return f"{status}{', ' + '; '.join(self.found) if self.found else ''}"


def normal(line):
    """Without what differs between two native runs."""
    line = re.sub(r"0x[0-9a-fA-F]+", "0x", line)
    return re.sub(r"\b\d+\.\d+(e[-+]?\d+)?\b|\b(?:pid|PID)[ =]\d+", "#", line)


class Natives:
    """Outcomes of native runs, kept in a file."""

    def __init__(self, path, again):
        self.path, self.lock = path, threading.Lock()
        self.known = json.load(open(path)) if os.path.exists(path) and not again else {}

    def of(self, test, make):
        with self.lock:
            if test.name in self.known:
                return self.known[test.name]
        outcome = make()
        entry = [outcome.status, outcome.lines, outcome.seconds]
        with self.lock:
            self.known[test.name] = entry
            with open(self.path + ".new", "w") as f:
                json.dump(self.known, f)
            os.replace(self.path + ".new", self.path)
        return entry


def command(options, test, work, program):
    line = suite.launcher(options.mpi, test.ranks)
    return line[:1] + test.launcher + line[1:] + program


def main():
    options = arguments()
    work = os.path.abspath(options.work or os.path.join(suite.BUILD, "suites", options.mpi))
    build(options.source, work, options.mpi)
    chosen = [t for t in tests(options.source, work)
              if not options.only or any(f"{t.directory}/{t.program}/".startswith(only.rstrip("/") + "/") for only in options.only)]
    if options.list:
        print("\n".join(t.name for t in chosen))
        return 0
    natives = Natives(os.path.join(work, "native.json"), options.again)
    store = os.path.join(work, f"store-{os.getpid()}")
    counter = iter(range(1 << 30))
    environment = {"MPITEST_VERBOSE": "0"}
    if options.interval:
        environment["CROPDL_SUITE_SLOW"] = str(options.slow)
    rows, differences = {}, []

    def one(test):
        folder = os.path.join(work, test.directory)
        binary = os.path.join(folder, test.program)
        if not os.access(binary, os.X_OK):
            return None
        own = [binary] + test.arguments
        status, lines, seconds = natives.of(test, lambda: suite.run(
            command(options, test, work, own), folder, options.timeout, test.environment))
        here = f"{store}-{next(counter)}"
        mine = suite.run(command(options, test, work, suite.protected(own, here, options.interval)), folder,
                         options.timeout * (3 if options.interval else 1.5), dict(environment, **test.environment), here)
        return Verdict(status, lines), Verdict(mine.status, mine.lines), mine, lines, seconds

    for test, result in suite.in_parallel(options.jobs, chosen, one):
        row = rows.setdefault(test.top, {"programs": 0, "not built": 0, "equal": 0, "texts": 0, "different": 0,
                                         "natively failing": 0, "versions": 0})
        row["programs"] += 1
        if result is None:
            row["not built"] += 1
            continue
        native, mine, outcome, lines, seconds = result
        row["versions"] += outcome.taken
        if options.times:
            print(f"# {test.name}: {seconds:.1f} s natively, {outcome.seconds:.1f} s, {outcome.taken} versions", flush=True)
        if native.status != 0:
            row["natively failing"] += 1
        same = native.same(mine)
        if same and (native.lines == mine.lines or native.status is None):
            row["equal"] += 1
            continue
        row["texts" if same else "different"] += 1
        text = f"{'texts    ' if same else 'DIFFERENT'} {test.name}: natively {native.short()}; through CropDL {mine.short()}"
        differences.append(text)
        print(text, flush=True)
        if options.verbose or not same:
            for label, shown in (("native", lines), ("CropDL", outcome.lines + outcome.ours)):
                print("\n".join(f"    {label}: {line}" for line in shown[:12 if options.verbose else 4]), flush=True)

    head = ["directory", "programs", "not built", "equal", "texts", "different", "natively failing"]
    head += ["versions"] if options.interval else []
    body = [[name] + [row[key] for key in head[1:]] for name, row in rows.items()]
    body.append(["all"] + [sum(row[i] for row in body) for i in range(1, len(head))])
    print("\n" + suite.table([head] + body))
    return 1 if any(text.startswith("DIFFERENT") for text in differences) else 0


if __name__ == "__main__":
    sys.exit(main())
