// JSON as the store writes it: one object with its own checksum, byte strings that need not be UTF-8, numbers
// that are not cut. For the readers and writers of our JSON files, who catch what reading throws.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/result.h"

namespace cropdl {

[[noreturn]] void throw_wrong_json_type(const std::string& expected);  // throws nlohmann::json::type_error

// The text as JSON; discarded if it is none, or so deep or of so many values that it is not ours.
nlohmann::json json_from_text(const std::string& text);

// A string that is valid UTF-8 stands as it is, any other (paths and arguments may be) as {"hex": "…"}.
nlohmann::json json_bytes(const std::string& bytes);
nlohmann::json json_bytes(const std::vector<std::string>& list);
std::string bytes_from_json(const nlohmann::json& value);              // throws nlohmann::json::exception
std::vector<std::string> list_from_json(const nlohmann::json& value);  // likewise

// A whole number that T can hold: nlohmann's own conversions wrap and cut without a word. Throws likewise.
template <class T>
T integer_from_json(const nlohmann::json& value) {
  if (value.is_number_unsigned() && std::in_range<T>(value.get<uint64_t>()))
    return static_cast<T>(value.get<uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<int64_t>()))
    return static_cast<T>(value.get<int64_t>());
  throw_wrong_json_type(formatted("a whole number from {} to {}", std::numeric_limits<T>::min(),
                                  std::numeric_limits<T>::max()));
}

// 64-bit numbers that must survive tools which know only doubles: "0x…", 16 digits.
std::string hex_text(uint64_t value);
uint64_t hex_from_json(const nlohmann::json& value);

// The object as text, with "checksum": XXH3-64 of its compact form without that member.
std::string sealed_text(nlohmann::json object);

// The reverse: checks that `text` is an object with the right checksum and at most `newest_format` in its
// member "format". `where` opens the error's line.
Result<nlohmann::json> unsealed(const std::string& text, const std::string& where, uint32_t newest_format);

}  // namespace cropdl
