// links: cropdl_restart
// A manifest that is read back is exactly what was written, or is refused.
#include "tests/unit/store_fixture.h"

#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"

namespace cropdl::restart {
namespace {

Manifest full_manifest() {
  Manifest manifest = test_manifest();
  manifest.version = 7;
  manifest.parent = 3;
  manifest.restarted = true;
  manifest.args = {"", "a b", "\"quoted\"", "grün", std::string("\xff\xfe/raw\0x", 8)};
  manifest.images = {{"rank-0.img", 1ull << 40, 12345, 0xfedcba9876543210, "node1"},
                     {"rank-1.img", 4096, 0, 1, "node2"}};
  manifest.stages = {0.001, 0.002, 0.25};
  manifest.images[0].iteration = 4711;
  manifest.images[1].device_memory = uint64_t{1} << 33;
  manifest.images[1].devices = "2 x A Device (compute capability 9.0)";
  return manifest;
}

TEST(ManifestText, EveryFieldComesBackAlsoBytesThatAreNoText) {
  Manifest manifest = full_manifest();
  Result<Manifest> back = parse_manifest(manifest_text(manifest), "m");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, manifest);
  EXPECT_EQ(back->bytes(), (1ull << 40) + 4096);
  EXPECT_EQ(back->memory(), 12345u);
}

TEST(ManifestText, AFlippedBitIsRefusedOrChangesNothing) {
  Manifest manifest = full_manifest();
  std::string text = manifest_text(manifest);
  int harmless = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = text;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      Result<Manifest> parsed = parse_manifest(bad, "DIR/v000007/manifest.json");
      if (!parsed) {
        ASSERT_EQ(parsed.error().message.find("DIR/v000007/manifest.json: "), 0u) << parsed.error().message;
        continue;
      }
      ++harmless;  // another notation of the same value
      ASSERT_EQ(*parsed, manifest) << "byte " << at << " bit " << bit;
    }
  }
  EXPECT_LT(harmless, 100);
}

TEST(ManifestText, CutShortAtAnyLengthItIsRefused) {
  std::string text = manifest_text(full_manifest());
  for (size_t length = 0; length + 1 < text.size(); ++length)  // a missing final newline is harmless
    ASSERT_FALSE(parse_manifest(text.substr(0, length), "m")) << length;
}

TEST(ManifestText, AnOlderOneSaysNothingOfStages) {
  nlohmann::json object = nlohmann::json::parse(manifest_text(full_manifest()));
  object.erase("stages");
  object.erase("checksum");
  const Result<Manifest> back = parse_manifest(sealed_text(std::move(object)), "m");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->stages, Manifest::Stages());
}

TEST(ManifestText, TimesThatAreNoneAreZero) {
  for (const double time : {-5.0, 1e10}) {
    nlohmann::json object = nlohmann::json::parse(manifest_text(full_manifest()));
    object["stall_seconds"] = object["wait_seconds"] = object["stages"]["syncing"] = time;
    object.erase("checksum");
    const Result<Manifest> back = parse_manifest(sealed_text(std::move(object)), "m");
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->stall_seconds, 0);
    EXPECT_EQ(back->wait_seconds, 0);
    EXPECT_EQ(back->stages.syncing, 0);
  }
}

TEST(ManifestText, ANewerFormatIsRefusedByThatName) {
  nlohmann::json object = nlohmann::json::parse(manifest_text(full_manifest()));
  object["format"] = kManifestFormat + 1;
  Result<Manifest> parsed = parse_manifest(sealed_text(object), "m");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message,
            "m: was written by a newer CropDL (format 2, this one reads 1); use that one");
}

TEST(ManifestText, FieldsItDoesNotKnowAreIgnored) {
  nlohmann::json object = nlohmann::json::parse(manifest_text(full_manifest()));
  object["added_later"] = {1, 2, 3};
  Result<Manifest> parsed = parse_manifest(sealed_text(object), "m");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, full_manifest());
}

TEST(ManifestText, ContradictionsWithAValidChecksumAreRefused) {
  auto refused = [](auto change) {
    nlohmann::json object = nlohmann::json::parse(manifest_text(full_manifest()));
    change(object);
    Result<Manifest> parsed = parse_manifest(sealed_text(object), "m");
    return !parsed;
  };
  EXPECT_FALSE(refused([](nlohmann::json&) {}));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["ranks"] = 3; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) {
    o["ranks"] = 0;
    o["images"] = nlohmann::json::array();
  }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["ranks"] = "two"; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o.erase("ranks"); }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["images"][0]["file"] = "../../etc/passwd"; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["images"][0]["file"] = "rank-1.img"; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { std::swap(o["images"][0]["file"], o["images"][1]["file"]); }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["images"][0]["checksum"] = "12"; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["args"] = "text"; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["args"][0] = {{"hex", "0g"}}; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["mpi"] = 3; }));
  EXPECT_TRUE(refused([](nlohmann::json& o) { o["program"] = ""; }));
}

TEST(ManifestText, NoiseAndDeepNestingAreRefused) {
  EXPECT_FALSE(parse_manifest("", "m"));
  EXPECT_FALSE(parse_manifest("[]", "m"));
  EXPECT_FALSE(parse_manifest("null", "m"));
  EXPECT_FALSE(parse_manifest("{}", "m"));
  EXPECT_FALSE(parse_manifest(std::string(1 << 20, '['), "m"));
  EXPECT_FALSE(
      parse_manifest("{\"checksum\": " + std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}", "m"));
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string noise(random() % 200, ' ');
    for (char& c : noise) c = "{}[]\":,0123456789abcdef\\utrn \xff"[random() % 31];
    ASSERT_FALSE(parse_manifest(noise, "m"));
  }
}

}  // namespace
}  // namespace cropdl::restart
