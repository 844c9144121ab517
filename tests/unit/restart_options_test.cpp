// links: cropdl_entry
// cropdl-restart's options, and their words on the command line of the launcher that it starts.
#include "interpose/entry/options.h"

#include <gtest/gtest.h>

namespace cropdl::entry {
namespace {

using Words = std::vector<std::string>;

// The exit status of the command line's parsing; 0: the options are read.
int read(Words words, Options* options) {
  words.insert(words.begin(), "cropdl-restart");
  words.push_back("DIR");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  int status = 0;
  parse_restart(static_cast<int>(argv.size()), argv.data(), options, &status);
  return status;
}

TEST(RestartOptions, TheirWordsAreReadAsTheSameOptions) {
  for (const Words& given : {Words{}, {"--software-gpu"}, {"--version",      "7",
                                                           "--interval",     "auto",
                                                           "--max-overhead", "2",
                                                           "--mtbf",         "3d",
                                                           "--time-limit",   "3d",
                                                           "--at-sigterm",   "die",
                                                           "--keep",         "3,24h",
                                                           "--metrics",      "/metrics",
                                                           "--quiet",        "--log",
                                                           "text",           "--files",
                                                           "keep",           "--moved-variables",
                                                           "accept",         "--software-gpu=2",
                                                           "--software-nccl"}}) {
    Options options, again;
    ASSERT_EQ(read(given, &options), 0);
    EXPECT_EQ(options.given_words().size(), given.size()) << "an option is not passed on";
    ASSERT_EQ(read(options.given_words(), &again), 0);
    EXPECT_EQ(again.given_words(), options.given_words());
    EXPECT_EQ(again.boot.directory, "DIR");
  }
}

TEST(RestartOptions, TheSoftwareNcclReachesTheLowerHalf) {
  for (const bool wanted : {false, true}) {
    Options options;
    ASSERT_EQ(read(wanted ? Words{"--software-nccl"} : Words{}, &options), 0);
    EXPECT_EQ(options.boot.software_nccl, wanted);
    EXPECT_FALSE(options.boot.software_gpu);
  }
}

TEST(RestartOptions, TheSoftwareGpuAndItsNumberOfDevicesReachTheLowerHalf) {
  for (const auto& [word, number] : {std::pair{"--software-gpu", 0}, {"--software-gpu=2", 2}}) {
    Options options;
    ASSERT_EQ(read({word}, &options), 0);
    EXPECT_TRUE(options.boot.software_gpu);
    EXPECT_EQ(options.boot.software_gpus, number);
  }
  for (const char* wrong : {"0", "17", "x"}) {
    Options options;
    EXPECT_EQ(read({std::string("--software-gpu=") + wrong}, &options), 2) << wrong;
  }
}

}  // namespace
}  // namespace cropdl::entry
