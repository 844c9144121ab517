// The lower half's main, as a rank that hosts the program. Only cropdl-run and cropdl-restart start it.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"
#include "interpose/boundaries/frame_rules.h"
#include "interpose/counting/agreement.h"
#include "interpose/host/loaded_objects.h"
#include "interpose/host/process.h"
#include "interpose/seam/control_page.h"
#include "interpose/seam/thread.h"
#include "restart/compression.h"
#include "restart/process/attributes.h"
#include "restart/session/checkpoint_session.h"
#include "restart/session/process_state.h"
#include "restart/threads/pending_signals.h"
#include "restart/threads/program_threads.h"
#include "restart/threads/tls_block.h"

extern "C" {
[[noreturn]] void cropdl_enter(uint64_t sp, uint64_t entry, cropdl::seam::ThreadRecord*);
[[noreturn]] void cropdl_continue(uint64_t context, uint64_t fs, cropdl::seam::ThreadRecord*);
}

namespace cropdl::host {

Process& this_process() {
  static Process* const p = new Process;  // never destroyed: other threads use it until the process ends
  return *p;
}

// The beginnings of lines for people.
static std::string speaker() { return this_process().boot.restart ? "cropdl-restart: " : "cropdl-run: "; }
static std::string rank_prefix() {
  const launching::Launch& launch = this_process().launch;
  return launch.ranks > 1 ? formatted("rank {}: ", launch.rank) : "";
}

void die(const std::string& line) {
  const launching::Launch& launch = this_process().launch;
  say(speaker() + rank_prefix() + line);
  // When a rank exits before MPI_Init, Hydra lets the others wait; after a death by a signal, it kills them.
  if (launch.ranks > 1 && launch.flavour == "mpich") {
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
  }
  _exit(1);
}

namespace {

// The kernel starts a handler with the standard floating-point environment, and its end restores the former.
void serve(seam::ThreadRecord*) { this_process().rank->serve(); }

[[noreturn]] void leave(seam::ThreadRecord*, int code) {
  static std::atomic<bool> leaving{false};
  // A second caller waits while the first thread ends the process.
  while (leaving.exchange(true)) pause();
  counting::set_agent_event(-1);
  seam::writable_control->last_version_fd = -1;  // from now on SIGTERM kills, as natively
  if (this_process().agent) this_process().agent->stop();
  _exit(code);
}

[[noreturn]] void stay(seam::ThreadRecord*, int) {
  std::fesetenv(FE_DFL_ENV);  // not a handler, and all signals are blocked: a trap would kill
  this_process().rank->stay();
}

// Everything above this frame stays alive; serve() and leave() run below it.
__attribute__((noinline)) void mark_lower_half(seam::ThreadRecord& main) {
  main.lower_sp = (reinterpret_cast<uint64_t>(__builtin_frame_address(0)) - 4096) & ~15ull;
}

// Room for checkpoints, one page of it used: without any under RLIMIT_AS, the kernel kills who grows a stack.
__attribute__((noinline)) void let_stack_grow() {
  constexpr size_t kRoom = 512 << 10;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < 4 * kRoom) return;
  *static_cast<volatile char*>(__builtin_alloca(kRoom)) = 0;
}

// Now the core's handlers may run on this thread: GS base is its record (returned), FS base the LH's.
seam::ThreadRecord& ready_to_run(const session::Metadata* saved) {
  const Process& p = this_process();
  show_program();
  auto& main = seam::state()->threads[0];
  seam::writable_control->park = reinterpret_cast<void (*)()>(seam::state()->core.park);
  mark_lower_half(main);
  let_stack_grow();
  main.lower_fs = seam::by_kernel::fs_base();
  program_threads::make_segments(&main);
  seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&main));
  if (auto s = install_handlers(last_version_at_sigterm(p.schedule)); !s) die(s.error().message);
  if (saved != nullptr)
    if (auto s = program_threads::queue_again(saved->pending_signals, true); !s) die(s.error().message);
  // The signal mask is inherited, too. With SIGSYS blocked a trapped call would kill the program; with the
  // suspend signal blocked the program could not be stopped. A restart leaves them blocked until the program
  // resumes with its own mask: such a signal that is pending belongs to the program's C library.
  if (!p.boot.restart)
    upper::raw(SYS_rt_sigprocmask, SIG_UNBLOCK, upper::as_word(&seam::kReservedSignals), 0, 8);
  files::remember_our_descriptors();
  if (auto s = install_filter(p.boot.restart, files::input_is_a_stream()); !s) die(s.error().message);
  session::remember_filters();
  if (saved != nullptr) {
    if (auto s = process::restore_last_attributes(saved->attributes); !s) die(s.error().message);
    if (auto s = process::start_interval_timers(saved->interval_timers); !s) die(s.error().message);
    p.agent->note_phase("idle");
  }
  process::remember_attributes();
  return main;
}

}  // namespace

void fill_control_page(Process& p) {
  auto* page = seam::writable_control;
  p.libraries.publish();
  page->restarted = p.boot.restart ? 1 : 0;
  page->message_fd = error_stream();
  page->messages_as_json = log_is_json() ? 1 : 0;
  page->serve = serve;
  page->leave = leave;
  page->stay = stay;
  page->lend_lower_fs = lend_lower_fs;
  page->for_core = functions_for_core();
  boundaries::c_library_symbol = c_library_symbol;
  page->first_lower_file = first_high_descriptor();  // place_files() may lower it
}

void enter_program(uint64_t stack, uint64_t entry) {
  auto& main = ready_to_run(nullptr);
  this_process().rank->ready();
  cropdl_enter(stack, entry, &main);
}

void continue_program(const session::Metadata& saved) {
  const Process& p = this_process();
  auto& main = ready_to_run(&saved);
  std::string note;
  if (auto s = program_threads::make_threads(saved.threads, &note); !s) die(s.error().message);
  if (!note.empty()) say(speaker() + rank_prefix() + note);
  if (auto s = process::restore_last_attributes(saved.attributes, true); !s) die(s.error().message);
  p.rank->ready();
  program_threads::register_rseq(&main);
  program_threads::go_on_with_threads();
  if (main.gone != 0) p.rank->stay();
  cropdl_continue(main.context, main.stopped_fs, &main);
}

Status open_versions(Process& p, const restart::StoreIdentity& identity) {
  session::LockWait wait;
  wait.say = [](const std::string& line) { say(speaker() + line); };
  restart::StoreOptions options;
  if (const auto keep = restart::parse_retention(p.keep)) options.keep = *keep;
  auto store = session::open_store(p.boot.directory, identity, wait, options);
  if (!store) return store.error();
  libraries::Library* const mpi = p.libraries.by_number(seam::kLibraryMpi);
  auto manifest = session::manifest_of_run(p.launch, p.program, p.arguments,
                                           mpi != nullptr ? mpi->implementation() : "none",
                                           mpi != nullptr ? mpi->version() : "");
  manifest.job = identity.job;
  p.versions = std::make_unique<session::VersionStore>(std::move(*store), std::move(manifest));
  return {};
}

// Whether the program's output, which a line updated in place would disturb, goes elsewhere than CropDL's.
static bool writes_elsewhere() {
  struct stat output = {}, lines = {};
  if (::fstat(error_stream(), &lines) != 0) return false;
  return ::fstat(1, &output) != 0 || output.st_rdev != lines.st_rdev;
}

Status start_agent(Process& p, double former_cost, double plausible_cost) {
  // Without a launcher Open MPI would fork a daemon (orte/mca/ess/singleton). Only MPI_Comm_spawn needs it,
  // and a live child refuses checkpoints. The program does not see it: its environment is laid out already.
  if (!p.launch.launched) setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  const bool trace = getenv("CROPDL_TRACE_PHASE") != nullptr;
  p.checkpoint = std::make_unique<session::CheckpointSession>(session::JobOfRank{
      p.boot, p.launch, p.program, p.arguments, p.schedule, p.keep, p.processors, p.libraries});
  p.rank = std::make_unique<session::Rank>(
      p.libraries,
      session::Rank::Saving{[&p] { return p.checkpoint->look(); },
                            [&p](const std::string& directory, const boundaries::Tracker& tracker) {
                              return p.checkpoint->save(directory, tracker);
                            },
                            trace},
      p.boot.sanitizer.empty()
          ? ""
          : formatted("programs built with {} cannot be saved: their shadow memory spans terabytes",
                      p.boot.sanitizer),
      p.launch.rank, p.launch.ranks);
  coord::AgentConfig config;
  config.directory = p.boot.directory;
  config.rank = p.launch.rank;
  config.ranks = p.launch.ranks;
  config.schedule = p.schedule;
  config.former_cost = former_cost;
  config.plausible_cost = plausible_cost;
  if (p.boot.compress) {  // all ranks are on one node
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    config.fastest =
        restart::kCompressedSpeed * static_cast<double>(std::clamp<long>(processors, 1, p.launch.ranks));
  }
  std::string note;
  config.time_limit = launching::time_limit(p.boot, p.schedule, &note);
  if (!note.empty() && config.rank == 0) say(speaker() + note);
  config.metrics = p.boot.metrics;
  config.quiet = p.boot.quiet;
  config.progress = writes_elsewhere() && !log_is_json();
  if (p.versions) config.job = p.versions->job();
  // Before it listens, rank 0 may have to wait for the lock and to remove the files that a killed job left.
  config.rendezvous_seconds = 300;
  config.own_descriptors = true;
  config.run_id = p.launch.run;
  config.restart = p.boot.restart;
  config.trace_phase = trace;
  auto agent = coord::Agent::start(config, *p.rank, p.versions.get());
  if (!agent) return agent.error();
  p.agent = std::move(*agent);
  seam::writable_control->trigger_fd = p.agent->request_descriptor();
  seam::writable_control->last_version_fd = p.agent->terminated_descriptor();
  counting::set_agent_event(p.agent->wake_descriptor());
  return {};
}

}  // namespace cropdl::host

namespace {

[[noreturn]] void lower_main(int argc, char** argv) {
  using namespace cropdl;
  using namespace cropdl::host;
  const std::vector<int> given = cropdl::open_descriptors();
  cropdl::set_first_high_descriptor(files::choose_first_descriptor());
  cropdl::keep_error_stream(files::choose_first_descriptor());
  // Grows the descriptor table while the process has one thread. With more threads each growth waits for all
  // processors (Linux fs/file.c, expand_fdtable: synchronize_rcu).
  cropdl::open_high("/", O_PATH);
  const char* text = getenv(launching::kBootVariable);
  Process& p = this_process();
  auto boot = launching::parse_boot(text != nullptr ? text : "");
  if (!boot) die(boot.error().message);
  p.boot = *boot;
  cropdl::choose_log_format(p.boot.log);
  p.schedule = launching::wanted_schedule(p.boot, {cropdl::coord::Schedule::Kind::kAutomatic});
  p.keep = p.boot.keep;
  // ASan's shadow memory begins at 0x7fff7000 and leaves no gap (LLVM compiler-rt/lib/asan/asan_mapping.h).
  if (p.boot.sanitizer == "AddressSanitizer") program_threads::leave_low_memory_alone();
  program_threads::let_go_of_rseq();  // the program registers its own
  program_threads::continue_on_low_tls_block();
  settled_in(p.boot);
  unsetenv(launching::kBootVariable);
  files::remember_standard_streams();
  auto launch = launching::read_launch(p.boot.program);
  if (!launch) die(launch.error().message);
  p.launch = std::move(*launch);
  p.inherited = files::inherited_descriptors(given, p.launch.launched);
  if (auto s = check_window(); !s) die(s.error().message);
  if (auto s = map_control_page(p.boot.installation); !s) die(s.error().message);
  if (p.boot.restart) restart_program(p);
  p.program = p.boot.program;
  const std::vector<std::string> arguments(argv, argv + argc);
  if (argc > 1) p.arguments.assign(arguments.begin() + 1, arguments.end());
  // The store knows a script by its path: another folder's may have the same name.
  if (!p.boot.script.empty())
    for (std::string& argument : p.arguments)
      if (cropdl::resolved_path(argument) == p.boot.script) {
        argument = p.boot.script;
        break;
      }
  start_program(p, arguments);
}

}  // namespace

int main(int argc, char** argv) { cropdl::host::with_enough_stack(lower_main, argc, argv); }
