// See channel.h. A frame is a 32-bit length in the machine's byte order, then the body.
#include "coord/channel.h"

#include <cerrno>
#include <cstring>

namespace cropdl::coord {

Frame frame_of(const std::string& message) {
  if (message.size() > kLongestFrame) return nullptr;
  const auto n = static_cast<uint32_t>(message.size());
  std::string frame;
  frame.reserve(sizeof n + n);
  frame.append(reinterpret_cast<const char*>(&n), sizeof n);
  frame += message;
  return std::make_shared<const std::string>(std::move(frame));
}

bool Channel::send(const Frame& frame) {
  if (!frame) return false;
  out_.push_back(frame);
  return flush();
}

bool Channel::flush() {
  while (!out_.empty()) {
    const std::string& frame = *out_.front();
    const ssize_t n = stream_->write(frame.data() + written_, frame.size() - written_);
    if (n > 0) {
      written_ += static_cast<size_t>(n);
      if (written_ < frame.size()) continue;
      out_.pop_front();
      written_ = 0;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
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
