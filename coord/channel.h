// Framed messages over any transport's stream, between a job's processes and the cropdl command. Nonblocking.
// Lower half (LH FS base) and tools; one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "coord/transport.h"

namespace cropdl::coord {

// Bytes of a frame; a longer one is invalid. Messages grow with ranks, communicators and files.
inline constexpr uint32_t kLongestFrame = 64u << 20;
// Of the first one, by which the peer shows that it belongs to the job (Hello).
inline constexpr uint32_t kLongestFirstFrame = 64u << 10;

// A message with its length in front, for any number of channels. Empty: the message is too long.
using Frame = std::shared_ptr<const std::string>;
Frame frame_of(const std::string& message);

class Channel {
 public:
  explicit Channel(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  int fd() const { return stream_->fd(); }
  const Stream& stream() const { return *stream_; }
  bool wants_write() const { return !out_.empty(); }
  // Queues a message and sends as much as the stream accepts. False: the connection is broken, or the message
  // is too long, and nothing of it was sent.
  bool send(const std::string& message) { return send(frame_of(message)); }
  bool send(const Frame& frame);
  bool flush();
  // Appends all complete messages received. False: the peer closed the stream or sent an invalid frame.
  // `longest_first`: limit for the first of them.
  bool receive(std::vector<std::string>* messages, uint32_t longest_first = kLongestFrame);

 private:
  std::unique_ptr<Stream> stream_;
  std::string in_;
  std::deque<Frame> out_;
  size_t written_ = 0;  // bytes of the first of them
};

}  // namespace cropdl::coord
