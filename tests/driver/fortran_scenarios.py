#!/usr/bin/env python3
"""Fortran programs, built by gfortran with the module mpi or mpi_f08 of each MPI: saved and restarted like C programs, under their own MPI
and the other one. Skipped if they were not built, for lack of a Fortran compiler."""

import json
import os
import sys

from driver import BUILD, Place, Skipped, app, check_refused, expect, scenario_main, take_checkpoint, tool
from restart_scenarios import SHORT, survives

SCENARIOS = {}


def needs_fortran(mpi):
    left_out = os.path.join(BUILD, "tests", "apps", mpi, "no_fortran")
    if os.path.exists(left_out):
        with open(left_out) as f:
            raise Skipped(f"the Fortran programs were not built: {f.read().strip()}")


def stencil(program, mpi):
    """The result is the same after three kills; the second restart is under the other MPI, the third under the first again."""
    needs_fortran(mpi)
    survives(program, mpi, 4, SHORT + ("--work", "@"), chain=("same", "other", "other"))


def calls_of_the_program(program, mpi):
    """The collectives of an iteration are those places of the program that call them, and not those of the MPI's Fortran interface."""
    needs_fortran(mpi)
    with Place("calls") as place:
        job = place.run(f"{mpi}/{program}", ("--steps", "10000", "--pace", "8000", "--work", place.root), mpi, 2)
        job.wait_for_step(20)
        take_checkpoint(place, job)
        job.kill_running()
        status, text, _ = place.ask([tool("cropdl"), "inspect", "--json", place.store])
        calls = json.loads(text)["images"][0]["iteration"]
        expect([call["function"] for call in calls].count("MPI_Allreduce") == 3, f"{status}: {calls}")
        expect({call["file"] for call in calls} == {app(f"{mpi}/{program}")} and len({call["offset"] for call in calls}) == 4, f"{calls}")


def scratch_unit(mpi):
    """A unit opened with status='scratch' is a file that libgfortran has unlinked already."""
    needs_fortran(mpi)
    with Place("scratch") as place:
        job = place.run(f"{mpi}/fortran_stencil", SHORT + ("--work", place.root, "--scratch"), mpi, 2)
        job.wait_for_step(3)
        status, text, _ = place.checkpoint()
        check_refused(place, status, text, "the deleted file @/tmp/gfortrantmp<w> (deleted) (descriptor <n>) cannot be saved yet: no restart could "
                                           "open it by its name")
        job.finish()


for _mpi in ("openmpi", "mpich"):
    for _module, _program in (("mpi", "fortran_stencil"), ("mpi_f08", "fortran_stencil_f08")):
        SCENARIOS[f"fortran.{_mpi}.program_that_uses_{_module}"] = lambda mpi=_mpi, program=_program: stencil(program, mpi)
        SCENARIOS[f"fortran.{_mpi}.calls_of_a_program_that_uses_{_module}_are_found"] = lambda mpi=_mpi, program=_program: calls_of_the_program(program, mpi)
SCENARIOS["fortran.openmpi.scratch_unit_is_refused_by_name"] = lambda: scratch_unit("openmpi")

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True))
