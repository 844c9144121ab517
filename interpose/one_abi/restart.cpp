// Makes a family's objects and state again, in the order of their creation. See state.h. START.
#include <unistd.h>

#include <algorithm>

#include "base/format.h"
#include "base/say.h"
#include "interpose/handles/heap.h"
#include "interpose/one_abi/state.h"

namespace cropdl::one_abi {
namespace {

const RealLibrary* const* all_libraries = nullptr;

std::string function_of_maker(const RealLibrary* const* libraries, uint32_t maker) {
  const RealLibrary* library = libraries[maker >> 16];
  return library && (maker & 0xffff) < library->count ? library->names[maker & 0xffff] : "a function";
}

constexpr int64_t kNoRecipe = int64_t{1} << 62, kNoDevice = kNoRecipe + 1;  // not error codes of any library

// Returns 0, the library's error, kNoRecipe or kNoDevice.
int64_t make_again(handles::Handle h) {
  const handles::Slot& slot = *tables->slot(h);
  const RealLibrary* library = all_libraries[slot.maker >> 16];
  const AgainFunction function = library ? library->again[slot.maker & 0xffff] : nullptr;
  if (!function || !slot.recipe) return kNoRecipe;
  Again again(*reinterpret_cast<const handles::Recipe*>(slot.recipe),
              (slot.flags & kLingers) != 0 ? slot.owner[2] : ~uint64_t{0});
  if (!again.fine()) return kNoDevice;
  const int64_t code = function(again);
  if (code == 0 && handles::kind_of(h) != kStateRecord) rebind(h, again.made());
  return code;
}

std::string why_not(const RealLibrary* const* libraries, uint32_t maker, int64_t code) {
  const RealLibrary* library = libraries[maker >> 16];
  return formatted("{} fails when it is made again: {}", function_of_maker(libraries, maker),
                   code == kNoRecipe   ? std::string("it has no recipe here")
                   : code == kNoDevice ? std::string("its device cannot be used")
                                       : formatted("error {} of {}", code, library ? library->name : "?"));
}

std::vector<handles::Handle> of_threads() {
  std::vector<handles::Handle> found;
  for (const ThreadState& t : family->threads)
    for (uint64_t at = t.states; at; at = tables->slot(static_cast<handles::Handle>(at))->owner[0])
      found.push_back(static_cast<handles::Handle>(at));
  return found;
}

}  // namespace

Again::Again(const handles::Recipe& recipe, uint64_t ended) : RecipeReader(recipe), ended_(ended) {
  device_ = static_cast<int>(value<int64_t>());
  fine_ = device_ < 0 || make_current(device_);
}

Status restore_family(const RealLibrary* const* libraries) {
  all_libraries = libraries;
  family = reinterpret_cast<FamilyState*>(handles::heap_root(seam::kLibraryCudart, handles::kRootState));
  if (!family) return {};
  if (family->version > kFamilyVersion)
    return Error{"cannot restart: the image was made by a newer version of CropDL; restart it with that one"};
  if (family->version < kFamilyVersion)
    return Error{
        "cannot restart: the image was made by an older version of CropDL; restart it with that one"};
  const char* why = nullptr;
  tables = handles::Tables::restored(seam::kLibraryCudart, &why);
  if (why) return Error{std::string("cannot restart: ") + why};
  return {};
}

Status make_all_again(const RealLibrary* const* libraries) {
  if (!family) return {};
  const std::vector<handles::Handle> later = of_threads();
  std::vector<Lingering> ending = lingering();
  std::sort(ending.begin(), ending.end(), [](const auto& a, const auto& b) { return a.ended > b.ended; });
  const auto end_until = [&](uint64_t serial) -> Status {
    for (; !ending.empty() && ending.back().ended < serial; ending.pop_back())
      if (const int64_t code = end_again(ending.back().handle); code != 0)
        return Error{"cannot restart: what {} made cannot be ended again: error {}",
                     function_of_maker(libraries, tables->slot(ending.back().handle)->maker), code};
    return {};
  };
  for (handles::Handle h : tables->all_in_order()) {
    const handles::Slot& slot = *tables->slot(h);
    if (Status ended = end_until(slot.serial); !ended) return ended;
    if (handles::kind_of(h) == kStateRecord &&
        (slot.owner[1] == kEndsWith || std::find(later.begin(), later.end(), h) != later.end()))
      continue;
    if (const int64_t code = make_again(h); code != 0)
      return Error{"cannot restart: " + why_not(libraries, slot.maker, code)};
  }
  return end_until(~uint64_t{0});
}

void make_state_again(handles::Handle record) {
  if (!all_libraries) return;
  const int64_t code = make_again(record);
  if (code == 0) return;
  // The thread already runs program code: it would continue with another device or other contexts.
  say("cropdl: the program cannot go on: of one of its threads " +
      why_not(all_libraries, tables->slot(record)->maker, code));
  _exit(1);
}

std::string family_refusal(const RealLibrary* const* libraries) {
  if (family_failed)
    return "no memory was left for what CropDL keeps of CUDA's objects (ulimit -v?); start the program again "
           "with more";
  if (!family) return "";
  handles::SpinGuard guard(family_lock);
  if (family->unsaved_maker)
    return function_of_maker(libraries, family->unsaved_maker - 1) + ": " + family->unsaved_why;
  if (const uint32_t maker = uncertain_maker())
    return function_of_maker(libraries, maker - 1) +
           ": two threads set it to different values at the same time, and which came last is unknown; set "
           "it again";
  if (!tables->without_recipe()) return "";
  const handles::Handle h = tables->first_without_recipe();
  return h ? function_of_maker(libraries, tables->slot(h)->maker) + ": what it made cannot be saved" : "";
}

uint32_t recipe_count() {
  return tables ? static_cast<uint32_t>(tables->all_in_order().size()) - tables->without_recipe() : 0;
}

}  // namespace cropdl::one_abi
