#!/bin/bash
# Checks one scenario of the takeover or of scripts/software-gpu: check.sh SCENARIO FOLDER-OF-PROGRAMS SCRIPT
set -euo pipefail
scenario=$1 programs=$2 script=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export CROPDL_SOFTWARE_GPU_QUIET=1

bad() { echo "$scenario: $1" >&2; cat out err >&2 2>/dev/null || true; exit 1; }
run() { code=0; "$@" >out 2>err || code=$?; }
succeeds() { run "$@"; [ "$code" = 0 ] || bad "exit code $code"; }
fails() { run "$@"; [ "$code" != 0 ] || bad "it succeeded"; }
says() { grep -qF -- "$1" "${2:-err}" || bad "nothing says: $1"; }
one_line() { [ "$(grep -c 'software[- ]GPU' err)" = 1 ] || bad "not one line"; }

case $scenario in
  static_runtime)
    succeeds "$script" "$programs/static"
    says "error 0, 0 wrong" out ;;
  called_by_the_loader)
    succeeds "$script" /lib64/ld-linux-x86-64.so.2 "$programs/static"
    says "error 0, 0 wrong" out ;;
  position_dependent)
    succeeds "$script" "$programs/static_no_pie"
    says "error 0, 0 wrong" out ;;
  library_opened_later)
    succeeds "$script" "$programs/opens" "$programs/liblibrary.so"
    [ "$(grep -c 'at load 0, run 0, x 7' out)" = 2 ] || bad "it did not run twice" ;;
  library_linked_with_the_program)
    succeeds "$script" "$programs/linked"
    says "at load 0, run 0, x 7" out ;;
  stripped_program)
    strip -o stripped "$programs/static"
    fails "$script" ./stripped
    says "-cudart shared"; says stripped; one_line
    strip -x -o locals "$programs/static"
    run "$script" ./locals
    [ "$code" = 0 ] || { says "-cudart shared"; one_line; } ;;
  stripped_library)  # prints a line, and its calls fail
    strip -o liblibrary.so "$programs/liblibrary.so"
    fails "$script" "$programs/opens" ./liblibrary.so
    says "-cudart shared"
    grep -qE "at load [1-9][0-9]*, run [1-9][0-9]*, x 0" out || bad "its calls did not fail" ;;
  stripped_with_shared_runtime)
    strip -o shared "$programs/shared"
    succeeds "$script" ./shared
    says "error 0, 0 wrong" out ;;
  other_programs)  # programs without CUDA are left alone
    HOME=/some/where succeeds "$script" bash -c 'echo "$HOME $1"' - "two words"
    [ "$(cat out)" = "/some/where two words" ] && [ ! -s err ] || bad "something changed" ;;
  paths)  # links, spaces, relative names, arguments
    mkdir "a folder" && cp "$programs/static" "a folder/a program" && ln -s "$script" "a folder/link"
    succeeds "a folder/link" "a folder/a program" "one argument" ""
    says "error 0, 0 wrong [one argument] []" out
    cp -r "$CROPDL_SOFTWARE_GPU_DIRECTORY" "some libraries"
    CROPDL_SOFTWARE_GPU_DIRECTORY="some libraries" succeeds "$script" "$programs/static" ;;
  options)
    succeeds "$script" --devices 3 --memory=64M info
    [ "$(grep -c 'CropDL software device, compute capability 9.0, 64 MiB' out)" = 3 ] || bad "not three devices"
    for wrong in --nothing --devices "--devices=many info"; do
      fails "$script" $wrong
      [ -s err ] || bad "no word on $wrong"
    done
    succeeds "$script" --help
    fails "$script" ;;
  missing_programs)
    run "$script" ./nothing && [ "$code" = 127 ] && says "there is no ./nothing" || bad "code $code"
    touch a_file && run "$script" ./a_file && [ "$code" = 126 ] && says "no permission" || bad "code $code"
    run "$script" a_file && [ "$code" = 127 ] && says "./a_file" || bad "code $code" ;;
  under_mpirun)
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      succeeds mpirun.openmpi --oversubscribe -n 2 "$script" "$programs/static"
    [ "$(grep -c 'error 0, 0 wrong' out)" = 2 ] || bad "not two ranks" ;;
  *) bad "there is no such scenario" ;;
esac
