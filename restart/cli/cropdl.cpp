// `cropdl`: looks at a store, checks it, and asks a running job for a checkpoint. A tool; changes nothing
// itself. What was asked for goes to stdout; what went wrong is one line on stderr and a non-zero exit. What
// a checkpoint waits for is said on stderr, too.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "base/format.h"
#include "base/say.h"
#include "coord/client.h"
#include "restart/store.h"

namespace {

using cropdl::formatted;
using namespace cropdl::restart;

// A request is answered with a refusal within this time when no checkpoint can begin (job dead, or busy).
constexpr double kAnswerSeconds = 5;

int fail(const cropdl::Error& error) {
  cropdl::say("cropdl: " + error.message);
  return 1;
}

// A line of what was asked for; whoever wrote what it tells may be another user.
void print(const std::string& line) { std::printf("%s\n", cropdl::shown(line).c_str()); }

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
  constexpr fmt::string_view kHead = "{:<8} {:<20} {:>5} {:>10} {:>10} {:>10} {:>9}  {:<10} {}";
  print(formatted(kHead, "VERSION", "CREATED", "RANKS", "SIZE", "MEMORY", "DEVICE", "STALL", "MPI", "STATE"));
  for (const Version& version : store->all_versions()) {
    const Manifest& m = version.manifest;
    if (m.images.empty()) {  // the manifest could not be read
      print(
          formatted(kHead, version.number, "-", "-", "-", "-", "-", "-", "-", "damaged: " + version.damage));
      continue;
    }
    print(formatted(kHead, version.number, m.created, m.ranks, amount(m.bytes()), amount(m.memory()),
                    m.devices().empty() ? "-" : amount(m.device_memory()),
                    formatted("{:.3f} s", m.stall_seconds), m.mpi_name,
                    version.damage.empty() ? "complete" : "damaged: " + version.damage));
  }
  return 0;
}

void print_job(const std::string& directory, const StoreReader::LiveJob& job) {
  if (job.pid == 0) {
    print("job:     not running");
    return;
  }
  print(formatted("job:     running (pid {} on {})", job.pid, job.host));
  auto live = cropdl::coord::job_status(directory);
  if (!live) {
    print(formatted("         does not answer: {}", live.error().message));
    return;
  }
  print(formatted("         since {}, {}, {} of {} ranks can be checkpointed", live->started, live->phase,
                  live->joined, live->ranks));
  if (!live->last_failure.empty())
    print(formatted("         last checkpoint failed: {}", live->last_failure));
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
  print(formatted("stored:  {} complete, {} damaged", complete, damaged));
  if (newest == nullptr) return 0;
  const Manifest& m = newest->manifest;
  print(formatted("newest:  version {} of {}, {}, stall {:.3f} s", newest->number, m.created,
                  amount(m.bytes()), m.stall_seconds));
  if (m.parent != 0) print(formatted("         continues version {}", m.parent));
  print(formatted("program: {}", command_line(m)));
  print(formatted("ranks:   {} under {} {}", m.ranks, m.mpi_name, m.mpi_version));
  if (!m.devices().empty())
    print(formatted("devices: {}, {} of memory on them", m.devices(), amount(m.device_memory())));
  return 0;
}

int verify(const std::string& directory, uint64_t number) {
  cropdl::Result<StoreReader> store = StoreReader::open(directory);
  if (!store) return fail(store.error());
  bool found = false, good = true;
  for (const Version& version : store->all_versions()) {
    if (number != 0 && version.number != number) continue;
    bool left_out = false;
    cropdl::Status whole = verify_version(version, &left_out);
    if (!whole && is_gone(version)) continue;
    found = true;
    if (!whole) {
      good = false;
      fail(cropdl::Error{formatted("version {}: {}", version.number, whole.error().message)});
      continue;
    }
    print(formatted(
        "version {}: good, {} image{}, {}{}{}", version.number, version.manifest.images.size(),
        version.manifest.images.size() == 1 ? "" : "s", amount(version.manifest.bytes()),
        version.manifest.devices().empty()
            ? ""
            : formatted(", {} of them device memory", amount(version.manifest.device_memory())),
        left_out ? " (it is not yours alone: files elsewhere that it refers to were not opened)" : ""));
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
  print(
      formatted("version {}: {} bytes, stall {:.3f} s", reply->version, reply->bytes, reply->stall_seconds));
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

  try {
    if (*list_command) return list(directory);
    if (*status_command) return status(directory);
    if (*verify_command) return verify(directory, number);
    return checkpoint(directory);
  } catch (const std::exception& e) {  // no memory
    return fail(cropdl::Error{e.what()});
  }
}
