// links: cropdl_launch cropdl_coord
// Readers of CropDL's JSON files: any input gives the same data or a one-line error, never a crash or a
// truncated number.
#include <random>

#include "base/json.h"
#include "coord/job_file.h"
#include "interpose/launch/boot.h"
#include "tests/unit/store_fixture.h"

namespace cropdl::restart {
namespace {

using JsonReaders = StoreFixture;

// Truncated, changed, repeated, or with a value of another type.
std::string spoilt(std::string text, std::mt19937& random) {
  const char* const values[] = {
      "-1",  "1e999", "18446744073709551616", "4294967297", "null", "[]", "{}", "\"\\u0000\"",
      "0.5", "true",  "-9223372036854775809", "\"\xff\""};
  switch (random() % 4) {
    case 0:
      return text.substr(0, random() % (text.size() + 1));
    case 1:
      for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n)
        text[random() % text.size()] = static_cast<char>(random());
      return text;
    case 2: {
      const size_t colon = text.find(':', random() % text.size());
      if (colon == std::string::npos) return text;
      const size_t end = std::min(text.find_first_of(",}\n", colon), text.size());
      return text.substr(0, colon + 1) + values[random() % (sizeof values / sizeof *values)] +
             text.substr(end);
    }
    default:
      return text + std::string(random() % 3 != 0 ? 1 : 100'000, "[{\"}]"[random() % 5]);
  }
}

void expect_a_line(const std::string& line) {
  EXPECT_NE(line, "");
  EXPECT_LT(line.size(), 600u) << line;
}

TEST_F(JsonReaders, AWriterIsToldBeforehandWhatWillNotBeRead) {
  const auto list_of = [](size_t values) {
    std::string text = "[0";
    for (size_t i = 1; i < values; ++i) text += ",0";
    return text + "]";
  };
  constexpr size_t kTooMany = 1 << 25;
  EXPECT_FALSE(exceeds_json_limits(list_of(1000)));
  EXPECT_FALSE(json_from_text(list_of(1000)).is_discarded());
  EXPECT_TRUE(exceeds_json_limits(list_of(kTooMany)));
  EXPECT_TRUE(json_from_text(list_of(kTooMany)).is_discarded());
  EXPECT_TRUE(exceeds_json_limits(std::string(40, '[') + std::string(40, ']')));
}

TEST_F(JsonReaders, AManifestIsReadAsItWasOrRefused) {
  Manifest manifest = test_manifest();
  manifest.version = 7;
  manifest.images = {{"rank-0.img", 1, 2, 3, "a"}, {"rank-1.img", 1, 2, 3, "b"}};
  const std::string good = manifest_text(manifest);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = spoilt(good, random);
    const Result<Manifest> read = parse_manifest(text, "m");
    if (read)
      EXPECT_EQ(*read, manifest) << text;
    else
      expect_a_line(read.error().message);
  }
}

TEST_F(JsonReaders, AManifestWithRightChecksumsAndWrongValuesIsRefused) {
  Manifest manifest = test_manifest();
  manifest.version = 7;
  manifest.images = {{"rank-0.img", 1, 2, 3, "a"}, {"rank-1.img", 1, 2, 3, "b"}};
  const nlohmann::json whole = nlohmann::json::parse(manifest_text(manifest));
  const nlohmann::json values[] = {
      -1,  1e300, uint64_t{4294967297}, nullptr, nlohmann::json::array(), nlohmann::json::object(), "x",
      0.5, true};
  for (const char* field : {"seam", "version", "parent", "ranks", "format"})
    for (const nlohmann::json& value : values) {
      if (value.is_number_unsigned() && (std::string(field) == "version" || std::string(field) == "parent"))
        continue;
      nlohmann::json changed = whole;
      changed[field] = value;
      const Result<Manifest> read = parse_manifest(sealed_text(changed), "m");
      EXPECT_FALSE(read) << field << " = " << value;
      if (!read) expect_a_line(read.error().message);
    }
}

TEST_F(JsonReaders, AJobFileIsReadOrRefused) {
  coord::JobFile job;
  job.address = "a", job.token = "t", job.run_id = "r", job.pid = 17, job.host = "h", job.ranks = 2,
  job.started = "s";
  ASSERT_TRUE(coord::write_job_file(scratch_, job));
  const std::string good = read(path("job"));
  std::mt19937 random(2);
  bool missing;
  for (int i = 0; i < 200; ++i) {
    write(path("job"), spoilt(good, random));
    const auto got = coord::read_job_file(scratch_, &missing);
    if (!got) expect_a_line(got.error().message);
  }
  for (const char* number : {"4294967298", "-1", "1.0", "1e3", "\"2\""}) {
    std::string text = good;
    text.replace(text.find("\"ranks\": 2") + 9, 1, number);
    write(path("job"), text);
    EXPECT_FALSE(coord::read_job_file(scratch_, &missing)) << number;
  }
}

TEST_F(JsonReaders, OrdersToTheLowerHalfAreReadOrRefused) {
  launching::Boot boot;
  boot.directory = "/caf\xe9", boot.version = 3, boot.interval = "0.5", boot.installation = "/lib";
  const std::string good = launching::boot_text(boot);
  const auto same = launching::parse_boot(good);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->directory, boot.directory);
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i)
    if (const auto got = launching::parse_boot(spoilt(good, random)); !got)
      expect_a_line(got.error().message);
}

TEST_F(JsonReaders, AScheduleIsKeptUnlessReplaced) {
  using coord::Schedule;
  using Kind = Schedule::Kind;
  const Schedule asked, every{Kind::kEvery, 60}, automatic{Kind::kAutomatic, 0, 0.02, 7200};
  const auto wanted = [](const Schedule& former, const char* interval, double max_overhead = 0,
                         double mtbf = -1) {
    launching::Boot boot;
    boot.interval = interval, boot.max_overhead = max_overhead, boot.mtbf = mtbf;
    const auto read = launching::parse_boot(launching::boot_text(boot));
    EXPECT_TRUE(read);
    return launching::wanted_schedule(*read, former);
  };
  for (const Schedule& former : {asked, every, automatic}) {
    EXPECT_EQ(wanted(former, ""), former);
    EXPECT_EQ(wanted(former, "0").kind, Kind::kWhenAsked);
    EXPECT_EQ(wanted(former, "0.5").kind, Kind::kEvery);
    EXPECT_EQ(wanted(former, "0.5").seconds, 0.5);
    EXPECT_EQ(wanted(former, "auto").kind, Kind::kAutomatic);
    EXPECT_EQ(wanted(former, "auto").mtbf, former.mtbf);
    EXPECT_EQ(wanted(former, "", 0, 3600).kind, Kind::kAutomatic);
    EXPECT_EQ(wanted(former, "", 0, 3600).mtbf, 3600);
    EXPECT_EQ(wanted(former, "", 0, 3600).max_overhead, former.max_overhead);
    EXPECT_EQ(wanted(former, "", 0.5, 0).max_overhead, 0.5);
    EXPECT_EQ(wanted(former, "", 0.5, 0).mtbf, 0);
  }
}

TEST(JsonMembers, OneThatOlderObjectsLackKeepsItsDefaultThereAndIsWritten) {
  uint32_t flags = 7;
  JsonWriter writer;
  writer.since("flags", flags);
  EXPECT_EQ(writer.object.dump(), R"({"flags":7})");
  flags = 3;
  JsonReader{nlohmann::json::object()}.since("flags", flags);
  EXPECT_EQ(flags, 3u);
  JsonReader{writer.object}.since("flags", flags);
  EXPECT_EQ(flags, 7u);
  EXPECT_THROW(JsonReader{nlohmann::json({{"flags", -1}})}.since("flags", flags), nlohmann::json::exception);
}

}  // namespace
}  // namespace cropdl::restart
