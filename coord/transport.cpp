// Stream sockets in the abstract namespace (unix(7)): within one host, or one network namespace of a host.
#include "coord/transport.h"

#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/procfs.h"
#include "base/random.h"

namespace cropdl::coord {

namespace {

constexpr const char* kKind = "local:";  // begins the addresses: a later version may have others, too

socklen_t address_of(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t n = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), n);  // abstract: a leading zero byte, unix(7)
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
}

class LocalStream final : public Stream {
 public:
  explicit LocalStream(Descriptor socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.fd(); }
  // MSG_NOSIGNAL: writing to a dead rank must not kill this one by SIGPIPE.
  ssize_t write(const char* from, size_t bytes) override {
    return ::send(socket_.fd(), from, bytes, MSG_NOSIGNAL);
  }
  ssize_t read(char* to, size_t bytes) override { return ::recv(socket_.fd(), to, bytes, 0); }

  // The kernel recorded the process when it connected or listened.
  ucred peer() const override {
    ucred c{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
    socklen_t n = sizeof c;
    ::getsockopt(socket_.fd(), SOL_SOCKET, SO_PEERCRED, &c, &n);
    return c;
  }
  Descriptor watch() const override {
    const int pid = peer().pid;
    if (pid <= 0) return {};  // in another pid namespace
    const DescriptorInHand opening;
    return move_high(Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
  }
  bool peer_is_stopped() const override {
    const int pid = peer().pid;
    const std::string state = pid > 0 ? process_stat(std::to_string(pid), 3) : "";
    return state == "T" || state == "t";
  }

 private:
  Descriptor socket_;
};

Result<Descriptor> new_socket() {
  const DescriptorInHand opening;
  Descriptor s(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) return Error{"control plane: cannot make a socket: " + errno_text(errno)};
  return s;
}

}  // namespace

Result<Listener> Listener::open() {
  const std::string name = "cropdl-" + random_hex(16);
  Result<Descriptor> s = new_socket();
  if (!s) return s.error();
  sockaddr_un address;
  const socklen_t n = address_of(name, &address);
  if (::bind(s->fd(), reinterpret_cast<const sockaddr*>(&address), n) != 0 || ::listen(s->fd(), 1024) != 0)
    return Error{"control plane: cannot listen at {}: {}", name, errno_text(errno)};
  return Listener(move_high(std::move(*s)), kKind + name);
}

std::unique_ptr<Stream> Listener::accept(bool* no_room) const {
  const DescriptorInHand opening;
  Descriptor s(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  *no_room = !s && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
  if (!s) return nullptr;
  return std::make_unique<LocalStream>(move_high(std::move(s)));
}

Result<std::unique_ptr<Stream>> connect_to(const std::string& at, bool* refused) {
  *refused = false;
  if (!at.starts_with(kKind))
    return Error{"control plane: {} is no address that this version of CropDL can connect to", at};
  Result<Descriptor> s = new_socket();
  if (!s) return s.error();
  const std::string name = at.substr(std::strlen(kKind));
  sockaddr_un address;
  const socklen_t n = address_of(name, &address);
  if (::connect(s->fd(), reinterpret_cast<const sockaddr*>(&address), n) != 0) {
    *refused = errno == ECONNREFUSED;
    return Error{"control plane: cannot connect to {}: {}", name, errno_text(errno)};
  }
  return std::unique_ptr<Stream>(std::make_unique<LocalStream>(move_high(std::move(*s))));
}

}  // namespace cropdl::coord
