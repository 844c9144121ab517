#include "base/json.h"

#include <optional>

#include "base/checksum.h"
#include "base/words.h"

namespace cropdl {

using nlohmann::json;

namespace {

// nlohmann's serializer accepts only valid UTF-8.
bool is_utf8(const std::string& bytes) {
  try {
    (void)json(bytes).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

// nlohmann's serializer recurses, and CropDL's files are flat. A value takes two bytes of text and up to a
// hundred bytes of memory; a manifest of a million ranks has about eight million values.
constexpr int kDeepest = 32;
constexpr size_t kMostValues = 1 << 25;

}  // namespace

bool exceeds_json_limits(const std::string& text) {
  int depth = 0;
  size_t values = 1;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{') && (++values, ++depth > kDeepest))
      return true;
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
    else if (!quoted && c == ',')
      ++values;
  }
  return values > kMostValues;
}

void throw_wrong_json_type(const std::string& expected) {
  throw json::type_error::create(302, "expected " + expected, static_cast<const json*>(nullptr));
}

json json_from_text(const std::string& text) {
  return exceeds_json_limits(text) ? json(json::value_t::discarded) : json::parse(text, nullptr, false);
}

json json_bytes(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  return json{{"hex", hex_digits(bytes.data(), bytes.size())}};
}

json json_bytes(const std::vector<std::string>& list) {
  json array = json::array();
  for (const std::string& bytes : list) array.push_back(json_bytes(bytes));
  return array;
}

std::string bytes_from_json(const json& value) {
  if (!value.is_object()) return value.get<std::string>();
  std::optional<std::string> bytes = bytes_of_hex(value.at("hex").get<std::string>());
  if (!bytes) throw_wrong_json_type("hexadecimal digits");
  return *bytes;
}

std::vector<std::string> list_from_json(const json& value) {
  if (!value.is_array()) throw_wrong_json_type("a list");
  std::vector<std::string> list;
  for (const json& item : value) list.push_back(bytes_from_json(item));
  return list;
}

std::string hex_text(uint64_t value) { return formatted("0x{:016x}", value); }

uint64_t hex_from_json(const json& value) {
  std::string text = value.get<std::string>();
  if (text.size() != 18 || text.compare(0, 2, "0x") != 0 ||
      text.find_first_not_of("0123456789abcdef", 2) != std::string::npos)
    throw_wrong_json_type("0x and 16 hexadecimal digits");
  return std::stoull(text.substr(2), nullptr, 16);
}

std::string sealed_text(json object) {
  object.erase("checksum");
  object["checksum"] = hex_text(checksum(object.dump()));
  return object.dump(2) + "\n";
}

Result<json> unsealed(const std::string& text, const std::string& where, uint32_t newest_format) {
  try {
    json object = json_from_text(text);
    if (object.is_discarded() || !object.is_object())
      return Error{where + ": damaged: it is not a JSON object"};
    uint64_t recorded = hex_from_json(object.at("checksum"));
    object.erase("checksum");
    if (checksum(object.dump()) != recorded) return Error{where + ": damaged: its checksum differs"};
    uint64_t format = integer_from_json<uint64_t>(object.at("format"));
    if (format > newest_format)
      return Error{"{}: was written by a newer CropDL (format {}, this one reads {}); use that one", where,
                   format, newest_format};
    return object;
  } catch (const std::exception& e) {
    return Error{"{}: damaged: {}", where, e.what()};
  }
}

}  // namespace cropdl
