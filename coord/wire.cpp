// See wire.h. One list of fields per message serves both directions.
#include "coord/wire.h"

#include <cstring>
#include <type_traits>

namespace cropdl::coord {

namespace {

class Packer {
 public:
  std::string bytes;
  bool ok() const { return true; }

  void operator()(const std::string& v) {
    (*this)(static_cast<uint64_t>(v.size()));
    bytes += v;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(const T& v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof v); }
  template <class T>
  void operator()(const std::vector<T>& v) {
    (*this)(static_cast<uint64_t>(v.size()));
    for (const T& x : v) (*this)(x);
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(const T& v) { fields(*this, const_cast<T&>(v)); }
};

class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  bool all_used() const { return ok_ && at_ == bytes_.size(); }

  void operator()(std::string& v) {
    uint64_t n = 0;
    (*this)(n);
    if (!ok_ || n > bytes_.size() - at_) {
      ok_ = false;
      return;
    }
    v.assign(bytes_, at_, n);
    at_ += n;
  }
  void operator()(bool& v) {
    uint8_t b = 0;
    (*this)(b);
    if (b > 1) ok_ = false;  // a bool that holds anything else is undefined behaviour
    v = b == 1;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(T& v) {
    if (!ok_ || bytes_.size() - at_ < sizeof v) {
      ok_ = false;
      return;
    }
    std::memcpy(&v, bytes_.data() + at_, sizeof v);
    at_ += sizeof v;
  }
  template <class T>
  void operator()(std::vector<T>& v) {
    uint64_t n = 0;
    (*this)(n);
    // Element by element: a false count ends at the last byte, before it can ask for memory.
    for (uint64_t i = 0; i < n && ok_; ++i) {
      v.emplace_back();
      (*this)(v.back());
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& v) { fields(*this, v); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

template <class P>
void fields(P& p, CollectiveCount& m) {
  p(m.comm), p(m.begun);
}
template <class P>
void fields(P& p, PeerCount& m) {
  p(m.world_rank), p(m.messages);
}
template <class P>
void fields(P& p, Standing& m) {
  p(m.counts), p(m.inside), p(m.held), p(m.progress), p(m.starting), p(m.refusal);
}
template <class P>
void fields(P& p, ImageSummary& m) {
  p(m.file), p(m.bytes), p(m.memory), p(m.checksum), p(m.seconds);
}
template <class P>
void fields(P& p, Outcome& m) {
  p(m.published), p(m.version), p(m.bytes), p(m.stall_seconds), p(m.attempts), p(m.line);
}

template <class P>
void fields(P& p, Hold& m) {
  p(m.attempt);
}
template <class P>
void fields(P& p, Targets& m) {
  p(m.attempt), p(m.revision), p(m.targets);
}
template <class P>
void fields(P& p, Stop& m) {
  p(m.attempt);
}
template <class P>
void fields(P& p, Drain& m) {
  p(m.attempt), p(m.revision), p(m.expected);
}
template <class P>
void fields(P& p, Write& m) {
  p(m.attempt), p(m.directory);
}
template <class P>
void fields(P& p, Resume& m) {
  p(m.attempt);
}

template <class P>
void fields(P& p, Stands& m) {
  p(m.attempt), p(m.revision), p(m.standing);
}
template <class P>
void fields(P& p, Sent& m) {
  p(m.attempt), p(m.stopped), p(m.sent);
}
template <class P>
void fields(P& p, Drained& m) {
  p(m.attempt), p(m.revision);
}
template <class P>
void fields(P& p, Written& m) {
  p(m.attempt), p(m.image);
}
template <class P>
void fields(P& p, Refused& m) {
  p(m.attempt), p(m.reason);
}
template <class P>
void fields(P& p, Failed& m) {
  p(m.attempt), p(m.reason);
}

template <class P>
void fields(P& p, Hello& m) {
  p(m.wire_version), p(m.token), p(m.run_id), p(m.rank);
}
template <class P>
void fields(P&, Welcome&) {}
template <class P>
void fields(P& p, Rejected& m) {
  p(m.reason);
}
template <class P>
void fields(P&, Bye&) {}
template <class P>
void fields(P& p, ExchangeMine& m) {
  p(m.round), p(m.text);
}
template <class P>
void fields(P& p, ExchangeAll& m) {
  p(m.round), p(m.texts), p(m.failure);
}
template <class P>
void fields(P&, AskCheckpoint&) {}
template <class P>
void fields(P&, AskStatus&) {}
template <class P>
void fields(P&, Accepted&) {}
template <class P>
void fields(P& p, Done& m) {
  p(m.outcome);
}
template <class P>
void fields(P& p, StatusIs& m) {
  p(m.phase), p(m.ranks), p(m.joined), p(m.last_version), p(m.last_line);
}

template <class V>
void pack_variant(Packer& p, const V& v) {
  p(static_cast<uint8_t>(v.index()));
  std::visit(
      [&](const auto& m) {
        if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Order> ||
                      std::is_same_v<std::decay_t<decltype(m)>, Report>)
          pack_variant(p, m);
        else
          p(m);
      },
      v);
}

template <class V, size_t I = 0>
std::optional<V> unpack_variant(Unpacker& u, uint8_t index) {
  if constexpr (I < std::variant_size_v<V>) {
    if (index != I) return unpack_variant<V, I + 1>(u, index);
    using T = std::variant_alternative_t<I, V>;
    if constexpr (std::is_same_v<T, Order> || std::is_same_v<T, Report>) {
      uint8_t inner = 0xff;
      u(inner);
      if (std::optional<T> v = unpack_variant<T>(u, inner)) return V(std::in_place_index<I>, std::move(*v));
      return std::nullopt;
    } else {
      T v{};
      u(v);
      if (!u.ok()) return std::nullopt;
      return V(std::in_place_index<I>, std::move(v));
    }
  } else {
    return std::nullopt;
  }
}

}  // namespace

std::string to_bytes(const Message& message) {
  Packer p;
  pack_variant(p, message);
  return std::move(p.bytes);
}

std::optional<Message> from_bytes(const std::string& bytes) {
  Unpacker u(bytes);
  uint8_t index = 0xff;
  u(index);
  std::optional<Message> m = unpack_variant<Message>(u, index);
  if (!u.all_used()) return std::nullopt;
  return m;
}

}  // namespace cropdl::coord
