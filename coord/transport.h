// What lies below a Channel: byte streams between the processes of a job, and who is at their other ends.
// Today one kind, local sockets; another is one more file and a row in transport.cpp. Hub, Link and the
// cropdl command know only this. Streams are nonblocking, their descriptors close-on-exec and high
// (base/file.h). Lower half (LH FS base) and tools; any one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace cropdl::coord {

// The process at the other end, as the transport can vouch for it: who knows the job's token is a question
// for later.
struct PeerProcess {
  int pid = 0;              // 0: not known, or not on this host
  bool other_user = false;  // for certain
  bool administrator = false;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual int fd() const = 0;  // for poll(2)
  // As write(2) and read(2) on a nonblocking socket; writing to an end that is gone raises no signal.
  virtual ssize_t write(const char* from, size_t bytes) = 0;
  virtual ssize_t read(char* to, size_t bytes) = 0;
  virtual PeerProcess peer() const = 0;
  // Becomes readable when the process at the other end has ended, also while a child of it holds the stream.
  // Empty where that cannot be told: then the stream's own end must do.
  virtual Descriptor watch() const = 0;
  // That process has been stopped, by a signal or a debugger. False where that cannot be told.
  virtual bool peer_is_stopped() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual int fd() const = 0;                      // for poll(2)
  virtual const std::string& address() const = 0;  // for connect(): KIND:WHERE
  // Null: nobody is waiting, or somebody is (`*no_room`: fd() stays readable) and this process or the machine
  // has no descriptor or memory left for that.
  virtual std::unique_ptr<Stream> accept(bool* no_room) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* kind() const = 0;  // an address begins with it and a colon
  virtual bool reaches_other_hosts() const = 0;
  virtual Result<std::unique_ptr<Listener>> listen() const = 0;  // at a new address of its choice
  // `*refused`: nobody listens there.
  virtual Result<std::unique_ptr<Stream>> connect(const std::string& address, bool* refused) const = 0;
};

const Transport& local_transport();
// By which a hub can be reached: rank 0 listens there.
const Transport& transport_of_hubs();
// The one whose address that is; null: no kind that this CropDL knows.
const Transport* transport_of(const std::string& address);
// By the transport whose address that is.
Result<std::unique_ptr<Stream>> connect_to(const std::string& address, bool* refused);

}  // namespace cropdl::coord
