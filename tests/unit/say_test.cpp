// links: cropdl_base
// CropDL's messages as JSON.
#include "base/say.h"

#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "interpose/seam/message.h"

namespace cropdl {
namespace {

nlohmann::json said(const std::string& line) { return nlohmann::json::parse(line_as_json(line, "now")); }

TEST(LineAsJson, NamesTheSpeakerAndTheRank) {
  EXPECT_EQ(
      said("cropdl: rank 12: all threads stopped"),
      (nlohmann::json{{"time", "now"}, {"from", "cropdl"}, {"rank", 12}, {"text", "all threads stopped"}}));
  EXPECT_EQ(
      said("cropdl-restart: continues from version 3"),
      (nlohmann::json{{"time", "now"}, {"from", "cropdl-restart"}, {"text", "continues from version 3"}}));
  EXPECT_EQ(said("software GPU: it is broken: here")["from"], "software GPU");
  EXPECT_EQ(said("software NCCL: rank 1 is gone")["from"], "software NCCL");
}

TEST(LineAsJson, LeavesWhatOnlyLooksLikeARankInTheText) {
  for (const char* text : {"rank 1 and 2 more: slow", "rank : x", "rank 7", "rank", "ranks 1: x", ""}) {
    const auto line = said(std::string("cropdl: ") + text);
    EXPECT_FALSE(line.contains("rank")) << text;
    EXPECT_EQ(line["text"], text);
  }
}

TEST(LineAsJson, IsJsonForAnyLine) {
  EXPECT_EQ(said("cropdl: \"a\\b\"\n\x1b[2J \xff \xc3\xa4")["text"], "\"a\\b\"\\n\\x1b[2J \\xff \xc3\xa4");
  EXPECT_EQ(said("nobody's line")["from"], "cropdl");
}

std::string text_of(const seam::JsonLine& line) { return {line.text(), static_cast<size_t>(line.size())}; }

// The upper half writes its lines without a library of the lower half.
TEST(JsonLine, IsTheSameJson) {
  std::mt19937_64 random(1);
  for (int turn = 0; turn < 20'000; ++turn) {
    const auto now = static_cast<time_t>(random() % 7'000'000'000);  // until 2191
    tm utc{};
    char time[32];
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const std::string line = turn % 2 == 0 ? "cropdl: the program's \"a\\b\"" : "cropdl-run: x";
    ASSERT_EQ(text_of(seam::JsonLine((line + "\n").c_str(), now)),
              turn % 2 == 0 ? line_as_json(line, time) + "\n" : line_as_json("cropdl: " + line, time) + "\n");
  }
  EXPECT_TRUE(nlohmann::json::accept(
      text_of(seam::JsonLine(("cropdl: " + std::string(2000, '"') + "\n").c_str(), 0))));
}

}  // namespace
}  // namespace cropdl
