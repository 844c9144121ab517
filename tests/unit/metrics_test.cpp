// links: cropdl_coord
// The metrics file that --metrics writes.
#include "coord/metrics.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace cropdl::coord {
namespace {

Metrics full() {
  Metrics m;
  m.job = "a\"b\\c\nd";
  m.store = "/s\xff";
  m.ranks = 4, m.joined = 3;
  m.run_seconds = 200;
  m.versions = 2, m.failures = 1;
  m.last_version = 7, m.last_version_time = 1764115200, m.last_version_bytes = 12'345'678'901'234;
  m.last_version_stall = 0.25, m.held_seconds = 0.5, m.beside_seconds = 0.3;
  m.next_version = 12.5;
  m.iteration = 4000, m.iteration_seconds = 0.05;
  return m;
}

TEST(Metrics, EachHasHelpTypeLabelsAndValue) {
  const std::string text = metrics_text(full());
  const std::string labels = R"({job="a\"b\\c\\nd",store="/s\\xff"})";
  for (const auto& [name, type, value] : std::vector<std::array<std::string, 3>>{
           {"cropdl_up", "gauge", "1"},
           {"cropdl_ranks", "gauge", "4"},
           {"cropdl_ranks_joined", "gauge", "3"},
           {"cropdl_run_seconds", "gauge", "200"},
           {"cropdl_versions_total", "counter", "2"},
           {"cropdl_failures_total", "counter", "1"},
           {"cropdl_last_version", "gauge", "7"},
           {"cropdl_last_version_timestamp_seconds", "gauge", "1764115200"},
           {"cropdl_last_version_bytes", "gauge", "12345678901234"},
           {"cropdl_last_version_stall_seconds", "gauge", "0.25"},
           {"cropdl_held_seconds_total", "counter", "0.5"},
           {"cropdl_beside_seconds_total", "counter", "0.3"},
           {"cropdl_overhead_ratio", "gauge", "0.004"},
           {"cropdl_next_version_seconds", "gauge", "12.5"},
           {"cropdl_iteration", "gauge", "4000"},
           {"cropdl_iteration_seconds", "gauge", "0.05"}}) {
    const std::string sample = "\n# TYPE " + name + " " + type + "\n" + name + labels + " " + value + "\n";
    EXPECT_NE(text.find(sample), std::string::npos) << sample << text;
    EXPECT_NE(text.find("# HELP " + name + " "), std::string::npos) << name;
  }
  EXPECT_EQ(text.back(), '\n');
}

TEST(Metrics, UnknownValuesAreOmitted) {
  Metrics m;
  m.up = false;
  const std::string text = metrics_text(m);
  EXPECT_NE(text.find("\ncropdl_up{job=\"\",store=\"\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ncropdl_overhead_ratio{job=\"\",store=\"\"} 0\n"), std::string::npos) << text;
  for (const char* name : {"last_version", "next_version", "iteration"})
    EXPECT_EQ(text.find(name), std::string::npos) << name;
}

TEST(Metrics, TheFileIsReplacedAndAFailureIsReportedOnce) {
  std::string folder = "/tmp/cropdl-test.metrics.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::vector<std::string> lines;
  MetricsFile file(folder + "/later/job.prom", [&](const std::string& line) { lines.push_back(line); });
  const mode_t before = ::umask(077);
  file.write(full());
  file.write(full());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "--metrics " + folder +
                          "/later/job.prom: cannot be written: No such file or directory; " +
                          "the program runs on");
  std::filesystem::create_directory(folder + "/later");
  for (int i = 0; i < 2; ++i) {
    file.write(full());
    std::ifstream in(folder + "/later/job.prom");
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(text.str(), metrics_text(full()));
  }
  ::umask(before);
  EXPECT_EQ(lines.size(), 1u);
  struct stat info;
  ASSERT_EQ(::stat((folder + "/later/job.prom").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder + "/later"), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(Metrics, NothingButAFileIsReplaced) {
  std::string folder = "/tmp/cropdl-test.metrics.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::vector<std::string> lines;
  MetricsFile(path, [&](const std::string& line) { lines.push_back(line); }).write(full());
  EXPECT_EQ(lines,
            std::vector<std::string>{"--metrics " + path + ": is not a regular file; the program runs on"});
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cropdl::coord
