// Framed messages between the processes of a job (and the cropdl command) over a stream of any transport.
// Nonblocking. Lower half (LH FS base) and tools; any one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coord/transport.h"

namespace cropdl::coord {

class Channel {
 public:
  explicit Channel(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  int fd() const { return stream_->fd(); }
  const Stream& stream() const { return *stream_; }
  bool wants_write() const { return !out_.empty(); }
  // Queues a message and sends what the stream takes. False: the connection is broken.
  bool send(const std::string& message);
  bool flush();
  // Appends the complete messages that have arrived. False: the other end has closed or sent nonsense.
  bool receive(std::vector<std::string>* messages);

 private:
  std::unique_ptr<Stream> stream_;
  std::string in_;
  std::string out_;
};

}  // namespace cropdl::coord
