// JSON as the store writes it: one object with its own checksum, byte strings that need not be UTF-8,
// integers without truncation. Callers catch the exceptions that reading throws.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fields.h"
#include "base/format.h"
#include "base/result.h"

namespace cropdl {

[[noreturn]] void throw_wrong_json_type(const std::string& expected);  // throws nlohmann::json::type_error

// A discarded value if it is not JSON, or is nested too deep or has too many values for a file of CropDL.
nlohmann::json json_from_text(const std::string& text);
// Whether it is refused for its depth or number of values. A writer of what may be long asks before it
// writes: what cannot be read again is no checkpoint.
bool exceeds_json_limits(const std::string& text);

// Valid UTF-8 is stored as a string; other bytes (paths and arguments may have them) as {"hex": "…"}.
nlohmann::json json_bytes(const std::string& bytes);
nlohmann::json json_bytes(const std::vector<std::string>& list);
std::string bytes_from_json(const nlohmann::json& value);              // throws nlohmann::json::exception
std::vector<std::string> list_from_json(const nlohmann::json& value);  // likewise

// A whole number that T can hold; nlohmann's own conversions wrap and truncate silently. Throws likewise.
template <class T>
T integer_from_json(const nlohmann::json& value) {
  if (value.is_number_unsigned() && std::in_range<T>(value.get<uint64_t>()))
    return static_cast<T>(value.get<uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<int64_t>()))
    return static_cast<T>(value.get<int64_t>());
  throw_wrong_json_type(formatted("a whole number from {} to {}", std::numeric_limits<T>::min(),
                                  std::numeric_limits<T>::max()));
}

// 64-bit numbers as "0x…" with 16 digits, for tools that read numbers as doubles.
std::string hex_text(uint64_t value);
uint64_t hex_from_json(const nlohmann::json& value);

// Write and read a struct by its list of members, which is in the struct's namespace. (nlohmann's own macros,
// NLOHMANN_DEFINE_TYPE_…, have neither byte strings nor checked numbers.)
//   template <class Visit>
//   void list_members(T& t, Visit&& member) { member("fd", t.fd); member.hex("checksum", t.checksum); … }
struct JsonWriter {
  nlohmann::json object = nlohmann::json::object();

  template <class T>
  void operator()(const char* key, const T& member) {
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>)
      object[key] = json_bytes(member);
    else
      object[key] = member;
  }
  void hex(const char* key, uint64_t member) { object[key] = hex_text(member); }
  template <class T>
  void since(const char* key, const T& member) {
    (*this)(key, member);
  }
};
struct JsonReader {
  const nlohmann::json& object;

  template <class T>
  void operator()(const char* key, T& member) const {  // throws nlohmann::json::exception
    const nlohmann::json& value = object.at(key);
    if constexpr (std::is_same_v<T, std::string>)
      member = bytes_from_json(value);
    else if constexpr (std::is_same_v<T, std::vector<std::string>>)
      member = list_from_json(value);
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      member = integer_from_json<T>(value);
    else
      value.get_to(member);
  }
  void hex(const char* key, uint64_t& member) const { member = hex_from_json(object.at(key)); }
  // A member that objects of older programs lack: it keeps its value then.
  template <class T>
  void since(const char* key, T& member) const {
    if (object.contains(key)) (*this)(key, member);
  }
};
// A plain struct of at most eight members may have their names instead, in order. '?': read by since().
//   static constexpr const char* kMembers[] = {"fd", "?owner"};
template <class T, class Visit>
requires requires { T::kMembers; }
void list_members(T& t, Visit&& member) {
  static_assert(std::size(T::kMembers) == fields::count<T>());
  each_field(t, [&member, name = &T::kMembers[0]](auto& value) mutable {
    const char* const key = *name++;
    if (*key == '?')
      member.since(key + 1, value);
    else
      member(key, value);
  });
}
template <class T>
concept HasListedMembers = requires(T& t, JsonWriter& writer) {
  list_members(t, writer);
};

// Returns the object as text, with "checksum": XXH3-64 of its compact form without that member.
std::string sealed_text(nlohmann::json object);

// Parses what sealed_text() wrote. Checks that `text` is an object with the right checksum, and its member
// "format" at most `newest_format`. `where` begins the error's line.
Result<nlohmann::json> unsealed(const std::string& text, const std::string& where, uint32_t newest_format);

}  // namespace cropdl

template <cropdl::HasListedMembers T>
struct nlohmann::adl_serializer<T> {
  static void to_json(json& j, const T& t) {
    cropdl::JsonWriter writer;
    list_members(const_cast<T&>(t), writer);
    j = std::move(writer.object);
  }
  static void from_json(const json& j, T& t) {
    list_members(t, cropdl::JsonReader{j});
  }  // throws json::exception
};
