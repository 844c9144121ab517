// `cropdl`: inspects a store, checks it, removes versions, and requests checkpoints from a running job. Here
// are the command line and its options; each command has its own file (commands.h). Results go to stdout; an
// error is one line on stderr and a non-zero exit status. While a checkpoint waits, stderr says for what.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string_view>

#ifdef CROPDL_WITH_DOCTOR
#include "interpose/entry/program.h"
#endif
#include "restart/cli/commands.h"

namespace {

using namespace cropdl::cli;

// Checks of options' values for CLI11: "" or what is wrong.
std::string not_a_version(const std::string& text) {
  return cropdl::is_positive_number(text, 18) ? "" : text + " is not a version's number";
}
std::string not_a_rank(const std::string& text) {
  return cropdl::is_number(text, 9) ? "" : text + " is not a rank's number";
}
std::string not_a_count(const std::string& text) {
  return cropdl::is_positive_number(text, 9) ? "" : text + " is not a number from 1 on";
}
std::string not_a_retention(const std::string& text) {
  return cropdl::restart::parse_retention(text) ? "" : text + cropdl::restart::kIsNoRetention;
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
  const char* what;
};
constexpr Program kPrograms[] = {
    {"run", "Runs a program so that it can be checkpointed; the same as cropdl-run"},
    {"restart", "Continues a job from its newest complete version; the same as cropdl-restart"},
};
#endif

// For errors before the command line is parsed, or if it cannot be.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

// The commands, their options, and the values given for them.
class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", "cropdl " CROPDL_VERSION);
    app_.require_subcommand(1);
#ifdef CROPDL_WITH_DOCTOR
    for (const Program& program : kPrograms) app_.add_subcommand(program.command, program.what);
#endif
    add("list", "Lists the versions, newest first", [&] { return list(common_); });
    add_status();
    add_number(add("verify", "Checks every byte of the images", [&] { return verify(common_, number_); }),
               "Only this version");
    add_inspect();
    add_prune();
    add("checkpoint", "Asks the running job for a checkpoint; returns when it is durable", [&] {
      return checkpoint(common_, last_);
    })->add_flag("--last", last_, "End the job behind it, with status 75; cropdl-restart continues it");
    add_archives();
    add("report", "Writes a page with plots of the versions, for a browser or a printer",
        [&] { return report(common_, page_); })
        ->add_option("--output", page_,
                     "The file; - for standard output (default: cropdl-report.html in the current directory)")
        ->option_text("FILE");
#ifdef CROPDL_WITH_DOCTOR
    add_doctor();
#endif
    app_.footer(  // after the commands, which would take it over
        "Examples (man cropdl has more):\n"
        "  mpirun -n 4 cropdl run ./train --epochs 90\n"
        "  cropdl status cropdl.ckpt --watch\n"
        "  cropdl restart cropdl.ckpt");
  }

  // Runs the command and returns the exit status.
  int run(int argc, char** argv) {
    const auto wrong = [&](const std::string& line) {
      return fail(wants_json(argc, argv), cropdl::Error{line + " (see cropdl --help)"}, kMisuse);
    };
    const auto is_first = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && app_.get_subcommands(is_first).empty())
      return wrong(cropdl::formatted("unknown command `{}`", argv[1]));
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& e) {  // help, or the version
      return app_.exit(e);
    } catch (const CLI::ParseError& e) {
      return wrong(e.what());
    } catch (const std::exception& e) {  // out of memory
      return fail(common_.json, cropdl::Error{e.what()});
    }
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status_;
    return fail(false, cropdl::Error{"standard output: cannot be written: " + cropdl::errno_text(errno)});
  }

 private:
  CLI::App* add(const char* name, const char* what, std::function<cropdl::Result<int>()> run) {
    CLI::App* command = app_.add_subcommand(name, what);
    command->add_option("DIR", common_.directory, "The store (--dir of cropdl-run)")
        ->required()
        ->option_text(" ");
    add_json(command);
    command->callback([this, run = std::move(run)] {
      const cropdl::Result<int> status = run();
      status_ = status ? *status : fail(common_.json, status.error());
    });
    return command;
  }

  void add_json(CLI::App* command) {
    command->add_flag("--json", common_.json, "One JSON object on standard output (docs/cli.md)");
  }

  void add_number(CLI::App* command, const char* what) {
    command->add_option("--version", number_, what)->option_text("N")->check(not_a_version);
  }

  void add_status() {
    CLI::App* command = add("status", "Says whether the job runs, and what is stored", [&] {
      const double seconds = watch_.empty() ? 2 : std::strtod(watch_.c_str(), nullptr);
      return status(common_, watching_->count() == 0 ? 0 : seconds);
    });
    watching_ = command
                    ->add_option("--watch", watch_,
                                 "Again every so many seconds (default: 2) until the job ends; with --json a "
                                 "line each time")
                    ->expected(0, 1)
                    ->option_text("[SECONDS]")
                    ->check(not_a_time);
  }

  void add_inspect() {
    CLI::App* command =
        add("inspect", "Says what fills a version's images: heap, stacks, libraries, devices' memory, files",
            [&] { return inspect(common_, number_, rank_); });
    add_number(command, "This version instead of the newest complete one");
    command->add_option("--rank", rank_, "Only this rank, with its threads and open files")
        ->option_text("R")
        ->check(not_a_rank);
  }

  void add_prune() {
    CLI::App* command = add("prune", "Removes versions; the newest complete one always stays",
                            [&] { return prune(common_, retention_, dry_run_); });
    const auto add_count = [&](const char* name, uint64_t& value, const char* letter, const char* what) {
      command->add_option(name, value, what)->option_text(letter)->check(not_a_count);
    };
    command
        ->add_option_function<std::string>(
            "--keep",
            [this](const std::string& text) { retention_ = *cropdl::restart::parse_retention(text); },
            "Keep the newest N versions, the newest of each of the last H hours, and of the last D days: 3 "
            "or 3,24h,7d")
        ->option_text("N[,Hh][,Dd]")
        ->check(not_a_retention)
        ->trigger_on_parse();
    add_count("--hourly", retention_.hourly, "H", "The same as Hh in --keep");
    add_count("--daily", retention_.daily, "D", "The same as Dd in --keep");
    command->add_flag("--dry-run", dry_run_, "Remove nothing; say what would be removed");
  }

  void add_archives() {
    CLI::App* exporting = add("export", "Writes a version as one file, for another place or machine",
                              [&] { return export_version(common_, number_, archive_); });
    add_number(exporting, "This version instead of the newest complete one");
    exporting
        ->add_option(
            "--output", archive_,
            "The file, a tar archive, compressed if its name ends with .gz or .zst; - for standard output")
        ->required()
        ->option_text("FILE");
    add("import", "Makes a version of a file that `cropdl export` has written",
        [&] { return import_version(common_, archive_); })
        ->add_option("FILE", archive_, "The file; - for standard input")
        ->required()
        ->option_text(" ");
  }

#ifdef CROPDL_WITH_DOCTOR
  void add_doctor() {
    CLI::App* command = app_.add_subcommand(
        "doctor", "Says what here would prevent checkpoints of PROGRAM, or make them slow; does not run it");
    command->positionals_at_end();  // arguments after PROGRAM belong to it
    command->add_option("PROGRAM", program_, "The program, with its arguments if you like")
        ->required()
        ->option_text(" ");
    command->add_option("--dir", store_, "Where its checkpoints would go (default: ./cropdl.ckpt)")
        ->option_text("DIR");
    add_json(command);
    command->callback([&] { status_ = doctor(program_, store_, common_.json); });
  }
#endif

  CLI::App app_{"Looks at the checkpoints of a CropDL store, checks them, and asks a running job for one.",
                "cropdl"};
  int status_ = kMisuse;  // of the command
  Common common_;
  uint64_t number_ = 0;  // 0: not given
  int64_t rank_ = -1;
  std::string watch_;
  const CLI::Option* watching_ = nullptr;
  cropdl::restart::Retention retention_;
  bool dry_run_ = false, last_ = false;
  std::string archive_, page_ = "cropdl-report.html";
  std::vector<std::string> program_;  // of doctor
  std::string store_ = "cropdl.ckpt";
};

}  // namespace

int main(int argc, char** argv) {
#ifdef CROPDL_WITH_DOCTOR
  for (const Program& program : kPrograms) {
    if (argc < 2 || std::string_view(argv[1]) != program.command) continue;
    const std::string path = cropdl::entry::own_directory() + "/cropdl-" + program.command;
    std::vector<std::string> words(argv + 1, argv + argc);
    words[0] = path;
    return fail(false, cropdl::entry::become(path, std::move(words)));
  }
#endif
  ::signal(SIGXFSZ, SIG_IGN);  // a file that reaches its limit (ulimit -f) is an error with a line
  return CommandLine().run(argc, argv);
}
