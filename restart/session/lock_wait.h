// Takes a store over from a job that is ending. LH of rank 0, START.
#pragma once

#include <functional>
#include <string>

#include "restart/store.h"

namespace cropdl::session {

// How long another process may hold the lock.
struct LockWait {
  double grace_seconds = 2;  // after its launcher dies, a job's ranks end a little later
  // The kernel frees a process's memory, perhaps gigabytes, before it drops the lock.
  double ending_seconds = 60;
  double say_after_seconds = 1;
  std::function<void(const std::string&)> say;  // prints one line for people during a long wait
};

// As Store::open_or_create, but waits for an earlier job that is ending.
Result<restart::Store> open_store(const std::string& directory, const restart::StoreIdentity& identity,
                                  const LockWait& wait, const restart::StoreOptions& options = {});

}  // namespace cropdl::session
