#!/usr/bin/env python3
"""How cropdl-run and cropdl-restart handle unexpected options, files and programs."""

import fcntl
import graphlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time

from driver import (BUILD, Failure, Job, Log, PATIENCE, Place, SOURCE, app, check_continued, check_results, check_whole, expect, expect_taken, collects_into, forge, launcher,
                    logs_of, metadata_of, native, scenario_main, take_checkpoint, tool)
from hazard_scenarios import CLONE, CLONE3, MODIFY_LDT, SECCOMP, without_call

SCENARIOS = {}
scenario = collects_into(SCENARIOS)


def says(place, command, line, environment=None, timeout=None):
    """Fails with exactly this line (a regular expression), within seconds."""
    status, text, _ = place.ask(command, timeout or 20, environment)
    expect(0 < status < 128, f"status {status}: {' '.join(command)}: {text}")
    expect(re.fullmatch(line, text), f"{' '.join(command)} says:\n  {text}\nwanted:\n  {line}")


@scenario("bad_input.script_that_is_its_own_interpreter")
def circle():
    with Place("circle") as place:
        script = place.path("script")
        with open(script, "w") as f:
            f.write(f"#!{script}\n")
        os.chmod(script, 0o755)
        says(place, [tool("cropdl-run"), "--dir", place.store, script], r"cropdl-run: .*: Too many levels of symbolic links")
        status, text, _ = place.ask([tool("cropdl"), "doctor", "--dir", place.store, script])
        expect(status == 1 and "Too many levels" in text, text)


@scenario("command.doctor_reports_the_owner_of_a_store")
def whose_store():
    with Place("whose") as place:
        made_store(place)
        steps = ("--steps", "2000", "--pace", "10000")
        with open(place.path("lock"), "w"):
            pass
        os.mkdir(place.path("begun"))
        os.rename(place.path("lock"), place.path("begun/lock"))
        os.mkdir(place.path("empty"))  # its job has taken no version: anybody's
        shutil.copy(os.path.join(place.store, "store.json"), place.path("empty"))
        other = r"belongs to another job, `.*plain .*--pace 10000.*` on 1 rank; choose another directory"
        for program, words, store, status, wanted in (
                ("plain/plain", (), place.store, 0, "has 1 complete versions"), ("plain/threads_timed", (), place.store, 1, other),
                ("plain/plain", ("--steps", "1"), place.store, 1, other), ("plain/plain", steps, place.path("begun"), 0, "(ok|slow) +disk"),
                ("plain/plain", (), place.path("empty"), 0, "has 0 complete versions"),
                ("plain/threads_timed", (), place.path("empty"), 0, "has 0 complete versions")):
            got, text, _ = place.ask([tool("cropdl"), "doctor", "--dir", store, app(program), *words])
            expect(got == status and re.search(wanted, text), f"{program} {words}: status {got}: {text}")


@scenario("command.doctor_reports_what_the_machine_lacks")
def lacking():
    """A limit or a system call is taken from the command, one after the other."""
    def limited(which, most):
        return lambda: resource.setrlimit(which, (most, most))

    def asked(status, *lines, before=lambda: None, environment=None, to="new"):
        done = subprocess.run([tool("cropdl"), "doctor", "--dir", place.path(to), app("plain/plain")], capture_output=True, text=True,
                              preexec_fn=before, env=dict(os.environ, **(environment or {})))
        expect(done.returncode == status and not done.stderr, f"{done}")
        for line in lines:
            expect(re.search(rf"^{line}$", done.stdout, re.MULTILINE), f"not the line {line}:\n{done.stdout}")
        return done.stdout

    with Place("lacking") as place:
        text = asked(0, "ok +seccomp +filters can be set", "ok +/proc .*", "ok +limits +file sizes, open files", "ok +threads +3 more can be started",
                     "ok +directory +" + re.escape(os.getcwd()))
        speed = re.search(r": ([\d.]+) (.)B a second, so [\d.]+ s for 1 GB .* allows a version every ([\d.]+) (s|min|h) \(--max-overhead\); .* free", text)
        expect(speed, text)
        seconds = 1e9 / (float(speed[1]) * {"k": 1e3, "M": 1e6, "G": 1e9}[speed[2]])
        every = float(speed[3]) * {"s": 1, "min": 60, "h": 3600}[speed[4]]
        expect(0.7 < every / max(seconds / 0.01, 10 + seconds) < 1.4, f"not 1 % of {every} s: {text}")  # rounded
        asked(0, "slow +CPU +no FSGSBASE .*", environment={"CROPDL_NO_FSGSBASE": "1"})
        asked(0, "slow +modify_ldt +Function not implemented: .*", before=lambda: without_call(MODIFY_LDT))
        asked(1, r"prevents +seccomp +filters: Function not implemented \(containers may forbid it\)", before=lambda: without_call(SECCOMP))
        asked(1, r"prevents +limits +only 100 files may be open, and a restart needs \d+ \(ulimit -Hn\)", before=limited(resource.RLIMIT_NOFILE, 100))
        asked(0, r"ok +limits +no file may be larger than 500.0 MB, and a rank's image is one \(ulimit -Hf\)",
              before=limited(resource.RLIMIT_FSIZE, 500_000_000))
        asked(1, "prevents +limits +no file may be larger than 8.0 MB, .*", "prevents +disk .*: cannot be written: File too large",
              before=limited(resource.RLIMIT_FSIZE, 8_000_000))
        asked(1, r"prevents +threads +only 0 more can be started, and a rank needs 3 for CropDL: Function not implemented \(ulimit -Hu, .*\)",
              before=lambda: [without_call(call) for call in (CLONE, CLONE3)])
        os.mkdir(place.path("gone"))
        asked(1, "prevents +directory +the present one cannot be entered by its name, as a restart would: No such file or directory",
              before=lambda: (os.chdir(place.path("gone")), os.rmdir(place.path("gone"))))
        asked(1, "prevents +store .*/nowhere/new: cannot be made: No such file or directory", to="nowhere/new")
        os.symlink("nowhere", place.path("link"))
        with open(place.path("file"), "w"):
            pass
        asked(1, "prevents +store .*/link: is a link to nothing", to="link")
        asked(1, "prevents +store .*/file/new: cannot be made: Not a directory", to="file/new")
        asked(1, "prevents +store .*: cannot be made: File name too long", to=256 * "x")
        os.unlink(place.path("link"))
        os.unlink(place.path("file"))
        expect(os.listdir(place.root) == ["tmp"], f"files are left: {os.listdir(place.root)}")


@scenario("command.write_errors_and_damage_are_failures")
def no_success():
    with Place("full") as place:
        made_store(place)
        for command in ("list", "status", "verify", "inspect", "report --output -"):
            done = subprocess.run([tool("cropdl"), *command.split(), place.store], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
            expect(done.returncode == 1 and done.stderr == "cropdl: standard output: cannot be written: No space left on device\n", f"{command}: {done}")
        identity = os.path.join(place.store, "store.json")
        with open(identity, "r+b") as f:
            f.seek(20)
            f.write(b"\0")
        line = rf"{re.escape(identity)}: damaged: .*; remove it: the store's versions tell whose it is, too"
        status, text, _ = place.ask([tool("cropdl"), "verify", place.store])
        expect(status == 1 and re.search(line, text) and "version 1: good" in text, text)
        says(place, [tool("cropdl-restart"), place.store], "cropdl-restart: " + line)
        os.unlink(identity)
        job = place.restart()
        job.wait_for_step(Log(job.log).last_step() + 3)
        job.kill_running()
        says(place, [tool("cropdl"), "chekpoint", place.store], r"cropdl: unknown command `chekpoint` \(see cropdl --help\)")


@scenario("command.report_is_not_written_into_a_store_through_a_link")
def dangling_link():
    with Place("link") as place:
        made_store(place)
        page, inside = place.path("page.html"), os.path.join(place.store, "page.html")
        os.symlink(inside, page)
        says(place, [tool("cropdl"), "report", place.store, "--output", page], r"cropdl: .*page\.html: is a link to nothing; name a file with --output")
        expect(not os.path.lexists(inside), "written into the store")


def made_store(place, versions=1):
    job = place.run("plain/plain", ("--steps", "2000", "--pace", "10000"))
    job.wait_for_step(3)
    for _ in range(versions):
        take_checkpoint(place, job)
    job.kill_running()


# --- Words -------------------------------------------------------------------------------------------------------

@scenario("bad_input.invalid_numbers_are_named")
def numbers():
    run, restart = tool("cropdl-run"), tool("cropdl-restart")
    with Place("numbers") as place:
        for word in ("nan", "inf", "-inf", "5x", "1e999"):
            says(place, [run, f"--interval={word}", app("plain/plain")],
                 rf"cropdl-run: --interval: `{re.escape(word)}` is not a number of seconds \(see cropdl-run --help\)")
        for word in ("-5", "1e-300", "1e-400", "1e300", "17976931348623157" + "0" * 292):
            shown = word if len(word) <= 40 else word[:40] + "..."
            says(place, [run, "--interval", word, app("plain/plain")],
                 rf"cropdl-run: --interval: `{re.escape(shown)}` is not between 0.001 seconds and ten years "
                 r"\(see cropdl-run --help\)")
        for word in ("0", "-1", "1.5", "4" * 30, "x"):
            says(place, [restart, "--version", word, place.store],
                 rf"cropdl-restart: --version: `{re.escape(word)}` is not a version's number \(see cropdl-restart --help\)")
        says(place, [restart, "--interval", "nan", place.store],
             r"cropdl-restart: --interval: `nan` is not a number of seconds \(see cropdl-restart --help\)")
        for command, program in ((run, app("plain/plain")), (restart, place.store)):
            name = os.path.basename(command)
            for options, wrong in (
                    (["--max-overhead", "x"], "--max-overhead: `x` is not a number of percent"),
                    (["--max-overhead", "%"], "--max-overhead: `%` is not a number of percent"),
                    (["--max-overhead", "0"], "--max-overhead: `0` is not between 0.001 and 100 percent"),
                    (["--max-overhead=101%"], "--max-overhead: `101%` is not between 0.001 and 100 percent"),
                    (["--mtbf", "12 weeks"], "--mtbf: `12 weeks` is not a duration, such as 43200 (seconds), 30m, 12h or 3d"),
                    (["--mtbf", "h"], "--mtbf: `h` is not a duration, such as 43200 (seconds), 30m, 12h or 3d"),
                    (["--mtbf=-1"], "--mtbf: `-1` is not between a second and a thousand years"),
                    (["--mtbf", "9999999d"], "--mtbf: `9999999d` is not between a second and a thousand years"),
                    (["--interval", "60", "--mtbf", "3d"], "--mtbf: goes with --interval auto, not with --interval 60"),
                    (["--max-overhead", "2", "--interval", "0"],
                     "--max-overhead: goes with --interval auto, not with --interval 0"),
                    (["--interval", "automatic"], "--interval: `automatic` is not a number of seconds")):
                says(place, [command, *options, program], re.escape(f"{name}: {wrong} (see {name} --help)"))
        expect(not os.path.exists(place.store), "a store was made")


@scenario("bad_input.valid_schedules_are_accepted")
def schedules():
    """Every form in the help text starts the program."""
    with Place("schedules") as place:
        for options in (["--interval", "auto"], ["--interval", "0"], ["--interval=0.0"], ["--max-overhead", "1"],
                        ["--max-overhead", "0.5%"], ["--mtbf", "43200", "--interval", "auto"], ["--mtbf", "30m"],
                        ["--mtbf", "12h", "--max-overhead=100"], ["--mtbf", "3d"], ["--mtbf", "0"]):
            status, text, _ = place.ask([tool("cropdl-run"), *options, "--dir", place.store, "/bin/echo", "said"])
            expect(status == 0 and text == "said", f"{options}: {status}: {text}")


@scenario("bad_input.unknown_options_are_refused")
def unknown_options():
    run = tool("cropdl-run")
    with Place("options") as place:
        for words in (["--intervall=60"], ["--intervall", "60"], ["--dir", place.store, "--verbose"], ["-x"],
                      ["--dir", place.store, "--verbose", "--"]):
            named = next(word for word in words if word not in ("--dir", place.store))
            says(place, [run, *words, app("plain/plain"), "--steps", "1"],
                 rf"cropdl-run: unknown option `{re.escape(named)}` \(see cropdl-run --help\)")
        for words in ([], ["--"], ["--dir", place.store]):
            says(place, [run, *words], r"cropdl-run: no program given \(see cropdl-run --help\)")
        for flag in ("--compress", "--by-reference", "--quiet"):
            for value in ("3", "0", "no"):
                says(place, [run, f"{flag}={value}", "/bin/true"], rf"cropdl-run: {flag} takes no value \(see cropdl-run --help\)")
        expect(not os.path.exists(place.store), "a store was made")
        for options in ([], ["--"]):  # words after the program are the program's
            place.store = place.path(f"store{len(options)}")
            status, text, _ = place.ask([run, "--dir", place.store, *options, "/bin/echo", "--interval", "nan", "--", "--dir"])
            expect(status == 0 and text == "--interval nan -- --dir", f"{status}: {text}")


# --- Files -------------------------------------------------------------------------------------------------------

@scenario("bad_input.truncated_program")
def cut_short():
    with Place("cut") as place:
        for size in (5000, 4096, 100, 0):
            program = place.path(f"program-{size}")
            shutil.copy(app("plain/plain"), program)
            whole = os.path.getsize(program)
            os.truncate(program, size)
            says(place, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, program],
                 rf"cropdl-run: {program}: (is cut short: it has {size} bytes and should have \d+|damaged ELF header|not an "
                 r"ELF program)")
        expect(whole > 5000, "the program is too small to be cut")


@scenario("bad_input.fifo_instead_of_any_store_file")
def fifos():
    with Place("fifo") as place:
        made_store(place)
        version = place.version_path(place.versions()[-1])
        for name in ("lock", "job", "job.new", "phase", "store.json", os.path.join(version, "manifest.json"),
                     os.path.join(version, "rank-0.img")):
            path = os.path.join(place.store, name)
            kept = path + ".kept"
            if os.path.exists(path):
                os.rename(path, kept)
            os.mkfifo(path, 0o600)
            for command in ([tool("cropdl"), "list"], [tool("cropdl"), "status"], [tool("cropdl"), "verify"], [tool("cropdl"), "inspect"],
                            [tool("cropdl"), "prune", "--keep", "9"], [tool("cropdl"), "checkpoint"], [tool("cropdl-restart")]):
                if name in ("job", "job.new", "phase") and command[-1].endswith("cropdl-restart"):
                    continue  # it is replaced and the run continues
                try:
                    done = subprocess.run(command + [place.store], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                          timeout=20, cwd=place.root)
                except subprocess.TimeoutExpired:
                    raise Failure(f"{' '.join(command)} hangs: {name} is a FIFO")
                expect(0 <= done.returncode < 128, f"{command}: {done}")
                for line in done.stderr.splitlines():
                    expect(line.startswith(("cropdl: ", "cropdl-restart: ")), f"{command} with {name}: {line}")
                if name == "lock" and command[-1].endswith("cropdl-restart"):
                    expect(done.stderr == f"cropdl-restart: {path}: is not a regular file; remove it if no job runs\n",
                           done.stderr)
            if os.path.exists(kept):
                os.rename(kept, path)
            else:
                os.unlink(path)
        for name in ("job", "job.new", "phase"):
            path = os.path.join(place.store, name)
            if os.path.exists(path):
                os.unlink(path)
            os.mkfifo(path, 0o600)
        job = place.restart(environment={"CROPDL_TRACE_PHASE": "1"})
        job.wait_for_step(10)
        status, text, _ = place.checkpoint()
        expect_taken(job, status, text)
        job.kill_running()


@scenario("bad_input.number_of_ranks_beyond_32_bits_is_refused")
def many_ranks():
    with Place("ranks") as place:
        made_store(place)
        forge("forge_version", place.version_path(place.versions()[0]), "manifest-ranks", "4294967297")
        status, text, _ = place.ask([tool("cropdl-restart"), place.store])
        expect(status == 1 and "damaged: " in text and "expected a whole number from 0 to 4294967295" in text
               and len(text.splitlines()) == 1, f"{status}: {text}")


@scenario("run.directories_that_are_not_utf8_keep_their_names")
def not_utf8():
    with Place("bytes") as place:
        odd = os.fsencode(place.root) + b"/caf\xe9"
        os.mkdir(odd)
        place.store = os.fsdecode(odd + b"/st\xffore")
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain"), "--steps", "60", "--pace",
                           "20000", "--log", os.fsdecode(odd + b"/l\xfeog")], os.fsdecode(odd + b"/l\xfeog"))
        job.wait_for_step(5)
        _, _, bounds = take_checkpoint(place, job)
        job.kill_running()
        before = Log(job.log)
        job = place.restart(log=job.log)
        job.finish()
        check_continued(before, Log(job.log), job.started, *bounds[job.log])
        check_whole(Log(job.log))


# --- What a program is --------------------------------------------------------------------------------------------

@scenario("run.program_named_like_a_tool_is_protected")
def named_like_a_tool():
    with Place("named") as place:
        for name in ("time", "env", "bash"):
            place.store = place.path(f"store-{name}")
            shutil.copy(app("plain/plain"), place.path(name))
            job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, place.path(name), "--steps", "2000", "--pace", "10000",
                               "--log", place.path(f"log-{name}")], place.path(f"log-{name}"))
            job.wait_for_step(3)
            take_checkpoint(place, job)
            expect("protected" not in job.output(), job.output())
            job.process.kill()  # the driver takes processes of such names for launchers
            job.kill_all()


@scenario("run.unprotected_program_prints_a_line")
def unprotected():
    run = tool("cropdl-run")
    with Place("unprotected") as place:
        for words in (["/bin/bash", "-c", "echo said"], ["/usr/bin/env", "echo", "said"], ["nice", "echo", "said"]):
            status, text, _ = place.ask([run, "--dir", place.store, *words])
            path = os.path.realpath(words[0] if "/" in words[0] else shutil.which(words[0]))
            expect(status == 0 and text == f"cropdl-run: {path} itself runs unprotected; an MPI program that it starts is "
                   "protected\nsaid", f"{status}: {text}")
        script = place.path("script")
        with open(script, "w") as f:
            f.write("#! /bin/sh -e\necho said \"$@\"\n")
        os.chmod(script, 0o755)
        status, text, _ = place.ask([run, "--dir", place.store, script, "a"])
        expect(text == f"cropdl-run: {script} itself runs unprotected; an MPI program that it starts is protected\nsaid a", text)
        expect(not os.path.exists(place.store), "a store was made")


@scenario("run.script_of_an_interpreter_is_protected")
def interpreter_script():
    """Its arguments are those that execve(2) would pass."""
    with Place("script") as place:
        for first in ("#!/usr/bin/python3 -u", "#!/usr/bin/env /usr/bin/python3"):
            script, log = place.path("script"), place.path("log")
            place.store = place.path("store-env" if "env" in first else "store")
            with open(script, "w") as f:
                f.write(first + "\nimport sys, time\nprint(sys.argv, flush=True)\nopen(sys.argv[1], 'w').write('x')\n"
                        "time.sleep(60)\n")
            os.chmod(script, 0o755)
            job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, script, log])
            end = time.monotonic() + 30
            while not os.path.exists(log) or not os.path.getsize(log):
                expect(job.alive() and time.monotonic() < end, job.output())
                time.sleep(0.02)
            expect(job.output() == f"{[script, log]}\n", job.output())
            end = time.monotonic() + 30
            while place.checkpoint()[0] != 0:
                expect(time.monotonic() < end, place.checkpoint()[1])
            job.kill_all()
            os.unlink(log)


@scenario("run.script_has_the_name_by_which_it_was_started")
def script_by_link():
    """$0 and sys.argv[0] are those of execve(2): a link is not resolved, and a relative name stays so."""
    with Place("name") as place:
        for at, (first, body) in enumerate((("/usr/bin/python3", "import sys; print(sys.argv[0])"), ("/bin/sh", 'echo "$0"'))):
            place.store = place.path(f"store-{at}")
            with open(place.path(f"script-{at}"), "w") as f:
                f.write(f"#!{first}\n{body}\n")
            os.chmod(place.path(f"script-{at}"), 0o755)
            os.symlink(f"script-{at}", place.path(f"link-{at}"))
            status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, f"./link-{at}"])
            expect(status == 0 and text.splitlines()[-1] == f"./link-{at}", f"{first}: {status}: {text}")


@scenario("run.script_of_another_folder_is_another_job")
def script_of_another_folder():
    """Also where its name is the same: its versions would take the place of the other job's."""
    with Place("folders") as place:
        def begin(folder):
            return ["/bin/sh", "-c", 'cd "$0" && exec "$@"', place.path(folder), tool("cropdl-run"), "--interval", "0", "--dir", place.store, "./script"]
        for folder in ("one", "two"):
            os.mkdir(place.path(folder))
            with open(place.path(f"{folder}/script"), "w") as f:
                f.write("#!/usr/bin/python3\nimport time\ntime.sleep(60)\n")
            os.chmod(place.path(f"{folder}/script"), 0o755)
        job = place.start(begin("one"))
        end = time.monotonic() + 30
        while place.checkpoint()[0] != 0:
            expect(job.alive() and time.monotonic() < end, place.checkpoint()[1])
        job.kill_all()
        says(place, begin("two"), r"cropdl-run: store \S+: belongs to another job, .*/one/script.*")


@scenario("run.script_of_a_shell_in_any_folder_is_a_starter")
def shell_elsewhere():
    with Place("shell") as place:
        shutil.copy("/bin/bash", place.path("bash"))
        with open(place.path("script"), "w") as f:
            f.write(f"#!{place.path('bash')}\necho said\n")
        os.chmod(place.path("script"), 0o755)
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, "./script"])
        expect(status == 0 and text.endswith("/script itself runs unprotected; an MPI program that it starts is protected\nsaid"), text)


@scenario("run.installation_with_a_path_that_is_too_long_is_refused")
def long_path():
    """Instead of running with the real MPI, since ld.so would not be given the stand-in."""
    with Place("long") as place:
        folder = place.path("/".join(["d" * 120] * 2))
        for name in ("bin/cropdl-run", "bin/cropdl-lower-none", "lib/cropdl-core.so", "lib/libmpi.so.40"):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, name), os.path.join(folder, name))
        says(place, [os.path.join(folder, "bin/cropdl-run"), "--interval", "0", "--dir", place.store, app("plain/plain"), "--steps", "2"],
             r"cropdl-run: /\S+/libmpi.so.40: the path is too long; install CropDL in a folder with a shorter one")


@scenario("run.debugger_runs_natively_and_says_so")
def debugger():
    command = ["/usr/bin/gdb", "-batch", "-nx", "-ex", "run", "--args"]
    with Place("gdb") as place:
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, *command, app("plain/plain"), "--steps", "2",
                                     "--log", place.path("log")])
        check_whole(Log(place.path("log")))
        expect(text.startswith(f"cropdl-run: {os.path.realpath(command[0])} runs natively and unprotected: it controls the "
                               "program that it runs, as CropDL does\n"), text)


def sanitized(place, kind):
    source, program = place.path("sanitized.c"), place.path(f"sanitized-{kind}")
    with open(source, "w") as f:
        f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(int argc, char** argv) {\n"
                "  char* p = malloc(10);\n  p[3] = (char)argc;\n  puts(\"begun\");\n  fflush(stdout);\n"
                "  if (argc > 1) sleep((unsigned)atoi(argv[1]));\n  printf(\"done %d\\n\", p[3]);\n  free(p);\n  return 0;\n}\n")
    options = [f"-fsanitize={kind}"]
    if kind == "memory":  # GCC has no MemorySanitizer; Clang links its runtime into the program, which then exports this
        with open(source, "a") as f:
            f.write("void __msan_init(void) {}\n")
        options = ["-rdynamic"]
    built = subprocess.run(["gcc", *options, "-g", source, "-o", program], capture_output=True, text=True)
    expect(built.returncode == 0, f"gcc {options}: {built.stderr}")
    return program


@scenario("run.address_sanitizer_program_runs_but_is_refused")
def address_sanitizer():
    with Place("asan") as place:
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, sanitized(place, "address"), "6"])
        end = time.monotonic() + 30
        while "begun" not in job.output():
            expect(job.alive() and time.monotonic() < end, job.output())
            time.sleep(0.02)
        status, text, _ = place.checkpoint()
        expect(status == 1 and text == "cropdl: checkpoint refused: rank 0: programs built with AddressSanitizer cannot be "
               "saved: their shadow memory spans terabytes", f"{status}: {text}")
        job.finish()
        expect(job.output() == "begun\ndone 2\n", job.output())


@scenario("run.preloaded_address_sanitizer_is_refused")
def preloaded_sanitizer():
    """As for an extension of Python that was built with it: the program itself was not."""
    with Place("asan") as place:
        library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
        log = place.path("log")
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, app("plain/plain"), "--steps", "2000", "--pace", "10000",
                           "--log", log], log, {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"})
        job.wait_for_step(3)
        status, text, _ = place.checkpoint()
        expect(status == 1 and "AddressSanitizer cannot be saved" in text, f"{status}: {text}")
        job.process.kill()
        job.kill_all()


@scenario("run.library_path_to_another_cxx_library_is_the_program_s_alone")
def other_cxx_library():
    """Modules and Conda set LD_LIBRARY_PATH to the C++ library of their compiler, which may be older than what CropDL was built with."""
    with Place("libraries") as place:
        os.mkdir(place.path("libraries"))
        for name in ("libstdc++.so.6", "libgcc_s.so.1"):
            with open(place.path(f"libraries/{name}"), "w") as f:
                f.write("no library")
        there = {"LD_LIBRARY_PATH": place.path("libraries")}
        steps = ("--steps", "150", "--pace", "10000")
        reference = native(place, "plain/plain", steps, environment=there)
        job = place.run("plain/plain", steps, environment=there)
        job.wait_for_step(3)
        status, text, _ = place.checkpoint()
        expect(status == 0, text)
        job.kill_running()
        job = place.restart(environment=there)
        job.finish()
        check_results(job, reference, 1)


@scenario("run.program_linked_over_the_lower_half_s_addresses_is_refused")
def five_gigabytes():
    with Place("large") as place:
        program = place.path("large")
        built = subprocess.run(["gcc", "-mcmodel=medium", "-no-pie", "-fno-pie", "-x", "c", "-", "-o", program], capture_output=True, text=True,
                               input="static char large[5ul << 30];\nint main(int argc, char** argv) {\n  (void)argv;\n"
                                     "  return large[(unsigned long)argc << 20];\n}\n")
        expect(built.returncode == 0, built.stderr)
        says(place, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, program],
             rf"cropdl-run: {program}: is linked for fixed addresses up to 14\w+, and CropDL needs those from fc000000 on; build it with -fPIE -pie")
        expect(not os.path.exists(place.store), "a store was made")


def natively_sanitized(kind, name):
    with Place(kind) as place:
        program = sanitized(place, kind)
        status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, program])
        expect(status == 0 and text == f"cropdl-run: {program} runs natively and unprotected: it was built with {name}, which "
               "wants the addresses that CropDL needs\nbegun\ndone 1", f"{status}: {text}")
        status, text, _ = place.ask([program], environment={"LD_PRELOAD": os.path.join(BUILD, "lib", "libcropdl.so")})
        expect(status == 0 and text == "begun\ndone 1", f"through the preload entrance: {status}: {text}")


scenario("run.thread_sanitizer_program_runs_natively")(lambda: natively_sanitized("thread", "ThreadSanitizer"))
scenario("run.memory_sanitizer_program_runs_natively")(lambda: natively_sanitized("memory", "MemorySanitizer"))


@scenario("run.python_that_loads_mpi_without_a_launcher")
def singleton():
    """As natively: a job of one rank, which can be saved and restarted."""
    code = ("from mpi4py import MPI; import sys, time; c = MPI.COMM_WORLD; print(c.size, c.rank, c.allreduce(5), flush=True)\n"
            "open(sys.argv[1], 'w').write('x')\n"
            "while time.sleep(0.02) is None and not __import__('os').path.exists(sys.argv[2]): c.barrier()\n"
            "print('end', c.allreduce(7), flush=True)")
    with Place("singleton") as place:
        words = ["/usr/bin/python3", "-c", code, place.path("begun"), place.path("end")]
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, *words])
        end = time.monotonic() + 60
        while not os.path.exists(place.path("begun")):
            expect(job.alive() and time.monotonic() < end, job.output())
            time.sleep(0.02)
        status, text, _ = place.checkpoint()
        expect_taken(job, status, text)
        expect(job.output() == "1 0 5\n", job.output())
        job.kill_all()
        job = place.restart()
        with open(place.path("end"), "w") as f:
            f.write("x")
        job.finish()
        expect(job.output().endswith("end 7\n"), job.output())


# --- A store whose job is dying ------------------------------------------------------------------------------------

@scenario("restart.waits_for_a_killed_job_that_still_holds_the_lock")
def dying_job():
    """A fake holds the lock for a while in the name of a dead process."""
    with Place("dying") as place:
        made_store(place)
        stand_in = subprocess.Popen([sys.executable, "-c", f"""
import fcntl, os, socket, time
child = os.fork()
if child == 0: os._exit(0)
f = open({place.store + '/lock'!r}, 'r+')
fcntl.lockf(f, fcntl.LOCK_EX)
f.truncate(0)
f.write(f'{{child}} {{socket.gethostname()}}\\n')
f.flush()
print(child, flush=True)
time.sleep(4)
"""], stdout=subprocess.PIPE, text=True)
        child = int(stand_in.stdout.readline())
        job = place.restart()
        step = Log(job.log).last_step()
        job.wait_for_step(step + 3)
        ours = "".join(line for line in job.output().splitlines(True) if not line.endswith(" was put back\n"))
        expect(ours.startswith(f"cropdl-restart: store {place.store}: waiting for the former job's process {child}, which "
                                       "has been killed, to end\ncropdl-restart: continues from version 1\n"), job.output())
        stand_in.wait()
        job.kill_running()


@scenario("restart.uses_a_version_published_while_the_killed_job_ended")
def late_version():
    """The restart has already read the store when the newest version appears, and waits for the lock."""
    with Place("late") as place:
        made_store(place, 2)
        hidden = place.path("hidden")
        os.rename(place.version_path(2), hidden)
        with open(os.path.join(place.store, "lock"), "r+") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            lock.truncate(0)
            lock.write(f"{os.getpid()} {socket.gethostname()}\n")
            lock.flush()
            job = place.restart()
            time.sleep(1)
            os.rename(hidden, place.version_path(2))
        expect(Log(job.log).steps, "nothing")
        job.wait_for_step(Log(job.log).last_step() + 3)
        expect("continues from version 2\n" in job.output(), job.output())
        job.kill_running()


def below_a_shell(mpi):
    """Each rank's parent is a shell of its own; they are ranks of one launch nevertheless."""
    with Place("shell") as place:
        words = f"{app(f'{mpi}/torture')} --steps 2000 --pace 10000 --log {place.path('log')}; true"
        job = place.start(launcher(mpi, 2) + [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", "sh", "-c", words])
        job.log = place.path("log")
        job.wait_for_step(3)
        take_checkpoint(place, job)
        job.kill_all()


for _mpi in ("openmpi", "mpich"):
    scenario(f"run.{_mpi}.ranks_started_by_shells_form_one_job")(lambda m=_mpi: below_a_shell(m))


@scenario("restart.of_a_running_job_is_refused")
def running_job():
    with Place("running") as place:
        job = place.run("plain/plain", ("--steps", "2000", "--pace", "10000"))
        job.wait_for_step(3)
        take_checkpoint(place, job)
        pid = job.ranks()[0]
        says(place, [tool("cropdl-restart"), place.store],
             rf"cropdl-restart: store {place.store}: is used by a running job \(pid {pid} on {re.escape(socket.gethostname())}\)")
        job.kill_running()


@scenario("preload.alone.python_under_other_launchers_is_protected_or_prints_a_line")
def python_by_other_launchers():
    with Place("launchers") as place:
        library = {"LD_PRELOAD": os.path.join(BUILD, "lib", "libcropdl.so"), "CROPDL_DIR": place.store, "CROPDL_INTERVAL": "0"}
        program = ["/usr/bin/python3", "-c", "print(open('/proc/self/cmdline').read().split('\\0')[0])"]
        step = {"SLURM_PROCID": "0", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "9"}
        status, _, _ = place.ask(program, environment={**library, **step})
        expect(status == 0 and os.path.exists(os.path.join(place.store, "store.json")), f"{status}: not protected")
        status, text, _ = place.ask(program, environment={**library, "PMIX_RANK": "0"})
        expect(status == 0 and re.search(r"libcropdl.so: python\S* has a launcher that does not tell how many ranks there are; it runs without checkpoints", text),
               f"{status}: {text}")
        status, text, _ = place.ask(program, environment={**library, "SLURM_PROCID": "0", "SLURM_JOB_ID": "9"})
        expect(status == 0 and text == "/usr/bin/python3", f"in a batch script: {status}: {text}")


@scenario("preload.alone.python_keeps_its_virtual_environment_and_its_children_are_not_protected")
def virtual_environment():
    """Python finds the environment by its argv[0]. A child with the same launcher's variables must not become the same rank again."""
    with Place("venv") as place:
        os.makedirs(place.path("venv/bin"))
        os.symlink("/usr/bin/python3", place.path("venv/bin/python"))
        with open(place.path("venv/pyvenv.cfg"), "w") as f:
            f.write("home = /usr/bin\n")
        step = {"SLURM_PROCID": "0", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "9"}
        library = {"LD_PRELOAD": os.path.join(BUILD, "lib", "libcropdl.so"), "CROPDL_DIR": place.store, "CROPDL_INTERVAL": "0"}
        code = ("import subprocess, sys; print(sys.prefix, flush=True)\n"
                "print(subprocess.run([sys.executable, '-c', 'print(5)'], capture_output=True, text=True, timeout=15))")
        status, text, _ = place.ask([place.path("venv/bin/python"), "-c", code], environment={**library, **step})
        prefix, _, child = text.partition("\n")
        expect(status == 0 and os.path.exists(os.path.join(place.store, "store.json")), f"not protected: {status}: {text}")
        expect(prefix == place.path("venv"), text)
        expect("returncode=0, stdout='5\\n', stderr=''" in child, text)


@scenario("trigger.interval_during_the_start_waits_silently")
def early_interval():
    with Place("early") as place:
        job = place.run("mpich/torture", ("--steps", "400", "--pace", "20000"), "mpich", 2, options=("--interval", "0.001"))
        for again in range(2):
            had, end = len(place.versions()), time.monotonic() + 60
            newest = max(place.versions(), default=0)
            while max(place.versions(), default=0) <= newest:
                job.must_run()
                expect(time.monotonic() < end, job.output())
                time.sleep(0.02)
            expect("refused" not in job.output(), job.output())
            job.kill_running()
            if not again:
                job = place.restart("mpich", 2)


# --- Documents ---------------------------------------------------------------------------------------------------

# --- Launchers ---------------------------------------------------------------------------------------------------

def like_srun(ranks, command):
    """A shell that starts the command as srun does: one process per rank, with the rank in its environment. RANK in the command becomes the
    log suffix of the rank."""
    lines = [f"SLURM_PROCID={rank} SLURM_STEP_NUM_TASKS={ranks} SLURM_JOB_ID=1 SLURM_STEP_ID=0 "
             + " ".join(command).replace("RANK", f".{rank}" if rank else "") + " &" for rank in range(ranks)]
    return ["bash", "-c", "\n".join(lines) + "\nwait"]


@scenario("launch.tasks_of_srun_are_ranks_of_one_job")
def tasks_of_srun():
    with Place("srun") as place:
        log = place.path("log")
        work = [app("plain/plain"), "--steps", "400", "--pace", str(10000 * Job.slower), "--log", log + "RANK"]
        job = place.start(like_srun(2, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + work))
        job.wait_for_step(10)
        end = time.monotonic() + PATIENCE
        while Log(log + ".1").last_step() < 10:
            job.must_run()
            expect(time.monotonic() < end, f"rank 1 does not run: {job.output()}")
            time.sleep(0.02)
        version, _, between = take_checkpoint(place, job, attempts=20)
        with open(place.version_path(version, "manifest.json")) as f:
            manifest = json.load(f)
        expect(manifest["ranks"] == 2 and len(manifest["images"]) == 2, f"saved {manifest['ranks']} ranks")
        job.kill_running()
        before = logs_of(log, 2)
        restarted = place.start(like_srun(2, [tool("cropdl-restart"), place.store]))
        restarted.finish()
        for old, new in zip(before, logs_of(log, 2)):
            check_whole(new)
            check_continued(old, new, restarted.started, *between[new.path])


@scenario("launch.unknown_rank_number_is_refused")
def unknown_rank():
    with Place("unknown") as place:
        run = [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--", app("plain/plain"), "--steps", "1", "--log", place.path("log")]
        advice = "; start it with a launcher that tells its ranks their place, as mpirun does"
        says(place, run, f"cropdl-run: started by a PMIx server, but the number of ranks is unknown: no variable has it{advice}",
             {"PMIX_RANK": "1", "PMIX_NAMESPACE": "x"})
        says(place, run, f"cropdl-run: started by Slurm's srun, but the number of this rank is unknown: SLURM_PROCID=2 and "
             f"SLURM_STEP_NUM_TASKS=2{advice}", {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_ID": "0"})
        says(place, [tool("cropdl-restart"), place.store], "cropdl-restart: started by Open MPI's mpirun, but the number of this "
             rf"rank is unknown \(OMPI_COMM_WORLD_RANK is not set\){advice}", {"OMPI_COMM_WORLD_SIZE": "2"})
        expect(not os.path.exists(place.store), "a store was made")


@scenario("launch.mpi_unconnected_to_the_launcher_is_refused")
def mpi_not_reached():
    """srun --mpi=none: every rank is a separate MPI job, so a common cut means nothing."""
    with Place("apart") as place:
        log = place.path("log")
        work = [app("mpich/compute_only"), "--steps", "1000000", "--log", log + "RANK"]
        job = place.start(like_srun(2, [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"] + work))
        job.wait_for_step(2)
        end = time.monotonic() + 30
        while True:
            status, text, _ = place.checkpoint()
            expect(status != 0, f"a checkpoint was taken: {text}")
            if "not joined" not in text:
                break
            expect(time.monotonic() < end, text)
            time.sleep(0.1)
        expect(re.fullmatch(r"cropdl: checkpoint refused: rank [01]: the launcher started rank [01] of 2, but to its MPI it is "
                            r"rank 0 of 1; start it with a launcher of that MPI \(srun: --mpi=\.\.\.\)", text), text)


def folder_table():
    """[(folder, namespace)] of docs/architecture.md, in its order, and a function that returns the row of a path."""
    with open(os.path.join(SOURCE, "docs", "architecture.md")) as f:
        table = f.read().partition("## Folders")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_/]+)/` \| `?([a-z_]*)`? \|", table, re.MULTILINE)
    expect(len(rows) > 8, f"folders in docs/architecture.md: {rows}")

    def row_of(path):
        of = [i for i, (folder, _) in enumerate(rows) if path.startswith(folder + "/")]
        return max(of, key=lambda i: len(rows[i][0]), default=None)

    return rows, row_of


PRODUCT = ("base", "restart", "coord", "interpose", "gpu_state")


def own_sources():
    """(path from the root, text) of every source file of the product."""
    for top in PRODUCT:
        for directory, _, names in os.walk(os.path.join(SOURCE, top)):
            for name in names:
                if name.endswith((".c", ".cpp", ".h", ".S", ".j2")):
                    path = os.path.relpath(os.path.join(directory, name), SOURCE)
                    with open(os.path.join(SOURCE, path)) as f:
                        yield path, f.read()


@scenario("documents.folders_use_only_those_above_them")
def folders():
    _, row_of = folder_table()
    seen, wrong = {}, []
    for path, text in own_sources():
        own = row_of(path)
        expect(own is not None, f"{path} is in no folder of docs/architecture.md")
        for include in re.findall(r'^ *# *include "([^"/]+/[^"]+)"', text, re.MULTILINE):  # without a folder: generated files
            top = include.partition("/")[0]
            seen[top] = seen.get(top, 0) + 1
            if row_of(include) is None or row_of(include) > own:
                wrong.append(f"{path} includes {include}")
    expect(set(seen) == set(PRODUCT) and min(seen.values()) > 50, f"includes found: {seen}")
    expect(not wrong, "\n".join(wrong))


@scenario("documents.no_files_include_each_other_in_a_circle")
def file_circles():
    """A header and the source of its name count as one file: what either includes, both use."""
    uses = {}
    unit = lambda path: os.path.splitext(path)[0]
    for path, text in own_sources():
        uses.setdefault(unit(path), set()).update(map(unit, re.findall(r'^ *# *include "([^"/]+/[^"]+)"', text, re.MULTILINE)))
        uses[unit(path)].discard(unit(path))
    expect(len(uses) > 300 and sum(map(len, uses.values())) > 1000, f"{len(uses)} files found")
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as circle:
        raise Failure("a circle of files: " + " includes ".join(reversed(circle.args[1])))


def functions_of(text):
    """(length, first line) of each function of a formatted source: `}` on a line of its own closes what the last line with the same
    indentation began. (Classes and tables end with `};`.)"""
    lines, last = text.split("\n"), {}
    for number, line in enumerate(lines):
        indentation = len(line) - len(line.lstrip())
        if not line.strip() or line.startswith("#"):
            continue
        begin = lines[last[indentation]].strip() if indentation in last else "}"
        if line.strip() == "}" and not re.match(r"}|(if|for|while|switch|case|do|default)\b", begin):
            yield number - last[indentation] + 1, begin
        last[indentation] = number


@scenario("documents.sources_have_at_most_400_lines_and_functions_80")
def lengths():
    """With one exception: in WarpRun::step the software GPU spends its time, and a function call in it would cost some of that."""
    excepted = ("gpu_state/software/engine/warp_loop.cpp", "bool WarpRun::step")
    found, functions = [], 0
    for path, text in own_sources():
        lines = len(text.splitlines())
        if lines > 400:
            found.append(f"{path} has {lines} lines")
        for length, begin in functions_of(text) if path.endswith((".c", ".cpp", ".h")) else ():
            functions += 1
            if length > 80 and (path, begin.partition("(")[0]) != excepted:
                found.append(f"{path}: {length} lines: {begin}")
    expect(functions > 3000, f"only {functions} functions found")
    expect(not found, "\n".join(found))


@scenario("documents.folders_have_a_namespace_each")
def namespaces():
    """A component defines its names in its own namespace only. (Templates count as their component: the generated code is a library's.)"""
    rows, row_of = folder_table()
    named = [namespace for _, namespace in rows if namespace]
    expect(len(named) == len(set(named)), f"two folders with one namespace: {named}")
    seen, wrong = 0, []
    for path, text in own_sources():
        if path.endswith(".j2"):
            continue
        own = rows[row_of(path)][1]
        for namespace in re.findall(r"^(?:inline )?namespace (cropdl[a-z_:]*) \{", text, re.MULTILINE):
            seen += 1
            parts = namespace.split("::")
            if (parts[1:2] != [own]) if own != "cropdl" else (parts[1:] and parts[1] in named):
                wrong.append(f"{path} has names in {namespace}, its folder's is {own}")
    expect(seen > 150, f"only {seen} namespaces found")
    expect(not wrong, "\n".join(wrong))


@scenario("documents.name_only_existing_files")
def files_named():
    """Documents name only files that exist, by path, or by name. Behind a path, in the same line, a name is that of a file in the same
    folder. (Generated files and the MPI's files are exempt.)"""
    paths = set()
    for directory, folders, names in os.walk(SOURCE):
        folders[:] = [name for name in folders if name not in (".git", "build")]
        paths.update(os.path.relpath(os.path.join(directory, name), SOURCE) for name in names)
    known = {os.path.basename(path) for path in paths}
    seen, missing = 0, []
    for document in sorted(path for path in paths if re.fullmatch(r"README\.md|CONTRIBUTING\.md|docs/[^/]+\.md", path)):
        with open(os.path.join(SOURCE, document)) as f:
            lines = [re.findall(r"`([A-Za-z0-9_./]+\.(?:h|c|cpp|S|py|j2|toml|txt|md))`", line) for line in f]
        for words in lines:
            folder = ""
            for word in words:
                folder = os.path.dirname(word) or folder
                if folder and not {word, f"{folder}/{word}"} & paths and "/" not in word:
                    missing.append(f"{document}: {word} is not in {folder}")
        for word in (word for words in lines for word in words):
            seen += 1
            elsewhere = word in ("mpi.h", "mpi_constants.h") or any(path == f"interpose/gen/{word}" for path in paths)
            if not (word in paths or "/" not in word and word in known or document == "docs/generator.md" and elsewhere):
                missing.append(f"{document}: {word}")
    expect(seen > 150, f"only {seen} files named")
    expect(not missing, "\n".join(missing))


def packages_under(roots):
    """These packages and their dependencies, without those that every Debian has."""
    fields = "${Package}\t${Essential}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    rows = [row.split("\t") for row in subprocess.run(["dpkg-query", "-W", "-f", fields], capture_output=True, text=True,
                                                      check=True).stdout.splitlines()]
    names = lambda text: re.findall(r"(?:^|[,|]) *([a-z0-9][a-z0-9.+-]*)", text)
    needs = {package: names(depends) for package, _, _, depends in rows}
    makers = {}  # packages that provide a virtual one count too
    for package, _, provides, _ in rows:
        for name in [package] + names(provides):
            makers.setdefault(name, set()).add(package)
    found, left = set(), [package for package, essential, _, _ in rows if essential == "yes"] + list(roots)
    while left:
        for package in makers.get(left.pop(), ()):
            if package not in found:
                found.add(package)
                left += needs[package]
    return found


@scenario("documents.setup_installs_the_dependencies_of_the_demo")
def demo_packages():
    """Every file of a Debian package that the demo's targets read belongs to a package that `scripts/setup --demo` installs, so that the
    demo builds on a bare machine."""
    ninja = lambda *words: subprocess.run(["ninja", "-C", BUILD, "-t", *words], capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^(demo_[a-z_]+):", ninja("targets", "all"), re.MULTILINE)
    expect("demo_openmpi" in targets and "demo_mpich" in targets, f"the demo's targets are {targets}")
    read = set(ninja("inputs", *targets).split())
    read.update(line.strip() for line in ninja("deps", *(file for file in read if file.endswith(".o"))).splitlines())
    read = {os.path.realpath(file) for file in read if re.match(r"/(usr/)?(include|lib)/", file)}
    expect(len(read) > 300, f"only {len(read)} files of this machine's are read")

    with open(os.path.join(SOURCE, "scripts", "setup")) as f:
        roots = re.search(r"^packages=\((.*?)^\)", f.read(), re.MULTILINE | re.DOTALL).group(1).split()
    installed, missing = packages_under(roots), []
    for line in subprocess.run(["dpkg", "-S", *sorted(read)], capture_output=True, text=True).stdout.splitlines():
        packages, _, file = line.partition(": ")
        if not any(package.split(":")[0] in installed for package in packages.split(", ")):
            missing.append(f"{packages}: {file}")
    expect(not missing, "read by the demo's build, and in no package of scripts/setup --demo:\n" + "\n".join(missing))


@scenario("documents.sources_are_formatted")
def formatted():
    """By clang-format 14 of Debian 12: other versions differ in details."""
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
    if " 14." not in version:
        raise Skipped(f"this machine has {version.strip() or 'no clang-format'}, and the sources are formatted with version 14")
    names = subprocess.run(["git", "ls-files"], cwd=SOURCE, capture_output=True, text=True).stdout.split()
    if not names:  # an unpacked archive, without git
        names = [os.path.relpath(os.path.join(at, name), SOURCE) for top in ("base", "coord", "gpu_state", "interpose", "restart", "tests")
                 for at, _, found in os.walk(os.path.join(SOURCE, top)) for name in found]
    names = [name for name in names if name.endswith((".c", ".cpp", ".h"))]
    expect(len(names) > 300, f"only {len(names)} sources found")
    found = subprocess.run(["clang-format", "--dry-run", "-Werror"] + names, cwd=SOURCE, capture_output=True, text=True)
    expect(found.returncode == 0, found.stderr[:2000] + "\nrun clang-format -i on them")


def keys_of(value, without):
    """All keys of its JSON objects, except below the member `without`."""
    if isinstance(value, list):
        return set().union(*(keys_of(one, without) for one in value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(keys_of(one, without) for key, one in value.items() if key != without))


@scenario("documents.describe_every_member_of_manifest_and_metadata")
def described():
    """Compares docs/image-format.md with a version of a job whose iterations are known, and with the first version after its restart."""
    with open(os.path.join(SOURCE, "docs", "image-format.md")) as f:
        sections = {text.partition("\n")[0].strip(): text for text in f.read().split("\n### ")}
    rows = lambda section: re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \| (.*) \|$", sections[section].partition("\nIts member")[0], re.MULTILINE)
    words = lambda text: set(re.findall(r"`(\w+)`", text))
    listed = {name for names, _ in rows("manifest.json") for name in re.findall(r"`([^`]+)`", names)}
    of_images = next(words(meaning) for names, meaning in rows("manifest.json") if names == "`images[K]`")
    members = set().union(*(words(names) for names, _ in rows("Metadata")))
    known = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", sections["Metadata"]))))
    sealed = {"format", "checksum"}  # in any of these files
    expect(len(listed) > 15 and len(of_images) > 5 and len(members) > 25, f"{listed} {of_images} {members}")

    with Place("described") as place:
        job = place.run("openmpi/loops", ("--steps", "100000", "--pace", "8000"), "openmpi", 2)
        job.wait_for_step(20)
        take_checkpoint(place, job)
        job.kill_running()
        job = place.restart("openmpi", 2)
        job.wait_for_step(Log(job.log).last_step() + 2)
        take_checkpoint(place, job)
        job.kill_running()
        with open(place.version_path(2, "manifest.json")) as f:
            manifest = json.load(f)
        found = {f"{key}.{inner}" for key, value in manifest.items() if isinstance(value, dict) for inner in value}
        found |= {key for key, value in manifest.items() if not isinstance(value, dict)} - {"images"} | {"images[K]"}
        expect(found - sealed == listed, f"manifest.json has {sorted(found - sealed)}, docs/image-format.md {sorted(listed)}")
        in_images = set().union(*manifest["images"]) | {"devices", "device_memory"}  # not used by this job
        expect(in_images == of_images, f"images of a manifest have {sorted(in_images)}, docs/image-format.md {sorted(of_images)}")
        with open(os.path.join(place.store, "store.json")) as f:
            in_store = set(json.load(f)) - sealed
        expect(in_store == words(sections["store.json"]), f"store.json has {sorted(in_store)}")
        metadata = metadata_of(place.version_path(2, "rank-0.img"))
        expect(set(metadata) == members, f"metadata has {sorted(metadata)}, docs/image-format.md {sorted(members)}")
        unknown = keys_of(metadata, "attributes") - known - {"hex"}
        expect(not unknown, f"metadata has {sorted(unknown)}, which docs/image-format.md does not name")


@scenario("documents.every_refusal_is_listed")
def refusals():
    """Every line that tells users why something failed or what to do must be in docs/refusals.md, in the same words."""
    telling = re.compile(r"cannot be (saved|followed|known|told|had again|put back)|cannot restart|are not seen|is not known|not possible|"
                         r"try again|Try again|ask again|; (raise|restart|start|close|choose|build|link|remove|put|use|give) |restart (it|under)|"
                         r"was written by an?|--files=|is alive|is not complete|persistent request|has a child process|all ranks on one node")
    place_holder = re.compile(r"%[.0-9l]*[a-z]|\{[^{}]*\}")  # placeholders of printf and fmt
    quoted = r'"(?:[^"\\\n]|\\.)*"'
    with open(os.path.join(SOURCE, "docs", "refusals.md")) as f:
        document = f.read()
    listed = " ".join(document.split())
    found, missing, texts = 0, [], []
    for folder in ("base", "interpose", "coord", "restart", "gpu_state/memory"):
        for directory, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in names:
                if not name.endswith((".cpp", ".toml")):
                    continue
                path = os.path.join(directory, name)
                with open(path) as f:
                    code = re.sub(r"^\s*(//|#).*", "", f.read(), flags=re.MULTILINE)
                if name.endswith(".toml"):
                    code = "\n".join(re.findall(r"^sticky = .*", code, re.MULTILINE))
                for run in re.findall(rf"{quoted}(?:\s*{quoted})*", code):
                    text = " ".join("".join(part[1:-1].replace("\\n", " ") for part in re.findall(quoted, run)).split())
                    texts.append(text)
                    if len(text.split()) < 3 or not telling.search(text):
                        continue
                    found += 1
                    if not all(part.strip() in listed for part in place_holder.split(text)):
                        missing.append(f"{os.path.relpath(path, SOURCE)}: {text}")
    expect(found > 60, f"only {found} lines found in the code")
    expect(not missing, "not in docs/refusals.md:\n" + "\n".join(missing))

    # The reverse: the first column's text occurs in the code, from one placeholder to the next. In a line made from parts, two adjacent
    # words may come from different strings, once.
    said = [" " + text + " " for text in texts + [os.strerror(code) for code in range(1, 134)]]
    stale = []
    cells = re.findall(r"^\| (?!words|---)(.*?) \|", document, re.MULTILINE)
    for cell in cells:
        for part in re.split(r"…|; |: |[(),]|`|'X'|\b(?:[A-Z]+(?:-[A-Z])?|MPI_X)\b(?![a-z_])", cell):
            words = part.split()
            pairs = [f"{one} {two}" for one, two in zip(words, words[1:])]
            if len(words) >= 3 and sum(not any(pair in text for text in said) for pair in pairs) > 1:
                stale.append(part.strip())
    expect(len(cells) > 80, f"only {len(cells)} rows in docs/refusals.md")
    expect(not stale, "in docs/refusals.md, but no line of the code:\n" + "\n".join(stale))


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("run.script", "preload.", "launch.")))
