// See wire.h. A message's bytes: its members in order (base/fields.h). A change needs a new kWireVersion.
#include "coord/wire.h"

#include <cstring>
#include <type_traits>

#include "base/fields.h"

namespace cropdl::coord {

namespace {

class Packer {
 public:
  std::string bytes;

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
  template <class... A>
  void operator()(const std::variant<A...>& v) {
    (*this)(static_cast<uint8_t>(v.index()));
    std::visit(*this, v);
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(const T& v) { each_field(v, *this); }
};

class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : bytes_(bytes) {}
  bool all_used() const { return ok_ && at_ == bytes_.size(); }

  void operator()(std::string& v) {
    uint64_t n = 0;
    (*this)(n);
    if (!has(n)) return;
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
    if (!has(sizeof v)) return;
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
  template <class... A>
  void operator()(std::variant<A...>& v) {
    uint8_t index = 0xff;
    (*this)(index);
    size_t i = 0;
    if (!((i++ == index && ((*this)(v.template emplace<A>()), true)) || ...)) ok_ = false;
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& v) { each_field(v, *this); }

 private:
  bool has(uint64_t n) {
    ok_ = ok_ && n <= bytes_.size() - at_;
    return ok_;
  }

  const std::string& bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace

std::string message_bytes(const Message& message) {
  Packer p;
  p(message);
  return std::move(p.bytes);
}

std::optional<Message> message_from_bytes(const std::string& bytes) {
  Unpacker u(bytes);
  Message m;
  u(m);
  if (!u.all_used()) return std::nullopt;
  return m;
}

}  // namespace cropdl::coord
