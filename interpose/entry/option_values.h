// What values of options may be, for CLI11. Tools.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace cropdl::entry {

// Validators check the text before CLI11 converts it, so that the message names the given text and not a
// type's limits.
CLI::Validator interval_value();      // "auto", "0", or seconds: from 1 ms to ten years
CLI::Validator percent_value();       // "0.5", "0.5%": from 0.001 to 100
CLI::Validator duration_value();      // "43200", "30m", "12h", "3d": 0, or from a second to a thousand years
CLI::Validator keep_value();          // "3", "3,24h,7d"
CLI::Validator version_value();       // a version's number
CLI::Validator device_count_value();  // number of software devices; "true": a flag without a value

std::string in_quotes(const std::string& text);  // its first 40 characters, for messages

// Conversions of texts that the validators have accepted; nothing if the text is no number.
std::optional<double> number(std::string text, const std::string& unit);  // with or without the unit
std::optional<double> duration(const std::string& text);                  // seconds
std::optional<double> moment(const std::string& text);  // "@" and seconds since 1970: a time limit that
                                                        // another command of this job has converted

}  // namespace cropdl::entry
