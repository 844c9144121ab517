#include "base/say.h"

#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/format.h"
#include "base/time.h"

namespace cropdl {
namespace {

std::atomic<int> stream{2};

enum Format { kUnknown, kText, kJson };
std::atomic<Format> format{kUnknown};

// Returns the length in bytes of the UTF-8 character at the begin of `text`; 0: invalid (RFC 3629).
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f))
    return 0;
  return bytes;
}

// C0, DEL, and C1 (0xc2 followed by 0x80 to 0x9f).
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0);
}

}  // namespace

std::string shown(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const size_t whole = character(rest), bytes = whole == 0 ? 1 : whole;
    at += bytes;
    if (whole != 0 && !is_control(rest)) {
      out += rest.substr(0, bytes);
      continue;
    }
    for (const char c : rest.substr(0, bytes))
      out += c == '\n'   ? "\\n"
             : c == '\r' ? "\\r"
             : c == '\t' ? "\\t"
                         : formatted("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : shown(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

void keep_error_stream(int first) {
  const int former = stream;
  int copy = ::fcntl(2, F_DUPFD_CLOEXEC, first);
  if (copy < 0) copy = ::fcntl(2, F_DUPFD_CLOEXEC, 3);
  if (former != 2 && former >= 0) ::close(former);
  stream = copy;  // -1: no stream; lines are discarded
}

int error_stream() { return stream; }

void choose_log_format(const std::string& name) { format = name == "json" ? kJson : kText; }

bool log_is_json() {
  if (format == kUnknown) {
    const char* name = ::getenv("CROPDL_LOG");
    choose_log_format(name != nullptr ? name : "");
  }
  return format == kJson;
}

std::string line_as_json(const std::string& line, const std::string& time) {
  std::string text = line, from = "cropdl", rank;
  for (const char* one : {"cropdl-run", "cropdl-restart", "cropdl", "software GPU", "software NCCL"})
    if (const std::string prefix = std::string(one) + ": "; text.compare(0, prefix.size(), prefix) == 0) {
      from = one;
      text.erase(0, prefix.size());
      break;
    }
  constexpr size_t kDigits = 5;  // where the digits begin
  const size_t end = text.find_first_not_of("0123456789", kDigits);
  if (text.compare(0, kDigits, "rank ") == 0 && end != kDigits && end != std::string::npos &&
      text.compare(end, 2, ": ") == 0) {
    rank = ",\"rank\":" + text.substr(kDigits, end - kDigits);
    text.erase(0, end + 2);
  }
  return formatted(R"({{"time":"{}","from":"{}"{},"text":"{}"}})", escaped(time), from, rank, escaped(text));
}

void say(const std::string& line) {
  const std::string text = (log_is_json() ? line_as_json(line, utc_now()) : shown(line)) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(stream, text.data(), text.size());
}

}  // namespace cropdl
