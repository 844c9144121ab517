// The lower half's parts, put together for this process; lives as long as the process. LH, main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coord/agent.h"
#include "interpose/launch/boot.h"
#include "interpose/launch/launch.h"
#include "interpose/libraries/libraries.h"
#include "restart/files/descriptors.h"
#include "restart/session/checkpoint_session.h"
#include "restart/session/rank.h"
#include "restart/session/version_store.h"

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
