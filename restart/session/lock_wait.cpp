#include "restart/session/lock_wait.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "base/host.h"
#include "base/procfs.h"

namespace cropdl::session {
namespace {

bool is_ending(long pid) {
  // Field 9 has PF_EXITING and PF_SIGNALED (include/linux/sched.h). Field 3 is Z or X after the end.
  constexpr unsigned long kExiting = 0x4, kSignaled = 0x400;
  const std::vector<std::string> stat = process_stat(std::to_string(pid));
  if (stat.empty()) return true;  // gone
  if (stat.size() >= 10 && (stat[3] == "Z" || stat[3] == "X" ||
                            (strtoul(stat[9].c_str(), nullptr, 10) & (kExiting | kSignaled)) != 0))
    return true;
  // A pending SIGKILL takes effect when the thread leaves the kernel (SigPnd, ShdPnd: man 5 proc).
  const std::string status = kernel_text(formatted("/proc/{}/status", pid));
  const uint64_t pending = status_bits(status, "SigPnd") | status_bits(status, "ShdPnd");
  return (pending >> (SIGKILL - 1) & 1) != 0;
}

}  // namespace

Result<restart::Store> open_store(const std::string& directory, const restart::StoreIdentity& identity,
                                  const LockWait& wait, const restart::StoreOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (bool said = false;; usleep(20'000)) {
    bool in_use;
    auto store = restart::Store::open_or_create(directory, identity, options, &in_use);
    if (store || !in_use) return store;
    const auto reader = restart::StoreReader::open(directory);
    if (!reader) return store;
    const auto job = reader->live_job();
    if (!job) return store;
    if (job->pid == 0 && waited() < wait.ending_seconds) continue;  // the job has ended meanwhile
    const bool ending = job->host == host_name() && is_ending(job->pid);
    if (waited() > (ending ? wait.ending_seconds : wait.grace_seconds)) {
      if (!ending) return store;
      return Error{
          "store {}: the former job's process {} has been killed, but has not ended within {} s; "
          "try again when it is gone",
          directory, job->pid, static_cast<int>(wait.ending_seconds)};
    }
    if (ending && !said && waited() > wait.say_after_seconds) {
      said = true;
      wait.say(formatted("store {}: waiting for the former job's process {}, which has been killed, to end",
                         directory, job->pid));
    }
  }
}

}  // namespace cropdl::session
