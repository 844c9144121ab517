// The environment of the MPI (lifecycle.h). LH, LH FS base.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "base/format.h"
#include "base/say.h"
#include "interpose/handles/heap.h"
#include "interpose/libraries/program_environment.h"
#include "interpose/mpi/lower/lifecycle.h"
#include "interpose/mpi/lower/state.h"
#include "interpose/seam/state.h"

namespace cropdl::mpi {
namespace {

// Settings of Open MPI, MPICH and its kin, and of the libraries under them.
constexpr std::string_view kSettings[] = {
    "OMPI_MCA_", "OMPI_MPI_", "PMIX_MCA_", "PRTE_MCA_", "MPIR_CVAR_", "MPIR_PARAM_", "MPICH_",
    "I_MPI_",    "MV2_",      "MVP_",      "UCX_",      "UCC_",       "FI_",         "HCOLL_",
    "SHARP_",    "MXM_",      "PSM_",      "PSM2_",     "PSM3_",      "HFI_",        "IBV_",
    "RDMAV_",    "MLX4_",     "MLX5_",     "HWLOC_",    "ROMIO_"};

// Not to be carried over: who this process is to its launcher, which is this run's; and where the program's
// own copy of an MPI has its files, which the LH's MPI must not load.
constexpr std::string_view kOfThisRun[] = {"OMPI_MCA_ess",
                                           "OMPI_MCA_orte_",
                                           "OMPI_MCA_prte_",
                                           "OMPI_MCA_initial_wdir",
                                           "PRTE_MCA_ess",
                                           "PRTE_MCA_prte_",
                                           "I_MPI_HYDRA_",
                                           "MV2_COMM_WORLD_",
                                           "MVP_COMM_WORLD_",
                                           "MPICH_INTERFACE_",
                                           "I_MPI_ROOT",
                                           "OMPI_MCA_mca_component_path",
                                           "OMPI_MCA_mca_base_component_path",
                                           "PMIX_MCA_mca_base_component_path",
                                           "FI_PROVIDER_PATH",
                                           "UCX_MODULE_DIR"};

bool is_setting(std::string_view name) {
  const auto begins = [name](std::string_view with) { return name.starts_with(with); };
  return std::ranges::any_of(kSettings, begins) && std::ranges::none_of(kOfThisRun, begins);
}

// Whether the setting may change the order in which reductions add: the choice of algorithms, and of the
// component that reorders ranks. Not the names of a machine's devices.
bool orders_sums(std::string_view name) {
  if (name.ends_with("_VERBOSE") || name.ends_with("_verbose")) return false;
  const auto begins = [name](std::string_view with) { return name.starts_with(with); };
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  using std::array, std::ranges::any_of;
  return any_of(array{"OMPI_MCA_coll", "OMPI_MCA_op_", "OMPI_MCA_topo", "I_MPI_ADJUST_"}, begins) ||
         (any_of(array{"MPIR_CVAR_", "MPIR_PARAM_", "MPICH_", "MV2_", "MVP_"}, begins) &&
          any_of(array{"ALGORITHM", "COLL", "REDUCE", "SCAN", "SMP"}, has));
}

// In the heap: "NAME=value", or "NAME" if the program has unset it, each with its zero, the last one empty.
uint64_t& kept_settings() { return state->more[2]; }

// As the program got them. In the first run the LH still has the same, while a program may have written its
// title over the strings on its stack.
const libraries::Variables& settings_at_start() {
  static const auto& at_start = *new libraries::Variables([] {
    if (seam::control()->restarted != 0) return libraries::variables_at_start(is_setting);
    libraries::Variables variables;
    libraries::keep_variables(environ, is_setting, &variables);
    return variables;
  }());
  return at_start;
}

}  // namespace

bool take_program_environment() {
  if (seam::control()->restarted != 0) restore_settings_of_sums();  // restarted before MPI_Init
  const uint64_t programs = seam::state()->environ_variable;
  if (programs == 0) return true;  // a shim of an older image, or no upper half
  libraries::Variables now;
  libraries::keep_variables(*reinterpret_cast<const char* const* const*>(programs), is_setting, &now);
  std::string text;
  for (const std::string& name : libraries::changed_between(settings_at_start(), now)) {
    const std::string* value = libraries::value_of(now, name);
    text += (value ? name + '=' + *value : name) + '\0';
  }
  if (text.empty()) return true;
  handles::heap_free(reinterpret_cast<void*>(kept_settings()));
  void* copy = handles::heap_allocate(text.size() + 1);
  kept_settings() = reinterpret_cast<uint64_t>(copy);
  if (copy == nullptr) return false;
  memcpy(copy, text.c_str(), text.size() + 1);
  restore_program_environment();
  return true;
}

void restore_settings_of_sums() {
  if (seam::state()->view.environment == 0) return;  // an image of an older CropDL
  const libraries::Variables start = libraries::variables_at_start(orders_sums);
  libraries::Variables here;
  libraries::keep_variables(environ, orders_sums, &here);
  for (const std::string& name : libraries::changed_between(start, here)) {
    const std::string *wanted = libraries::value_of(start, name), *given = libraries::value_of(here, name);
    if (given == nullptr) {
      libraries::set_in_lower_half(name, wanted);
    } else if (state->rank <= 0) {
      say(formatted("cropdl-restart: {}={} counts, which the job had {}: reductions may add in another order",
                    name, *given, wanted ? "as " + *wanted : std::string("not set")));
    }
  }
}

void restore_program_environment() {
  const auto* one = reinterpret_cast<const char*>(kept_settings());
  for (; one != nullptr && *one != 0; one += strlen(one) + 1) {
    const std::string_view entry = one;
    const size_t at = std::min(entry.find('='), entry.size());
    const std::string value(entry.substr(std::min(at + 1, entry.size())));
    libraries::set_in_lower_half(std::string(entry.substr(0, at)), at < entry.size() ? &value : nullptr);
  }
}

}  // namespace cropdl::mpi
