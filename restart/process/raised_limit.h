// Raises a soft limit of this process (man 2 setrlimit) for a while. LH.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace cropdl::process {

// Raises the limit to `needed`, or to the hard limit if that is lower, while the object exists.
class RaisedLimit {
 public:
  RaisedLimit(__rlimit_resource_t resource, rlim_t needed) : resource_(resource) {
    if (getrlimit(resource_, &before_) != 0 || before_.rlim_cur >= needed) return;
    rlimit raised = before_;
    raised.rlim_cur = std::min(needed, before_.rlim_max);
    raised_ = setrlimit(resource_, &raised) == 0;
  }
  ~RaisedLimit() {
    if (raised_) setrlimit(resource_, &before_);
  }
  RaisedLimit(const RaisedLimit&) = delete;
  RaisedLimit& operator=(const RaisedLimit&) = delete;

 private:
  const __rlimit_resource_t resource_;
  rlimit before_{};
  bool raised_ = false;
};

}  // namespace cropdl::process
