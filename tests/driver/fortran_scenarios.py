#!/usr/bin/env python3
"""Fortran programs, built by gfortran with the module mpi or mpi_f08 of each MPI: saved and restarted like C programs, under their own MPI
and the other one. Skipped if they were not built, for lack of a Fortran compiler."""

import os
import sys

from driver import BUILD, Place, Skipped, check_refused, scenario_main
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
SCENARIOS["fortran.openmpi.scratch_unit_is_refused_by_name"] = lambda: scratch_unit("openmpi")

if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True))
