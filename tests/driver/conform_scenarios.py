#!/usr/bin/env python3
"""MPI as the program sees it: error classes, handlers, attributes, hints and statuses are the same natively and under cropdl-run. The long
form are the suites of tests/suites."""

import sys

from driver import Place, app, expect, collects_into, launcher, scenario_main, tool

SCENARIOS = {}
scenario = collects_into(SCENARIOS)
MPIS = ("openmpi", "mpich")
LEVELS = {"OMPI_MPI_THREAD_LEVEL": "2", "MPIR_CVAR_DEFAULT_THREAD_LEVEL": "MPI_THREAD_SERIALIZED"}  # of MPI_Init


def same_output(program, mpi, arguments=(), least=1, ranks=1):
    """Standard output and exit status equal those of a native run."""
    with Place("conform") as place:
        outputs = []
        for prefix in ([], [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--"]):
            job = place.start(launcher(mpi, ranks) + prefix + [app(f"{mpi}/{program}")] + list(arguments), environment=LEVELS)
            job.finish()
            outputs.append([line for line in job.output().splitlines() if not line.startswith("cropdl")])
        native, mine = outputs
        expect(len(native) >= least, f"the native run says nothing: {native}")
        differences = [f"natively `{a}`, through CropDL `{b}`" for a, b in zip(native, mine) if a != b]
        expect(native == mine, f"{len(differences)} lines differ of {len(native)} (through CropDL {len(mine)}):\n  "
               + "\n  ".join(differences[:20]))


for each in MPIS:
    scenario(f"conform.{each}.wrong_arguments_give_the_native_error_classes")(
        lambda mpi=each: same_output("wrong_arguments", mpi, ["objects"], 40) or same_output("wrong_arguments", mpi, [], 40))
    scenario(f"conform.{each}.rare_functions_behave_as_natively")(
        lambda mpi=each: same_output("less_used", mpi, least=6))
    scenario(f"conform.{each}.request_errors_call_the_same_handler_as_natively")(
        lambda mpi=each: same_output("completion_errors", mpi, least=12, ranks=2))
    scenario(f"conform.{each}.late_rank_is_waited_for_as_natively")(
        lambda mpi=each: same_output("late_rank", mpi, least=1, ranks=2))
scenario("conform.mpich.session_without_mpi_init_works_as_natively")(
    lambda: same_output("less_used", "mpich", ["session"]))


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, quick=("conform.",)))
