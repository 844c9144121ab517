// Paths of the tree that is tested, for tests; see CMakeLists.txt.
#pragma once

extern const char* const kMakeTable;      // the program that makes tables of functions from headers
extern const char* const kWaitsAtItsEnd;  // a library whose function keeps a device busy until it ends
