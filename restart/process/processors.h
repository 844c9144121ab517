// The numbers of processors that a program may see (sched_getcpu): it may have sized arrays by how many there
// were when it began. LH; the main thread, before any other thread of the program is made.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cropdl::process {

// The highest number that a processor of this machine can have, plus one; 0: unknown.
uint32_t possible_processors();

// How many processors the calling thread may run on; 0: unknown.
uint32_t allowed_processors();

// "" or a refusal: the calling thread may run on no processor below `number`. 0: no limit.
std::string no_processor_below(uint32_t number);

// Keeps the calling thread, and those that it makes, to the processors below `number` on which it may run.
// `note`: a line for people, if that leaves out some. Does nothing if none is left, or `number` is 0.
Status keep_to_processors_below(uint32_t number, std::string* note);

}  // namespace cropdl::process
