# The interpreter itself, where `python3` is a script that looks for one (pyenv): that costs as much as the start of a small test.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
set(CROPDL_PYTHON ${found} CACHE INTERNAL "")
