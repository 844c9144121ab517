#include "interpose/cuda/lower/real_libraries.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"
#include "gpu_state/memory/steering.h"
#include "interpose/cuda/lower/environment.h"
#include "interpose/seam/state.h"

namespace cropdl::cuda {
namespace {

// Shared by the software device's BLAS libraries, which find it by its name among the loaded libraries.
constexpr const char* kSoftwareProducts = "libcropdl-software-gpu-products.so";

struct Opened {
  void* handle = nullptr;
  std::string why_not = {};
  bool said = false;
  RealLibrary library = {};
};

struct All {
  std::recursive_mutex mutex;  // loading a library may call code that opens another
  launching::Boot boot;
  std::vector<RealLibrary> before;
  std::map<std::string, Opened> by_name;
};
All& all() {
  static All* its = new All;  // never destroyed: programs call their libraries during exit
  return *its;
}

std::string path_of(void* handle) {
  const link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name != nullptr ? map->l_name : "";
}

std::string version_of(const std::string& path) {
  const std::string name = resolved_or_same(path);
  const size_t at = name.rfind(".so.");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

// Our shim, which ld.so's search finds if LD_LIBRARY_PATH has the folder of our libraries.
bool is_shim(const std::string& path) {
  return folder_of(resolved_or_same(path)) == resolved_or_same(all().boot.installation);
}

void* load(const std::string& name) { return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); }

Opened described(void* handle, const char* soname, bool software) {
  const std::string path = path_of(handle);
  return {.handle = handle, .library = {soname, path, version_of(path), software}};
}

// The file that the program's ld.so found, as recorded by the core (interpose/upper/files.cpp).
std::string found_by_program(const char* soname) {
  const auto* control = seam::control();
  for (unsigned i = 0; i < seam::kMaxStandIns && control->stand_ins[i].begins[0] != 0; ++i) {
    const std::string file = control->stand_ins[i].file;
    if (file_name_of(file) == soname) return seam::state()->found[i];
  }
  return "";
}

std::vector<std::string> places(const char* soname) {
  std::vector<std::string> found;
  for (const RealLibrary& one : all().before)
    if (one.soname == soname) found.push_back(one.path);
  if (const std::string path = found_by_program(soname); !path.empty()) found.push_back(path);
  for (const std::string& folder : program_search_path()) found.push_back(folder + "/" + soname);
  found.emplace_back(soname);
  for (const std::string& folder : toolkit_folders()) found.push_back(folder + "/" + soname);
  return found;
}

Opened open_software(const char* soname) {
  const std::string directory = launching::software_gpu_directory(all().boot.installation);
  const std::string path = launching::software_library(all().boot, soname);
  const char* whose = launching::is_software_nccl(all().boot, soname) ? "software NCCL" : "software GPU";
  if (path.empty()) return {.why_not = formatted("the {} has no {}, which the program calls", whose, soname)};
  // Loads dependencies first, by their own paths: an installed library does not tell where they are.
  if (strcmp(soname, kDriverName) != 0 && open_real(kDriverName) == nullptr)
    return {.why_not = why_not_real(kDriverName)};
  if (strncmp(soname, "libcublas", 9) == 0) load(directory + "/" + kSoftwareProducts);
  void* handle = load(path);
  if (handle == nullptr)
    return {.why_not = formatted("the {}'s {} cannot be loaded: {}", whose, soname, dlerror())};
  return described(handle, soname, true);
}

Opened open_nvidias(const char* soname) {
  std::string trouble;
  for (const std::string& place : places(soname)) {
    struct stat status {};
    const bool is_path = place.find('/') != std::string::npos;
    if (is_path && (stat(place.c_str(), &status) != 0 || is_shim(place))) continue;
    void* handle = load(place);
    if (handle != nullptr && !is_shim(path_of(handle))) return described(handle, soname, false);
    if (handle != nullptr)
      dlclose(handle);
    else if (const char* error = dlerror(); trouble.empty() || is_path)
      trouble = error != nullptr ? error : "";
  }
  return {.why_not = formatted(
              "NVIDIA's {}, which the program calls, cannot be loaded ({}): install it, or say where it "
              "is with LD_LIBRARY_PATH or CUDA_HOME",
              soname, trouble.empty() ? "no such file" : trouble)};
}

Opened& look_for(const char* soname) {
  const auto at = all().by_name.find(soname);
  if (at != all().by_name.end()) return at->second;
  const launching::Boot& boot = all().boot;
  const bool software = boot.software_gpu || launching::is_software_nccl(boot, soname);
  Opened found = software ? open_software(soname) : open_nvidias(soname);
  if (strcmp(soname, kDriverName) == 0 && memory::at_steering)
    memory::at_steering();  // before the driver reserves addresses
  return all().by_name.insert_or_assign(soname, std::move(found)).first->second;
}

}  // namespace

void choose_real_libraries(const launching::Boot& boot) { all().boot = boot; }

void prefer_real_libraries(std::vector<RealLibrary> as_before) { all().before = std::move(as_before); }

std::vector<std::string> toolkit_folders() {
  std::lock_guard lock(all().mutex);
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = getenv(variable)) folders.push_back(formatted("{}/lib64", root));
  folders.emplace_back("/usr/local/cuda/lib64");
  for (const auto& [name, one] : all().by_name)
    if (one.handle != nullptr && !one.library.software && one.library.path.find('/') != std::string::npos)
      folders.push_back(folder_of(one.library.path));
  return folders;
}

void* open_real(const char* soname) {
  std::lock_guard lock(all().mutex);
  Opened& one = look_for(soname);
  if (one.handle == nullptr && !one.said) {
    one.said = true;
    say("cropdl: " + one.why_not);
  }
  return one.handle;
}

std::string why_not_real(const char* soname) {
  std::lock_guard lock(all().mutex);
  return look_for(soname).why_not;
}

bool has_driver() { return why_not_real(kDriverName).empty(); }

std::vector<RealLibrary> real_libraries() {
  std::lock_guard lock(all().mutex);
  std::vector<RealLibrary> open;
  for (const auto& [name, one] : all().by_name)
    if (one.handle != nullptr) open.push_back(one.library);
  return open;
}

}  // namespace cropdl::cuda
