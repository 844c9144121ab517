// The program's environment variables that NVIDIA's libraries read. The libraries are in the LH, and a
// program may set CUDA_VISIBLE_DEVICES or NCCL_… after its start and before its first call. LH, LH FS base.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::cuda {

// START of a restart: sets the program's variables again, as inherited and changed by it. A variable whose
// value in the restart differs from that at the first start keeps the restart's.
void restore_program_environment();
// Then, when the driver has begun as it did: sets what the program has set since.
void end_restore_of_environment();
// CUDA_VISIBLE_DEVICES, if a restart took it from the program; else "".
std::string visible_devices_of_program();

// The folders of LD_LIBRARY_PATH that the program's ld.so uses: those of the first run.
std::vector<std::string> program_search_path();

// Called from calls of the program: copies what it has set or unset since the last call.
void take_program_environment();

// Libraries read variables as they begin. note_reading_of_environment: a reader began with those last taken.
enum class Reader { kDriver, kBlas, kRand, kNccl };
void note_reading_of_environment(Reader reader);

// At a cut. MAIN while the program is stopped. The driver begins again with what it began with. For the
// others, which may have read since: "", or why a restart would not be the same.
Status keep_environment_of_driver();
std::string environment_refusal();

}  // namespace cropdl::cuda
