// A line of the upper half for users: text or, with --log json, a JSON object (docs/cli.md). UH, any thread.
#pragma once

#include <unistd.h>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "interpose/seam/layout.h"

namespace cropdl::seam {

// The JSON object. Needs no C library.
class JsonLine {
 public:
  // `line`: "cropdl: ..." with a newline at its end. `now`: seconds since 1970. What does not fit is cut.
  JsonLine(const char* line, int64_t now) {
    put("{\"time\":\"");
    put_time(now);
    put("\",\"from\":\"cropdl\",\"text\":\"");
    for (const char* at = without_speaker(line); *at != 0 && *at != '\n' && size_ < kRoom - 4; ++at) {
      if (*at == '"' || *at == '\\') put('\\');
      put(*at);
    }
    put("\"}\n");
  }
  const char* text() const { return text_; }
  long size() const { return size_; }

 private:
  static constexpr long kRoom = 512;
  static const char* without_speaker(const char* line) {
    const char* at = line;
    for (const char* c = "cropdl: "; *c != 0; ++c, ++at)
      if (*at != *c) return line;
    return at;
  }
  void put(char c) {
    if (size_ < kRoom) text_[size_++] = c;
  }
  void put(const char* text) {
    for (; *text != 0; ++text) put(*text);
  }
  void put(int64_t number, int64_t digit, char then) {  // `digit`: 10 for two digits, 1000 for four
    for (; digit > 0; digit /= 10) put(static_cast<char>('0' + number / digit % 10));
    put(then);
  }
  void put_time(int64_t now) {
    int64_t day = now / 86'400, year = 1970, month = 1;
    const auto is_leap = [&] { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); };
    for (; day >= (is_leap() ? 366 : 365); ++year) day -= is_leap() ? 366 : 365;
    const auto days = [&] {
      return month == 2 ? (is_leap() ? 29 : 28) : 30 + (month + (month > 7 ? 1 : 0)) % 2;
    };
    for (; day >= days(); ++month) day -= days();
    put(year, 1000, '-');
    put(month, 10, '-');
    put(day + 1, 10, 'T');
    put(now / 3600 % 24, 10, ':');
    put(now / 60 % 60, 10, ':');
    put(now % 60, 10, 'Z');
  }

  char text_[kRoom];
  long size_ = 0;
};

// For shims, which have the program's C library. To standard error; lost if that is closed.
inline void say_by_c_library(const char* line) {
  if (control()->messages_as_json != 0) {
    const JsonLine json(line, time(nullptr));
    if (write(2, json.text(), size_t(json.size())) < 0) return;
  } else if (write(2, line, strlen(line)) < 0) {
    return;
  }
}

}  // namespace cropdl::seam
