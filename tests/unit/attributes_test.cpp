// links: cropdl_process
// The table of attributes contains every process attribute that the kernel shows, or the reason why it does
// not. Changed attributes are noticed, saved and restored.
#include "restart/process/attributes.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "restart/process/clocks.h"
#include "restart/process/machine.h"
#include "tests/unit/other_attributes.h"

namespace cropdl::process {
namespace {

std::set<std::string> known() {
  std::set<std::string> all;
  for (const Attribute& a : attributes()) {
    std::istringstream words(a.shown);
    for (std::string word; words >> word;) all.insert(word);
  }
  for (const auto& [word, reason] : other_attributes()) all.insert(word);
  return all;
}

void expect_known(const std::string& word) {
  static const std::set<std::string> all = known();
  EXPECT_TRUE(all.count(word) != 0)
      << word << " is shown by this kernel, and the table of attributes "
      << "(restart/process/attribute_table.cpp) neither has it nor says why not";
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory))
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  closedir(directory);
  return names;
}

TEST(Attributes, EveryFieldOfStatusIsKnown) {
  const auto lines = lines_of("/proc/self/status");
  ASSERT_GT(lines.size(), 30u);
  for (const auto& line : lines) expect_known("status:" + line.substr(0, line.find(':')));
}

TEST(Attributes, EveryFieldOfStatIsKnown) {
  // Fields of /proc/PID/stat in order (proc(5)).
  const char* const names =
      "pid comm state ppid pgrp session tty_nr tpgid flags minflt cminflt majflt cmajflt utime stime cutime "
      "cstime "
      "priority nice num_threads itrealvalue starttime vsize rss rsslim startcode endcode startstack kstkesp "
      "kstkeip "
      "signal blocked sigignore sigcatch wchan nswap cnswap exit_signal processor rt_priority policy "
      "delayacct_blkio_ticks guest_time cguest_time start_data end_data start_brk arg_start arg_end "
      "env_start env_end "
      "exit_code";
  std::istringstream words(names);
  size_t number = 0;
  for (std::string name; words >> name; ++number) expect_known("stat:" + name);
  const auto lines = lines_of("/proc/self/stat");
  ASSERT_EQ(lines.size(), 1u);
  std::istringstream fields(lines[0].substr(lines[0].rfind(')') + 1));
  size_t there = 2;
  for (std::string field; fields >> field;) ++there;
  EXPECT_LE(there, number) << "this kernel's /proc/self/stat has fields that man 5 proc does not name";
}

TEST(Attributes, EveryLimitIsKnown) {
  const auto lines = lines_of("/proc/self/limits");
  ASSERT_EQ(lines.size(), 17u);  // 16 lines and a title
  for (size_t i = 1; i < lines.size(); ++i) {
    std::string name = std::regex_replace(lines[i].substr(0, 26), std::regex(" +$"), "");
    expect_known("limits:" + std::regex_replace(name, std::regex(" "), "_"));
  }
}

TEST(Attributes, EveryFileOfTheProcessIsKnown) {
  const auto names = names_in("/proc/self");
  ASSERT_GT(names.size(), 30u);
  for (const auto& name : names) expect_known("proc:" + name);
  for (const auto& name : names_in("/proc/self/attr")) expect_known("proc:attr/" + name);
  for (const auto& name : names_in("/proc/self/ns")) expect_known("ns:" + name);
}

TEST(Attributes, EveryGetterOfPrctlIsKnown) {
  // All getters in this machine's prctl.h.
  const std::regex getter("#\\s*define\\s+(PR_(\\w*_)?GET(_\\w+)?|PR_CAPBSET_READ|PR_CAP_AMBIENT)\\s.*");
  size_t found = 0;
  for (const auto& line : lines_of("/usr/include/linux/prctl.h")) {
    std::smatch match;
    if (!std::regex_match(line, match, getter)) continue;
    ++found;
    if (match[1] == "PR_SCHED_CORE_GET") continue;  // an argument of PR_SCHED_CORE, which is in the table
    expect_known("prctl:" + match[1].str());
  }
  EXPECT_GT(found, 20u) << "/usr/include/linux/prctl.h is not as expected";
}

TEST(Attributes, NamesAreUnique) {
  std::set<std::string> names;
  for (const Attribute& a : attributes()) EXPECT_TRUE(names.insert(a.name).second) << a.name;
}

// In a child, since changes are permanent.
int in_child(int (*what)()) {
  const pid_t child = fork();
  if (child == 0) _exit(what());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(Attributes, AChangeIsNoticedAndPutBack) {
  EXPECT_EQ(in_child([] {
              remember_attributes();
              auto none = changed_attributes();
              if (!none || !none->empty()) return 1;
              prctl(PR_SET_TIMERSLACK, 77777, 0, 0, 0);
              rlimit limit{};
              getrlimit(RLIMIT_CORE, &limit);
              const rlim_t before = limit.rlim_cur;
              limit.rlim_cur = before == 0 && limit.rlim_max != 0 ? 4096 : 0;
              if (setrlimit(RLIMIT_CORE, &limit) != 0) return 2;
              auto changed = changed_attributes();
              const size_t expected = limit.rlim_cur == before ? 1 : 2;
              if (!changed || changed->size() != expected || changed->at("timer slack") != "77777") return 3;
              prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0);
              limit.rlim_cur = before;
              setrlimit(RLIMIT_CORE, &limit);
              if (!restore_attributes(*changed) || !restore_last_attributes(*changed)) return 4;
              if (prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) != 77777) return 5;
              remember_attributes();  // the next run: these are still the program's changes
              auto again = changed_attributes();
              return again && *again == *changed ? 0 : 6;
            }),
            0);
}

TEST(Attributes, ImpossibleAttributesAreRefusedByName) {
  EXPECT_EQ(in_child([] {
              const auto s = restore_attributes({{"CPU affinity", "8191"}});
              return !s && s.error().message.find("CPU affinity to 8191") != std::string::npos ? 0 : 1;
            }),
            0);
}

TEST(Attributes, UnknownOnesAreRefused) {
  EXPECT_EQ(unknown_attribute({{"CPU affinity", "1"}, {"timer slack", "2"}}), "");
  EXPECT_NE(unknown_attribute({{"CPU affinity", "1"}, {"time travel", "2"}}).find("its time travel to 2"),
            std::string::npos);
}

TEST(Processors, ThoseBeyondAMachineWithFewerAreLeftOut) {
  EXPECT_EQ(in_child([] {
              cpu_set_t before, now;
              if (sched_getaffinity(0, sizeof before, &before) != 0) return 1;
              uint32_t first = 0, last = CPU_SETSIZE - 1;
              while (!CPU_ISSET(first, &before)) ++first;
              while (!CPU_ISSET(last, &before)) --last;
              std::string note;
              if (possible_processors() <= last || !no_processor_below(first + 1).empty()) return 2;
              if (!keep_to_processors_below(possible_processors(), &note) || !note.empty()) return 3;
              if (!keep_to_processors_below(first + 1, &note) || note.empty() != (first == last)) return 4;
              if (sched_getaffinity(0, sizeof now, &now) != 0 || CPU_COUNT(&now) != 1) return 5;
              return CPU_ISSET(first, &now) && (first == 0 || !no_processor_below(first).empty()) ? 0 : 6;
            }),
            0);
}

TEST(Clocks, ClocksThatAreBehindAreAdvancedOthersAreNot) {
  Clocks saved{5000, 4000, 9000, 300, 200, {}}, here{1000, 8000, 9000, 10, 10, {}};
  const auto offsets = clock_offsets(saved, here);
  EXPECT_EQ(offsets.monotonic, 4000);
  EXPECT_EQ(offsets.raw, 0);
  EXPECT_EQ(offsets.boottime, 0);
  EXPECT_EQ(offsets.process_cpu, 300);
  EXPECT_EQ(offsets.thread_cpu, 200);
  EXPECT_NE(offsets.shifted, 0);
}

}  // namespace
}  // namespace cropdl::process
