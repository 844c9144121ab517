// A job's progress, one line redrawn in place on a terminal. progress_text() is pure; rank 0's agent draws.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "coord/metrics.h"

namespace cropdl::coord {

// At most `width` columns: what does not fit is left out. `now`: seconds since 1970. "": nothing yet.
std::string progress_text(const Metrics& metrics, int64_t now, size_t width);

// Draws at the line's beginning, without a newline. Erase before writing anything else there, or it is
// overwritten. Never blocks: output that the terminal does not accept immediately is dropped.
class ProgressLine {
 public:
  // `stream`: its open file description is not changed. If it is not a terminal's, nothing is drawn.
  explicit ProgressLine(int stream);
  ~ProgressLine() { erase(); }

  bool can_draw() const { return static_cast<bool>(terminal_); }
  // Draws only while this process is in the terminal's foreground.
  void draw(const Metrics& metrics, int64_t now);
  void erase();

 private:
  bool write(const std::string& text) const;

  Descriptor terminal_;
  std::string shown_;
};

}  // namespace cropdl::coord
