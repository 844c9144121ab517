// See channel.h. A frame is a 32-bit length in the machine's byte order, then the body.
#include "coord/channel.h"

#include <cerrno>
#include <cstring>

namespace cropdl::coord {

bool Channel::send(const std::string& message) {
  const auto n = static_cast<uint32_t>(message.size());
  out_.append(reinterpret_cast<const char*>(&n), sizeof n);
  out_ += message;
  return flush();
}

bool Channel::flush() {
  size_t done = 0;
  while (done < out_.size()) {
    const ssize_t n = stream_->write(out_.data() + done, out_.size() - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      break;
    }
  }
  const bool ok = done == out_.size() || errno == EAGAIN;
  out_.erase(0, done);
  return ok;
}

bool Channel::receive(std::vector<std::string>* messages, uint32_t longest_first) {
  bool open = true;
  char buffer[16384];
  // At this size the first frame is complete, and the rest can wait.
  while (in_.size() < sizeof(uint32_t) + longest_first) {
    const ssize_t n = stream_->read(buffer, sizeof buffer);
    if (n > 0) {
      in_.append(buffer, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    open = n < 0 && errno == EAGAIN;
    break;
  }
  size_t at = 0;
  while (in_.size() - at >= sizeof(uint32_t)) {
    uint32_t n;
    std::memcpy(&n, in_.data() + at, sizeof n);
    if (n > (at == 0 ? longest_first : kLongestFrame)) return false;
    if (in_.size() - at - sizeof n < n) break;
    messages->emplace_back(in_, at + sizeof n, n);
    at += sizeof n + n;
  }
  in_.erase(0, at);
  return open;
}

}  // namespace cropdl::coord
