// Numbers by which the library tells streams and contexts apart, and which the program may keep: an object's
// stays what it was, and no other ever gets it. What the library counts begins anew in every run. LH, any
// thread.
#pragma once

#include <cstdint>

namespace cropdl::cuda {

// What the program is told of the object (a virtual handle), whose number is `real` in this run.
uint64_t number_of(uint64_t word, uint64_t real);
// Of a device's default streams, which have no handle of their own: 0 the legacy one, 1 a thread's own.
uint64_t number_of_default_stream(int device, int which, uint64_t real);
// START, before anything asks.
void begin_numbers();

}  // namespace cropdl::cuda
