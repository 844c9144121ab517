// A value or an error (one line for users: what failed, which rank, why, what to do). LH, tools; any thread.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"

namespace cropdl {

// Error{"{}: cannot be opened: {}", path, why} has its text formatted (base/format.h).
struct Error {
  std::string message;

  Error() = default;
  Error(std::string text) : message(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  template <class... A>
  requires(sizeof...(A) > 0) Error(fmt::format_string<A...> text, A&&... arguments)
      : message(formatted(text, std::forward<A>(arguments)...)) {}
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : ok_(false), error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return ok_; }
  const Error& error() const { return error_; }

 private:
  bool ok_ = true;
  Error error_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return error_; }
  Status move_to(T& target) {  // leaves `target` alone if this is an error
    if (value_) target = std::move(*value_);
    return value_ ? Status() : error_;
  }

 private:
  std::optional<T> value_;
  Error error_;
};

// Returns the text of an errno value ("No space left on device"), never only a number.
inline std::string errno_text(int error_number) {
  char buffer[128];
  return strerror_r(error_number, buffer, sizeof buffer);  // the GNU form: thread-safe, returns the text
}

}  // namespace cropdl
