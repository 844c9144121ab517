#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/time.h"
#include "interpose/handles/heap.h"
#include "interpose/host/process.h"
#include "interpose/seam/control_page.h"
#include "interpose/upper/raw.h"
#include "restart/memory/mappings.h"
#include "restart/process/machine.h"

namespace cropdl::host {
namespace {

Status map_at(uint64_t address, size_t size, int prot, const char* what) {
  void* p = mmap(reinterpret_cast<void*>(address), size, prot,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p != reinterpret_cast<void*>(address))
    return Error{"cannot map {} of the upper half at its fixed address: {}", what, errno_text(errno)};
  return {};
}

// Without its stand-in ld.so would load the real library into the program.
Status copy_path(char (&to)[256], const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return {};  // not installed
  if (path.size() >= sizeof to)
    return Error{path + ": the path is too long; install CropDL in a folder with a shorter one"};
  memcpy(to, path.c_str(), path.size() + 1);
  return {};
}

}  // namespace

Status check_window() {
  for (const host_memory::Mapping& m : host_memory::read_mappings()) {
    if (m.end <= seam::kWindowBegin || m.begin >= seam::kWindowEnd) continue;
    return Error{"the address window {:x}-{:x} is taken: {:x}-{:x} {}; start without what maps it",
                 seam::kWindowBegin,
                 seam::kWindowEnd,
                 m.begin,
                 m.end,
                 m.path.empty() ? "(anonymous)" : m.path};
  }
  return {};
}

Status map_control_page(const std::string& installation) {
  void* const writable =
      mmap(nullptr, seam::kControlPageSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (writable == MAP_FAILED) return Error{"cannot map the control page: " + errno_text(errno)};
  // Must not replace a mapping of this process.
  if (auto s = map_at(seam::kControlPage, seam::kControlPageSize, PROT_NONE, "the control page"); !s)
    return s;
  // Maps the same memory a second time (man 2 mremap: an old size of 0). Does not use the C library's mremap:
  // UCX replaces it by a function that drops the address.
  const long at = upper::raw(SYS_mremap, upper::as_word(writable), 0, seam::kControlPageSize,
                             MREMAP_MAYMOVE | MREMAP_FIXED, seam::kControlPage);
  if (at != static_cast<long>(seam::kControlPage))
    return Error{"cannot map the control page at its fixed address: " + errno_text(static_cast<int>(-at))};
  if (mprotect(seam::control(), seam::kControlPageSize, PROT_READ) != 0)
    return Error{"cannot protect the control page: " + errno_text(errno)};
  auto* page = seam::writable_control = static_cast<seam::ControlPage*>(writable);
  page->trigger_fd = page->message_fd = page->last_version_fd = -1;
  const char* const names[5] = {"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu",
                                "__vdso_clock_getres"};
  for (int i = 0; i < 5; ++i) page->vdso[i] = dynamic_symbol(getauxval(AT_SYSINFO_EHDR), names[i]);
  page->patch_libc = getenv("CROPDL_NO_PATCH") == nullptr;
  page->has_fsgsbase = process::has_fsgsbase();
  seam::StandIn* to = page->stand_ins;
  for (const libraries::StandInFile& s : libraries::stand_ins()) {
    if (to == page->stand_ins + seam::kMaxStandIns)
      return Error{"more stand-ins than the control page has room for"};
    snprintf(to->begins, sizeof to->begins, "%s", s.begins);
    if (auto copied = copy_path(to->file, installation + "/" + s.file); !copied) return copied;
    ++to;
  }
  return {};
}

void choose_stand_ins(const launching::Boot& boot) {
  seam::StandInRule* rule = seam::writable_control->stand_in_rules;
  for (const libraries::StandInFile& s : libraries::stand_ins()) {
    rule->bits = 0;
    if (s.of != libraries::StandInFile::kAnything) {
      rule->bits = seam::kOfDevice;
      if (s.of == libraries::StandInFile::kDeviceOfOneVersion) rule->bits |= seam::kOneVersion;
      if (launching::software_library(boot, s.file).empty()) rule->bits |= seam::kWhereItIs;
    }
    ++rule;
  }
}

Status map_fresh_state(const std::string& installation, const std::string& exe) {
  const auto core = launching::read_elf(installation + "/cropdl-core.so");
  if (!core) return core.error();
  launching::ElfFile fixed = *core;
  fixed.header.e_type = ET_EXEC;  // a shared object only for ld.so; it is linked for a fixed address
  const auto mapped = launching::map_elf(fixed, 0);
  if (!mapped) return mapped.error();
  if (mapped->begin != seam::kCore || mapped->end > seam::kCore + seam::kCoreSize)
    return Error{core->path + ": not the core that this version was built with"};
  if (auto s = map_at(seam::kState, seam::kStateSize, PROT_READ | PROT_WRITE, "the state"); !s) return s;
  if (auto s = map_at(seam::kHeapBegin, handles::kHeapStep, PROT_READ | PROT_WRITE, "the heap"); !s) return s;

  auto* state = seam::state();
  if (auto s = map_at(seam::signal_stack(&state->threads[0]), seam::kSignalStackSize, PROT_READ | PROT_WRITE,
                      "the signal stack");
      !s)
    return s;
  state->kernel_pid = state->virtual_pid = getpid();
  state->segments.followed = 1;
  state->core_level = seam::kCoreLevel;
  state->began = clock_ns(CLOCK_REALTIME);
  state->brk_first = seam::kBrkBegin + drawn((seam::kBrkEnd - seam::kBrkBegin) / 2);
  state->brk_current = state->brk_mapped = state->brk_first;
  state->map_next = seam::kMapBegin + drawn(kSpread);
  state->low_stack_next = seam::kLowStacks + drawn((seam::kLowBegin - seam::kLowStacks) / 2);
  if (exe.size() >= sizeof state->exe) return Error{exe + ": path too long"};
  memcpy(state->exe, exe.c_str(), exe.size() + 1);
  const auto symbol = [&](const char* name) { return dynamic_symbol(seam::kCore, name); };
  auto& entries = state->core;
  entries.sigsys = symbol("cropdl_core_sigsys");
  entries.suspend = symbol("cropdl_core_suspend");
  entries.trampoline = symbol("cropdl_core_trampoline");
  entries.trigger = symbol("cropdl_core_trigger");
  entries.restorer = symbol("cropdl_core_restorer");
  entries.park = symbol("cropdl_core_park");
  entries.vdso = seam::kCore;
  entries.sets_masks = 1;
  entries.objects_changed = symbol("cropdl_core_objects_changed");
  entries.late_call = symbol("cropdl_core_late_call");
  entries.no_call = symbol("cropdl_core_no_call");
  auto& main = state->threads[0];
  main.self = &main;
  main.used = 1;
  main.kind = seam::kMainThread;
  main.alternate_flags = seam::kNoAlternateStack;
  main.tid = main.virtual_tid = static_cast<int32_t>(syscall(SYS_gettid));
  state->spawned.self = &state->spawned;
  // exec keeps the disposition "ignored", which the program must see.
  for (int sig = 1; sig <= 64; ++sig) {
    seam::SignalAction now{};
    if (upper::raw(SYS_rt_sigaction, sig, 0, upper::as_word(&now), 8) == 0 && now.handler == 1 &&
        sig != seam::kTriggerSignal)  // cropdl-run itself ignores this one until here
      state->actions[sig].handler = 1;
  }
  return {};
}

Status install_handlers(bool last_version) {
  auto* state = seam::state();
  state->core.last_version = last_version ? dynamic_symbol(seam::kCore, "cropdl_core_last_version") : 0;
  const stack_t stack{reinterpret_cast<void*>(seam::signal_stack(&state->threads[0])), 0,
                      seam::kSignalStackSize};
  long failure = sigaltstack(&stack, nullptr) == 0 ? 0 : errno;
  for (int sig = 1; sig <= 64; ++sig) {
    if (sig == SIGKILL || sig == SIGSTOP) continue;
    // The C library's signal for cancellation. The program's C library installs a handler through the core;
    // without one the LH's C library keeps its handler.
    if (sig == 32 && state->actions[sig].handler <= 1) continue;
    const seam::SignalAction action = seam::kernel_action(sig, state->actions[sig], state->core);
    const long result = upper::raw(SYS_rt_sigaction, sig, upper::as_word(&action), 0, 8);
    if (failure == 0) failure = -result;
  }
  if (failure != 0) return Error{"cannot install signal handlers: " + errno_text(static_cast<int>(failure))};
  return {};
}

}  // namespace cropdl::host
