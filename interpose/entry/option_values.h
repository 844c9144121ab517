// What values of options may be, for CLI11. Tools.
#pragma once

#include <optional>
#include <string>

namespace cropdl::entry {

// Checks for CLI11, before it converts the text: "" or a line that names the text, not a type's limits.
std::string not_an_interval(const std::string& text);     // "auto", "0", or seconds: from 1 ms to ten years
std::string not_a_percentage(const std::string& text);    // "0.5", "0.5%": from 0.001 to 100
std::string not_a_duration(const std::string& text);      // "43200", "3d": 0, or 1 s to a thousand years
std::string not_a_time_limit(const std::string& text);    // the same, or a moment
std::string not_a_retention(const std::string& text);     // "3", "3,24h,7d"
std::string not_a_version(const std::string& text);       // a version's number
std::string not_a_device_count(const std::string& text);  // "true": a flag without a value

std::string in_quotes(const std::string& text);  // its first 40 characters, for messages

// Conversions of texts that the validators have accepted; nothing if the text is no number.
std::optional<double> number(std::string text, const std::string& unit);  // with or without the unit
std::optional<double> duration(const std::string& text);                  // seconds
std::optional<double> moment(const std::string& text);  // "@" and seconds since 1970: a time limit that
                                                        // another command of this job has converted

}  // namespace cropdl::entry
