"""What the runners of outside test suites share: one run of a command with a time-out, and what of its output counts.
Needs Python 3 alone. Ends only processes that it started (they carry a mark in their environment)."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "driver"))
from driver import BUILD, Job, launcher, tool  # noqa: E402


class Outcome:
    """Exit status (None: ran out of time) and output of one run."""

    def __init__(self, status, text, seconds):
        self.status, self.seconds = status, seconds
        # What CropDL says goes to standard error with its name before it, beside the program's output.
        self.ours = [line for line in text.splitlines() if line.startswith(("cropdl:", "cropdl-run:"))]
        self.lines = [line for line in text.splitlines() if line.strip() and line not in self.ours]

        self.taken = 0  # versions in the store at the end, by the newest one's number


def run(command, cwd, timeout, environment=None, store=None):
    """One run in a directory and with an environment of its own."""
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
    return [tool("cropdl-run"), "--dir", store] + (["--interval", str(interval)] if interval else []) + ["--"] + program


def in_parallel(jobs, items, work):
    """work(item) for all items, `jobs` at a time; yields (item, result) as they end."""
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
    """Rows of equal length as a Markdown table; the first is the head."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
