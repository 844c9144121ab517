// Calls the toy through the generated wrappers of both halves: `toy_host UPPER.so`.
#include "runtime.h"
#include "toy.h"
#include "toy_functions.h"

using namespace one_abi_test;
namespace rt = cropdl::one_abi;
extern "C" void* const cropdl_toy_lower_table[cropdl::seam::toy::kFnCount];

#define TOY(name, ...) function<decltype(&name)>(upper, #name, ##__VA_ARGS__)

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  prepare_gate();
  void* upper = load_upper(argv[1], 0, cropdl_toy_lower_table);

  // Handles: an out-parameter is virtual, goes in as such, alone and in arrays, and ends.
  toy_t thing = nullptr, second = nullptr, parent = nullptr;
  expect(TOY(toyMake, "TOY_1")(&thing, 41) == TOY_OK, "toyMake succeeds");
  expect(reinterpret_cast<uint64_t>(thing) >> 48 == rt::kTag >> 48, "the program holds a virtual handle");
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
  expect(TOY(toyFree)(second) == TOY_OK && rt::reals.size() == 1, "a handle ends");
  expect(TOY(toyFree)(second) == TOY_NO_THING, "... and is none of the library's then");
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

  // Pointers that a call reads through, and texts of the library's, which go elsewhere with it.
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

  // What is refused.
  expect(TOY(toyTake)(thing, 1) == TOY_OK && rt::unsaved.empty(), "nothing keeps from a checkpoint yet");
  expect(TOY(toyTake)(thing, 99) == TOY_OK && rt::unsaved[cropdl::seam::toy::kFn_toyTake] == "key is 99",
         "a value that makes what no recipe has");
  char name[16];
  expect(TOY(toyShare)(thing, name) == TOY_OK &&
             rt::unsaved[cropdl::seam::toy::kFn_toyShare] == "a thing is shared",
         "toyShare works, and refuses the checkpoint with a reason");
  TOY(toyReset)();
  expect(TOY(toyShow)(1) == TOY_NOT_OFFERED && TOY(toyCalls)() == 0,
         "toyShow is refused before it reaches the library");
  expect(!dlsym(upper, "toyConfigure") && !dlsym(upper, "toyCall"),
         "what is to be written by hand is not generated");
  if (!failures) puts("all expectations hold");
  return failures != 0;
}
