#!/usr/bin/env python3
"""mpi4py's own tests, natively and through CropDL: on each rank, each test must have its native outcome.

    python3 tests/suites/mpi4py_suite.py mpi4py-3.1.4 [--mpi openmpi] [--only test_p2p_obj.py] [--interval 0.05]
    python3 tests/suites/mpi4py_suite.py tests/suites/mpi4py_manner       # our own, written like mpi4py's

Takes mpi4py's source (its test/ folder), or any folder of test_*.py files; --python: the interpreter whose mpi4py is tested
(/usr/bin/python3), built for the MPI of --mpi. Each file is one run; each test's outcome is recorded when it ends."""

import argparse
import glob
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import suite  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="mpi4py's source, or a folder of test_*.py files")
    parser.add_argument("--only", action="append", metavar="FILE", help="these files")
    parser.add_argument("--ranks", type=int, action="append", metavar="N", help="with so many ranks (1, 2 and 4)")
    parser.add_argument("--python", default="/usr/bin/python3")
    suite.add_options(parser)
    parser.set_defaults(mpi="openmpi")
    return parser.parse_args()


def tests(options, folder, name, ranks, store):
    """{(rank, test): outcome}; `end` is the exit status. Without a store: native."""
    with tempfile.TemporaryDirectory(prefix="cropdl-mpi4py-") as place:
        out = os.path.join(place, "notes")
        program = [options.python, os.path.join(suite.HERE, "unittest_rank.py"), folder, name, out]
        variables = suite.slowed(options, options.work) if store else {}
        line = suite.launcher(options.mpi, ranks, variables)
        outcome = suite.run(line + (suite.protected(program, store, options.interval) if store else program), folder,
                            options.timeout * (2 if store else 1), {"PYTHONDONTWRITEBYTECODE": "1"}, store)
        found = {}
        for rank in range(ranks):
            path = f"{out}.{rank}"
            lines = open(path).read().splitlines() if os.path.exists(path) else []
            for text in lines:
                word, _, rest = text.partition(" test_")
                if rest:
                    test, _, why = rest.partition(": ")
                    found[rank, "test_" + test] = (word + ": " + re.sub(r"0x[0-9a-f]+|\d{4,}", "#", why)).rstrip(": ")
            found[rank, "end"] = str(outcome.status) if lines[-1:] == ["end"] else "does not come to the end"
        return found, outcome


UNFINISHED = ("begun", "not run", "does not come to the end")


def differences(native, mine):
    """Tests with different outcomes, as {(rank, test): (natively, through CropDL)}. Tests that a native run did not reach before its
    time-out may have any outcome."""
    found = {}
    for key in set(native) | set(mine):
        theirs, ours = native.get(key, "not run"), mine.get(key, "not run")
        if theirs != ours and not (theirs in UNFINISHED and native.get((key[0], "end")) == UNFINISHED[2]):
            found[key] = (theirs, ours)
    return found


def main():
    options = arguments()
    folder = os.path.abspath(options.source)
    if os.path.isdir(os.path.join(folder, "test")):
        folder = os.path.join(folder, "test")
    options.work = os.path.abspath(options.work or os.path.join(suite.BUILD, "suites", "mpi4py"))
    os.makedirs(options.work, exist_ok=True)
    names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(folder, "test_*.py")))
    names = [name for name in names if not options.only or name in options.only]
    if options.list or not names:
        print("\n".join(names) or f"{folder}: no test_*.py files")
        return 0 if names else 1
    known = suite.Known(os.path.join(suite.HERE, "mpi4py_differences.toml"), options)
    rows, refusals = {}, {}
    for ranks in options.ranks or (1, 2, 4):
        head = f"{ranks} rank{'s' if ranks > 1 else ''}"
        row = rows[head] = dict.fromkeys(("files", "tests", "natively ok", "natively out of time", "equal", "explained", "unexplained", "versions"), 0)
        for name in names:
            store = os.path.join(options.stores or options.work, f"store-{os.getpid()}")
            found = None
            for _ in range(3):  # differences that do not occur each time are due to load, or to the MPI
                native, _ = tests(options, folder, name, ranks, None)
                mine, outcome = tests(options, folder, name, ranks, store)
                row["versions"] += outcome.taken
                again = differences(native, mine)
                found = again if found is None else {key: again[key] for key in found if key in again}
                if not found:
                    break
            row["files"] += 1
            for line in outcome.refusals:
                refusals[line] = refusals.get(line, 0) + 1
            if options.times:
                print(f"# {name} {ranks}: {outcome.seconds:.1f} s, {outcome.taken} versions; {'; '.join(outcome.refusals)}", flush=True)
            for key in sorted(set(native) | set(mine)):
                theirs, ours = native.get(key, "not run"), mine.get(key, "not run")
                row["tests"] += key[1] != "end"
                row["natively ok"] += theirs == "ok"
                row["natively out of time"] += key[1] != "end" and theirs in UNFINISHED
                reason = known.reason(f"{name}:{key[1]}", key in found)
                row["equal" if key not in found else "explained" if reason else "unexplained"] += key[1] != "end" or key in found
                if key in found:
                    print(f"{'explained' if reason else 'DIFFERENT'} {name} rank {key[0]} of {ranks}, {key[1]}: natively {theirs}; "
                          f"through CropDL {ours}", flush=True)
                    if key[1] == "end" or options.verbose:
                        print("\n".join(f"    {line}" for line in (outcome.lines + outcome.ours)[-8:]), flush=True)
    columns = list(next(iter(rows.values())))
    print("\n" + suite.table([["with"] + columns] + [[head] + [row[c] for c in columns] for head, row in rows.items()]))
    if refusals:
        print("\nRuns, and why a checkpoint of theirs did not come about:")
        print("\n".join(f"  {n:4} {line}" for line, n in sorted(refusals.items(), key=lambda item: -item[1])))
    if known.seen:
        print("\nExplained:\n" + "\n".join(known.summary()))
    for name in known.outdated():
        print(f"no longer different, take it out of mpi4py_differences.toml: {name}")
    return 1 if any(row["unexplained"] for row in rows.values()) or known.outdated() else 0


if __name__ == "__main__":
    sys.exit(main())
