// The lower half's parts, put together for this process, which live as long as it; and what each file of this
// folder does for it. LH, START (main thread, no program yet), but for lend_lower_fs.
#pragma once

#include <elf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coord/agent.h"
#include "interpose/launch/boot.h"
#include "interpose/launch/elf_file.h"
#include "interpose/launch/launch.h"
#include "interpose/libraries/libraries.h"
#include "interpose/seam/state.h"
#include "restart/files/descriptors.h"
#include "restart/memory/restore_memory.h"
#include "restart/session/checkpoint_session.h"
#include "restart/session/rank.h"
#include "restart/session/version_store.h"
#include "restart/store.h"

namespace cropdl::host {

struct Process {
  launching::Boot boot;
  coord::Schedule schedule;  // as the boot says, at a restart over what the image says
  std::string keep;          // which versions stay (restart/retention.h), likewise; "": the default
  uint32_t processors = 0;   // Metadata::processors, of the program's first machine
  launching::Launch launch;
  libraries::Libraries libraries{libraries::libraries_of_this_lower_half()};
  std::string program;
  std::vector<std::string> arguments;     // without the program's name
  files::InheritedDescriptors inherited;  // descriptors that this process was started with
  std::unique_ptr<session::CheckpointSession> checkpoint;
  std::unique_ptr<session::Rank> rank;
  std::unique_ptr<session::VersionStore> versions;  // rank 0 only
  std::unique_ptr<coord::Agent> agent;
};

Process& this_process();

// Prints one line for people and ends the process. Rank 0 is enough where all ranks would say the same.
[[noreturn]] void die(const std::string& line);

// address_reservation.cpp: calls `run`, which does not return, on the process's stack, or on a new one if
// `ulimit -s` makes it too small for the LH. Raises threads' default size, too.
[[noreturn]] void with_enough_stack(void (*run)(int, char**), int argc, char** argv);

// Reserves the version's addresses outside the window, before a restart touches anything. If ASLR put a
// mapping of this process on one, starts over by exec and does not return. An error: no layout had them free.
Status settle_addresses(const Process& p, const restart::Version& version,
                        host_memory::ReservedAddresses& reserved);
// After such an exec: restores the personality, so that the program sees no trace of the exec.
void settled_in(const launching::Boot& boot);

// dynamic_symbols.cpp; LH, any thread. The address of the function or variable `name` that the object with
// this dynamic section defines; 0: none. `bias`: where it lies, less where it is linked. `relocated`: the
// section has the addresses in memory.
uint64_t dynamic_symbol(const Elf64_Dyn* dynamic, uint64_t bias, bool relocated, const char* name);
// The same for an object at `elf_header`. Not relocated: the vDSO, the core, the program's ld.so at first.
uint64_t dynamic_symbol(uint64_t elf_header, const char* name, bool relocated = false);

// window.cpp: control page, core, state, heap. Refuses if the window already contains a mapping.
Status check_window();
// Maps the control page and fills in this run's fields. `installation`: directory of the shims and the core.
Status map_control_page(const std::string& installation);
// Chooses the files that ld.so gets instead of the program's libraries, by `boot`. A restart calls it again
// once it has read from the image how the program was started.
void choose_stand_ins(const launching::Boot& boot);
// For a starting program: maps the core, the state and the heap, and initializes the state.
Status map_fresh_state(const std::string& installation, const std::string& exe);
// Installs the core's signal handlers, the program's by PersistentState::actions, and the main thread's
// signal stack. `last_version`: SIGTERM at its default requests a last version, if the core supports it.
Status install_handlers(bool last_version);

// Address space randomization (ASLR) at a program's start: CropDL draws the addresses in the window that the
// kernel would draw; an image has them. The largest distance of program, loader, stack and mappings, each
// from its lowest possible address.
inline constexpr uint64_t kSpread = 1ull << 40;
static_assert(4 * kSpread < (seam::kMapEnd - seam::kMapBegin) / 2);
// Returns a random multiple of `unit` below `spread`; 0 if randomization is off for this process (man 2
// personality, ADDR_NO_RANDOMIZE; man 5 proc, randomize_va_space).
uint64_t drawn(uint64_t spread, uint64_t unit = 4096);

// initial_stack.cpp: the program's initial stack, as the kernel's (man 3 getauxval; psABI, "Process
// Initialization").
struct InitialStack {
  std::vector<std::string> arguments;  // with the program's name
  std::vector<std::string> environment;
  std::string program;  // AT_EXECFN
  launching::MappedElf image, interpreter;
  size_t segments = 0;  // AT_PHNUM
};
// Maps the stack in the window and returns the initial stack pointer.
Result<uint64_t> build_stack(const InitialStack& what);
// Makes /proc/PID/cmdline, auxv, stat and maps show the program's stack (PersistentState::view) and not the
// lower half's. A kernel without CONFIG_CHECKPOINT_RESTORE refuses this. /proc/PID/environ stays this run's:
// launchers and batch systems find their processes by it.
void show_program();

// filter.cpp: traps the program's calls that the core handles, for an older image's core as its state says.
// It allows every call from outside the window. Threads, children and exec keep it. `restarted`: ids are
// virtual, so their calls are trapped too. `watch_input`: reads consume the standard input's bytes. Sets
// no_new_privs, which an unprivileged filter requires.
Status install_filter(bool restarted, bool watch_input);

// tls_block_pool.cpp: each thread of the program that calls into the LH gets the FS base of a parked LH
// thread of its own. Starts the broker, the thread that starts these.
Status start_tls_block_pool();
// ControlPage::lend_lower_fs. Runs on the UH thread with its UH FS base: uses no libc and no TLS. Blocks on a
// futex until `thread` has an LH FS base.
void lend_lower_fs(seam::ThreadRecord* thread);

// Rank 0: opens the job's store for writing; `p.versions` exists afterwards.
Status open_versions(Process& p, const restart::StoreIdentity& identity);

// Starts the agent; on rank 0, `p.versions` exists. Costs: a version's before a restart, s; 0: unknown.
Status start_agent(Process& p, double former_cost = 0, double plausible_cost = 0);

// Connects control page, agent and this process: after map_control_page().
void fill_control_page(Process& p);

// The last steps before the program runs: handlers, filter, and the jump.
[[noreturn]] void enter_program(uint64_t stack, uint64_t entry);
[[noreturn]] void continue_program(const session::Metadata& saved);

// The two stories.
[[noreturn]] void start_program(Process& p, const std::vector<std::string>& argv);
[[noreturn]] void restart_program(Process& p);

}  // namespace cropdl::host
