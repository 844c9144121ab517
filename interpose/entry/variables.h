// Variables that stand for options of cropdl-run. libcropdl.so reads them when it enters a program, and
// cropdl-run sets them for a program that a starter starts later.
#pragma once

namespace cropdl::entry {

struct Variable {
  // The option's: "--quiet" (not for "" and "0"), "--dir DIR", "--software-gpu=N".
  enum Value { kNone, kNextWord, kSameWord };
  const char* name;
  const char* option;
  Value value;
};
inline constexpr Variable kVariables[] = {
    {"CROPDL_DIR", "--dir", Variable::kNextWord},
    {"CROPDL_INTERVAL", "--interval", Variable::kNextWord},
    {"CROPDL_MAX_OVERHEAD", "--max-overhead", Variable::kNextWord},
    {"CROPDL_MTBF", "--mtbf", Variable::kNextWord},
    {"CROPDL_TIME_LIMIT", "--time-limit", Variable::kNextWord},
    {"CROPDL_AT_SIGTERM", "--at-sigterm", Variable::kNextWord},
    {"CROPDL_KEEP", "--keep", Variable::kNextWord},
    {"CROPDL_METRICS", "--metrics", Variable::kNextWord},
    {"CROPDL_QUIET", "--quiet", Variable::kNone},
    {"CROPDL_LOG", "--log", Variable::kNextWord},
    {"CROPDL_SAVE_FILES", "--save-files", Variable::kNextWord},
    {"CROPDL_BY_REFERENCE", "--by-reference", Variable::kNone},
    {"CROPDL_COMPRESS", "--compress", Variable::kNone},
    {"CROPDL_ON_SOFTWARE_GPUS", "--software-gpu", Variable::kSameWord},
    {"CROPDL_SOFTWARE_NCCL", "--software-nccl", Variable::kNone},
};

}  // namespace cropdl::entry
