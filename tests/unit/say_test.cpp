// links: cropdl_base
// CropDL's messages as JSON.
#include "base/say.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace cropdl
