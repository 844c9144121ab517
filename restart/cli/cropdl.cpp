// `cropdl`: looks at a store, checks it, and asks a running job for a checkpoint. A tool; changes nothing
// itself. What was asked for goes to stdout; what went wrong is one line on stderr and a non-zero exit. What
// a checkpoint waits for is said on stderr, too.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/format.h"
#include "coord/client.h"
#include "restart/store.h"

namespace {

using cropdl::formatted;
using namespace cropdl::restart;

// A request is answered with a refusal within this time when no checkpoint can begin (job dead, or busy).
constexpr double kAnswerSeconds = 5;

int fail(const cropdl::Error& error) {
  std::fprintf(stderr, "cropdl: %s\n", error.message.c_str());
  return 1;
}

std::string amount(uint64_t bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.95 && unit < 6; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string command_line(const Manifest& manifest) {
  std::string text = manifest.program;
  for (const std::string& arg : manifest.args) text += " " + arg;
  return text;
}

int list(const std::string& directory) {
  cropdl::Result<StoreReader> store = StoreReader::open(directory);
  if (!store) return fail(store.error());
  std::printf("%-8s %-20s %5s %10s %10s %9s  %-10s %s\n", "VERSION", "CREATED", "RANKS", "SIZE", "MEMORY",
              "STALL", "MPI", "STATE");
  for (const Version& version : store->all_versions()) {
    const Manifest& m = version.manifest;
    if (m.images.empty()) {  // the manifest could not be read
      std::printf("%-8lu %-20s %5s %10s %10s %9s  %-10s damaged: %s\n", version.number, "-", "-", "-", "-",
                  "-", "-", version.damage.c_str());
      continue;
    }
    std::printf("%-8lu %-20s %5u %10s %10s %7.3f s  %-10s %s\n", version.number, m.created.c_str(), m.ranks,
                amount(m.bytes()).c_str(), amount(m.memory()).c_str(), m.stall_seconds, m.mpi_name.c_str(),
                version.damage.empty() ? "complete" : ("damaged: " + version.damage).c_str());
  }
  return 0;
}

void print_job(const std::string& directory, const StoreReader::LiveJob& job) {
  if (job.pid == 0) {
    std::printf("job:     not running\n");
    return;
  }
  std::printf("job:     running (pid %ld on %s)\n", job.pid, job.host.c_str());
  auto live = cropdl::coord::job_status(directory);
  if (!live) {
    std::printf("         does not answer: %s\n", live.error().message.c_str());
    return;
  }
  std::printf("         since %s, %s, %u of %u ranks can be checkpointed\n", live->started.c_str(),
              live->phase.c_str(), live->joined, live->ranks);
  if (!live->last_failure.empty())
    std::printf("         last checkpoint failed: %s\n", live->last_failure.c_str());
}

int status(const std::string& directory) {
  cropdl::Result<StoreReader> store = StoreReader::open(directory);
  if (!store) return fail(store.error());
  cropdl::Result<StoreReader::LiveJob> job = store->live_job();
  if (!job) return fail(job.error());
  print_job(directory, *job);
  size_t complete = 0, damaged = 0;
  const Version* newest = nullptr;
  std::vector<Version> versions = store->all_versions();
  for (const Version& version : versions) {
    if (!version.damage.empty())
      ++damaged;
    else if (++complete == 1)
      newest = &version;
  }
  std::printf("stored:  %zu complete, %zu damaged\n", complete, damaged);
  if (newest == nullptr) return 0;
  const Manifest& m = newest->manifest;
  std::printf("newest:  version %lu of %s, %s, stall %.3f s\n", newest->number, m.created.c_str(),
              amount(m.bytes()).c_str(), m.stall_seconds);
  if (m.parent != 0) std::printf("         continues version %lu\n", m.parent);
  std::printf("program: %s\n", command_line(m).c_str());
  std::printf("ranks:   %u under %s %s\n", m.ranks, m.mpi_name.c_str(), m.mpi_version.c_str());
  return 0;
}

int verify(const std::string& directory, uint64_t number) {
  cropdl::Result<StoreReader> store = StoreReader::open(directory);
  if (!store) return fail(store.error());
  bool found = false, good = true;
  for (const Version& version : store->all_versions()) {
    if (number != 0 && version.number != number) continue;
    cropdl::Status whole = verify_version(version);
    if (!whole && is_gone(version)) continue;
    found = true;
    if (!whole) {
      good = false;
      fail(cropdl::Error{formatted("version {}: {}", version.number, whole.error().message)});
      continue;
    }
    std::printf("version %lu: good, %zu image%s, %s\n", version.number, version.manifest.images.size(),
                version.manifest.images.size() == 1 ? "" : "s", amount(version.manifest.bytes()).c_str());
  }
  if (found) return good ? 0 : 1;
  return fail(cropdl::Error{
      formatted("store {}: holds no version{}", directory, number != 0 ? formatted(" {}", number) : "")});
}

int checkpoint(const std::string& directory) {
  cropdl::Result<StoreReader> store = StoreReader::open(directory);
  if (!store) return fail(store.error());
  const auto waiting = [](const std::string& line) { std::fprintf(stderr, "cropdl: %s\n", line.c_str()); };
  auto reply = cropdl::coord::request_checkpoint(directory, kAnswerSeconds, waiting);
  if (!reply) return fail(reply.error());
  std::printf("version %lu: %lu bytes, stall %.3f s\n", reply->version, reply->bytes, reply->stall_seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Looks at the checkpoints of a CropDL store, checks them, and asks a running job for one.",
               "cropdl"};
  app.set_version_flag("--version", "cropdl " CROPDL_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return cropdl::formatted("cropdl: {} (see cropdl --help)\n", error.what());
  });
  std::string directory;
  uint64_t number = 0;
  CLI::App* list_command = app.add_subcommand("list", "Lists the versions, newest first");
  CLI::App* status_command = app.add_subcommand("status", "Says whether the job runs, and what is stored");
  CLI::App* verify_command = app.add_subcommand("verify", "Checks every byte of the images");
  CLI::App* checkpoint_command =
      app.add_subcommand("checkpoint", "Asks the running job for a checkpoint; returns when it is durable");
  for (CLI::App* command : {list_command, status_command, verify_command, checkpoint_command})
    command->add_option("DIR", directory, "The store (--dir of cropdl-run)")->required();
  verify_command->add_option("--version", number, "Only this version")->check([](const std::string& text) {
    bool digits =
        !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
    return digits && text.find_first_not_of('0') != std::string::npos ? ""
                                                                      : text + " is not a version's number";
  });
  CLI11_PARSE(app, argc, argv);

  if (*list_command) return list(directory);
  if (*status_command) return status(directory);
  if (*verify_command) return verify(directory, number);
  return checkpoint(directory);
}
