#include "interpose/launch/boot.h"

#include <unistd.h>

#include <cstdlib>

#include "base/json.h"
#include "base/time.h"

namespace cropdl::launching {

std::string boot_text(const Boot& b) {
  return nlohmann::json{{"restart", b.restart},
                        {"directory", json_bytes(b.directory)},
                        {"interval", b.interval},
                        {"max_overhead", b.max_overhead},
                        {"mtbf", b.mtbf},
                        {"ends_at", b.ends_at},
                        {"at_sigterm", b.at_sigterm},
                        {"keep", b.keep},
                        {"quiet", b.quiet},
                        {"log", b.log},
                        {"metrics", json_bytes(b.metrics)},
                        {"program", json_bytes(b.program)},
                        {"preload", json_bytes(b.preload)},
                        {"version", b.version},
                        {"installation", json_bytes(b.installation)},
                        {"sanitizer", b.sanitizer},
                        {"layout", b.layout},
                        {"personality", b.personality},
                        {"save_files", b.save_files},
                        {"by_reference", b.by_reference},
                        {"moved_variables", b.moved_variables},
                        {"files", b.files},
                        {"software_gpu", b.software_gpu},
                        {"software_gpus", b.software_gpus}}
      .dump();
}

Result<Boot> parse_boot(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Boot b;
    b.restart = json.at("restart").get<bool>();
    b.directory = bytes_from_json(json.at("directory"));
    b.interval = json.at("interval").get<std::string>();
    b.max_overhead = json.at("max_overhead").get<double>();
    b.mtbf = json.at("mtbf").get<double>();
    b.ends_at = json.at("ends_at").get<double>();
    b.at_sigterm = json.at("at_sigterm").get<std::string>();
    b.quiet = json.at("quiet").get<bool>();
    b.keep = json.at("keep").get<std::string>();
    b.log = json.at("log").get<std::string>();
    b.metrics = bytes_from_json(json.at("metrics"));
    b.program = bytes_from_json(json.at("program"));
    b.preload = bytes_from_json(json.at("preload"));
    b.version = integer_from_json<uint64_t>(json.at("version"));
    b.installation = bytes_from_json(json.at("installation"));
    b.sanitizer = json.at("sanitizer").get<std::string>();
    b.layout = integer_from_json<int>(json.at("layout"));
    b.personality = integer_from_json<unsigned long>(json.at("personality"));
    b.save_files = integer_from_json<uint64_t>(json.at("save_files"));
    b.by_reference = json.at("by_reference").get<bool>();
    b.moved_variables = json.at("moved_variables").get<bool>();
    b.files = json.at("files").get<std::string>();
    b.software_gpu = json.at("software_gpu").get<bool>();
    b.software_gpus = integer_from_json<int>(json.at("software_gpus"));
    return b;
  } catch (const nlohmann::json::exception&) {
    return Error{"this program is started by cropdl-run or cropdl-restart, not by hand"};
  }
}

coord::Schedule wanted_schedule(const Boot& boot, const coord::Schedule& former) {
  using Kind = coord::Schedule::Kind;
  coord::Schedule schedule = former;
  if (boot.max_overhead > 0) schedule.max_overhead = boot.max_overhead;
  if (boot.mtbf >= 0) schedule.mtbf = boot.mtbf;
  if (boot.max_overhead > 0 || boot.mtbf >= 0 || boot.interval == "auto") schedule.kind = Kind::kAutomatic;
  if (!boot.interval.empty() && boot.interval != "auto") {
    schedule.seconds = strtod(boot.interval.c_str(), nullptr);
    schedule.kind = schedule.seconds > 0 ? Kind::kEvery : Kind::kWhenAsked;
  }
  if (!boot.at_sigterm.empty()) schedule.at_sigterm = coord::at_sigterm_of(boot.at_sigterm);
  return schedule;
}

double time_limit(const Boot& boot, const coord::Schedule& schedule) {
  double at = boot.ends_at;
  // Slurm's estimate of the job's end, made when the job started (man 1 sbatch).
  const char* said = getenv("SLURM_JOB_END_TIME");
  if (at < 0 && said != nullptr && schedule.kind != coord::Schedule::Kind::kWhenAsked)
    at = strtod(said, nullptr);
  constexpr double kTenYears = 10 * 365.25 * 86400;
  const double left = at - unix_time();
  if (!(at > 0) || left > kTenYears) return 0;
  return left != 0 ? left : -1;
}

std::string software_gpu_directory(const std::string& installation) {
  for (const char* place : {"/software-gpu", "/../software-gpu"})  // installed; in a build folder
    if (access((installation + place + "/libcuda.so.1").c_str(), R_OK) == 0) return installation + place;
  return "";
}

void set_software_devices(Boot* boot) {
  constexpr const char* kDevices = "CROPDL_SOFTWARE_GPUS";
  if (!boot->software_gpu) return;
  if (boot->log == "json") setenv("CROPDL_LOG", "json", 1);  // they have their own copy of base/say
  if (boot->software_gpus != 0)
    setenv(kDevices, std::to_string(boot->software_gpus).c_str(), boot->restart ? 0 : 1);
  if (const char* said = getenv(kDevices)) boot->software_gpus = atoi(said);  // for the image
}

std::string software_library(const Boot& boot, const std::string& soname) {
  if (!boot.software_gpu) return "";
  const std::string path = software_gpu_directory(boot.installation) + "/" + soname;
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

}  // namespace cropdl::launching
