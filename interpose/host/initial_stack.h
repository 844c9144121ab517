// The program's initial stack, as the kernel's (man 3 getauxval; psABI, "Process Initialization"). LH, START.
#pragma once

#include <string>
#include <vector>

#include "interpose/launch/elf_file.h"

namespace cropdl::host {

struct InitialStack {
  std::vector<std::string> arguments;  // with the program's name
  std::vector<std::string> environment;
  std::string program;  // AT_EXECFN
  launching::MappedElf image, interpreter;
  size_t segments = 0;      // AT_PHNUM
  uint64_t vdso = 0;        // AT_SYSINFO_EHDR
  bool executable = false;  // PT_GNU_STACK asks for it
};

// Maps the stack in the window and returns the initial stack pointer.
Result<uint64_t> build_stack(const InitialStack& what);

// Makes /proc/PID/cmdline, auxv, stat and maps show the program's stack (PersistentState::view) and not the
// lower half's. A kernel without CONFIG_CHECKPOINT_RESTORE refuses this. /proc/PID/environ stays this run's:
// launchers and batch systems find their processes by it.
void show_program();

}  // namespace cropdl::host
