#!/bin/bash
# replay_chain.sh FOLDER MPI MPI MPI: runs lower_replay: save under the first MPI, resume and save under the second,
# resume under the third. FOLDER contains the programs. Three ranks.
set -eu
folder=$1; shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FI_OF_THE_SHELL=1
saved=$(mktemp -d)
trap 'rm -rf "$saved"' EXIT
run() {  # MPI GENERATION ARGS...
  local mpi=$1; export GENERATION=$2 OMPI_MCA_of_the_run=$2; shift 2
  case $mpi in
    openmpi) mpirun.openmpi --oversubscribe --bind-to none -n 3 "$folder/lower_replay_openmpi" "$@" ;;
    mpich) mpirun.mpich -n 3 "$folder/lower_replay_mpich" "$@" ;;
  esac
}
run "$1" 0 save "$saved/first"
run "$2" 1 resume "$saved/first" "$saved/second"
run "$3" 2 resume "$saved/second"
# MPI_TAG_UB keeps its value; 32767 is the smallest that an MPI may have.
TAGS=32767 run "$2" 1 resume "$saved/first"
# A rank with the image of another rank is refused with one line, before anything runs.
mv "$saved/first.0" "$saved/x"; mv "$saved/first.1" "$saved/first.0"; mv "$saved/x" "$saved/first.1"
if run "$2" 1 resume "$saved/first" 2> "$saved/message" > /dev/null; then
  echo "exchanged images were not refused"; exit 1
fi
grep -q "the image is of rank" "$saved/message" || { cat "$saved/message"; exit 1; }
