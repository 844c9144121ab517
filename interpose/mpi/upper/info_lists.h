// Info objects as lists of keys and values in the upper half's memory. UH, any thread. The functions below
// need the lock, but drop_info and known_hints, which take it.
#pragma once

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

struct InfoEntry {
  InfoEntry* next;
  char* key;  // behind the entry, in the same memory
  char* value;
};

struct InfoList {
  InfoEntry* first;
  // The entry, or the place of a new one.
  InfoEntry** find(const char* key);
  // Both return false if there is no memory. put() then leaves the list unchanged.
  bool put(const char* key, const char* value);
  bool put_all(const InfoList& from);
  static void erase(InfoEntry** entry);
  void clear();
};

inline constexpr Vid kNoInfo = make_vid(Kind::kInfo, 0);
extern SpinLock info_lock;

InfoList* info_list(Vid vid);  // nullptr: there is none
// Return kNoInfo if there are too many, or there is no memory.
Vid make_info_list();
Vid copy_info_list(Vid from);
bool free_info_list(Vid vid);  // false: there is none
void drop_info(Vid vid);

// The hints in `info` that the MPI knows, for a duplicate of `parent`: an Info of the upper half in *hints; 0
// if there are none. Returns a neutral error (communicator_hints.cpp).
int known_hints(Vid parent, MPI_Info info, Vid* hints);

}  // namespace cropdl::shim
