#include "interpose/launch/boot.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "base/json.h"
#include "base/time.h"

namespace cropdl::launching {

template <class Visit>
static void list_members(Boot& b, Visit&& member) {
  member("restart", b.restart);
  member("directory", b.directory);
  member("interval", b.interval);
  member("max_overhead", b.max_overhead);
  member("mtbf", b.mtbf);
  member("ends_at", b.ends_at);
  member("at_sigterm", b.at_sigterm);
  member("keep", b.keep);
  member("quiet", b.quiet);
  member("log", b.log);
  member("metrics", b.metrics);
  member("program", b.program);
  member("script", b.script);
  member("preload", b.preload);
  member("version", b.version);
  member("installation", b.installation);
  member("sanitizer", b.sanitizer);
  member("layout", b.layout);
  member("personality", b.personality);
  member("save_files", b.save_files);
  member("by_reference", b.by_reference);
  member("compress", b.compress);
  member("moved_variables", b.moved_variables);
  member("files", b.files);
  member("software_gpu", b.software_gpu);
  member("software_gpus", b.software_gpus);
  member("software_nccl", b.software_nccl);
}

std::string boot_text(const Boot& b) { return nlohmann::json(b).dump(); }

Result<Boot> parse_boot(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<Boot>();
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

double time_limit(const Boot& boot, const coord::Schedule& schedule, std::string* note) {
  double at = boot.ends_at;
  // Slurm's estimate of the job's end, made when the job started (man 1 sbatch).
  const char* said = getenv("SLURM_JOB_END_TIME");
  if (at < 0 && said != nullptr && schedule.kind != coord::Schedule::Kind::kWhenAsked) {
    char* end = nullptr;
    at = strtod(said, &end);
    if (end == said || *end != 0 || !std::isfinite(at) || at < 0) {
      at = 0;
      *note = formatted(
          "SLURM_JOB_END_TIME={} is no time in seconds since 1970, so no last version is taken before the "
          "batch system's limit; set it by --time-limit",
          said);
    }
  }
  constexpr double kTenYears = 10 * 365.25 * 86400;
  const double left = at - unix_time();
  if (!(at > 0) || left > kTenYears) return 0;
  return left != 0 ? left : -1;
}

constexpr const char* kNccl = "libnccl.so.2";

// The folder of that name which has the file; "": it is not installed.
static std::string folder_with(const std::string& installation, const std::string& name,
                               const std::string& file) {
  for (const char* place : {"/", "/../"})  // installed; in a build folder
    if (access((installation + place + name + "/" + file).c_str(), R_OK) == 0)
      return installation + place + name;
  return "";
}

std::string software_gpu_directory(const std::string& installation) {
  return folder_with(installation, "software-gpu", "libcuda.so.1");
}

std::string software_nccl_directory(const std::string& installation) {
  return folder_with(installation, "software-nccl", kNccl);
}

void set_software_devices(Boot* boot, int former) {
  constexpr const char* kDevices = "CROPDL_SOFTWARE_GPUS";
  if (boot->log == "json" && (boot->software_gpu || boot->software_nccl))
    setenv("CROPDL_LOG", "json", 1);  // our libraries have their own copy of base/say
  if (!boot->software_gpu) return;
  if (const int count = boot->software_gpus != 0 ? boot->software_gpus : former; count != 0)
    setenv(kDevices, std::to_string(count).c_str(), boot->software_gpus != 0);
  if (const char* said = getenv(kDevices)) boot->software_gpus = atoi(said);  // for the image
}

bool is_software_nccl(const Boot& boot, const std::string& soname) {
  return boot.software_nccl && soname == kNccl;
}

std::string software_library(const Boot& boot, const std::string& soname) {
  const bool is_nccl = is_software_nccl(boot, soname);
  if (!boot.software_gpu && !is_nccl) return "";
  const std::string directory =
      is_nccl ? software_nccl_directory(boot.installation) : software_gpu_directory(boot.installation);
  const std::string path = directory + "/" + soname;
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

}  // namespace cropdl::launching
