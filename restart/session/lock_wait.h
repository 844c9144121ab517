// Taking a store over from a job that is being taken apart. LH of rank 0, START.
#pragma once

#include <functional>
#include <string>

#include "restart/store.h"

namespace cropdl::session {

// How long a lock may be somebody else's.
struct LockWait {
  double grace_seconds = 2;  // a launcher that dies takes its ranks with it a little later
  double ending_seconds =
      60;  // the kernel frees a process's memory, gigabytes of it, before it drops the lock
  double say_after_seconds = 1;
  std::function<void(const std::string&)> say;  // one line for people, when it takes long
};

// Store::open_or_create, but waits for a former job that is being taken apart.
Result<restart::Store> open_store(const std::string& directory, const restart::StoreIdentity& identity,
                                  const LockWait& wait, const restart::StoreOptions& options = {});

}  // namespace cropdl::session
