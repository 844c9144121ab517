#include "restart/manifest.h"

#include <set>

#include "base/format.h"
#include "base/json.h"

namespace cropdl::restart {

using nlohmann::json;

namespace {

constexpr uint32_t kRankLimit = 1 << 20;  // a larger number is damage

// Returns why the manifest cannot describe a version, or "".
std::string contradiction(const Manifest& manifest) {
  if (manifest.ranks == 0 || manifest.ranks > kRankLimit) return "impossible number of ranks";
  if (manifest.images.size() != manifest.ranks)
    return formatted("it lists {} images for {} ranks", manifest.images.size(), manifest.ranks);
  for (uint32_t rank = 0; rank < manifest.ranks; ++rank)
    if (manifest.images[rank].file != image_name(rank))
      return formatted("the image of rank {} has another name", rank);
  if (manifest.program.empty()) return "it names no program";
  return "";
}

// JSON has no infinity, and another user's manifest may hold any number.
double seconds(double value) { return value > 0 && value < 1e9 ? value : 0.0; }

}  // namespace

std::string image_name(uint32_t rank) { return formatted("rank-{}.img", rank); }

uint64_t Manifest::sum_of(uint64_t ManifestImage::*part) const {
  uint64_t sum = 0;
  for (const ManifestImage& image : images) sum += image.*part;
  return sum;
}

uint64_t Manifest::iteration() const { return images.empty() ? 0 : images.front().iteration; }

std::string Manifest::devices() const {
  std::set<std::string> all;
  for (const ManifestImage& image : images)
    if (!image.devices.empty()) all.insert(image.devices);
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : "; ") + one;
  return text;
}

std::string manifest_text(const Manifest& m) {
  json images = json::array();
  for (const ManifestImage& image : m.images) {
    images.push_back({{"file", json_bytes(image.file)},
                      {"bytes", image.bytes},
                      {"memory", image.memory},
                      {"checksum", hex_text(image.checksum)},
                      {"host", json_bytes(image.host)}});
    if (image.iteration != 0) images.back()["iteration"] = image.iteration;
    if (image.devices.empty()) continue;
    images.back()["device_memory"] = image.device_memory;
    images.back()["devices"] = json_bytes(image.devices);
  }
  json object{{"format", m.format},
              {"seam", m.seam},
              {"version", m.version},
              {"parent", m.parent},
              {"created", json_bytes(m.created)},
              {"job", json_bytes(m.job)},
              {"ranks", m.ranks},
              {"program", json_bytes(m.program)},
              {"args", json_bytes(m.args)},
              {"cwd", json_bytes(m.cwd)},
              {"mpi", {{"name", json_bytes(m.mpi_name)}, {"version", json_bytes(m.mpi_version)}}},
              {"launcher", {{"path", json_bytes(m.launcher)}, {"options", json_bytes(m.launcher_options)}}},
              {"host", {{"glibc", json_bytes(m.glibc)}, {"kernel", json_bytes(m.kernel)}}},
              {"cpu_features", json_bytes(m.cpu_features)},
              {"stall_seconds", seconds(m.stall_seconds)},
              {"wait_seconds", seconds(m.wait_seconds)},
              {"stages",
               {{"stopping", seconds(m.stages.stopping)},
                {"draining", seconds(m.stages.draining)},
                {"syncing", seconds(m.stages.syncing)}}},
              {"bytes", m.bytes()},
              {"memory", m.memory()},
              {"images", images}};
  if (m.restarted) object["restarted"] = true;
  return sealed_text(std::move(object));
}

Result<Manifest> parse_manifest(const std::string& text, const std::string& where) {
  Result<json> unsealed_object = unsealed(text, where, kManifestFormat);
  if (!unsealed_object) return unsealed_object.error();
  const json& object = *unsealed_object;
  try {
    Manifest m;
    m.format = integer_from_json<uint32_t>(object.at("format"));
    m.seam = integer_from_json<uint32_t>(object.at("seam"));
    m.version = integer_from_json<uint64_t>(object.at("version"));
    m.parent = integer_from_json<uint64_t>(object.at("parent"));
    m.restarted = object.value("restarted", false);
    m.created = bytes_from_json(object.at("created"));
    m.job = bytes_from_json(object.at("job"));
    m.ranks = integer_from_json<uint32_t>(object.at("ranks"));
    m.program = bytes_from_json(object.at("program"));
    m.args = list_from_json(object.at("args"));
    m.cwd = bytes_from_json(object.at("cwd"));
    m.mpi_name = bytes_from_json(object.at("mpi").at("name"));
    m.mpi_version = bytes_from_json(object.at("mpi").at("version"));
    m.launcher = bytes_from_json(object.at("launcher").at("path"));
    m.launcher_options = list_from_json(object.at("launcher").at("options"));
    m.glibc = bytes_from_json(object.at("host").at("glibc"));
    m.kernel = bytes_from_json(object.at("host").at("kernel"));
    m.cpu_features = list_from_json(object.at("cpu_features"));
    m.stall_seconds = seconds(object.at("stall_seconds").get<double>());
    m.wait_seconds = seconds(object.value("wait_seconds", 0.0));
    if (object.contains("stages")) {
      const json& stages = object["stages"];
      m.stages = {seconds(stages.value("stopping", 0.0)), seconds(stages.value("draining", 0.0)),
                  seconds(stages.value("syncing", 0.0))};
    }
    for (const json& image : object.at("images")) {
      m.images.push_back({bytes_from_json(image.at("file")), integer_from_json<uint64_t>(image.at("bytes")),
                          integer_from_json<uint64_t>(image.at("memory")),
                          hex_from_json(image.at("checksum")), bytes_from_json(image.at("host"))});
      if (image.contains("iteration"))
        m.images.back().iteration = integer_from_json<uint64_t>(image.at("iteration"));
      if (!image.contains("devices")) continue;
      m.images.back().device_memory = integer_from_json<uint64_t>(image.at("device_memory"));
      m.images.back().devices = bytes_from_json(image.at("devices"));
    }
    if (std::string why = contradiction(m); !why.empty()) return Error{"{}: damaged: {}", where, why};
    return m;
  } catch (const std::exception& e) {
    return Error{"{}: damaged: {}", where, e.what()};
  }
}

}  // namespace cropdl::restart
