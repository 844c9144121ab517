#include "restart/chunks.h"

#include <cstring>

#include "base/checksum.h"

namespace cropdl::restart {

namespace {

void add_page(std::vector<Extent>& extents, std::vector<iovec>& bytes, uint64_t page, char* memory) {
  if (!extents.empty() && extents.back().end == page)
    extents.back().end += kImagePage;
  else
    extents.push_back({page, page + kImagePage});
  if (!bytes.empty() && static_cast<char*>(bytes.back().iov_base) + bytes.back().iov_len == memory)
    bytes.back().iov_len += kImagePage;
  else
    bytes.push_back({memory, kImagePage});
}

}  // namespace

Status ChunkBuffer::room(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  const uint64_t size = bytes_of(runs);
  if (chunk_.size() < size) chunk_.resize(size);
  char* at = chunk_.data();
  for (const Extent& run : runs) {
    bytes->push_back({at, run.end - run.begin});
    at += run.end - run.begin;
  }
  return {};
}

Status cut_region(const Region& region, PageSource& source, PageSource* original, ChunkSink& sink) {
  if (Status begun = sink.begin_region(region); !begun) return begun;
  Chunk chunk;
  std::vector<iovec> memory, file;
  return each_chunk(region.present, kImageChunk, [&](std::span<const Extent> runs) -> Status {
    chunk.stored.clear(), chunk.bytes.clear(), chunk.referenced.clear(), chunk.original.clear();
    chunk.looked_at = bytes_of(runs);
    memory.clear(), file.clear();
    if (Status read = source.read(runs, &memory); !read) return read;
    // A page that cannot be read from `original` any more counts as different.
    const bool comparable = original != nullptr && original->read(runs, &file);
    for (size_t i = 0; i < runs.size(); ++i) {
      char* at = static_cast<char*>(memory[i].iov_base);
      const char* there = comparable ? static_cast<const char*>(file[i].iov_base) : nullptr;
      for (uint64_t page = runs[i].begin; page != runs[i].end; page += kImagePage, at += kImagePage) {
        if (is_zero_page(at)) continue;
        if (there != nullptr && std::memcmp(at, there + (page - runs[i].begin), kImagePage) == 0)
          add_page(chunk.referenced, chunk.original, page, at);
        else
          add_page(chunk.stored, chunk.bytes, page, at);
      }
    }
    return sink.put(chunk);
  });
}

}  // namespace cropdl::restart
