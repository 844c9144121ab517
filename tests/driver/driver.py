"""Runs unmodified programs natively, under cropdl-run and under cropdl-restart, kills them, and checks by their logs whether a restarted
run continued. Needs only Python 3 and no privileges. Touches only processes that it started: each carries this run's mark in its
environment."""

import ctypes
import fcntl
import functools
import gc
import json
import os
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

gc.disable()  # tests are too short to need it

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CROPDL_BUILD", os.path.join(SOURCE, "build"))
STARTING = "the program is only just being started or restarted; ask again"
LAUNCHERS = ("mpirun", "mpiexec", "orterun", "orted", "prte", "hydra_", "timeout", "env", "bash", "sh", "dash", "unshare")
PATIENCE = float(os.environ.get("CROPDL_TEST_PATIENCE", "60"))  # limit in seconds for anything that normally takes a few
SKIPPED = 77  # exit status for ctest's SKIP_RETURN_CODE
# All files of the tests lie below this folder. scripts/test makes one for the whole run, and removes it.
SCRATCH = os.environ.get("CROPDL_TEST_TMP", "/tmp")
# Each job in a namespace of process ids of its own, as in a container: a restart's processes then get the ids of the first run. As root. The
# launcher's status is the shell's, so tests of exit statuses fail.
OWN_IDS = (["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"]
           if os.environ.get("CROPDL_TEST_OWN_IDS") == "1" else [])
# Fresh device memory is filled with a pattern, natively and under CropDL, so that reads of uninitialised or lost memory show.
os.environ.setdefault("CROPDL_SOFTWARE_GPU_FRESH", "pattern")


class Failure(Exception):
    """The test failed; the text says how."""


class Skipped(Exception):
    """The test cannot run here; the text says why. Skipped tests are counted, but do not fail the run."""


class TooLate(Failure):
    """The program ended normally before the test was done with it."""


TIMES = (1, 3, 9)  # step length factors: the next one is used when a test was too late


def too_late(text):
    """An expected event did not come. With the longest steps this is a failure; with shorter ones the program may just have ended too soon."""
    raise (TooLate if Job.slower < TIMES[-1] else Failure)(text)


def with_slower_programs(run):
    """Runs the test; if it was too late, again with longer steps."""
    for times in TIMES:
        Job.slower = times
        try:
            return run()
        except TooLate as late:
            print(f"too late with steps of {times} times the length: {late}", flush=True)
    raise Skipped("too slow to tell: the program had ended before the test was done with it, three times")


@functools.cache
def seed():
    number = int(os.environ.get("CROPDL_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {number} (set CROPDL_TEST_SEED to repeat)", flush=True)
    return number


def seeded():
    """The random generator of a test. A failed test prints its seed; CROPDL_TEST_SEED=N repeats it."""
    return random.Random(seed())


def went_into_namespaces(name, *kinds):
    """Runs the test of that name, of the script that runs now, again in new namespaces (options of unshare(1); as root, or in a user namespace).
    False: this is that run."""
    if os.environ.get("CROPDL_TEST_NAMESPACE") == "1":
        return False
    command = ["unshare", *kinds] + ([] if os.geteuid() == 0 else ["--map-root-user"]) + [sys.executable, os.path.abspath(sys.argv[0]), name]
    status = subprocess.run(command, env=dict(os.environ, CROPDL_TEST_NAMESPACE="1")).returncode
    expect(status == 0, f"see above ({' '.join(kinds)} is needed)")
    return True


def needs(memory=0, shm=0, disk=0):
    """Skips the test on a machine with less than this many bytes available."""
    with open("/proc/meminfo") as f:
        available = int(re.search(r"MemAvailable: *(\d+)", f.read()).group(1)) << 10
    for name, wanted, has in (("memory", memory, available), ("/dev/shm", shm, shutil.disk_usage("/dev/shm").free),
                              (SCRATCH, disk, shutil.disk_usage(SCRATCH).free)):
        if has < wanted:
            raise Skipped(f"needs {wanted / 1e9:.1f} GB of {name}, {has / 1e9:.1f} GB are available")


def expect(condition, text):
    if not condition:
        raise Failure(text)


def tool(name):
    return os.path.join(BUILD, "bin", name)


def app(name):
    """Path of an unmodified test program, such as `openmpi/train`."""
    path = os.path.join(BUILD, "tests", "apps", name)
    expect(os.access(path, os.X_OK), f"{path} has not been built")
    return path


def launcher(mpi, ranks, environment=None):
    """The launcher's command line. `environment`: variables for the ranks only, passed by the launcher's option."""
    if mpi == "none":
        return []
    needs(shm=ranks * 40_000_000)  # the MPI's buffers for messages between ranks
    command = [f"mpirun.{mpi}", "-n", str(ranks)]
    if mpi == "openmpi":
        command[1:1] = ["--oversubscribe", "--bind-to", "none"]
    for name, value in (environment or {}).items():
        command += ["-x", f"{name}={value}"] if mpi == "openmpi" else ["-genv", name, value]
    return command


def other(mpi):
    return {"openmpi": "mpich", "mpich": "openmpi"}[mpi]


# --- Processes ---------------------------------------------------------------------------------------------------

def read_proc(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as f:
            return f.read()
    except OSError:
        return b""


def exe_name(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        return ""


def is_zombie(pid):
    stat = read_proc(pid, "stat")
    return not stat or stat.rpartition(b")")[2].split()[0:1] in ([b"Z"], [b"X"])


class Job:
    """A launched command and all its descendants."""

    standard_input = subprocess.DEVNULL
    own_since = 0.0  # earlier log lines belong to the killed run (set for restarted jobs)
    slower = 1  # factor for the pace of all programs

    def __init__(self, command, log, environment=None, cwd=None, output=None):
        pace = [i + 1 for i, word in enumerate(command) if word == "--pace"]
        self.command = command = [str(int(word) * self.slower) if i in pace else word for i, word in enumerate(command)]
        self.log = log
        self.mark = "CROPDL_TEST_MARK=" + os.urandom(16).hex()
        name, value = self.mark.split("=")
        environ = dict(os.environ, **(environment or {}))
        environ[name] = value
        if os.geteuid() == 0:  # Open MPI needs both to run as root
            environ["OMPI_ALLOW_RUN_AS_ROOT"] = environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        self.output_path = output
        with open(output, "wb") as out:
            self.started = time.time()
            self.process = subprocess.Popen(OWN_IDS + command, stdin=self.standard_input, stdout=out, stderr=subprocess.STDOUT,
                                            env=environ, cwd=cwd, start_new_session=True)

    def processes(self):
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and self.mark.encode() in read_proc(entry, "environ") and not is_zombie(entry):
                found.append(int(entry))
        return found

    def left(self):
        """What the processes that still run are doing, for a failure's message."""
        lines = []
        for pid in self.processes():
            status = read_proc(pid, "status").decode(errors="replace")
            fields = [re.search(rf"^{name}:\s*(.*)$", status, re.MULTILINE) for name in ("Name", "State", "PPid", "SigPnd", "ShdPnd", "SigBlk")]
            words = read_proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")[:100]
            lines.append(f"{pid}: {' '.join(field.group(1) for field in fields if field)}; in {read_proc(pid, 'wchan').decode()}; {words}")
        return "\n".join(lines + self.output().splitlines()[-5:])

    def ranks(self):
        """The launcher's descendants that are ranks, including the children of ranks."""
        result = []
        for pid in self.processes():
            name = exe_name(pid)
            if not name or name.startswith(LAUNCHERS):
                continue
            if name.startswith("cropdl-restart") and pid == self.process.pid and len(self.command) < 6:
                # cropdl-restart without a launcher becomes the launcher or waits for it; it is a rank only if no launcher runs below it.
                if any(exe_name(p).startswith(LAUNCHERS) for p in self.processes()):
                    continue
            result.append(pid)
        return result

    def kill_ranks(self):
        """Sends SIGKILL to all ranks; then to the launcher too, unless it ends by itself."""
        victims = self.ranks()
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass
        self.kill_all()
        return len(victims)

    def kill_all(self):
        end = time.monotonic() + 20
        while True:
            left = self.processes()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if not left:
                return
            expect(time.monotonic() < end, f"processes {left} do not die")
            time.sleep(0.01)

    def alive(self):
        return self.process.poll() is None

    def output(self):
        with open(self.output_path, "r", errors="replace") as f:
            return f.read()

    def kill_running(self):
        """kill_ranks() of a job that must still run. If the job ended meanwhile, the test is too late: its log would look like the
        restarted run's."""
        self.must_run()
        killed = self.kill_ranks()
        if any(log.digest is not None for log in logs_of(self.log, 64)):
            raise TooLate("the job ended while it was being killed")
        return killed

    def must_run(self):
        """The job must still run: an ended program makes the test too late, a dead one fails it."""
        over = Log(self.log).digest is not None
        if self.alive() and not over:
            return
        try:
            status = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            status = "nothing yet"  # the launcher may outlive the program
        over = over or Log(self.log).digest is not None  # the program may have ended just now
        if status in (0, "nothing yet") and over:
            raise TooLate("the job ended before it could be killed")
        raise Failure(f"ended with {status}: {self.output()}")

    def finish(self, timeout=None):
        """Waits until the job ends by itself; its exit status must be 0."""
        try:
            status = self.process.wait(timeout=timeout or 3 * PATIENCE)
        except subprocess.TimeoutExpired:
            state = describe(self)
            self.kill_all()
            raise Failure(f"still running after {timeout or 3 * PATIENCE:.0f} s: {' '.join(self.command)}\n{state}")
        expect(status == 0 or self.mpirun_missed_the_end(), f"ended with {status}: {' '.join(self.command)}\n{tail(self.output())}")

    def mpirun_missed_the_end(self):
        """Open MPI's MPI_Finalize waits 2 s at most for mpirun to take note (PMIx 4.2). On a busy machine mpirun may see the end of the process
        first, and complain. Of native runs, whose ranks all reached their end."""
        logs = logs_of(self.log, 64)
        return (not any(os.path.basename(word).startswith("cropdl") for word in self.command) and
                'this process called "init", but exited without calling "finalize"' in self.output() and
                bool(logs) and all(log.digest is not None and log.failed is None for log in logs))

    def wait_for_step(self, step, timeout=None):
        return self.wait_for_log(lambda log: log.last_step(self.own_since) >= step,
                                 lambda log: f"step {step} (at {log.last_step(self.own_since)})", timeout).last_step(self.own_since)

    def wait_for_word(self, words):
        """Waits until rank 0's log says that it is at one of these words. Returns the word that it is at: another one, or none, if the program
        has ended."""
        return self.wait_for_log(lambda log: log.at in words, lambda log: f"any of {words} (at {log.at})").at

    def wait_for_log(self, reached, named, timeout=None):
        """Waits until rank 0's log has reached what `named` names, or has a result. Returns the log."""
        end = time.monotonic() + (timeout or PATIENCE)
        changes = Changes(os.path.dirname(self.log))
        while True:
            alive = self.alive()  # checked before the log: the log of an ended job is complete
            log = Log(self.log)
            if reached(log) or log.digest is not None:
                return log
            if not alive:
                raise Failure(f"ended with {self.process.returncode} before {named(log)}: "
                              f"{' '.join(self.command)}\n{tail(self.output())}")
            expect(time.monotonic() < end,
                   f"did not reach {named(log)} in {timeout or PATIENCE:.0f} s: {' '.join(self.command)}\n{describe(self)}")
            changes.wait(0.2)


class Changes:
    """Waits until a file in the directory changes (inotify(7)), so that waiting for a log line takes no processor time from the ranks.
    Changes after the construction are not missed."""

    MODIFY, MOVED_TO, CREATE = 0x2, 0x80, 0x100
    C = ctypes.CDLL(None, use_errno=True)

    def __init__(self, directory):
        self.fd = self.C.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd >= 0:
            self.C.inotify_add_watch(self.fd, os.fsencode(directory), self.MODIFY | self.MOVED_TO | self.CREATE)

    def __del__(self):
        if self.fd >= 0:
            os.close(self.fd)

    def wait(self, seconds):
        """Waits this long at most: the end of a process changes no file."""
        if self.fd < 0:  # this user has no inotify instances left
            time.sleep(0.01)
        elif select.select([self.fd], [], [], seconds)[0]:
            os.read(self.fd, 1 << 16)


def describe(job):
    lines = [tail(job.output())]
    for pid in job.processes():
        state = read_proc(pid, "stat").rpartition(b")")[2].split()[0:1]
        lines.append(f"  {pid} {exe_name(pid)} {state} wchan={read_proc(pid, 'wchan').decode()}")
    return "\n".join(lines)


def tail(text, lines=15):
    return "\n".join("  | " + line for line in text.splitlines()[-lines:])


# --- Logs --------------------------------------------------------------------------------------------------------

class Log:
    """The lines that a program has written so far (format: tests/apps/steplog.h)."""

    def __init__(self, path):
        self.path = path
        self.nonces, self.steps, self.digest, self.final_nonce, self.failed, self.accuracy = [], [], None, None, None, None
        self.at = None  # the last `at WORD` not yet followed by a step
        self.words = None  # address where the program notes its device's activity (`at device-words-ADDRESS`)
        self.ends_cleanly = True
        try:
            with open(path, "rb") as f:
                data = f.read()
        except FileNotFoundError:
            return
        self.ends_cleanly = not data or data.endswith(b"\n")
        for raw in data.split(b"\n")[:-1]:
            words = raw.decode(errors="replace").split()
            if not words:
                continue
            if words[0] == "nonce" and len(words) == 2:
                self.nonces.append(words[1])
            elif words[0] == "step" and len(words) == 3:
                self.steps.append((int(words[1]), float(words[2])))
                self.at = None
            elif words[0] == "at" and words[1].startswith("device-words-"):
                self.words = int(words[1].rpartition("-")[2], 16)
            elif words[0] == "at" and len(words) == 3:
                self.at = words[1]
            elif words[0] == "failed":
                self.failed = " ".join(words[1:])
            elif words[0] == "ok":
                self.digest, self.final_nonce = words[1], words[2].removeprefix("nonce=")
            elif words[0] == "final":
                fields = dict(word.split("=") for word in words[1:])
                self.digest, self.final_nonce, self.accuracy = fields["hash"], fields["nonce"], float(fields["accuracy"])
            elif words[0] != "epoch":
                raise Failure(f"{path}: not a line of the program: {raw!r}")

    def last_step(self, since=0.0):
        own = [step for step, moment in self.steps if moment >= since]
        return own[-1] if own else 0

    def last_step_at(self, moment):
        return max((k for k, t in self.steps if t <= moment), default=0)


def logs_of(path, ranks):
    return [Log(path)] + [Log(f"{path}.{r}") for r in range(1, ranks) if os.path.exists(f"{path}.{r}")]


def check_whole(log):
    """The log has exactly one nonce, which the program still had at its end, and every step once, in order."""
    expect(log.failed is None, f"{log.path}: the program's self check failed: {log.failed}")
    expect(len(log.nonces) == 1, f"{log.path}: {len(log.nonces)} nonces: the program was started anew")
    expect(log.digest is not None, f"{log.path}: no result")
    expect(log.final_nonce == log.nonces[0],
           f"{log.path}: nonce {log.nonces[0]} at the start, {log.final_nonce} at the end: not the same process state")
    for index, (step, _) in enumerate(log.steps):
        expect(step == index + 1, f"{log.path}: step {step} instead of {index + 1}")


def check_continued(before, after, restarted_at, least, most):
    """`before`: the log when the ranks were dead; `after`: the log now. The restarted run must have the same nonce and continue after the
    version's step, which lies between `least` and `most`. Returns the step that it continued from."""
    expect(before.nonces == after.nonces,
           f"{after.path}: nonce {before.nonces} before the kill, {after.nonces} after: started over")
    new = [step for step, moment in after.steps if moment >= restarted_at]
    old = [step for step, moment in after.steps if moment < restarted_at]
    from_step = new[0] - 1 if new else (old[-1] if old else 0)
    expect((old[-1] if old else 0) == from_step,
           f"{after.path}: the restarted run's first step is {from_step + 1}, the log before it ends with {old[-1:]}")
    expect(least <= from_step <= most,
           f"{after.path}: went on from step {from_step}, but the version was taken between steps {least} and {most}")
    return from_step


# --- A place of its own, and what happens in it ------------------------------------------------------------------

class Place:
    """A temporary directory with a store, a log and the jobs of one test. On exit it kills every job."""

    def __init__(self, name="t"):
        needs(memory=500_000_000, disk=500_000_000)
        # Short, since MPIs make sockets below it. Outside of a run's folder the name contains the test's pid (see tests/run.py).
        prefix = f"cropdl-test.{os.getpid()}." if SCRATCH == "/tmp" else ""
        self.root = tempfile.mkdtemp(prefix=f"{prefix}{name[:12]}-", dir=SCRATCH)
        self.store = os.path.join(self.root, "store")
        self.jobs = []
        os.mkdir(self.path("tmp"))

    def path(self, name):
        return os.path.join(self.root, name)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for job in self.jobs:
            job.kill_all()
        if kind is None or not os.environ.get("CROPDL_TEST_KEEP"):
            shutil.rmtree(self.root, ignore_errors=True)
        else:
            print(f"kept: {self.root}")

    def start(self, command, log=None, environment=None):
        environment = dict({"TMPDIR": self.path("tmp")}, **(environment or {}))
        job = Job(command, log or self.path("log"), environment, self.root, self.path(f"output-{len(self.jobs)}"))
        self.jobs.append(job)
        return job

    def run(self, program, arguments=(), mpi="none", ranks=1, options=(), environment=None, log=None, preload=False):
        """Starts a program under cropdl-run, or with `preload` through LD_PRELOAD. `program`: the name of a test program, or the words of a
        command. Unless the options have --interval, no version is taken automatically."""
        log = log or self.path("log")
        target = ([app(program)] if isinstance(program, str) else list(program)) + list(arguments) + ["--log", log]
        if preload:
            library = {"LD_PRELOAD": os.path.join(BUILD, "lib", "libcropdl.so"), "CROPDL_DIR": self.store,
                       "CROPDL_INTERVAL": (environment or {}).get("CROPDL_INTERVAL", "0")}
            command = launcher(mpi, ranks, library) + target
        else:
            unasked = [] if "--interval" in options else ["--interval", "0"]
            command = launcher(mpi, ranks) + [tool("cropdl-run"), "--dir", self.store] + unasked + list(options) + ["--"] + target
        return self.start(command, log, environment)

    def restart(self, mpi="none", ranks=1, alone=False, options=(), environment=None, log=None):
        command = [] if alone else launcher(mpi, ranks)
        job = self.start(command + [tool("cropdl-restart")] + list(options) + [self.store], log, environment)
        job.own_since = job.started
        return job

    def checkpoint(self, *options, timeout=None):
        """`cropdl checkpoint`, repeated while a rank answers that it has not reached its program yet. Returns (status, text, seconds)."""
        end = time.monotonic() + PATIENCE
        while True:
            answer = self.ask([tool("cropdl"), "checkpoint", *options, self.store], timeout)
            if STARTING not in answer[1] or time.monotonic() > end:
                return answer
            time.sleep(0.05)

    def ask(self, command, timeout=None, environment=None):
        """Runs a command. Returns (status, text, seconds); the text omits the "waiting for" lines of a checkpoint."""
        environ = dict(os.environ, **(environment or {}))
        if os.geteuid() == 0:
            environ["OMPI_ALLOW_RUN_AS_ROOT"] = environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        began = time.monotonic()
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=timeout or PATIENCE, cwd=self.root, env=environ, errors="replace")
        except subprocess.TimeoutExpired:
            state = "\n".join(describe(job) for job in self.jobs if job.alive())
            raise Failure(f"did not return in {timeout or PATIENCE:.0f} s: {' '.join(command)}\n{state}")
        return done.returncode, without_waiting(done.stdout).strip(), time.monotonic() - began

    def versions(self):
        try:
            names = os.listdir(self.store)
        except OSError:
            return []
        return sorted(int(name[1:]) for name in names if re.fullmatch(r"v\d+", name))

    def version_path(self, version, name=""):
        return os.path.join(self.store, f"v{version:06d}", name)

    def phase(self):
        try:
            with open(os.path.join(self.store, "phase")) as f:
                return f.read().strip()
        except OSError:
            return ""


def installed_for_others(place, *programs):
    """Copies the commands and these programs to where another user can run them. Returns functions like tool and app."""
    for folder in ("bin", "lib"):
        os.makedirs(place.path(f"cropdl/{folder}"), exist_ok=True)
    for name in ("cropdl", "cropdl-run", "cropdl-restart", "cropdl-lower-none", "cropdl-lower-openmpi", "cropdl-lower-mpich"):
        if os.path.exists(tool(name)):
            shutil.copy(tool(name), place.path("cropdl/bin"))
    for name in os.listdir(os.path.join(BUILD, "lib")):
        if ".so" in name:
            shutil.copy(os.path.join(BUILD, "lib", name), place.path("cropdl/lib"))
    for name in programs:
        os.makedirs(os.path.dirname(place.path(f"programs/{name}")), exist_ok=True)
        shutil.copy(app(name), place.path(f"programs/{name}"))
    for top in ("cropdl", "programs"):
        for at, _, names in os.walk(place.path(top)):
            for path in [at] + [os.path.join(at, name) for name in names]:
                os.chmod(path, 0o755)
    return lambda name: place.path(f"cropdl/bin/{name}"), lambda name: place.path(f"programs/{name}")


def trailer_of(image):
    """The fields of the trailer of an open image (docs/image-format.md)."""
    image.seek(-80, os.SEEK_END)
    return struct.unpack("<8s9Q", image.read())


def metadata_of(path):
    """The metadata of an image (docs/image-format.md)."""
    with open(path, "rb") as image:
        trailer = trailer_of(image)
        image.seek(trailer[5])
        return json.loads(image.read(trailer[6]))


def data_of(path, wanted):
    """Where an image without compression has the stored pages of its regions of this kind (docs/image-format.md): [(name, offset in the file,
    bytes)]."""
    with open(path, "rb") as image:
        chunk_bytes = struct.unpack_from("<I", image.read(24), 20)[0]
        trailer = trailer_of(image)
        image.seek(trailer[2])
        index = image.read(trailer[3])
    found, offset, at = [], 4096, 8
    for _ in range(struct.unpack_from("<Q", index)[0]):
        _, _, _, name_bytes, kind, _, stored, referenced = struct.unpack_from("<QQIIIIQQ", index, at)
        at += 48
        name = index[at:at + name_bytes].decode()
        at += (name_bytes + 7) // 8 * 8
        extents = [struct.unpack_from("<QQ", index, at + 16 * i) for i in range(stored + referenced)]
        at += 16 * len(extents)
        for part in (extents[:stored], extents[stored:]):
            at += 8 * len({block for begin, end in part for block in range(begin // chunk_bytes, (end - 1) // chunk_bytes + 1)})
        size = sum(end - begin for begin, end in extents[:stored])
        if kind == wanted and size > 0:
            found.append((name, offset, size))
        offset += size
    expect(at == len(index) and offset == trailer[2], f"{path}: the index was not understood")
    return found


def manifest_of(place, version):
    with open(place.version_path(version, "manifest.json")) as f:
        return json.load(f)


def iteration_of(place, version):
    """The iteration number of a version; all its images must have the same."""
    found = {image.get("iteration", 0) for image in manifest_of(place, version)["images"]}
    expect(found != {0}, f"version {version}: no iteration was found")
    expect(len(found) == 1, f"version {version}: its images are of iterations {sorted(found)}")
    return found.pop()


def forge(program, version_path, *words, statuses=(0,)):
    """Runs forge_version or forge_memory, which change a version and keep its checksums right. Returns (exit status, output)."""
    done = subprocess.run([os.path.join(BUILD, "tests", "driver", program), version_path, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    expect(done.returncode in statuses, f"{program} {words}: {done.returncode}: {done.stdout}")
    return done.returncode, done.stdout.strip()


def recipes_of(place, version, ranks):
    """Per rank, how many recipes the image has for objects of CUDA's libraries."""
    found = []
    for rank in range(ranks):
        libraries = metadata_of(place.version_path(version, f"rank-{rank}.img"))["libraries"]
        found.append(sum(library["recipes"] for library in libraries))
    return found


def native(place, program, arguments=(), mpi="none", ranks=1, environment=None, through=(), limit=None):
    """An undisturbed run without CropDL. Returns its logs, one per rank that keeps one. `through`: a command that starts the program and
    becomes it (scripts/software-gpu). `limit`: see Job.finish. During scripts/test, the result is kept and used again for equal arguments,
    unless these contain this test's directory."""
    if "--pace" in arguments:  # results do not depend on it, and the last option counts
        arguments = (*arguments, "--pace", "1000")
    log = place.path("reference")
    kept = os.environ.get("CROPDL_TEST_REFERENCES")
    if kept is None or any(place.root in text for text in (*arguments, *(environment or {}).values())):
        return native_run(place, log, program, arguments, mpi, ranks, environment, through, limit)
    import hashlib  # rarely needed, and slow to import
    key = hashlib.sha256(repr((app(program), arguments, mpi, ranks, through, sorted((environment or {}).items()))).encode()).hexdigest()
    name = os.path.join(kept, key[:24])
    with open(name + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(name):
            logs = native_run(place, log, program, arguments, mpi, ranks, environment, through, limit)
            for one in reversed(logs):  # rank 0's last: its presence means that all are there
                shutil.copy(one.path, name + one.path.removeprefix(log) + ".new")
                os.rename(name + one.path.removeprefix(log) + ".new", name + one.path.removeprefix(log))
            return logs
    return logs_of(name, ranks)


def native_run(place, log, program, arguments, mpi, ranks, environment, through, limit):
    job = place.start(launcher(mpi, ranks) + [*through, app(program)] + list(arguments) + ["--log", log], log, environment)
    job.finish(limit)
    logs = logs_of(log, ranks)
    for one in logs:
        check_whole(one)
    return logs


def without_waiting(text):
    """The output of `cropdl checkpoint` without the lines that say what it waits for."""
    return re.sub(r"^cropdl: waiting for \d+ s: .*\n", "", text, flags=re.MULTILINE)


def as_pattern(words):
    """A regular expression from words of a test: @ is the test's directory, <n> a number, <x> a hexadecimal number, <w> a word."""
    return re.escape(words).replace("<n>", r"\d+").replace("<x>", r"[0-9a-f]+").replace("<w>", r"\w+")


def expect_taken(job, status, text):
    """Checks the result of `cropdl checkpoint`. If it failed because the program had ended, the test was too late."""
    if status != 0:
        if "has ended its program" in text:  # one of several ranks that do not wait for each other
            raise TooLate(text)
        job.must_run()
    expect(status == 0, text)


def check_refused(place, status, text, words):
    """`cropdl checkpoint` ended with exactly one line, a refusal in exactly these words, and made no version."""
    if "checkpoint refused" not in text:
        place.jobs[-1].must_run()
    text = text.strip().replace(place.root, "@")
    expect(status != 0, f"a checkpoint was taken that was to be refused ({words}): {text}")
    expect(re.fullmatch(rf"cropdl: checkpoint refused: rank \d+: {as_pattern(words)}", text), f"refused in other words than {words!r}: {text}")
    expect(not place.versions(), f"refused, but there are versions {place.versions()}")
    print(f"refused: {text}")


# What `cropdl checkpoint` may say when a program can be saved only at times: the rank that stands in the way.
NOT_NOW = re.compile(r"cropdl: checkpoint (refused|failed): rank \d+:? .+"
                     r"|cropdl: checkpoint given up after \d+ attempts? of [\d.]+ s: (rank \d+ .+|no rank is stuck, but at no moment were all ranks outside collectives); try again later")


def take_checkpoint(place, job, attempts=1):
    """Takes a checkpoint, which must succeed; of several attempts the last one, and those before it must be refused or given up by name.
    Returns the version, the text, and per log the bounds of the version's step."""
    log_paths = [log.path for log in logs_of(job.log, 64)]
    while True:
        least = [Log(path).last_step() for path in log_paths]
        status, text, seconds = place.checkpoint()
        most = [Log(path).last_step() for path in log_paths]
        attempts -= 1
        if status == 0 or attempts == 0:
            break
        if not NOT_NOW.fullmatch(text):
            job.must_run()
            raise Failure(f"an attempt failed, and its line does not name what stood in the way: {text!r}")
        time.sleep(0.05)
    if status != 0:
        why = f"checkpoint failed with {status}: {text}\n{describe(job)}"
        if seconds < 3:  # a longer one was delayed until the program ended
            expect_taken(job, status, why)
        raise Failure(why)
    found = re.search(r"version (\d+)", text)
    expect(found and len(text.splitlines()) == 1, f"`cropdl checkpoint` printed: {text!r}")
    version = int(found.group(1))
    expect(version in place.versions(), f"version {version} was reported but {place.version_path(version)} is not there")
    # Plus one: at the cut, a step may have its time already while its line is not written yet.
    return version, text, dict(zip(log_paths, zip(least, (step + 1 for step in most))))


def stall_of(text):
    """The stall in seconds, as `cropdl checkpoint` printed it."""
    stall = re.search(r"stall ([0-9.]+)", text)
    expect(stall, f"no stall in {text!r}")
    return float(stall.group(1))


def status_of(work):
    """Runs work(); returns a script's exit status: 0, or 1 after a failure, which is printed."""
    try:
        work()
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    return 0


def check_results(job, reference, ranks):
    """The run has ended, its logs are complete, and its digests equal those of the undisturbed run."""
    for rank, (one, undisturbed) in enumerate(zip(logs_of(job.log, ranks), reference, strict=True)):
        check_whole(one)
        expect(one.digest == undisturbed.digest, f"rank {rank}: digest {one.digest}, undisturbed {undisturbed.digest}: DIFFERENT")


def collects_into(scenarios):
    """Returns the decorator @scenario(NAME) of a file, which adds a function to the file's tests."""
    def scenario(name):
        def keep(function):
            scenarios[name] = function
            return function
        return keep
    return scenario


def in_long_form():
    """Whether the test of this process runs in its long form: it was started as NAME.long, or with CROPDL_TEST_LONG=1."""
    return os.environ.get("CROPDL_TEST_LONG") == "1" or sys.argv[-1].endswith(".long")


def scenario_main(scenarios, at_random=False, quick=(), long=(), twins=()):
    """`FILE --list` prints a line for each test: name, labels, number of processors that it keeps busy. `FILE NAME` runs one test.
    at_random: the tests depend on random moments (seeded() or the scheduler, such as a checkpoint of a running program), so tests/run.py
    runs a failed one a second time. quick: name prefixes of the tests that scripts/test --quick runs. long: the names that only
    scripts/test --long runs. twins: the names of tests with a long form (in_long_form()), which scripts/test --long runs as NAME.long."""
    long = {*long, *(f"{name}.long" for name in twins)}
    scenarios.update({f"{name}.long": scenarios[name] for name in twins})
    if sys.argv[1:] == ["--list"]:
        for name in scenarios:
            labels = [label for label, has in (("random", at_random), ("quick", name not in long and name.startswith(tuple(quick))),
                                               ("long", name in long)) if has]
            print(name, ",".join(labels) or "-", 2 if "mpi" in name else 1)
        return 0
    if len(sys.argv) != 2 or sys.argv[1] not in scenarios:
        print(f"usage: {sys.argv[0]} --list | NAME", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ctest's time limit: end the jobs anyway
    if at_random:
        seed()
    try:
        with_slower_programs(scenarios[sys.argv[1]])
    except Skipped as why:
        print(f"skipped: {sys.argv[1]}: {why}")
        return SKIPPED
    except (Failure, OSError) as failure:
        print(f"FAILED {sys.argv[1]}: {failure}")
        return 1
    print(f"passed: {sys.argv[1]}")
    return 0
