// cropdl-restart [--version N] DIR: continues the job whose versions are in DIR. Under mpirun every rank runs
// it; without a launcher it starts the launcher that the version records. It checks DIR's owner first,
// because DIR's contents decide what is run.
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/say.h"
#include "interpose/entry/options.h"
#include "interpose/entry/program.h"
#include "interpose/launch/boot.h"
#include "interpose/launch/launch.h"
#include "restart/store.h"

namespace {

using namespace cropdl;

int fail(const std::string& line) {
  say("cropdl-restart: " + line);
  return 1;
}

// Reports an error that every rank finds: rank 0 prints the line. The other ranks exit later, because a
// launcher kills all ranks as soon as one exits, and rank 0's line would be lost.
int fail_together(uint32_t rank, const std::string& line) {
  constexpr unsigned kLongEnough = 10;  // seconds; rank 0 may be late on a busy machine
  if (rank == 0) return fail(line);
  sleep(kLongEnough);
  return 1;
}

int restart_main(int argc, char** argv) {
  entry::Options options;
  int status = 0;
  if (!entry::parse_restart(argc, argv, &options, &status)) return status;
  launching::Boot& boot = options.boot;

  const auto told = launching::read_launch("cropdl-restart");
  if (!told) return fail(told.error().message);
  const launching::Launch& launch = *told;
  const std::string directory = resolved_path(boot.directory);
  if (directory.empty()) return fail_together(launch.rank, boot.directory + ": " + errno_text(errno));
  const auto store = restart::StoreReader::open(directory, Folder::Whose::kMine);
  if (!store) return fail_together(launch.rank, store.error().message);
  const auto chosen = store->version(boot.version);
  if (!chosen) return fail_together(launch.rank, chosen.error().message);
  const restart::Manifest& manifest = chosen->manifest;

  if (!launch.launched && !manifest.launcher.empty()) {
    std::vector<std::string> words{manifest.launcher};
    words.insert(words.end(), manifest.launcher_options.begin(), manifest.launcher_options.end());
    words.push_back(entry::own_directory() + "/cropdl-restart");
    for (const std::string& word : options.given_words()) words.push_back(word);
    words.push_back(directory);
    return fail(entry::become(manifest.launcher, words).message);
  }

  boot.restart = true;
  boot.directory = directory;
  if (Status s = entry::library_directory().move_to(boot.installation); !s) return fail(s.error().message);
  std::vector<std::string> words{manifest.program};
  words.insert(words.end(), manifest.args.begin(), manifest.args.end());
  return fail(entry::become_lower_half(boot, launch.flavour, manifest.mpi_name, words).message);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return restart_main(argc, argv);
  } catch (const std::exception& e) {  // out of memory
    return fail(e.what());
  }
}
