// The program's environment, as far as NVIDIA's libraries read it: they are in the LH, and a program may set
// CUDA_VISIBLE_DEVICES or NCCL_… itself, after its start and before it calls them. LH, LH FS base.
#pragma once

#include <string>
#include <vector>

namespace cropdl::cuda {

// START of a restart: the program's variables hold again, those that it was started with and what it has
// made of them, unless the restart's environment has another value than the first start's had.
void restore_program_environment();
// CUDA_VISIBLE_DEVICES, if a restart has it from the program; else "".
std::string visible_devices_of_program();

// The folders of LD_LIBRARY_PATH that the program's ld.so knows: those of the first run.
std::vector<std::string> program_search_path();

// From a call of the program: what it has set or unset since the last time.
void take_program_environment();

}  // namespace cropdl::cuda
