// See progress.h.
#include "coord/progress.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/format.h"
#include "base/words.h"

namespace cropdl::coord {

constexpr const char* kErase = "\r\x1b[K";  // ECMA-48: go to the line's beginning, erase to its end

std::string progress_text(const Metrics& m, int64_t now, size_t width) {
  std::string text;
  const auto add = [&text, width](const std::string& part) {
    const std::string more = (text.empty() ? "cropdl: " : ", ") + part;
    if (text.size() + more.size() <= width) text += more;
  };
  if (m.iteration != 0)
    add(formatted("iteration {}", m.iteration) +
        (m.iteration_seconds > 0 ? formatted(" ({} each)", in_words(m.iteration_seconds)) : ""));
  if (m.last_version != 0)
    add(formatted("version {} {} ago ({})", m.last_version,
                  in_words(static_cast<double>(std::max<int64_t>(0, now - m.last_version_time))),
                  m.last_version_memory != 0
                      ? formatted("{} of {}", amount(m.last_version_bytes), amount(m.last_version_memory))
                      : amount(m.last_version_bytes)));
  if (m.versions != 0 && m.run_seconds > 0) add(formatted("overhead {:.2f} %", 100 * overhead(m)));
  if (m.next_version) add("next in " + in_words(*m.next_version));
  return text;
}

ProgressLine::ProgressLine(int stream) {
  if (stream < 0 || isatty(stream) == 0) return;
  // Opens its own file description, so that O_NONBLOCK affects no other user of the terminal.
  terminal_ = move_high(Descriptor(
      ::open(formatted("/proc/self/fd/{}", stream).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)));
}

// True if any of it was written; the rest of a partial line is drawn a second later.
bool ProgressLine::write(const std::string& text) const {
  return ::write(terminal_.fd(), text.data(), text.size()) > 0;
}

void ProgressLine::draw(const Metrics& metrics, int64_t now) {
  if (!terminal_ || tcgetpgrp(terminal_.fd()) != getpgrp()) return;
  winsize size{};
  const size_t columns = ioctl(terminal_.fd(), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80u;
  std::string text = progress_text(metrics, now, columns - 1);
  if (text == shown_ || !write(kErase + text)) return;
  shown_ = std::move(text);
}

void ProgressLine::erase() {
  if (shown_.empty() || tcgetpgrp(terminal_.fd()) != getpgrp()) return;
  if (write(kErase)) shown_.clear();
}

}  // namespace cropdl::coord
