// What a job is at, in one line that stays where it is, for a person at a terminal. progress_text() is pure;
// the line is rank 0's agent thread's (LH FS base).
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "coord/metrics.h"

namespace cropdl::coord {

// At most `width` columns; `now`: seconds since 1970. "": there is nothing to say yet.
std::string progress_text(const Metrics& metrics, int64_t now, size_t width);

// Drawn at the beginning of the terminal's line, without a line's end; what else is written there, whoever
// writes it is to erase it before, or it is written over. Never blocks: what the terminal does not take at
// once is not drawn.
class ProgressLine {
 public:
  // `stream`: a descriptor of the terminal, whose open file description stays as it is. Something else than a
  // terminal: nothing is ever drawn.
  explicit ProgressLine(int stream);
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool can_draw() const { return static_cast<bool>(terminal_); }
  // Only while this process is in the terminal's foreground.
  void draw(const Metrics& metrics, int64_t now);
  void erase();

 private:
  bool write(const std::string& text) const;

  Descriptor terminal_;
  std::string shown_;
};

}  // namespace cropdl::coord
