// Device functions that the runtime provides: printf, malloc, free, assert (CUDA C++ Programming Guide,
// "Formatted Output", "Dynamic Global Memory Allocation and Operations", "Assertion").
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/format.h"
#include "gpu_state/software/engine/memory.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

namespace {

constexpr int kMostArguments = 32;

// A .param variable consists of four-byte words, 32 lanes each.
uint64_t argument(const std::byte* frame, const Parameter& parameter, uint32_t lane) {
  const auto* words = reinterpret_cast<const uint32_t*>(frame + parameter.place);
  uint64_t value = words[lane];
  if (parameter.size > 4) value |= uint64_t{words[kLanes + lane]} << 32;
  return value;
}

void answer(std::byte* frame, const Parameter& parameter, uint32_t lane, uint64_t value) {
  auto* words = reinterpret_cast<uint32_t*>(frame + parameter.place);
  words[lane] = static_cast<uint32_t>(value);
  if (parameter.size > 4) words[kLanes + lane] = static_cast<uint32_t>(value >> 32);
}

// A string in the kernel's memory; false: not readable.
bool text_at(WarpRun& warp, uint32_t lane, uint64_t address, std::string* text) {
  for (uint64_t i = 0; i < (1 << 20); ++i) {
    char c = 0;
    if (!read_generic(warp, lane, address + i, &c, 1)) return false;
    if (!c) return true;
    *text += c;
  }
  return false;
}

// Formats one conversion after the other with the host's snprintf. `used` counts the arguments. Returns false
// if an argument cannot be read.
class Printer {
 public:
  Printer(WarpRun& warp, uint32_t lane, uint64_t buffer) : warp_(warp), lane_(lane), buffer_(buffer) {}
  bool print(const std::string& format, std::string* out, int* used) {
    for (size_t i = 0; i < format.size();) {
      if (format[i] != '%') {
        *out += format[i++];
        continue;
      }
      size_t begin = i++;
      std::string spec = "%";
      while (i < format.size() && std::strchr("-+ #0", format[i])) spec += format[i++];
      if (!number(format, &i, &spec, used)) return false;
      if (i < format.size() && format[i] == '.') {
        spec += format[i++];
        if (!number(format, &i, &spec, used)) return false;
      }
      std::string length;
      while (i < format.size() && std::strchr("hlLjzt", format[i])) length += format[i++];
      if (i >= format.size()) {
        *out += format.substr(begin);
        return true;
      }
      if (!convert(format[i++], spec, length, out, used)) {
        if (failed_) return false;
        *out += format.substr(begin, i - begin);  // as devices do with an unknown conversion
      }
    }
    return true;
  }

 private:
  bool number(const std::string& format, size_t* i, std::string* spec, int* used) {
    if (*i < format.size() && format[*i] == '*') {
      ++*i;
      int32_t value = 0;
      if (!next(&value, 4, used)) return false;
      *spec += std::to_string(value);
    }
    while (*i < format.size() && format[*i] >= '0' && format[*i] <= '9') *spec += format[(*i)++];
    return true;
  }
  // Arguments are stored consecutively, each aligned to its size.
  bool next(void* value, uint64_t size, int* used) {
    at_ = (at_ + size - 1) / size * size;
    if (++*used > kMostArguments) return true;
    if (!buffer_ || !read_generic(warp_, lane_, buffer_ + at_, value, size)) {
      failed_ = true;
      return false;
    }
    at_ += size;
    return true;
  }
  template <class T>
  void put(const std::string& spec, T value, std::string* out) {
    char small[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = std::snprintf(small, sizeof small, spec.c_str(), value);
    if (n < 0) return;
    if (static_cast<size_t>(n) < sizeof small) {
      out->append(small, static_cast<size_t>(n));
      return;
    }
    std::string big(static_cast<size_t>(n) + 1, 0);
    std::snprintf(big.data(), big.size(), spec.c_str(), value);
#pragma GCC diagnostic pop
    out->append(big.data(), static_cast<size_t>(n));
  }
  bool convert(char what, const std::string& spec, const std::string& length, std::string* out, int* used) {
    bool is_long = length == "l" || length == "ll" || length == "j" || length == "z" || length == "t";
    switch (what) {
      case '%':
        *out += '%';
        return true;
      case 'c': {
        int32_t value = 0;
        if (!next(&value, 4, used)) return false;
        put(spec + "c", value, out);
        return true;
      }
      case 'd':
      case 'i': {
        int64_t value = 0;
        int32_t narrow = 0;
        if (is_long ? !next(&value, 8, used) : !next(&narrow, 4, used)) return false;
        if (length == "h") narrow = static_cast<int16_t>(narrow);
        if (length == "hh") narrow = static_cast<int8_t>(narrow);
        put(spec + PRId64, is_long ? value : int64_t{narrow}, out);
        return true;
      }
      case 'o':
      case 'u':
      case 'x':
      case 'X': {
        uint64_t value = 0;
        uint32_t narrow = 0;
        if (is_long ? !next(&value, 8, used) : !next(&narrow, 4, used)) return false;
        if (length == "h") narrow = static_cast<uint16_t>(narrow);
        if (length == "hh") narrow = static_cast<uint8_t>(narrow);
        put(spec + "l" + what, is_long ? value : uint64_t{narrow}, out);
        return true;
      }
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        double value = 0;
        if (!next(&value, 8, used)) return false;
        put(spec + what, value, out);
        return true;
      }
      case 'p': {
        void* value = nullptr;
        if (!next(&value, 8, used)) return false;
        put(spec + "p", value, out);
        return true;
      }
      case 's': {
        uint64_t address = 0;
        if (!next(&address, 8, used)) return false;
        std::string text = "(null)";
        if (address) {
          text.clear();
          if (!text_at(warp_, lane_, address, &text)) {
            failed_ = true;
            return false;
          }
        }
        put(spec + "s", text.c_str(), out);
        return true;
      }
      default:
        return false;
    }
  }

  WarpRun& warp_;
  uint32_t lane_;
  uint64_t buffer_, at_ = 0;
  bool failed_ = false;
};

}  // namespace

void WarpRun::system_call(const Instruction* at, const CallSite& site, uint32_t active) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    auto given = [&](size_t which) { return argument(frame, site.arguments[which], lane); };
    switch (site.target) {
      case CallSite::Target::kPrint: {
        std::string format, text;
        int used = 0;
        if (!text_at(*this, lane, given(0), &format) ||
            !Printer(*this, lane, given(1)).print(format, &text, &used))
          return fail(at, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "printf was given what it cannot read");
        if (!site.returned.empty())
          answer(frame, site.returned[0], lane,
                 used > kMostArguments ? ~uint64_t{0} : static_cast<uint64_t>(used));
        if (used <= kMostArguments && block->grid->launch->print) block->grid->launch->print(text);
        break;
      }
      case CallSite::Target::kAllocate: {
        uint64_t size = given(0);
        answer(frame, site.returned[0], lane,
               memory->heap_allocate && size ? memory->heap_allocate(memory->owner, size) : 0);
        break;
      }
      case CallSite::Target::kRelease: {
        uint64_t address = given(0);
        if (address && !(memory->heap_release && memory->heap_release(memory->owner, address)))
          return fail(at, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
                      formatted("free of {:#x}, which malloc did not give", address));
        break;
      }
      case CallSite::Target::kAssert: {
        std::string message, file, function;
        if (!text_at(*this, lane, given(0), &message) || !text_at(*this, lane, given(1), &file) ||
            !text_at(*this, lane, given(3), &function))
          return fail(at, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "assert was given what it cannot read");
        std::string text =
            formatted("{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.", file,
                      given(2), function, block->at[0], block->at[1], block->at[2], thread[0][lane],
                      thread[1][lane], thread[2][lane], message);
        if (block->grid->launch->print) block->grid->launch->print(text + "\n");
        attention = true;
        block->grid->fail(CUDA_ERROR_ASSERT, text);
        break;  // every failing thread prints, as on a device
      }
      default:
        break;
    }
  }
}

}  // namespace cropdl::engine
