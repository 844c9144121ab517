// forge_memory DIRECTORY RANK WHAT…: removes something from a rank's image in a version's directory as if it
// had never been saved; all checksums stay right. Tests use it to see whether a restart or the program
// notices the loss.
// pages KIND             prints how many stored pages the regions of that kind have (docs/image-format.md)
// page KIND N            fills the N-th of them, from 0, with zeros
// bytes KIND FROM TO     replaces the first occurrence of the bytes FROM (hexadecimal) in them by TO
// recipes LIBRARY        prints how many objects and states the library's handle tables have
// recipe LIBRARY N       frees the N-th, from 0, as the program would; exit status 3: others need it, it
//                        stays
// object LIBRARY N       the same for objects only, and the image's count is corrected
// heap                   removes the persistent heap, as builds whose lower half has no library save none
// Loads the image at its own addresses, which are free in this process. Used by tests only.
#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "interpose/handles/heap.h"
#include "interpose/handles/table.h"
#include "interpose/one_abi/state.h"
#include "interpose/seam/layout.h"
#include "restart/image.h"
#include "restart/manifest.h"
#include "restart/page_sources.h"

using namespace cropdl;
using namespace cropdl::restart;

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "forge_memory: %s\n", what.c_str());
  std::exit(2);
}

template <class T>
void check(const T& result) {
  if (!result) fail(result.error().message);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string bytes_of(const std::string& hexadecimal) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hexadecimal.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hexadecimal.substr(i, 2), nullptr, 16)));
  return bytes;
}

void load(const ImageReader& image) {
  for (size_t i = 0; i < image.regions().size(); ++i) {
    const Region& region = image.regions()[i];
    if (!region.referenced.empty()) fail("pages that are a file's are not for this tool");
    void* at = mmap(reinterpret_cast<void*>(region.begin), region.end - region.begin, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != reinterpret_cast<void*>(region.begin)) fail("the addresses of " + region.name + " are taken");
    check(image.load_region(i));
  }
}

// Calls `visit` for the stored pages of a kind until it returns false.
template <class Visit>
void each_page(const ImageReader& image, RegionKind kind, Visit visit) {
  for (const Region& region : image.regions())
    if (region.kind == kind)
      for (const Extent& extent : region.present)
        for (uint64_t page = extent.begin; page < extent.end; page += kImagePage)
          if (!visit(reinterpret_cast<char*>(page))) return;
}

uint64_t lost = 0;  // recipes to subtract from the metadata's count

std::string less_counted(const std::string& metadata, unsigned library) {
  auto all = nlohmann::json::parse(metadata);
  for (auto& one : all.at("libraries"))
    if (one.at("number") == library) one["recipes"] = one.at("recipes").get<uint64_t>() - lost;
  return all.dump();
}

// Returns true if the memory was changed.
bool change(const ImageReader& image, const std::string& what, char** words, int count) {
  const auto number = [&](int i) { return i < count ? std::stoul(words[i]) : (fail("too few words"), 0ul); };
  if (what == "pages" || what == "page") {
    const auto kind = static_cast<RegionKind>(number(0));
    size_t at = 0, wanted = what == "page" ? number(1) : SIZE_MAX;
    bool done = false;
    each_page(image, kind, [&](char* page) {
      if (at++ != wanted) return true;
      std::memset(page, 0, kImagePage);
      return !(done = true);
    });
    if (what == "page" && !done) fail("there are not so many pages");
    if (!done) std::printf("%zu\n", at);
    return done;
  }
  if (what == "bytes" && count == 3) {
    const std::string from = bytes_of(words[1]), to = bytes_of(words[2]);
    if (from.empty() || from.size() != to.size()) fail("as many bytes as were there");
    bool done = false;
    each_page(image, static_cast<RegionKind>(number(0)), [&](char* page) {
      auto* found = static_cast<char*>(memmem(page, kImagePage, from.data(), from.size()));
      if (found) std::memcpy(found, to.data(), to.size());
      return !(done = found != nullptr);
    });
    if (!done) fail("there are no such bytes");
    return true;
  }
  if (what == "recipes" || what == "recipe" || what == "object") {
    const char* why = handles::heap_check();
    handles::Tables* tables =
        why ? nullptr : handles::Tables::restored(static_cast<unsigned>(number(0)), &why);
    if (!tables) fail(why ? why : "no tables");
    const std::vector<handles::Handle> all = tables->all_in_order();
    if (what == "recipes") {
      std::printf("%zu\n", all.size());
      return false;
    }
    if (number(1) >= all.size()) fail("there are not so many recipes");
    std::vector<handles::Handle> gone;
    const handles::Handle chosen = all[number(1)];
    const handles::Slot& slot = *tables->slot(chosen);
    // Of a CUDA object, owner[1] is the state that would lose it.
    const bool has_state = number(0) == seam::kLibraryCudart && slot.owner[1] != 0 &&
                           handles::kind_of(chosen) != one_abi::kStateRecord;
    if (slot.state != handles::kLive || slot.users > 0 || has_state ||
        (what == "object" && handles::kind_of(chosen) == one_abi::kStateRecord))
      std::exit(3);
    tables->free(chosen, gone);
    if (what == "object") lost = all.size() - tables->all_in_order().size();
    return true;
  }
  if (what == "heap") {
    for (const Region& r : image.regions())
      if (r.begin >= seam::kHeapBegin && r.begin < seam::kHeapEnd)
        madvise(reinterpret_cast<void*>(r.begin), r.end - r.begin, MADV_DONTNEED);
    return true;
  }
  fail("unknown: " + what);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) fail("usage: forge_memory DIRECTORY RANK WHAT…");
  const std::string directory = argv[1], path = directory + "/manifest.json";
  auto manifest = parse_manifest(contents(path), path);
  check(manifest);
  ManifestImage& entry = manifest->images.at(std::stoul(argv[2]));
  const std::string file = directory + "/" + entry.file, fresh = file + ".forged";
  auto image = ImageReader::open(file);
  check(image);
  load(*image);
  if (!change(*image, argv[3], argv + 4, argc - 4)) return 0;
  auto writer = ImageWriter::create(fresh, image->seam_version());
  check(writer);
  LivePages pages;
  for (const Region& region : image->regions()) check(cut_region(region, pages, nullptr, *writer));
  const auto totals = writer->finish(
      lost ? less_counted(image->metadata(), static_cast<unsigned>(std::stoul(argv[4]))) : image->metadata());
  check(totals);
  if (std::rename(fresh.c_str(), file.c_str()) != 0) fail("cannot rename " + fresh);
  entry.bytes = totals->bytes;
  entry.memory = totals->memory;
  entry.checksum = totals->checksum;
  std::ofstream(path, std::ios::trunc) << manifest_text(*manifest);
  return 0;
}
