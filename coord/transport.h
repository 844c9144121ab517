// The layer below Channel: byte streams between a job's processes on one host, and the identity of the peers.
// Hub, Link and the cropdl command use only this. Streams are nonblocking, their descriptors close-on-exec
// and high (base/file.h). Lower half (LH FS base) and tools; one thread at a time.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/result.h"

namespace cropdl::coord {

class Stream {  // a class with virtual functions for the tests
 public:
  virtual ~Stream() = default;
  virtual int fd() const = 0;  // for poll(2)
  // As write(2) and read(2) on a nonblocking socket. Writing to a closed stream raises no signal.
  virtual ssize_t write(const char* from, size_t bytes) = 0;
  virtual ssize_t read(char* to, size_t bytes) = 0;
  // The peer process, as far as the kernel can identify it. The job's token is checked later.
  virtual ucred peer() const = 0;  // pid 0: unknown, with user id -1
  // Becomes readable when the peer process has ended, even if its child still holds the stream. Empty if
  // unknown: then rely on the end of the stream.
  virtual Descriptor watch() const = 0;
  // The peer process has been stopped, by a signal or a debugger. False if unknown.
  virtual bool peer_is_stopped() const = 0;
};

class Listener {
 public:
  static Result<Listener> open();  // at a new address, which it draws

  int fd() const { return socket_.fd(); }                  // for poll(2)
  const std::string& address() const { return address_; }  // for connect_to(), as KIND:WHERE
  // Null: no connection is waiting; or one is (`*no_room`: fd() stays readable), but this process or the
  // machine lacks a descriptor or memory.
  std::unique_ptr<Stream> accept(bool* no_room) const;

 private:
  Listener(Descriptor socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  Descriptor socket_;
  std::string address_;
};

// `*refused`: nothing listens there.
Result<std::unique_ptr<Stream>> connect_to(const std::string& address, bool* refused);

}  // namespace cropdl::coord
