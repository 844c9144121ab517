#include "gpu_state/software/ptx/fat_binary.h"

#include <zstd.h>

#include <cstring>

#include "base/format.h"
#include "base/lz4.h"

namespace cropdl::ptx {

namespace {

constexpr size_t kHeaderSize = 16, kEntrySize = 0x40;
// PTX texts are smaller: a damaged size must not cause a huge allocation.
constexpr uint64_t kLargestText = uint64_t{1} << 30;

template <class Number>
Number number_at(std::span<const std::byte> bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

std::string_view text_at(std::span<const std::byte> header, uint64_t offset, uint64_t size) {
  if (size == 0 || offset > header.size() || size > header.size() - offset) return {};
  return {reinterpret_cast<const char*>(header.data()) + offset, size};
}

Entry::Kind kind_of(int number) {
  if (number == 1) return Entry::Kind::kPtx;
  if (number == 2) return Entry::Kind::kMachineCode;
  if (number == 8) return Entry::Kind::kLinkTimeCode;
  return Entry::Kind::kOther;
}

Error damaged(size_t offset, std::string_view what) {
  return Error{"this fat binary is damaged: at offset {} {}", offset, what};
}

Result<std::string> decompressed(const Entry& entry) {
  if (entry.size > kLargestText) return Error{"this PTX claims to have {} bytes", entry.size};
  std::string text(entry.size, '\0');
  bool whole;
  if (entry.is_zstd) {
    whole =
        ZSTD_decompress(text.data(), text.size(), entry.payload.data(), entry.payload.size()) == text.size();
  } else {
    whole = decompress_lz4(entry.payload, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  }
  if (!whole)
    return Error{"the PTX for compute_{} cannot be decompressed: this fat binary is damaged",
                 entry.architecture};
  return text;
}

}  // namespace

Result<std::span<const std::byte>> fat_binary_at(const void* address) {
  auto* bytes = static_cast<const std::byte*>(address);
  std::span<const std::byte> header(bytes, kHeaderSize);
  if (number_at<uint32_t>(header, 0) != kFatBinaryMagic) return Error{"this is no fat binary"};
  uint64_t size = number_at<uint64_t>(header, 8);
  if (size > kLargestText * 16) return damaged(8, "a size cannot be");
  return std::span(bytes, number_at<uint16_t>(header, 6) + size);
}

Result<std::vector<Entry>> entries_of(std::span<const std::byte> all) {
  if (all.size() < kHeaderSize) return Error{"this fat binary is cut short"};
  if (number_at<uint32_t>(all, 0) != kFatBinaryMagic) return Error{"this is no fat binary"};
  auto version = number_at<uint16_t>(all, 4);
  if (version != 1) return Error{"fat binaries of version {} are not known, only 1", version};
  size_t at = number_at<uint16_t>(all, 6);
  uint64_t size = number_at<uint64_t>(all, 8);
  if (at < kHeaderSize || at > all.size() || size > all.size() - at)
    return Error{"this fat binary is cut short"};
  size_t end = at + size;

  std::vector<Entry> entries;
  while (at < end) {
    if (end - at < kEntrySize) return damaged(at, "an entry is cut short");
    auto header_size = number_at<uint32_t>(all, at + 4);
    auto padded = number_at<uint64_t>(all, at + 8);
    if (header_size < kEntrySize || header_size > end - at || padded > end - at - header_size)
      return damaged(at, "an entry is larger than the rest");
    std::span<const std::byte> header = all.subspan(at, header_size);
    Entry entry;
    entry.number = number_at<uint16_t>(header, 0);
    entry.kind = kind_of(entry.number);
    entry.architecture = static_cast<int>(number_at<uint32_t>(header, 0x1c) & 0xffff);
    entry.flags = number_at<uint64_t>(header, 0x28);
    entry.suffix = entry.flags & 0x100000 ? 'a' : entry.flags & 0x200000 ? 'f' : '\0';
    entry.name = text_at(header, number_at<uint32_t>(header, 0x20), number_at<uint32_t>(header, 0x24));
    auto options = number_at<uint32_t>(header, 0x14);
    if (options >= kEntrySize && options <= header_size - 8)
      entry.options =
          text_at(header, number_at<uint32_t>(header, options), number_at<uint32_t>(header, options + 4));
    auto compressed = number_at<uint32_t>(header, 0x10);
    entry.is_lz4 = entry.flags & 0x2000;
    entry.is_zstd = entry.flags & 0x8000;
    bool is_compressed = entry.is_lz4 || entry.is_zstd;
    if (is_compressed && compressed > padded) return damaged(at, "an entry is larger than its place");
    entry.payload = all.subspan(at + header_size, is_compressed ? compressed : padded);
    entry.size = is_compressed ? number_at<uint64_t>(header, 0x38) : padded;
    entries.push_back(entry);
    at += header_size + padded;
  }
  return entries;
}

Result<std::string> text_of(const Entry& entry) {
  if (entry.kind != Entry::Kind::kPtx) return Error{"this entry of the fat binary is no PTX"};
  std::string text;
  if (entry.is_lz4 || entry.is_zstd) {
    auto whole = decompressed(entry);
    if (!whole) return whole.error();
    text = std::move(*whole);
  } else {
    text.assign(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
  }
  text.resize(std::min(text.find('\0'), text.size()));  // padded with zeros
  return text;
}

const Entry* best_ptx(const std::vector<Entry>& entries, Capability capability) {
  int own = capability.major * 10 + capability.minor;
  auto runs = [&](const Entry& entry) {
    if (entry.kind != Entry::Kind::kPtx || entry.architecture > own) return false;
    if (entry.suffix == 'a') return entry.architecture == own;
    return entry.suffix != 'f' || entry.architecture / 10 == capability.major;
  };
  auto rank = [](const Entry& entry) {
    return entry.architecture * 4 + (entry.suffix == 'a' ? 2 : entry.suffix == 'f' ? 1 : 0);
  };
  const Entry* best = nullptr;
  for (const Entry& entry : entries)
    if (runs(entry) && (!best || rank(entry) > rank(*best))) best = &entry;
  return best;
}

std::string listed(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) {
    std::string name =
        std::to_string(entry.architecture) + (entry.suffix ? std::string(1, entry.suffix) : "");
    if (!text.empty()) text += ", ";
    switch (entry.kind) {
      case Entry::Kind::kPtx:
        text += "PTX for compute_" + name;
        break;
      case Entry::Kind::kMachineCode:
        text += "machine code for sm_" + name;
        break;
      case Entry::Kind::kLinkTimeCode:
        text += "link-time code for lto_" + name;
        break;
      case Entry::Kind::kOther:
        text += formatted("something of kind {} for {}", entry.number, name);
        break;
    }
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace cropdl::ptx
