#!/usr/bin/env python3
"""MPICH's own test suite, natively and through CropDL: each program's exit status and output must be the same.

    apt-get source mpich                       # or any other way to get its source; nothing is downloaded here
    python3 tests/suites/mpich.py mpich-4.0.2 [--mpi openmpi] [--only coll] [--interval 0.05]

Configures and builds the suite once per MPI (test/mpi of the source, with that MPI's mpicc), runs every line of its testlists natively
and under cropdl-run, prints a line per difference, and a table. A program that fails natively must fail in the same way. Native outcomes
are stored next to the build and reused (unless --again). If outcomes differ, the native run is repeated twice: matching any native
outcome is enough. Known differences, with reasons, are in mpich_differences.toml. The exit status is 0 if there are no other
differences, and none of the known ones has disappeared."""

import argparse
import fcntl
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="MPICH's source directory")
    parser.add_argument("--only", action="append", metavar="DIR[/PROGRAM]", help="these parts of the suite")
    suite.add_options(parser)
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
    """Builds the suite once; later calls only build what is missing."""
    os.makedirs(work, exist_ok=True)
    if not os.path.exists(os.path.join(work, "Makefile")):
        print(f"configuring {work}", flush=True)
        special = [] if mpi == "mpich" else ["--enable-strictmpi", f"CPPFLAGS=-include {suite.HERE}/openmpi_mpi1.h"]
        with open(os.path.join(work, "configure.log"), "w") as log:
            status = subprocess.run([os.path.join(os.path.abspath(source), "test/mpi/configure"), "--disable-fortran",
                                     "--disable-cxx", f"CC=mpicc.{mpi}", f"MPICC=mpicc.{mpi}"] + special, cwd=work,
                                    stdout=log, stderr=log).returncode
        if status:
            sys.exit(f"{work}: configure failed, see configure.log there")
    stamp = os.path.join(work, "built")
    if os.path.exists(stamp):
        return
    print(f"building {work}", flush=True)
    with open(os.path.join(work, "make.log"), "w") as log:
        for directory in ["util", "dtpools"] + DIRECTORIES:  # -k: tests that need something the MPI lacks fail to build, and are counted
            subprocess.run(["make", "-k", f"-j{os.cpu_count() or 1}", "-C", directory], cwd=work, stdout=log, stderr=log)
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
    """The parts of an outcome that must be equal. `status` and `found`: the suite's own words; `lines`: the rest."""

    def __init__(self, status, lines, ignored=None):
        self.status = status
        self.found = sorted(line for line in lines if re.search(r"No Errors|Found \d+ errors", line))
        self.lines = sorted(normal(line) for line in lines if not (ignored and ignored(line)))

    def same(self, other):
        return self.status == other.status and self.found == other.found

    def equal(self, other):
        """A test that runs out of time natively may end in time through CropDL, if it succeeds."""
        if self.status is None:
            return other.status is None or (other.status == 0 and any("No Errors" in line for line in other.found))
        return self.same(other) and self.lines == other.lines

    def short(self):
        status = "timeout" if self.status is None else f"exit {self.status}"
        return f"{status}{', ' + '; '.join(self.found) if self.found else ''}"


def normal(line):
    """The line without parts that differ between native runs."""
    line = re.sub(r"0x[0-9a-fA-F]+", "0x", line)
    return re.sub(r"\b\d+\.\d+(e[-+]?\d+)?\b|\b(?:pid|PID)[ =]\d+|\[[\w.-]+:\d+ ?:\d+\]", "#", line)


class Natives:
    """Outcomes of native runs, stored in a file to which several runners may append."""

    def __init__(self, path, again):
        self.path, self.lock = path, threading.Lock()
        self.known = {} if again else self.read()

    def read(self):
        if not os.path.exists(self.path):
            return {}
        with open(self.path) as f:
            return json.load(f)

    def of(self, test, make):
        with self.lock:
            if test.name in self.known:
                return self.known[test.name]
        outcome = make()
        entry = [outcome.status, outcome.lines, outcome.seconds]
        with self.lock, open(self.path + ".lock", "w") as file_lock:
            fcntl.flock(file_lock, fcntl.LOCK_EX)
            self.known[test.name] = entry
            with open(self.path + ".new", "w") as f:
                json.dump({**self.read(), test.name: entry}, f)
            os.replace(self.path + ".new", self.path)
        return entry


def command(options, test, program, variables=None):
    line = suite.launcher(options.mpi, test.ranks, variables)
    return line[:1] + test.launcher + line[1:] + program


class Comparison:
    """Runs a test natively and through CropDL. `verdict`: equal, texts (only lines of the output differ) or different."""

    def __init__(self, options, work, natives, store, ignored):
        self.options, self.work, self.natives, self.ignored = options, work, natives, ignored
        self.store, self.counter = store, iter(range(1 << 30))

    def native(self, test, timeout):
        return suite.run(command(self.options, test, self.program(test)), self.folder(test), timeout, self.environment(test))

    def protected(self, test, timeout):
        store = f"{self.store}-{next(self.counter)}"
        options = self.options
        line = suite.protected(self.program(test), store, options.interval)
        return suite.run(command(options, test, line, suite.slowed(options, self.work)), self.folder(test), timeout,
                         self.environment(test), store)

    def folder(self, test):
        return os.path.join(self.work, test.directory)

    def program(self, test):
        return [os.path.join(self.folder(test), test.program)] + test.arguments

    @staticmethod
    def environment(test):
        return dict({"MPITEST_VERBOSE": "0"}, **test.environment)

    def __call__(self, test):
        if not os.access(self.program(test)[0], os.X_OK):
            return None
        limit = self.options.timeout
        status, lines, seconds = self.natives.of(test, lambda: self.native(test, limit))
        longer = 1 if status is None else 3 if self.options.interval else 1.5
        mine = self.protected(test, longer * limit)
        if mine.status is None and status is not None:  # load, or a hang, which will occur again
            mine = self.protected(test, 2 * longer * limit)
        result = Result(lines, seconds, mine, Verdict(status, lines), Verdict(mine.status, mine.lines, self.ignored))
        for _ in range(2):
            if result.verdict == "equal":
                break
            again = self.native(test, limit)
            result.compare(Verdict(again.status, again.lines))
        return result


class Result:
    def __init__(self, lines, seconds, outcome, native, mine):
        self.lines, self.seconds, self.outcome, self.native, self.mine = lines, seconds, outcome, native, mine
        self.verdict = "different"
        self.compare(native)

    def compare(self, native):
        if native.equal(self.mine):
            self.verdict = "equal"
        elif native.same(self.mine):
            self.verdict = "texts"


COLUMNS = ["programs", "not built", "equal", "explained", "unexplained", "natively failing", "natively out of time"]
CHECKPOINTS = ["with versions", "refused only", "neither", "versions"]


def main():
    options = arguments()
    work = os.path.abspath(options.work or os.path.join(suite.BUILD, "suites", options.mpi))
    build(options.source, work, options.mpi)
    chosen = [t for t in tests(options.source, work)
              if not options.only or any(f"{t.directory}/{t.program}/".startswith(only.rstrip("/") + "/") for only in options.only)]
    if options.list:
        print("\n".join(t.name for t in chosen))
        return 0
    chosen.sort(key=lambda test: test.ranks)  # with more ranks than cores programs take long: the quick ones first
    known = suite.Known(os.path.join(suite.HERE, "mpich_differences.toml"), options)
    natives = Natives(os.path.join(work, "native.json"), options.again)
    suite.slowed(options, work)  # builds its library, once
    compare = Comparison(options, work, natives, os.path.join(options.stores or work, f"store-{os.getpid()}"), known.ignored)
    rows, refusals = {}, {}

    for test, result in suite.in_parallel(options.jobs, chosen, compare):
        row = rows.setdefault(test.top, dict.fromkeys(COLUMNS + CHECKPOINTS, 0))
        row["programs"] += 1
        if result is None:
            row["not built"] += 1
            continue
        outcome, native = result.outcome, result.native
        row["versions"] += outcome.taken
        row["with versions" if outcome.taken else "refused only" if outcome.refusals else "neither"] += 1
        for line in outcome.refusals:
            refusals[line] = refusals.get(line, 0) + 1
        if options.times:
            print(f"# {test.name}: {result.seconds:.1f} s natively, {outcome.seconds:.1f} s, {outcome.taken} versions"
                  f"{'; ' + '; '.join(outcome.refusals) if outcome.refusals else ''}", flush=True)
        if native.status != 0:
            row["natively out of time" if native.status is None else "natively failing"] += 1
        differs = result.verdict != "equal"
        reason = known.reason(test.name, differs, result.verdict == "texts" and native.status not in (0, None),
                              native.status, outcome.status)
        row["equal" if not differs else "explained" if reason else "unexplained"] += 1
        if not differs or (reason and result.verdict == "texts"):
            continue
        label = "explained" if reason else "TEXTS" if result.verdict == "texts" else "DIFFERENT"
        print(f"{label} {test.name}: natively {native.short()}; through CropDL {result.mine.short()}", flush=True)
        if options.verbose or not reason:
            for label, shown in (("native", result.lines), ("CropDL", outcome.lines + outcome.ours)):
                print("\n".join(f"    {label}: {line}" for line in shown[:12 if options.verbose else 6]), flush=True)

    head = ["directory"] + COLUMNS + (CHECKPOINTS if options.interval else [])
    body = [[name] + [row[key] for key in head[1:]] for name, row in rows.items()]
    body.append(["all"] + [sum(row[i] for row in body) for i in range(1, len(head))])
    print("\n" + suite.table([head] + body))
    if refusals:
        print("\nPrograms, and why a checkpoint of theirs did not come about:")
        print("\n".join(f"  {n:4} {line}" for line, n in sorted(refusals.items(), key=lambda item: -item[1])))
    if known.seen:
        print("\nExplained:\n" + "\n".join(known.summary()))
    for name in known.outdated():
        print(f"no longer different, take it out of mpich_differences.toml: {name}")
    return 1 if any(row["unexplained"] for row in rows.values()) or known.outdated() else 0


if __name__ == "__main__":
    sys.exit(main())
