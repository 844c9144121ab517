# Finds the interpreter itself. `python3` may be a script that searches for one (pyenv), which costs as much as the start
# of a small test.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
set(CROPDL_PYTHON ${found} CACHE INTERNAL "")
