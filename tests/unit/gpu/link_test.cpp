// links: gpu_ptx
// Linking separately compiled parts into one module.
#include "gpu_state/software/ptx/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu_state/software/ptx/parser.h"

namespace cropdl::ptx {
namespace {

Module part(const std::string& text, const std::string& target = "sm_75") {
  auto module = parse(".version 9.0\n.target " + target + "\n.address_size 64\n" + text);
  EXPECT_TRUE(module) << module.error().message;
  return module ? std::move(*module) : Module{};
}

Result<Module> linked(const std::vector<std::string>& texts) {
  std::vector<Module> parts;
  for (const std::string& text : texts) parts.push_back(part(text));
  return link(std::move(parts));
}

Module must_link(const std::vector<std::string>& texts) {
  auto module = linked(texts);
  EXPECT_TRUE(module) << module.error().message;
  return module ? std::move(*module) : Module{};
}

const Variable* variable(const Module& module, const std::string& name) {
  const Variable* found = nullptr;
  for (const Variable& variable : module.variables)
    if (variable.name == name) {
      EXPECT_FALSE(found) << name << " is there twice";
      found = &variable;
    }
  return found;
}

const Function* function(const Module& module, const std::string& name) {
  const Function* found = nullptr;
  for (const Function& function : module.functions)
    if (function.name == name) {
      EXPECT_FALSE(found) << name << " is there twice";
      found = &function;
    }
  return found;
}

// The names that a function's instructions use: symbols and callees.
std::vector<std::string> uses(const Function& function) {
  std::vector<std::string> all;
  for (const auto& entry : function.body)
    if (auto* instruction = std::get_if<Instruction>(&entry)) {
      if (instruction->call) all.push_back(instruction->call->target);
      for (const Operand& operand : instruction->operands) {
        if (auto* symbol = std::get_if<Symbol>(&operand.value)) all.push_back(symbol->name);
        if (auto* address = std::get_if<Address>(&operand.value))
          if (auto* base = std::get_if<Symbol>(&address->base)) all.push_back(base->name);
      }
    }
  return all;
}

TEST(Link, DeclarationsGiveWayToDefinitions) {
  const std::string user =
      ".extern .global .align 4 .u32 x;\n.extern .func (.param .b32 r) f(.param .b32 a);\n"
      ".visible .entry k() { .reg .b32 %r<2>; ld.global.u32 %r1, [x];\n"
      "{ .param .b32 a; .param .b32 b; call.uni (b), f, (a); } ret; }\n";
  const std::string owner =
      ".visible .global .align 4 .u32 x = 5;\n.visible .func (.param .b32 r) f(.param .b32 a) { ret; }\n";
  for (const auto& order : {std::vector{user, owner}, std::vector{owner, user}}) {
    Module module = must_link(order);
    ASSERT_TRUE(variable(module, "x"));
    EXPECT_FALSE(variable(module, "x")->is_extern);
    EXPECT_EQ(variable(module, "x")->initial.size(), 1u);
    ASSERT_TRUE(function(module, "f"));
    EXPECT_TRUE(function(module, "f")->has_body);
    EXPECT_TRUE(function(module, "k")->is_kernel);
  }
}

TEST(Link, UndefinedNamesStayDeclared) {
  Module module = must_link({".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n",
                             ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
                             ".extern .shared .align 16 .b8 dynamic[];\n",
                             ".extern .shared .align 8 .b8 dynamic[];\n"});
  EXPECT_FALSE(function(module, "vprintf")->has_body);
  EXPECT_TRUE(variable(module, "dynamic")->is_extern);
  EXPECT_EQ(variable(module, "dynamic")->align, 16u);
}

TEST(Link, OfWeakOnesOneRemainsAndAStrongOneWins) {
  const std::string weak = ".weak .func f() { ret; }\n.weak .global .u32 x = 1;\n.weak .entry k() { ret; }\n";
  Module two = must_link({weak, weak});
  EXPECT_TRUE(function(two, "f")->has_body);
  EXPECT_TRUE(function(two, "k")->is_kernel);
  ASSERT_TRUE(variable(two, "x"));
  Module strong = must_link({weak, ".visible .func f() { trap; ret; }\n.visible .global .u32 x = 2;\n"});
  EXPECT_EQ(function(strong, "f")->body.size(), 2u);
  EXPECT_EQ(std::get<Integer>(variable(strong, "x")->initial.at(0).value).bits, 2u);
}

TEST(Link, CommonVariablesShareTheLargest) {
  Module module = must_link(
      {".common .global .b8 c[4];\n", ".common .global .b8 c[16];\n", ".common .global .b8 c[8];\n"});
  EXPECT_EQ(variable(module, "c")->size(), 16u);
}

TEST(Link, LocalNamesOfPartsStaySeparate) {
  const std::string first =
      ".global .align 1 .b8 $str[3] = {65, 66, 0};\n.global .u64 pointer = generic($str);\n"
      ".func helper() { ret; }\n.visible .func f() { .reg .b64 %rd<2>; mov.u64 %rd1, $str; call helper; ret; "
      "}\n";
  const std::string second =
      ".global .align 1 .b8 $str[2] = {67, 0};\n.global .u64 pointer = generic($str);\n"
      ".func helper() { trap; ret; }\n.visible .func g() { .reg .b64 %rd<2>; mov.u64 %rd1, $str; call "
      "helper; ret; }\n"
      ".visible .func own() { .reg .b32 %r<2>; .local .b8 pointer[4]; ld.local.u32 %r1, [pointer]; ret; }\n";
  Module module = must_link({first, second});
  EXPECT_EQ(uses(*function(module, "f")), (std::vector<std::string>{"$str", "helper"}));
  EXPECT_EQ(uses(*function(module, "g")), (std::vector<std::string>{"$str.part2", "helper.part2"}));
  EXPECT_EQ(variable(module, "$str.part2")->count, 2u);
  EXPECT_EQ(std::get<Symbol>(variable(module, "pointer.part2")->initial.at(0).value).name, "$str.part2");
  EXPECT_EQ(function(module, "helper.part2")->body.size(), 2u);
  // A function's own variable of that name is not the module's.
  EXPECT_EQ(uses(*function(module, "own")), (std::vector<std::string>{"pointer"}));
}

TEST(Link, AnOwnNameGivesWayToAnothersVisibleOne) {
  Module module = must_link({".func f() { ret; }\n.visible .entry k() { call f; ret; }\n",
                             ".visible .func f() { trap; ret; }\n.visible .entry l() { call f; ret; }\n"});
  EXPECT_EQ(uses(*function(module, "k")), (std::vector<std::string>{"f.part1"}));
  EXPECT_EQ(uses(*function(module, "l")), (std::vector<std::string>{"f"}));
}

TEST(Link, ConflictingPartsAreRefusedByName) {
  const std::string f = ".visible .func f() { ret; }\n", x = ".visible .global .u32 x;\n";
  EXPECT_EQ(linked({f, f}).error().message,
            "device code cannot be linked: f is defined in part 1 of 2 and in part 2 of 2");
  EXPECT_NE(linked({x, x}).error().message.find("x is defined in"), std::string::npos);
  EXPECT_NE(linked({x, ".extern .global .u64 x;\n"}).error().message.find("x is not the same"),
            std::string::npos);
  EXPECT_NE(linked({x, ".extern .const .u32 x;\n"}).error().message.find("x is not the same"),
            std::string::npos);
  EXPECT_NE(linked({f, ".extern .func f(.param .b32 a);\n"}).error().message.find("f is not the same"),
            std::string::npos);
  EXPECT_FALSE(link({}));
}

TEST(Link, AliasesAndTargets) {
  std::vector<Module> parts;
  parts.push_back(part(".visible .func f() { ret; }\n.visible .func g();\n.alias g, f;\n"));
  parts.push_back(part(".extern .func g();\n.visible .entry k() { call g; ret; }\n", "sm_90"));
  auto module = link(std::move(parts));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(module->aliases.at("g"), "f");
  EXPECT_EQ(module->target, "sm_90");
}

}  // namespace
}  // namespace cropdl::ptx
