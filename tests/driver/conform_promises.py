#!/usr/bin/env python3
"""Promises about MPI as the program sees it: a program's own look at error classes, handlers, attributes, hints and
statuses is the same natively and under cropdl-run. The long form are the suites of tests/suites."""

import sys

from driver import Place, app, expect, launcher, promise_main, tool

PROMISES = {}
MPIS = ("openmpi", "mpich")


def promise(name):
    def keep(function):
        PROMISES[name] = function
        return function
    return keep


def same_output(program, mpi, ranks=1):
    """Standard output and exit status are those of a native run."""
    with Place("conform") as place:
        outputs = []
        for prefix in ([], [tool("cropdl-run"), "--dir", place.store, "--"]):
            job = place.start(launcher(mpi, ranks) + prefix + [app(f"{mpi}/{program}")])
            job.finish()
            outputs.append([line for line in job.output().splitlines() if not line.startswith("cropdl")])
        native, mine = outputs
        expect(len(native) > 1, f"the native run says nothing: {native}")
        differences = [f"natively `{a}`, through CropDL `{b}`" for a, b in zip(native, mine) if a != b]
        expect(native == mine, f"{len(differences)} lines differ of {len(native)} (through CropDL {len(mine)}):\n  "
               + "\n  ".join(differences[:20]))


for each in MPIS:
    promise(f"conform.{each}.wrong_arguments_give_the_native_error_classes")(
        lambda mpi=each: same_output("wrong_arguments", mpi))


if __name__ == "__main__":
    sys.exit(promise_main(PROMISES))
