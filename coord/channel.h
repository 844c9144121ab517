// Framed messages between the processes of a job (and the cropdl command) over local stream sockets in the
// abstract namespace. Nonblocking; descriptors are close-on-exec and high (base/file.h). Lower half (LH FS
// base) and tools; any one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace cropdl::coord {

// The process at the other end, as the kernel saw it when it connected or listened.
struct Peer {
  int pid = 0;
  uint32_t uid = 0;
};
Peer peer_of(const Descriptor& socket);
// Becomes readable when the process ends, also while a child of it holds our sockets. Empty where the kernel
// or a pid namespace gives none.
Descriptor watch_process(int pid);

Result<Descriptor> listen_on(const std::string& abstract_name);
// The error's `refused` kind (nobody listens there) is told by `*refused`.
Result<Descriptor> connect_to(const std::string& abstract_name, bool* refused);

class Channel {
 public:
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.fd(); }
  bool wants_write() const { return !out_.empty(); }
  // Queues a message and sends what the socket takes. False: the connection is broken.
  bool send(const std::string& message);
  bool flush();
  // Appends the complete messages that have arrived. False: the other end has closed or sent nonsense.
  bool receive(std::vector<std::string>* messages);

 private:
  Descriptor socket_;
  std::string in_;
  std::string out_;
};

}  // namespace cropdl::coord
