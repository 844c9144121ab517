// The layer below Channel: byte streams between a job's processes, and the identity of the peers. So far
// local sockets; another kind is one file and a row in transport.cpp. Hub, Link and the cropdl command use
// only this. Streams are nonblocking, their descriptors close-on-exec and high (base/file.h). Lower half (LH
// FS base) and tools; one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace cropdl::coord {

// The peer process, as far as the transport can identify it. The job's token is checked later.
struct PeerProcess {
  int pid = 0;              // 0: unknown, or on another host
  bool other_user = false;  // true only if certain
  bool administrator = false;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual int fd() const = 0;  // for poll(2)
  // As write(2) and read(2) on a nonblocking socket. Writing to a closed stream raises no signal.
  virtual ssize_t write(const char* from, size_t bytes) = 0;
  virtual ssize_t read(char* to, size_t bytes) = 0;
  virtual PeerProcess peer() const = 0;
  // Becomes readable when the peer process has ended, even if its child still holds the stream. Empty if
  // unknown: then rely on the end of the stream.
  virtual Descriptor watch() const = 0;
  // The peer process has been stopped, by a signal or a debugger. False if unknown.
  virtual bool peer_is_stopped() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual int fd() const = 0;                      // for poll(2)
  virtual const std::string& address() const = 0;  // for connect(), as KIND:WHERE
  // Null: no connection is waiting; or one is (`*no_room`: fd() stays readable), but this process or the
  // machine lacks a descriptor or memory.
  virtual std::unique_ptr<Stream> accept(bool* no_room) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* kind() const = 0;  // the prefix of its addresses, before the colon
  virtual bool reaches_other_hosts() const = 0;
  virtual Result<std::unique_ptr<Listener>> listen() const = 0;  // at a new address that it chooses
  // `*refused`: nothing listens there.
  virtual Result<std::unique_ptr<Stream>> connect(const std::string& address, bool* refused) const = 0;
};

const Transport& local_transport();
// The transport on which hubs listen.
const Transport& transport_of_hubs();
// The transport of this address; null: this CropDL does not know its kind.
const Transport* transport_of(const std::string& address);
// Connects by the address's transport.
Result<std::unique_ptr<Stream>> connect_to(const std::string& address, bool* refused);

}  // namespace cropdl::coord
