// What an image holds of the program's threads besides their records (program_threads.h).
#include <linux/kcmp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "base/time.h"
#include "restart/process/clocks.h"
#include "restart/threads/program_threads.h"
#include "restart/threads/work_on_threads.h"

namespace cropdl::program_threads {

using seam::ThreadRecord;

namespace {

// Whether the calling thread shares directories and umask with `main`: by kcmp, or by value where forbidden.
bool shares_directories(pid_t main) {
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  const long compared = syscall(SYS_kcmp, main, own, KCMP_FS, 0, 0);
  if (compared >= 0) return compared == 0;
  const auto values = [](pid_t tid) {
    std::string all;
    for (const char* const link : {"cwd", "root"})
      all += link_text(formatted("/proc/self/task/{}/{}", tid, link)) + '\n';
    return all + status_field(kernel_text(formatted("/proc/self/task/{}/status", tid)), "Umask");
  };
  return values(main) == values(own);
}

uint64_t mask_of(const ThreadRecord& t) {
  return reinterpret_cast<const ucontext_t*>(t.context)->uc_sigmask.__val[0];
}

// Runs on the thread itself.
Result<SavedThread> look(const ThreadRecord& t, const process::AttributeValues& mains, pid_t main) {
  SavedThread s;
  s.record = static_cast<uint32_t>(&t - seam::state()->threads);
  char name[17] = {};
  prctl(PR_GET_NAME, name);
  s.name = name;
  auto differing = process::differing_attributes(mains);
  if (!differing) return Error{name_of(t, s.name) + " " + differing.error().message};
  s.attributes = std::move(*differing);
  if (!shares_directories(main))
    return Error{
        name_of(t, s.name) +
        " has a directory and a mask of file modes of its own (unshare, clone), which cannot be saved yet"};
  s.cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) + t.cpu_before;
  s.usage = process::usage_of_thread(t.usage_before);
  return s;
}

}  // namespace

Result<std::vector<SavedThread>> saved_threads() {
  auto* s = seam::state();
  // Signal stacks of ended threads are not saved; the core maps them again.
  for (uint32_t i = 1; i < s->threads_high; ++i)
    if (ThreadRecord& t = s->threads[i]; t.used == seam::kFree && t.self != nullptr) {
      munmap(reinterpret_cast<void*>(seam::signal_stack(&t)), seam::kSignalStackSize);
      t.self = nullptr;
    }
  std::vector<SavedThread> all;
  process::AttributeValues mains;
  Status done;
  const pid_t main = static_cast<pid_t>(syscall(SYS_gettid));
  each_thread([&](ThreadRecord& t) {
    if (!done) return;
    if (mains.empty()) mains = process::thread_attributes();
    SavedThread& saved = all.emplace_back();
    done = run_on(t, [&] { return look(t, mains, main).move_to(saved); });
  });
  if (!done) return done.error();
  return all;
}

uint64_t blocked_everywhere() {
  const ThreadRecord& main = seam::state()->threads[0];
  uint64_t blocked = main.gone != 0 ? ~uint64_t{0} : mask_of(main);
  each_thread([&](const ThreadRecord& t) { blocked &= mask_of(t); });
  return blocked;
}

Status read_pending_signals(std::vector<SavedThread>& threads) {
  bool told = forget_suspend_signals();
  for (SavedThread& saved : threads) {
    ThreadRecord& t = seam::state()->threads[saved.record];
    if (status_bits(kernel_text(formatted("/proc/self/task/{}/status", t.tid)), "SigPnd") == 0) continue;
    Status read = run_on(t, [&] {
      if (!forget_suspend_signals()) told = false;
      for (PendingSignal& p : pending_signals(mask_of(t)))
        if (!p.process) saved.pending.push_back(std::move(p.info));
      return Status();
    });
    if (!read) return read;
  }
  // The C library uses this signal too, and the thread that sent it waits for an answer.
  if (!told) return Error{"a thread is just changing the ids of the process (setuid and its kin); ask again"};
  return {};
}

}  // namespace cropdl::program_threads
