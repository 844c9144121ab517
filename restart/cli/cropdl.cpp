// `cropdl`: inspects a store, checks it, removes versions, and requests checkpoints from a running job. This
// file has the command line and its options; each command has its own file (commands.h). Results go to
// stdout; an error is one line on stderr and a non-zero exit status. While a checkpoint waits, stderr says
// for what.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#ifdef CROPDL_WITH_DOCTOR
#include "interpose/entry/program.h"
#endif
#include "restart/cli/commands.h"
#include "restart/cli/output.h"

namespace {

using namespace cropdl::cli;

std::string not_a_version(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && text.find_first_not_of('0') != std::string::npos ? ""
                                                                    : text + " is not a version's number";
}

std::string not_a_rank(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? "" : text + " is not a rank's number";
}

std::string not_a_count(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && text.find_first_not_of('0') != std::string::npos ? ""
                                                                    : text + " is not a number from 1 on";
}

std::string not_a_time(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0 || !(seconds >= 0.1 && seconds <= 86400))
    return text + " is not a number of seconds from 0.1 to 86400";
  return "";
}

#ifdef CROPDL_WITH_DOCTOR  // with interpose/entry
// Commands that are programs of their own beside this one: cropdl-run and cropdl-restart are static, and
// ignore SIGUSR1 from their first instruction on (interpose/entry).
struct Program {
  const char* command;
  const char* name;
  const char* what;
};
constexpr Program kPrograms[] = {
    {"run", "cropdl-run", "Runs a program so that it can be checkpointed; the same as cropdl-run"},
    {"restart", "cropdl-restart",
     "Continues a job from its newest complete version; the same as cropdl-restart"},
};
#endif

// For errors before the command line is parsed, or if it cannot be.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
#ifdef CROPDL_WITH_DOCTOR
  for (const Program& program : kPrograms) {
    if (argc < 2 || std::string_view(argv[1]) != program.command) continue;
    const std::string path = cropdl::entry::own_directory() + "/" + program.name;
    std::vector<std::string> words(argv + 1, argv + argc);
    words[0] = path;
    return fail(false, cropdl::entry::become(path, std::move(words)));
  }
#endif
  CLI::App app{"Looks at the checkpoints of a CropDL store, checks them, and asks a running job for one.",
               "cropdl"};
  app.set_version_flag("--version", "cropdl " CROPDL_VERSION);
  app.require_subcommand(1);
  Common common;
  struct Command {
    CLI::App* app;
    std::function<int()> run;
  };
  std::vector<Command> commands;
  const auto add = [&](const char* name, const char* what, std::function<int()> run) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("DIR", common.directory, "The store (--dir of cropdl-run)")
        ->required()
        ->option_text(" ");
    command->add_flag("--json", common.json, "One JSON object on standard output (docs/cli.md)");
    commands.push_back({command, std::move(run)});
    return command;
  };

#ifdef CROPDL_WITH_DOCTOR
  for (const Program& program : kPrograms) app.add_subcommand(program.command, program.what);
#endif
  add("list", "Lists the versions, newest first", [&] { return list(common); });

  std::string watch;
  const CLI::Option* watching = nullptr;
  watching =
      add("status", "Says whether the job runs, and what is stored",
          [&] {
            const double seconds = watch.empty() ? 2 : std::strtod(watch.c_str(), nullptr);
            return status(common, watching->count() == 0 ? 0 : seconds);
          })
          ->add_option(
              "--watch", watch,
              "Again every so many seconds (default: 2) until the job ends; with --json a line each time")
          ->expected(0, 1)
          ->option_text("[SECONDS]")
          ->check(not_a_time);

  uint64_t number = 0;
  add("verify", "Checks every byte of the images", [&] { return verify(common, number); })
      ->add_option("--version", number, "Only this version")
      ->option_text("N")
      ->check(not_a_version);

  int64_t rank = -1;
  CLI::App* inspecting =
      add("inspect", "Says what fills a version's images: heap, stacks, libraries, devices' memory, files",
          [&] { return inspect(common, number, rank); });
  inspecting->add_option("--version", number, "This version instead of the newest complete one")
      ->option_text("N")
      ->check(not_a_version);
  inspecting->add_option("--rank", rank, "Only this rank, with its threads and open files")
      ->option_text("R")
      ->check(not_a_rank);

  cropdl::restart::Retention retention;
  bool dry_run = false;
  CLI::App* pruning = add("prune", "Removes versions; the newest complete one always stays",
                          [&] { return prune(common, retention, dry_run); });
  const auto add_count = [&](const char* name, uint64_t& value, const char* letter, const char* what) {
    pruning->add_option(name, value, what)->option_text(letter)->check(not_a_count);
  };
  add_count("--keep", retention.keep, "N", "Keep the newest N versions");
  add_count("--hourly", retention.hourly, "H", "Keep the newest version of each of the last H hours");
  add_count("--daily", retention.daily, "D", "Keep the newest version of each of the last D days");
  pruning->add_flag("--dry-run", dry_run, "Remove nothing; say what would be removed");

  bool last = false;
  add("checkpoint", "Asks the running job for a checkpoint; returns when it is durable", [&] {
    return checkpoint(common, last);
  })->add_flag("--last", last, "End the job behind it, with status 75; cropdl-restart continues it");

  std::string archive;
  CLI::App* exporting = add("export", "Writes a version as one file, for another place or machine",
                            [&] { return export_version(common, number, archive); });
  exporting->add_option("--version", number, "This version instead of the newest complete one")
      ->option_text("N")
      ->check(not_a_version);
  exporting
      ->add_option(
          "--output", archive,
          "The file, a tar archive, compressed if its name ends with .gz or .zst; - for standard output")
      ->required()
      ->option_text("FILE");
  add("import", "Makes a version of a file that `cropdl export` has written",
      [&] { return import_version(common, archive); })
      ->add_option("FILE", archive, "The file; - for standard input")
      ->required()
      ->option_text(" ");

  std::string output = "cropdl-report.html";
  add("report", "Writes a page with plots of the versions, for a browser or a printer",
      [&] { return report(common, output); })
      ->add_option("--output", output,
                   "The file; - for standard output (default: cropdl-report.html in the current directory)")
      ->option_text("FILE");

#ifdef CROPDL_WITH_DOCTOR
  std::vector<std::string> program;
  std::string store = "cropdl.ckpt";
  CLI::App* examining = app.add_subcommand(
      "doctor", "Says what here would prevent checkpoints of PROGRAM, or make them slow; does not run it");
  examining->positionals_at_end();  // arguments after PROGRAM belong to it
  examining->add_option("PROGRAM", program, "The program, with its arguments if you like")
      ->required()
      ->option_text(" ");
  examining->add_option("--dir", store, "Where its checkpoints would go (default: ./cropdl.ckpt)")
      ->option_text("DIR");
  examining->add_flag("--json", common.json, "One JSON object on standard output (docs/cli.md)");
  commands.push_back({examining, [&] { return doctor(program, store, common.json); }});
#endif

  const auto is_first = [&](const Command& command) { return command.app->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(commands.begin(), commands.end(), is_first))
    return fail(wants_json(argc, argv),
                cropdl::Error{cropdl::formatted("unknown command `{}` (see cropdl --help)", argv[1])},
                kMisuse);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // help, or the version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return fail(wants_json(argc, argv), cropdl::Error{cropdl::formatted("{} (see cropdl --help)", e.what())},
                kMisuse);
  }
  try {
    for (const Command& command : commands)
      if (*command.app) {
        const int done = command.run();
        if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return done;
        return fail(false, cropdl::Error{"standard output: cannot be written: " + cropdl::errno_text(errno)});
      }
    return kMisuse;                    // not reached: a command is required
  } catch (const std::exception& e) {  // out of memory
    return fail(common.json, cropdl::Error{e.what()});
  }
}
