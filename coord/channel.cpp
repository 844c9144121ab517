// See channel.h. A frame is a length (32 bits, the machine's byte order: both ends are on one machine) and a
// body.
#include "coord/channel.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace cropdl::coord {

namespace {

constexpr uint32_t kLongest =
    64u << 20;  // a frame of more is nonsense: messages grow with ranks, not with data

socklen_t address_of(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t n = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), n);  // a leading zero byte: unix(7), abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
}

}  // namespace

Peer peer_of(const Descriptor& socket) {
  ucred c{};
  socklen_t n = sizeof c;
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &c, &n) != 0) return {0, UINT32_MAX};
  return {c.pid, c.uid};
}

Descriptor watch_process(int pid) {
  if (pid <= 0) return {};
  return move_high(Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
}

Result<Descriptor> listen_on(const std::string& abstract_name) {
  Descriptor s(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) return Error{"control plane: cannot make a socket: " + errno_text(errno)};
  sockaddr_un address;
  const socklen_t n = address_of(abstract_name, &address);
  if (bind(s.fd(), reinterpret_cast<const sockaddr*>(&address), n) != 0 || listen(s.fd(), 1024) != 0)
    return Error{"control plane: cannot listen at " + abstract_name + ": " + errno_text(errno)};
  return move_high(std::move(s));
}

Result<Descriptor> connect_to(const std::string& abstract_name, bool* refused) {
  *refused = false;
  Descriptor s(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) return Error{"control plane: cannot make a socket: " + errno_text(errno)};
  sockaddr_un address;
  const socklen_t n = address_of(abstract_name, &address);
  if (connect(s.fd(), reinterpret_cast<const sockaddr*>(&address), n) != 0) {
    *refused = errno == ECONNREFUSED;
    return Error{"control plane: cannot connect to " + abstract_name + ": " + errno_text(errno)};
  }
  return move_high(std::move(s));
}

bool Channel::send(const std::string& message) {
  const auto n = static_cast<uint32_t>(message.size());
  out_.append(reinterpret_cast<const char*>(&n), sizeof n);
  out_ += message;
  return flush();
}

bool Channel::flush() {
  size_t done = 0;
  while (done < out_.size()) {
    // MSG_NOSIGNAL: a rank that died must not kill this one by SIGPIPE.
    const ssize_t n = ::send(socket_.fd(), out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
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

bool Channel::receive(std::vector<std::string>* messages) {
  bool open = true;
  char buffer[16384];
  for (;;) {
    const ssize_t n = recv(socket_.fd(), buffer, sizeof buffer, 0);
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
    if (n > kLongest) return false;
    if (in_.size() - at - sizeof n < n) break;
    messages->emplace_back(in_, at + sizeof n, n);
    at += sizeof n + n;
  }
  in_.erase(0, at);
  return open;
}

}  // namespace cropdl::coord
