// See wire.h. A message's bytes are its members in order of declaration (base/fields.h). Adding, removing or
// moving a member requires a new kWireVersion.
#include "coord/wire.h"

#include <cstring>
#include <type_traits>

#include "base/fields.h"

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
  void operator()(const T& v) { each_field(v, *this); }
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
    if (b > 1) ok_ = false;  // any other value in a bool is undefined behaviour
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
    // Read element by element: a wrong count stops at the last byte, before it allocates memory.
    for (uint64_t i = 0; i < n && ok_; ++i) {
      v.emplace_back();
      (*this)(v.back());
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& v) { each_field(v, *this); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

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

std::string message_bytes(const Message& message) {
  Packer p;
  pack_variant(p, message);
  return std::move(p.bytes);
}

std::optional<Message> message_from_bytes(const std::string& bytes) {
  Unpacker u(bytes);
  uint8_t index = 0xff;
  u(index);
  std::optional<Message> m = unpack_variant<Message>(u, index);
  if (!u.all_used()) return std::nullopt;
  return m;
}

}  // namespace cropdl::coord
