"""Shared by the runners of outside test suites: runs a command with a time-out, and extracts the relevant output. Needs only Python 3. Ends
only processes that it started (they have a mark in their environment)."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "driver"))
from driver import BUILD, Job, launcher, tool  # noqa: E402, F401


class Outcome:
    """Exit status (None: ran out of time) and output of one run."""

    def __init__(self, status, text, seconds):
        self.status, self.seconds = status, seconds
        # CropDL's lines go to standard error with its name in front, next to the program's output.
        self.ours = [line for line in text.splitlines() if line.startswith(("cropdl:", "cropdl-run:"))]
        self.lines = [line for line in text.splitlines() if line.strip() and line not in self.ours]
        self.taken = 0  # number of versions in the store at the end, judged by the newest

    @property
    def refusals(self):
        """The reasons why checkpoints were refused, without parts that vary between runs."""
        lines = [line for line in self.ours if "checkpoint" in line]
        return sorted({re.sub(r"\b\d+(\.\d+)?\b|\bv\d+\b", "N", line.partition(":")[2].strip()) for line in lines})


def run(command, cwd, timeout, environment=None, store=None):
    """Runs a command once, in its own directory and environment."""
    place = tempfile.mkdtemp(prefix="cropdl-suite-")
    try:
        environment = dict({"TMPDIR": place}, **(environment or {}))
        began = time.monotonic()
        job = Job(command, None, environment, cwd, os.path.join(place, "output"))
        try:
            status = job.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - began
        job.kill_all()
        with open(job.output_path, errors="replace") as f:
            outcome = Outcome(status, f.read(), seconds)
        if store:
            names = os.listdir(store) if os.path.isdir(store) else []
            numbers = [int(name[1:]) for name in names if re.fullmatch(r"v\d{6}", name)]
            outcome.taken = max(numbers, default=0)
            shutil.rmtree(store, ignore_errors=True)
        return outcome
    finally:
        shutil.rmtree(place, ignore_errors=True)


def protected(program, store, interval):
    """The command line of a rank under CropDL."""
    return [tool("cropdl-run"), "--interval", str(interval or 0), "--dir", store, "--"] + program


def slow_library(work, mpi):
    """slow.c built for this MPI, for preloading."""
    path, source = os.path.join(work, f"libslow-{mpi}.so"), os.path.join(HERE, "slow.c")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        subprocess.run([f"mpicc.{mpi}", "-O1", "-fPIC", "-shared", source, "-o", path + ".new"], check=True)
        os.replace(path + ".new", path)
    return path


def slowed(options, work):
    """Environment variables for the ranks: none, or with --interval those that slow them down."""
    if not options.interval:
        return {}
    return {"CROPDL_SUITE_SLOW": str(options.slow), "LD_PRELOAD": slow_library(work, options.mpi)}


def add_options(parser):
    """Options that all runners have."""
    parser.add_argument("--mpi", choices=("mpich", "openmpi"), default="mpich")
    parser.add_argument("--interval", type=float, help="a checkpoint every so many seconds, of slowed programs")
    parser.add_argument("--slow", type=int, metavar="MICROSECONDS", default=5000,
                        help="with --interval: the nap before MPI calls (5000)")
    parser.add_argument("--jobs", type=int, default=1, help="programs at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a run")
    parser.add_argument("--work", help="where to build and to keep native outcomes")
    parser.add_argument("--stores", help="where the versions go while a program runs (a file system in memory is fast)")
    parser.add_argument("--again", action="store_true", help="run natively although the outcome is known")
    parser.add_argument("--list", action="store_true", help="print the tests and end")
    parser.add_argument("--verbose", action="store_true", help="print both outputs where they differ")
    parser.add_argument("--times", action="store_true", help="print the time of every program")


class Known:
    """Known differences, from a file of [[difference]] tables: `test` (a regular expression for the whole name), `mpi` and `interval`
    (where it occurs; default: everywhere), `always` (false: not in every run), `texts` (true: only the output of a program that fails in
    both runs), `ends` (exit statuses through CropDL that it explains besides the native one, including "out of time", or "any"),
    `reason`. [[line]] tables are lines that may appear in the output through CropDL: `line` (a regular expression), other members as
    above."""

    def __init__(self, path, options):
        with open(path, "rb") as f:
            every = tomllib.load(f)
        self.entries, self.lines = ([e for e in every.get(what, []) if e.get("mpi", options.mpi) == options.mpi and
                                     e.get("interval", bool(options.interval)) == bool(options.interval)]
                                    for what in ("difference", "line"))
        self.seen, self.equal = {}, {}

    def ignored(self, line):
        for e in self.lines:
            if re.fullmatch(e["line"], line):
                self.seen.setdefault(e["line"], []).append(line)
                return True
        return False

    def reason(self, name, differs, texts=False, native=0, mine=0):
        """The reason for a test's difference, or None. Records equal outcomes. `native` and `mine`: exit statuses; None: out of time."""
        for e in self.entries:
            ends = e.get("ends", [])
            fits = ends == "any" or mine in [native] + [None if end == "out of time" else end for end in ends]
            if re.fullmatch(e["test"], name) and (texts or not e.get("texts", False)) and (fits or not differs):
                (self.seen if differs else self.equal).setdefault(e["test"], []).append(name)
                return e["reason"]
        return None

    def outdated(self):
        """Names of known differences, marked as always occurring, that did not occur."""
        always = [e["test"] for e in self.entries if e.get("always", True)]
        return [name for test in always for name in self.equal.get(test, [])]

    def summary(self):
        found = [(e.get("test") or e["line"], e["reason"]) for e in self.entries + self.lines]
        return [f"  {len(self.seen[key])} x {key}: {reason}" for key, reason in found if key in self.seen]


def in_parallel(jobs, items, work):
    """work(item) for all items, `jobs` at a time; yields (item, result) as they complete."""
    items, results, lock, ready = list(items), [], threading.Lock(), threading.Semaphore(0)
    left = iter(items)

    def loop():
        while True:
            with lock:
                item = next(left, None)
            if item is None:
                return
            try:
                result = work(item)
            except Exception as error:  # noqa: BLE001 - told with the item that it happened to
                result = error
            with lock:
                results.append((item, result))
            ready.release()

    for _ in range(jobs):
        threading.Thread(target=loop, daemon=True).start()
    for _ in items:
        ready.acquire()
        with lock:
            item, result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        yield item, result


def table(rows):
    """A Markdown table from rows of equal length; the first is the header."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
