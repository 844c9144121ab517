// links: cropdl_cli
// Output of `cropdl` for users, and its errors.
#include "tests/unit/store_fixture.h"

#include <cstring>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "restart/image_layout.h"

namespace cropdl::restart {
namespace {

class CliCropdl : public StoreFixture {
 protected:
  struct Outcome {
    int status;
    std::string out, error;
  };
  Outcome run(const std::string& arguments) {
    std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/../../bin/cropdl";
    std::string command =
        program + " " + arguments + " >" + path("stdout") + " 2>" + path("stderr") + " </dev/null";
    int status = ::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(path("stdout")), read(path("stderr"))};
  }
  // Fails with one line on stderr and nothing on stdout.
  void expect_refused(const std::string& arguments, const std::string& line_has) {
    Outcome outcome = run(arguments);
    EXPECT_GT(outcome.status, 0) << arguments;
    EXPECT_LT(outcome.status, 128) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(outcome.error.find("cropdl: "), 0u) << arguments << ": " << outcome.error;
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    EXPECT_NE(outcome.error.find(line_has), std::string::npos) << arguments << ": " << outcome.error;
  }
  void make_versions(int count) {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(store) << store.error().message;
    for (int i = 0; i < count; ++i) ASSERT_TRUE(publish_version(*store));
  }
};

TEST_F(CliCropdl, ListShowsVersionsNewestFirstWithTheirState) {
  make_versions(2);
  ASSERT_EQ(::truncate(path("s/v000001/rank-1.img").c_str(), 9), 0);
  Outcome outcome = run("list " + path("s"));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.error, "");
  std::smatch match;
  EXPECT_TRUE(std::regex_search(outcome.out, match,
                                std::regex("VERSION .*\n2 +[0-9-]+T[0-9:]+Z +- +2 +16\\.[0-9] kB +8\\.2 kB "
                                           "+- +0\\.01[23] s +openmpi +complete\n"
                                           "1 .*damaged: rank image .*/v000001/rank-1.img: truncated: .*\n")))
      << outcome.out;
}

TEST_F(CliCropdl, StatusDistinguishesARunningJobFromADeadOne) {
  make_versions(1);
  Outcome dead = run("status " + path("s"));
  EXPECT_EQ(dead.status, 0);
  EXPECT_NE(dead.out.find("job:     not running\nstored:  1 complete, 0 damaged\nnewest:  version 1 of "),
            std::string::npos)
      << dead.out;
  EXPECT_NE(dead.out.find("program: /bin/train --epochs 3\n"), std::string::npos);
  Result<Store> job = Store::open_or_create(path("s"), test_job());
  ASSERT_TRUE(job);
  EXPECT_NE(
      run("status " + path("s")).out.find("job:     running (pid " + std::to_string(::getpid()) + " on "),
      std::string::npos);
}

TEST_F(CliCropdl, ShowsTheDevicesOfAVersion) {
  make_versions(1);
  const std::string file = path("s/v000001/manifest.json");
  Result<Manifest> manifest = parse_manifest(read(file), "m");
  ASSERT_TRUE(manifest);
  manifest->images[0].devices = manifest->images[1].devices = "A Device (compute capability 9.0)";
  manifest->images[0].device_memory = manifest->images[1].device_memory = 4096;
  write(file, manifest_text(*manifest));
  const std::string list = run("list " + path("s")).out;
  EXPECT_TRUE(std::regex_search(list, std::regex("MEMORY +DEVICE.*\n1 .* 8\\.2 kB +8\\.2 kB +0"))) << list;
  const std::string status = run("status " + path("s")).out;
  EXPECT_NE(status.find("\ndevices: A Device (compute capability 9.0), 8.2 kB of memory on them\n"),
            std::string::npos)
      << status;
  EXPECT_EQ(run("verify " + path("s")).out,
            "version 1: good, 2 images, 16.7 kB, 8.2 kB of them device memory\n");
}

TEST_F(CliCropdl, VerifyLocatesAFlippedBit) {
  make_versions(3);
  EXPECT_EQ(run("verify " + path("s")).status, 0);
  std::string image = path("s/v000002/rank-0.img"), bytes = read(image);
  bytes[5000] ^= 1;
  write(image, bytes);
  Outcome all = run("verify " + path("s"));
  EXPECT_EQ(all.status, 1);
  EXPECT_EQ(all.out, "version 3: good, 2 images, 16.7 kB\nversion 1: good, 2 images, 16.7 kB\n");
  EXPECT_EQ(all.error,
            "cropdl: version 2: rank image " + image +
                ": damaged in region page, memory from 0x480000000000 (file offset 4096 to 8192): its "
                "checksum differs\n");
  EXPECT_EQ(run("verify --version 3 " + path("s")).status, 0);
  expect_refused("verify --version 2 " + path("s"),
                 "version 2: rank image " + image + ": damaged in region page");
  expect_refused("verify --version 7 " + path("s"), "holds no version 7");
}

// The store may come from another user.
TEST_F(CliCropdl, TextsOfAStoreReachTheTerminalEscaped) {
  make_versions(1);
  const std::string nasty = "x\x1b]0;y\x07\x7f\xc2\x9b\r\n\xff\xe2\x82z grün";
  const std::string shown = "x\\x1b]0;y\\x07\\x7f\\xc2\\x9b\\r\\n\\xff\\xe2\\x82z grün";
  Result<Manifest> manifest = parse_manifest(read(path("s/v000001/manifest.json")), "m");
  ASSERT_TRUE(manifest);
  manifest->program = manifest->args[0] = manifest->created = manifest->mpi_name = manifest->mpi_version =
      nasty;
  write(path("s/v000001/manifest.json"), manifest_text(*manifest));
  write(path("s/lock"), std::to_string(::getpid()) +
                            " no\x1b"
                            "de\n");
  Outcome status = run("status " + path("s")), list = run("list " + path("s"));
  EXPECT_EQ(status.status, 0);
  EXPECT_NE(status.out.find("program: " + shown + " " + shown + " 3\n"), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("newest:  version 1 of " + shown + ", "), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("ranks:   2 under " + shown + " " + shown + "\n"), std::string::npos)
      << status.out;
  EXPECT_EQ(list.status, 0);
  EXPECT_NE(list.out.find("1        " + shown + " "), std::string::npos) << list.out;
  EXPECT_NE(list.out.find(" complete\n"), std::string::npos) << list.out;
  manifest->images[0].file = "no\x1b[31msuch";
  write(path("s/v000001/manifest.json"), manifest_text(*manifest));
  expect_refused("verify " + path("s"),
                 "v000001/manifest.json: damaged: the image of rank 0 has another name");
  for (const std::string command : {"list ", "status ", "verify "}) {
    const Outcome outcome = run(command + path("s"));
    EXPECT_EQ((outcome.out + outcome.error).find_first_of("\x1b\x07\x7f\r\xff"), std::string::npos)
        << command;
  }
}

TEST_F(CliCropdl, AnImageOfHolesIsReportedAsDamaged) {
  make_versions(1);
  const std::string image = path("s/v000001/rank-0.img"), bytes = read(image);
  const std::string trailer_bytes = bytes.substr(bytes.size() - sizeof(ImageTrailer));
  ImageTrailer trailer;
  std::memcpy(&trailer, trailer_bytes.data(), sizeof trailer);
  constexpr uint64_t kHole = 1ull << 40;
  trailer.metadata_bytes += kHole;
  trailer.file_bytes += kHole;
  trailer.checksum = checksum(&trailer, offsetof(ImageTrailer, checksum));
  ASSERT_EQ(::truncate(image.c_str(), static_cast<off_t>(trailer.file_bytes - sizeof trailer)), 0);
  std::ofstream(image, std::ios::binary | std::ios::app)
      .write(reinterpret_cast<char*>(&trailer), sizeof trailer);
  Result<Manifest> manifest = parse_manifest(read(path("s/v000001/manifest.json")), "m");
  ASSERT_TRUE(manifest);
  manifest->images[0].bytes = trailer.file_bytes;
  manifest->images[0].checksum = trailer.checksum;
  write(path("s/v000001/manifest.json"), manifest_text(*manifest));
  expect_refused("verify " + path("s"), "damaged in the metadata");
}

TEST_F(CliCropdl, BadInputIsOneLineAndANonZeroExit) {
  make_versions(0);
  for (std::string command : {"list", "status", "verify", "inspect", "checkpoint"}) {
    expect_refused(command, "DIR is required");
    expect_refused(command + " " + path("none"), "store " + path("none") + ": No such file or directory");
    expect_refused(command + " " + scratch_, "is not a CropDL store");
    expect_refused(command + " a b", "");
  }
  expect_refused("verify " + path("s"), "holds no version");
  expect_refused("verify --version x " + path("s"), "x is not a version's number");
  expect_refused("verify --version 0 " + path("s"), "0 is not a version's number");
  expect_refused("inspect " + path("s"), "holds no complete version");
  expect_refused("inspect --rank x " + path("s"), "x is not a rank's number");
  expect_refused("", "subcommand");
  expect_refused("frobnicate", "");
}

TEST_F(CliCropdl, ACheckpointOfADeadJobIsRefused) {
  make_versions(1);
  expect_refused("checkpoint " + path("s"), "no job is running on " + path("s"));
}

// Its metadata are not a process's. An implausible store gives one line.
TEST_F(CliCropdl, InspectRefusesAForgedImageInOneLine) {
  make_versions(1);
  const std::string image = path("s/v000001/rank-0.img");
  expect_refused("inspect " + path("s"), "rank image " + image + ": its metadata cannot be read (");
  expect_refused("inspect --rank 2 " + path("s"), "version 1: has no rank 2, only 2 ranks");
  Result<Manifest> manifest = parse_manifest(read(path("s/v000001/manifest.json")), "m");
  ASSERT_TRUE(manifest);
  ++manifest->images[0].checksum;
  write(path("s/v000001/manifest.json"), manifest_text(*manifest));
  expect_refused("inspect " + path("s"), image + ": is not the one that the manifest lists");
}

TEST_F(CliCropdl, PruneRemovesOldVersionsAndPrintsTheirSize) {
  make_versions(4);
  ASSERT_EQ(::truncate(path("s/v000001/rank-1.img").c_str(), 9), 0);
  std::filesystem::create_directories(path("s/tmp-v000009-1"));
  write(path("s/tmp-v000009-1/rank-0.img"), std::string(5000, 'x'));
  EXPECT_EQ(run("prune --keep 1 --dry-run " + path("s")).out.find("version 3: would be removed, "), 0u);
  EXPECT_TRUE(std::filesystem::exists(path("s/v000003")));
  const Outcome outcome = run("prune --keep 1 " + path("s"));
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_TRUE(std::regex_match(
      outcome.out,
      std::regex("version 3: removed, [0-9.]+ kB\nversion 2: removed, [0-9.]+ kB\nversion 1: is damaged, and "
                 "stays \\(.*truncated.*\\)\nkept:  4\n[0-9.]+ kB that killed writers had left were removed, "
                 "too\nfreed: [0-9.]+ kB\n")))
      << outcome.out;
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(path("s")))
    left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"lock", "store.json", "v000001", "v000004"}));
  EXPECT_EQ(run("verify --version 4 " + path("s")).status, 0);
  EXPECT_EQ(run("prune --keep 1 " + path("s")).out.find("version 1: is damaged"), 0u);
  make_versions(1);  // a job continues with the next number
  EXPECT_TRUE(std::filesystem::exists(path("s/v000005")));
}

TEST_F(CliCropdl, PruneIsRefusedWhileAJobHasTheStoreAndInAnother) {
  make_versions(2);
  {
    Result<Store> job = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(job);
    expect_refused("prune --keep 1 " + path("s"),
                   "is used by a running job (pid " + std::to_string(::getpid()));
    EXPECT_EQ(run("prune --keep 1 --dry-run " + path("s")).status, 0);
  }
  ASSERT_EQ(::chmod(path("s").c_str(), 0770), 0);
  expect_refused("prune --keep 1 " + path("s"), "others may write to it");
  ASSERT_EQ(::chmod(path("s").c_str(), 0700), 0);
  EXPECT_EQ(run("prune " + path("s")).status, 2);
  EXPECT_EQ(run("prune --keep 0 " + path("s")).status, 2);
  EXPECT_TRUE(std::filesystem::exists(path("s/v000001")));
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path("s").c_str(), 12345, 12345), 0);
    expect_refused("prune --keep 1 " + path("s"), "belongs to user id 12345, not to yours (0)");
  }
}

TEST_F(CliCropdl, AWrongCommandLineIsStatus2AndAFailure1) {
  make_versions(1);
  for (const std::string wrong : {"", "list", "frobnicate", "list --frobnicate x", "verify --version x x"})
    EXPECT_EQ(run(wrong).status, 2) << wrong;
  for (const std::string command : {"list ", "status ", "verify ", "checkpoint "})
    EXPECT_EQ(run(command + path("none")).status, 1) << command;
  EXPECT_EQ(run("checkpoint " + path("s")).status, 1);
  EXPECT_EQ(run("list " + path("s")).status, 0);
}

TEST_F(CliCropdl, JsonIsOneObjectOnStandardOutputAlsoWhenItFails) {
  make_versions(2);
  write(path("s/v000001/manifest.json"), "{}");
  Result<Manifest> manifest = parse_manifest(read(path("s/v000002/manifest.json")), "m");
  ASSERT_TRUE(manifest);
  manifest->args[0] = "\xff";
  write(path("s/v000002/manifest.json"), manifest_text(*manifest));
  const auto object = [this](const std::string& command, int status) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, status) << command;
    EXPECT_EQ(outcome.error, "") << command;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json list = object("list --json " + path("s"), 0);
  EXPECT_EQ(list["versions"][0]["version"], 2);
  EXPECT_EQ(list["versions"][0]["arguments"][0], (nlohmann::json{{"hex", "ff"}}));
  EXPECT_EQ(list["versions"][0]["bytes"], manifest->bytes());
  EXPECT_FALSE(list["versions"][1]["complete"]);
  EXPECT_TRUE(list["versions"][1]["ranks"].is_null());
  EXPECT_EQ(object("status --json " + path("s"), 0)["damaged"], 1);
  EXPECT_EQ(object("verify --version 2 --json " + path("s"), 0)["versions"][0]["good"], true);
  EXPECT_NE(object("verify --json " + path("s"), 1)["error"].get<std::string>().find("version 1: "),
            std::string::npos);
  EXPECT_EQ(object("list --json " + path("none"), 1),
            (nlohmann::json{{"error", "store " + path("none") + ": No such file or directory"}}));
  EXPECT_EQ(object("list --json", 2), (nlohmann::json{{"error", "DIR is required (see cropdl --help)"}}));
}

TEST_F(CliCropdl, VersionAndHelpSucceed) {
  EXPECT_EQ(run("--version").out, "cropdl " CROPDL_VERSION "\n");
  Outcome help = run("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace cropdl::restart
