// Calls the toy through the generated wrappers of both halves, on the lower half's runtime
// (interpose/one_abi): `toy_host UPPER.so TOY.so`. One process, not split: it makes the window's control
// page, a thread record and the persistent heap itself, so that the gate works. A restart is simulated by a
// fresh copy of the toy, which knows nothing.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "interpose/handles/heap.h"
#include "interpose/one_abi/state.h"
#include "interpose/seam/thread.h"
#include "kinds.h"
#include "toy.h"
#include "toy_functions.h"

namespace rt = cropdl::one_abi;
namespace handles = cropdl::handles;
namespace toy = cropdl::seam::toy;
using cropdl::seam::kLibraryCudart;

extern "C" void* const cropdl_toy_lower_table[toy::kFnCount];
extern const rt::RealLibrary cropdl_toy_lower_table_library;

namespace {

const rt::RealLibrary& kToy = cropdl_toy_lower_table_library;
void* real_toy = nullptr;

int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  printf("not so: %s\n", what);
  ++failures;
}

void* mapped(uint64_t at, size_t bytes) {
  void* found = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  if (found != reinterpret_cast<void*>(at)) {
    perror("mmap");
    exit(2);
  }
  return found;
}

void prepare() {
  using namespace cropdl;
  mapped(seam::kControlPage, seam::kControlPageSize);
  mapped(seam::kState, seam::kStateSize);
  mapped(seam::kHeapBegin, seam::kHeapEnd - seam::kHeapBegin);
  handles::heap_format();
  static seam::ThreadRecord thread;
  thread.self = &thread;
  thread.lower_fs = thread.upper_fs = seam::by_kernel::fs_base();
  seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&thread));
  seam::control()->libraries[kLibraryCudart].table = const_cast<void**>(cropdl_toy_lower_table);
}

// In a linker namespace of its own, so that no symbols of other copies are found.
void* load(const char* file) {
  void* found = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
  if (!found) {
    printf("not so: %s\n", dlerror());
    exit(2);
  }
  return found;
}

template <class F>
F function(void* upper, const char* name, const char* version = nullptr) {
  void* found = version ? dlvsym(upper, name, version) : dlsym(upper, name);
  if (!found) {
    printf("not so: the upper half has %s %s\n", name, version ? version : "");
    exit(2);
  }
  return reinterpret_cast<F>(found);
}

const rt::RealLibrary* const* libraries() {
  static const rt::RealLibrary* all[cropdl::seam::kMaxLibraries];
  all[kLibraryCudart] = &kToy;
  return all;
}

// Continues the program on another copy of the library.
cropdl::Status restart(const char* file) {
  real_toy = load(file);
  for (uint32_t i = 0; i < kToy.count; ++i) kToy.functions[i] = nullptr;
  if (auto s = rt::restore_family(libraries()); !s) return s;
  return rt::make_all_again(libraries());
}

bool restarts(const char* file) {
  const auto s = restart(file);
  if (!s) printf("%s\n", s.error().message.c_str());
  return static_cast<bool>(s);
}

std::string refusal() { return rt::family_refusal(libraries()); }
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

void* rt::find_function(const RealLibrary& library, uint32_t number) {
  return library.functions[number] = dlsym(real_toy, library.names[number]);
}

// Hand-written: replaces the generated entry.
extern "C" toyResult lower_toyConfigure(const toyConfig* config) {
  rt::Call call;
  toyConfig real = *config;
  real.thing = rt::real(config->thing, rt::kind::Thing);
  const auto r = rt::function_of<decltype(toyConfigure)>(kToy, toy::kFn_toyConfigure)(&real);
  if (r != TOY_OK) return r;
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(config->thing));
  recipe.value(config->n);
  rt::keep_state(rt::word_of(config->thing), kToy, toy::kFn_toyConfigure, toy::kFn_toyConfigure, rt::Key(),
                 recipe);
  return r;
}
extern "C" int64_t again_toyConfigure(rt::Again& from) {
  toyConfig real{};
  real.thing = rt::handle_of<toy_t>(from.handle());
  real.n = from.value<int>();
  return rt::function_of<decltype(toyConfigure)>(kToy, toy::kFn_toyConfigure)(&real);
}

#define TOY(name, ...) function<decltype(&name)>(upper, #name, ##__VA_ARGS__)

namespace {

int value_of(void* upper, toy_t thing) {
  int n = -1;
  TOY(toyGet)(thing, &n);
  return n;
}
int tag_of(void* upper, toy_t thing, int key) {
  int n = -1;
  TOY(toyGetTag)(thing, key, &n);
  return n;
}

void calls_cross(void* upper) {
  // Handles: an out-parameter is virtual, is accepted as an argument, alone and in arrays, and ends.
  toy_t thing = nullptr, second = nullptr, parent = nullptr;
  expect(TOY(toyMake, "TOY_1")(&thing, 41) == TOY_OK, "toyMake succeeds");
  expect(rt::is_virtual(rt::word_of(thing)), "the program holds a virtual handle");
  int n = 0;
  expect(TOY(toyGet)(thing, &n) == TOY_OK && n == 41, "toyGet finds the thing");
  expect(TOY(toySet)(thing, 42) == TOY_OK && TOY(toyGet)(thing, &n) == TOY_OK && n == 42, "toySet sets it");
  expect(function<decltype(&toyGet)>(upper, "toyGet_twin", "TOY_2")(thing, &n) == TOY_OK && n == 1042,
         "the twin that no header declares is another function");
  const toyBig big = TOY(toyFill)(100);
  expect(big.at[0] == 100 && big.at[15] == 115, "a structure comes back in memory");
  expect(TOY(toyMakeFrom, "TOY_2")(&second, big, toyPair{30, 20}) == TOY_OK, "structures go in by value");
  expect(TOY(toyGet)(second, &n) == TOY_OK && n == 225, "... with all their members");
  expect(TOY(toyParent)(second, &parent) == TOY_OK && parent == thing,
         "a known object has the handle that it had");
  const toy_t both[] = {thing, second};
  long sum = 0;
  expect(TOY(toySum)(both, 2, &sum) == TOY_OK && sum == 267, "an array of handles is translated");
  toy_t all[8] = {};
  size_t count = 8;
  expect(TOY(toyAll)(all, &count) == TOY_OK && count == 2 && all[0] == thing && all[1] == second,
         "an array of known handles comes back");
  // While the library destroys one with its child, another thread makes one that gets its real handle.
  toy_t child = nullptr;
  expect(TOY(toyChild)(second, &child) == TOY_OK, "a child is made");
  uint64_t real[] = {rt::real_word(rt::word_of(second)), rt::real_word(rt::word_of(child))};
  rt::hide_word(rt::word_of(second));
  for (uint64_t one : real)
    expect(rt::virtual_of(one, rt::kind::Thing) == 0, "what is about to end is found no more");
  const uint64_t other = rt::made_word(real[0], rt::kind::Thing, kToy, toy::kFn_toyMake, nullptr);
  expect(rt::known_word(real[0], rt::kind::Thing, kToy, toy::kFn_toyMake, nullptr) == other &&
             other != rt::word_of(second),
         "... and its real handle is that of what has it now");
  rt::forget_word(other);
  rt::show_word(rt::word_of(second));
  expect(rt::virtual_of(real[0], rt::kind::Thing) == rt::word_of(second) &&
             rt::virtual_of(real[1], rt::kind::Thing) == rt::word_of(child),
         "what has not ended is found again");
  expect(TOY(toyFree)(second) == TOY_OK, "a handle ends");
  const long calls = TOY(toyCalls)();
  expect(TOY(toyFree)(second) == TOY_NO_THING && TOY(toyCalls)() == calls,
         "... and no library is given it then, which might look into it");
  expect(TOY(toyMake)(nullptr, 1) == TOY_NO_THING, "null is the library's to judge");
  expect(TOY(toyGet)(nullptr, &n) == TOY_NO_THING, "null is null");

  // Values.
  const toyPair pair = TOY(toySwap)(toyPair{1, 2});
  expect(pair.x == 2 && pair.y == 1, "a structure in a register");
  const toyMixed mixed = TOY(toyMix)(toyMixed{0.5, 1}, big, toyPair{3, 4}, toyMixed{0.25, 2});
  expect(mixed.d == 0.75 && mixed.n == 1 + 103 + 12 + 2,
         "structures in registers of both kinds and in memory");
  void* memory = nullptr;
  expect(TOY(toyMalloc)(&memory, 8) == TOY_OK && memory, "an out-parameter that is no handle");
  expect(TOY(toyName)(TOY_NO_THING) == std::string("no such thing"), "a text comes back");

  // Pointers that a call reads, and the library's texts, which a restart may move.
  const int value = 5, values[] = {1, 2, 3};
  expect(TOY(toyPut)(thing, 2, &value) == TOY_OK && TOY(toyGet)(thing, &n) == TOY_OK && n == 7,
         "a value behind a pointer");
  expect(TOY(toyPutAll)(thing, values, 3) == TOY_OK && TOY(toyUse)(thing, &n) == TOY_OK && n == 6,
         "an array of values; a handle that is passed as an address");
  expect(TOY(toyUse)(&value, &n) == TOY_NO_THING, "... and an address that is none");
  const char *label = nullptr, *again = nullptr;
  expect(TOY(toyLabel)(thing, "first") == TOY_OK && TOY(toyGetLabel)(thing, &label) == TOY_OK &&
             label == std::string("first"),
         "a text goes in and out");
  expect(TOY(toyLabel)(thing, "other") == TOY_OK && label == std::string("first"),
         "... and what came out stays");
  expect(TOY(toyName)(TOY_OK) == TOY(toyName)(TOY_OK), "the same text is at the same place");
  TOY(toyLabel)(thing, "first");
  expect(TOY(toyGetLabel)(thing, &again) == TOY_OK && again == label,
         "... also one that is written to a pointer");

  // Hand-written, refused, and not implemented functions.
  const toyConfig config{11, thing};
  expect(TOY(toyConfigure)(&config) == TOY_OK && value_of(upper, thing) == 11, "a function by hand");
  expect(TOY(toyCall)(nullptr, nullptr) == TOY_NOT_OFFERED, "one by hand that nobody has written says so");
  TOY(toyReset)();
  expect(TOY(toyShow)(1) == TOY_NOT_OFFERED && TOY(toyCalls)() == 0,
         "toyShow is refused before it reaches the library");
  expect(TOY(toyFree)(thing) == TOY_OK, "the thing ends");
}

void refuse_checkpoints(void* upper) {
  toy_t thing = nullptr;
  TOY(toyMake)(&thing, 1);
  expect(TOY(toyTake)(thing, 1) == TOY_OK && refusal().empty(), "nothing keeps from a checkpoint yet");
  expect(TOY(toyTake)(thing, 99) == TOY_OK && has(refusal(), "toyTake: key is 99"),
         "a value that makes what no recipe has");
  rt::family->unsaved_maker = 0;
  char name[16];
  expect(TOY(toyShare)(thing, name) == TOY_OK && has(refusal(), "toyShare: a thing is shared"),
         "toyShare works, and refuses the checkpoint with a reason");
  rt::family->unsaved_maker = 0;
  const uint64_t alone = rt::made_word(1, rt::kind::Thing, kToy, toy::kFn_toyCall, nullptr);
  expect(has(refusal(), "toyCall"), "an object without a recipe refuses, by its maker's name");
  rt::forget_word(alone);
  expect(refusal().empty(), "... as long as it lives");
  TOY(toyFree)(thing);
}

// Another thread's call, from its beginning to its end, falls into this thread's.
toy_t shared = nullptr;
int value_of_other = 0;
toyResult set_by_another_first(toy_t real, int value) {
  kToy.functions[toy::kFn_toySet] = nullptr;  // looked for again
  reinterpret_cast<decltype(&toySet)>(cropdl_toy_lower_table[toy::kFn_toySet])(shared, value_of_other);
  return rt::function_of<decltype(toySet)>(kToy, toy::kFn_toySet)(real, value);
}

void setters_of_two_threads(void* upper) {
  TOY(toyMake)(&shared, 1);
  for (const int other : {6, 5}) {
    value_of_other = other;
    kToy.functions[toy::kFn_toySet] = reinterpret_cast<void*>(set_by_another_first);
    TOY(toySet)(shared, 6);
    expect(refusal().empty() == (other == 6), "two setters at one time may only set the same value");
  }
  expect(has(refusal(), "toySet: two threads"), "... and are named otherwise");
  expect(TOY(toySet)(shared, 7) == TOY_OK && refusal().empty(), "... until one sets it again");
  TOY(toyFree)(shared);
}

// Everything that a recipe can contain; all of it is compared after a restart.
void all_is_made_again(void* upper, const char* file) {
  const uint32_t before = rt::recipe_count();
  toy_t a = nullptr, b = nullptr, gone = nullptr, from = nullptr, child = nullptr, found = nullptr,
        lost = nullptr, lost_child = nullptr;
  TOY(toyMake)(&a, 1);
  expect(rt::recipe_count() == before + 1, "an object is one recipe");
  TOY(toyMake)(&b, 2);
  TOY(toyMake)(&gone, 3);
  TOY(toyMakeFrom)(&from, TOY(toyFill)(7), toyPair{5, 1});
  TOY(toyChild)(a, &child);
  // A child has a recipe, and it ends with its parent.
  expect(rt::recipe_count() == before + 6, "so are a structure's and a child's");

  TOY(toySet)(a, 10);
  TOY(toySet)(a, 11);
  expect(rt::recipe_count() == before + 7, "the last call of a setter counts");
  for (int i = 0; i < 100; ++i) TOY(toySet)(a, 12 + i % 2);
  expect(rt::recipe_count() == before + 7, "... however often it is called");
  TOY(toyTag)(a, 1, 101);
  TOY(toyTag)(a, 2, 102);
  TOY(toyTag)(a, 3, 103);
  expect(rt::recipe_count() == before + 10, "one for each key");
  TOY(toyUntag)(a, 2);
  expect(rt::recipe_count() == before + 9, "what is taken back is a recipe no more");
  TOY(toyLabel)(b, "label");
  const toyConfig config{21, b};
  TOY(toyConfigure)(&config);
  const int values[] = {1, 2, 3};
  TOY(toyPutAll)(child, values, 3);
  expect(rt::recipe_count() == before + 11, "a text, and a setter by hand; none for what is not made again");
  TOY(toySet)(gone, 33);
  TOY(toyPoint)(b, gone);
  TOY(toyFree)(gone);
  expect(rt::recipe_count() == before + 13,
         "what a recipe needs stays, and its state, though the program ended it");
  TOY(toyMake)(&lost, 4);
  TOY(toyChild)(lost, &lost_child);
  TOY(toyTag)(lost_child, 0, 5);
  TOY(toyPoint)(lost, b);
  TOY(toyFree)(lost);
  expect(rt::recipe_count() == before + 13, "an end takes the state and the children along");
  expect(TOY(toySet)(lost_child, 1) == TOY_NO_THING, "... whose handles are nothing's then");

  expect(restarts(file), "everything is made again");
  expect(rt::recipe_count() == before + 13, "a restart leaves as many recipes");
  const auto real_gone =
      reinterpret_cast<toy_t>(rt::tables->slot(static_cast<handles::Handle>(rt::word_of(gone)))->owner[0]);
  int its = 0;
  expect(rt::function_of<decltype(toyGet)>(kToy, toy::kFn_toyGet)(real_gone, &its) == TOY_OK && its == 33,
         "what only a recipe needs is made with its state");
  expect(value_of(upper, a) == 13 && value_of(upper, b) == 21 && value_of(upper, from) == 7 + 22 + 5 - 1,
         "what was set last");
  expect(tag_of(upper, a, 1) == 101 && tag_of(upper, a, 2) == 0 && tag_of(upper, a, 3) == 103,
         "... by key, without what was taken back");
  const char* label = nullptr;
  expect(TOY(toyGetLabel)(b, &label) == TOY_OK && label == std::string("label"), "... a text");
  expect(value_of(upper, child) == 0, "... not what is transient");
  expect(TOY(toyParent)(child, &found) == TOY_OK && found == a, "objects find each other");
  expect(TOY(toyFree)(a) == TOY_OK && TOY(toySet)(child, 1) == TOY_NO_THING,
         "a child ends with its parent also after a restart");
  toy_t next = nullptr;
  expect(TOY(toyMake)(&next, 8) == TOY_OK && value_of(upper, next) == 8 && value_of(upper, b) == 21,
         "the program goes on");
  TOY(toyPoint)(b, b);
  expect(rt::recipe_count() == before + 6, "what nothing needs any more goes: b, from, next and b's state");
  expect(restarts(file), "a second restart");
  expect(value_of(upper, b) == 21 && value_of(upper, next) == 8, "... finds the same");
  TOY(toyFree)(b);
  TOY(toyFree)(from);
  TOY(toyFree)(next);
  expect(rt::recipe_count() == before, "the last end leaves nothing");
}

void does_not_grow(void* upper) {
  const auto make = TOY(toyMake);
  const auto tag = TOY(toyTag);
  const auto child = TOY(toyChild);
  const auto end = TOY(toyFree);
  const uint64_t blocks = handles::heap_blocks();
  const uint32_t recipes = rt::recipe_count();
  for (int i = 0; i < 300'000; ++i) {
    toy_t thing = nullptr, its = nullptr;
    make(&thing, i);
    tag(thing, i % 4, i);
    if (i % 16 == 0) child(thing, &its);
    end(thing);
  }
  expect(handles::heap_blocks() == blocks && rt::recipe_count() == recipes,
         "making and ending does not let anything grow");
}

void a_lost_recipe_is_noticed(void* upper, const char* file) {
  toy_t thing = nullptr;
  TOY(toyMake)(&thing, 1);
  handles::Slot* slot = rt::tables->slot(static_cast<handles::Handle>(rt::word_of(thing)));
  const uint64_t recipe = slot->recipe;
  slot->recipe = 0;
  const auto s = restart(file);
  expect(!s && has(s.error().message, "toyMake"), "an object whose recipe is gone is named");
  slot->recipe = recipe;
  expect(restarts(file), "... and with it the restart succeeds");
}

void a_text_without_room_is_told() {
  for (size_t size = size_t{1} << 36; size >= 4096;)
    if (!handles::heap_reserve(size)) size /= 2;
  const std::string text(3 << 20, 'x');
  expect(refusal().empty() && rt::kept_text(text.c_str()) == text.c_str(),
         "a text for which there is no room comes back as it is");
  expect(has(refusal(), "no memory was left"), "... and refuses checkpoints");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  prepare();
  real_toy = load(argv[2]);
  void* upper = load(argv[1]);
  calls_cross(upper);
  refuse_checkpoints(upper);
  setters_of_two_threads(upper);
  all_is_made_again(upper, argv[2]);
  does_not_grow(upper);
  a_lost_recipe_is_noticed(upper, argv[2]);
  a_text_without_room_is_told();  // leaves no room
  if (!failures) puts("all expectations hold");
  return failures != 0;
}
