// each_field(value, visit) calls visit(member) for each member of a plain struct, in declaration order. For
// aggregates with at most eight members and no base; no member may be an array or a reference. Any thread.
#pragma once

#include <cstddef>
#include <type_traits>

namespace cropdl {

namespace fields {

struct Anything {  // never constructed; converts to any member's type
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

// An aggregate takes as many initializers as it has members.
template <class T, class... Given>
consteval size_t count() {
  if constexpr (requires { T{Given{}..., Anything{}}; })
    return count<T, Given..., Anything>();
  else
    return sizeof...(Given);
}

}  // namespace fields

template <class T, class Visit>
void each_field(T& value, Visit&& visit) {
  constexpr size_t n = fields::count<std::remove_const_t<T>>();
  static_assert(n <= 8, "more members than each_field() has a line for");
  if constexpr (n == 1) {
    auto& [a] = value;
    visit(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = value;
    visit(a), visit(b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = value;
    visit(a), visit(b), visit(c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = value;
    visit(a), visit(b), visit(c), visit(d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = value;
    visit(a), visit(b), visit(c), visit(d), visit(e);
  } else if constexpr (n == 6) {
    auto& [a, b, c, d, e, f] = value;
    visit(a), visit(b), visit(c), visit(d), visit(e), visit(f);
  } else if constexpr (n == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    visit(a), visit(b), visit(c), visit(d), visit(e), visit(f), visit(g);
  } else if constexpr (n == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    visit(a), visit(b), visit(c), visit(d), visit(e), visit(f), visit(g), visit(h);
  }
}

}  // namespace cropdl
