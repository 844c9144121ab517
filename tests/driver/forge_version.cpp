// forge_version DIRECTORY KIND: changes rank 0's image or the manifest in a version's directory to what
// another CropDL or another machine would have written; all checksums stay right. KIND:
//   image-format N | image-seam N | manifest-format N | manifest-seam N | manifest-ranks N |
//   manifest-launcher PATH manifest-program PATH | manifest-created TEXT | manifest-devices TEXT |
//   image-cpu-feature NAME | image-without KEY image-vector-bytes N image-processors N | image-functions N |
//   image-contents JSON | history FILE
// history: for each line of FILE, `NUMBER PARENT RESTARTED CREATED ITERATION STALL BYTES MEMORY`, makes a
// version beside DIRECTORY with these values and otherwise like it; its images are sparse. Used by tests
// only.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/checksum.h"
#include "base/json.h"
#include "restart/image_layout.h"
#include "restart/manifest.h"

using namespace cropdl;
using namespace cropdl::restart;

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "forge_version: %s\n", what.c_str());
  std::exit(2);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) fail("cannot write " + path);
}

template <class T>
T take(const std::string& image, size_t offset) {
  T out;
  if (image.size() < offset + sizeof out) fail("the image is too short");
  std::memcpy(&out, image.data() + offset, sizeof out);
  return out;
}

// Returns the changed image, and in `sum` the checksum of its trailer, which the manifest has too.
std::string forged(const std::string& image, const std::string& kind, const std::string& value,
                   uint64_t* sum) {
  auto header = take<ImageHeader>(image, 0);
  auto trailer = take<ImageTrailer>(image, image.size() - sizeof(ImageTrailer));
  std::string metadata = image.substr(trailer.metadata_offset, trailer.metadata_bytes);
  if (kind == "image-format") header.format = static_cast<uint32_t>(std::stoul(value));
  if (kind == "image-seam") header.seam = static_cast<uint32_t>(std::stoul(value));
  if (kind == "image-cpu-feature") {
    const std::string list = "\"cpu_features\":[";
    const size_t at = metadata.find(list);
    if (at == std::string::npos) fail("the image's metadata lists no CPU features");
    metadata.insert(at + list.size(), "\"" + value + "\"" + (metadata[at + list.size()] == ']' ? "" : ","));
  }
  if (kind == "image-functions") {  // in the first library's table
    const std::string name = "\"functions\":";
    const size_t at = metadata.find(name);
    if (at == std::string::npos) fail("the image's metadata has no library");
    const size_t begin = at + name.size();
    metadata.replace(begin, metadata.find_first_not_of("0123456789", begin) - begin, value);
  }
  if (kind == "image-without") {
    nlohmann::json object = nlohmann::json::parse(metadata);
    if (object.erase(value) == 0) fail("the image's metadata has no " + value);
    metadata = object.dump();
  }
  if (kind == "image-vector-bytes") {
    nlohmann::json object = nlohmann::json::parse(metadata);
    object["vector_state"]["bytes"] = std::stoul(value);
    metadata = object.dump();
  }
  if (kind == "image-processors") {
    nlohmann::json object = nlohmann::json::parse(metadata);
    object["processors"] = std::stoul(value);
    metadata = object.dump();
  }
  if (kind == "image-contents") {
    nlohmann::json object = nlohmann::json::parse(metadata);
    object["contents"] = nlohmann::json::parse(value);
    metadata = object.dump();
  }
  header.checksum = checksum(&header, offsetof(ImageHeader, checksum));
  trailer.header_checksum = header.checksum;
  trailer.metadata_bytes = metadata.size();
  trailer.metadata_checksum = checksum(metadata);
  std::string out = image.substr(0, trailer.metadata_offset) + metadata;
  std::memcpy(out.data(), &header, sizeof header);
  trailer.file_bytes = out.size() + sizeof trailer;
  trailer.checksum = *sum = checksum(&trailer, offsetof(ImageTrailer, checksum));
  return out.append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

// BYTES is the total of all images; rank 0's image gets all of it.
void forge_history(const Manifest& like, const std::string& store, const std::string& file) {
  std::ifstream lines(file);
  Manifest m = like;
  for (std::string created; lines >> m.version >> m.parent >> m.restarted >> created;) {
    m.created = created;
    uint64_t iteration = 0, bytes = 0, memory = 0;
    if (!(lines >> iteration >> m.stall_seconds >> bytes >> memory))
      fail("a line of " + file + " is too short");
    char name[32];
    std::snprintf(name, sizeof name, "/v%06lu", static_cast<unsigned long>(m.version));
    const std::filesystem::path folder = store + name;
    std::filesystem::create_directory(folder);
    for (ManifestImage& image : m.images) {
      image.bytes = &image == m.images.data() ? bytes : 0;
      image.memory = &image == m.images.data() ? memory : 0;
      image.iteration = iteration;
      replace(folder / image.file, "");
      std::filesystem::resize_file(folder / image.file, image.bytes);
    }
    replace(folder / "manifest.json", manifest_text(m));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("usage: forge_version DIRECTORY KIND VALUE");
  const std::string directory = argv[1], kind = argv[2], value = argv[3];
  const std::string path = directory + "/manifest.json";
  auto manifest = parse_manifest(contents(path), path);
  if (!manifest) fail(manifest.error().message);
  if (kind.rfind("image-", 0) == 0) {
    ManifestImage& entry = manifest->images.at(0);
    const std::string image = forged(contents(directory + "/" + entry.file), kind, value, &entry.checksum);
    entry.bytes = image.size();
    replace(directory + "/" + entry.file, image);
  } else if (kind == "manifest-format") {
    manifest->format = static_cast<uint32_t>(std::stoul(value));
  } else if (kind == "manifest-seam") {
    manifest->seam = static_cast<uint32_t>(std::stoul(value));
  } else if (kind == "manifest-launcher") {
    manifest->launcher = value;
  } else if (kind == "manifest-program") {
    manifest->program = value;
  } else if (kind == "manifest-created") {
    manifest->created = value;
  } else if (kind == "manifest-devices") {
    manifest->images.at(0).devices = value;
  } else if (kind == "history") {
    forge_history(*manifest, directory + "/..", value);
    return 0;
  } else if (kind == "manifest-ranks") {  // a value that Manifest cannot hold
    auto object = unsealed(manifest_text(*manifest), path, kManifestFormat);
    (*object)["ranks"] = std::stoull(value);
    replace(path, sealed_text(*object));
    return 0;
  } else {
    fail("unknown: " + kind);
  }
  replace(path, manifest_text(*manifest));
  return 0;
}
