// links: gpu_ptx
// The parser of PTX: what it keeps of a text, and what its errors say.
#include "gpu_state/software/ptx/parser.h"

#include <gtest/gtest.h>

#include <string>

namespace cropdl::ptx {
namespace {

const std::string kHead = ".version 9.0\n.target sm_75\n.address_size 64\n";

Module parsed(const std::string& text) {
  auto module = parse(kHead + text);
  EXPECT_TRUE(module) << module.error().message;
  return module ? std::move(*module) : Module{};
}

// Of a kernel with that body.
Function body(const std::string& text, const std::string& before = "") {
  Module module = parsed(before + ".visible .entry k(.param .u64 p)\n{\n" + text + "\n}\n");
  return module.functions.empty() ? Function{} : module.functions.back();
}

std::vector<Instruction> instructions(const Function& function) {
  std::vector<Instruction> all;
  for (const auto& entry : function.body)
    if (auto* instruction = std::get_if<Instruction>(&entry)) all.push_back(*instruction);
  return all;
}

Instruction one(const std::string& text, const std::string& before = "") {
  auto all = instructions(body(text, before));
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? Instruction{} : all[0];
}

std::string error_of(const std::string& text) {
  auto module = parse(kHead + text);
  return module ? "no error" : module.error().message;
}

template <class T>
T as(const Operand& operand) {
  auto* value = std::get_if<T>(&operand.value);
  EXPECT_TRUE(value) << "another kind of operand: " << operand.value.index();
  return value ? *value : T{};
}

uint64_t integer(const std::string& constant) {
  return as<Integer>(one(".reg .b64 r; mov.u64 r, " + constant + ";").operands.at(1)).bits;
}

TEST(Parser, HeaderNamesVersionAndTarget) {
  auto module = parse("// NVRTC\n.version 8.7\n.target sm_90a, debug\n.address_size 64\n");
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(module->version, "8.7");
  EXPECT_EQ(module->target, "sm_90a");
}

TEST(Parser, KernelKeepsItsParametersAndLimits) {
  Module module = parsed(R"(
.visible .entry _Z1kPf(
	.param .u64 .ptr .global .align 16 _Z1kPf_param_0,
	.param .align 8 .b8 _Z1kPf_param_1[24],
	.param .u8 _Z1kPf_param_2
)
.maxntid 256, 2, 1
.minnctapersm 2
{
	ret;
}
.weak .entry w() .reqntid 32 { ret; }
.entry bare { exit; }
)");
  ASSERT_EQ(module.functions.size(), 3u);
  const Function& kernel = module.functions[0];
  EXPECT_TRUE(kernel.is_kernel && kernel.is_visible && kernel.has_body);
  ASSERT_EQ(kernel.parameters.size(), 3u);
  EXPECT_EQ(kernel.parameters[0].size(), 8u);
  EXPECT_EQ(kernel.parameters[0].align, 8u);  // .ptr's alignment is that of what it points to
  EXPECT_EQ(kernel.parameters[0].space, Space::kParam);
  EXPECT_EQ(kernel.parameters[1].size(), 24u);
  EXPECT_EQ(kernel.parameters[1].align, 8u);
  EXPECT_EQ(kernel.parameters[2].type, Type::kU8);
  EXPECT_EQ(kernel.max_threads, (std::vector<uint32_t>{256, 2, 1}));
  EXPECT_TRUE(module.functions[1].is_weak);
  EXPECT_EQ(module.functions[1].required_threads, (std::vector<uint32_t>{32}));
}

TEST(Parser, OperandsOfEveryForm) {
  Function function = body(R"(
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<5>;
  @!%p1 setp.lt.and.s32 %p2|%p3, %r1, -5, !%p0;
  ld.global.v4.f32 {%f1, %f2, _, %f4}, [%rd1+-16];
  mov.u32 %r1, %ntid.x;
  shfl.sync.bfly.b32 %r2|%p1, %r3, 16, 31, -1;
  tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];
  mov.u64 %rd2, table+8;
  fma.rn.f32 %f1, 0f3F800000, 0d3FF0000000000000, 1.5;
  cp.async.ca.shared.global.L2::128B [%r1], [%rd1+4], 16;
  ld.param.u64 %rd3, [p];
  st.shared.u32 [16], WARP_SZ;
)",
                           ".global .b8 table[16];\n");
  auto all = instructions(function);
  ASSERT_EQ(all.size(), 10u);
  EXPECT_EQ(all[0].guard, "%p1");
  EXPECT_TRUE(all[0].guard_negated);
  EXPECT_EQ(all[0].opcode, "setp.lt.and.s32");
  ASSERT_TRUE(all[0].operands[0].beside);
  EXPECT_EQ(as<Register>(*all[0].operands[0].beside).name, "%p3");
  EXPECT_TRUE(as<Integer>(all[0].operands[2]).is_negative);
  EXPECT_TRUE(all[0].operands[3].negated);
  EXPECT_EQ(all[0].line, 9);

  EXPECT_EQ(as<Vector>(all[1].operands[0]).elements.size(), 4u);
  EXPECT_EQ(as<Register>(as<Vector>(all[1].operands[0]).elements[2]).name, "_");
  EXPECT_EQ(as<Address>(all[1].operands[1]).offset, -16);
  EXPECT_EQ(as<Register>(all[2].operands[1]).name, "%ntid.x");
  EXPECT_EQ(as<Integer>(all[3].operands[3]).bits, 31u);
  EXPECT_EQ(as<Address>(all[4].operands[1]).more.size(), 1u);
  EXPECT_EQ(as<Symbol>(all[5].operands[1]).offset, 8);
  EXPECT_EQ(as<Float>(all[6].operands[1]).bits, 0x3f800000u);
  EXPECT_FALSE(as<Float>(all[6].operands[1]).is_double);
  EXPECT_TRUE(as<Float>(all[6].operands[2]).is_double);
  EXPECT_EQ(as<Float>(all[6].operands[3]).bits, 0x3ff8000000000000u);
  EXPECT_EQ(all[7].opcode, "cp.async.ca.shared.global.L2::128B");
  EXPECT_EQ(std::get<Symbol>(as<Address>(all[8].operands[1]).base).name, "p");
  EXPECT_EQ(std::get<Integer>(as<Address>(all[9].operands[0]).base).bits, 16u);
  EXPECT_EQ(as<Integer>(all[9].operands[1]).bits, 32u);
}

TEST(Parser, ConstantsAreEvaluatedIn64Bits) {
  EXPECT_EQ(integer("0x1FU"), 31u);
  EXPECT_EQ(integer("017"), 15u);
  EXPECT_EQ(integer("0b101"), 5u);
  EXPECT_EQ(integer("-1"), ~uint64_t{0});
  EXPECT_EQ(integer("18446744073709551615"), ~uint64_t{0});
  EXPECT_EQ(integer("-9223372036854775808"), uint64_t{1} << 63);
  EXPECT_EQ(integer("(1 + 2) * 3 - 4 / 2"), 7u);
  EXPECT_EQ(integer("1 << 4 | 3 & 2"), 18u);
  EXPECT_EQ(integer("-8 >> 1"), static_cast<uint64_t>(-4));
  EXPECT_EQ(integer("(.u64)-8 >> 1"), 0x7ffffffffffffffcu);
  EXPECT_EQ(integer("3 > 2 ? 10 : 20"), 10u);
  EXPECT_EQ(integer("-1 < 1U"), 0u);  // compared as unsigned, since one side is
  EXPECT_EQ(integer("~0 == -1 && !0"), 1u);
  EXPECT_EQ(integer("7 % 4"), 3u);
  EXPECT_NE(error_of(".global .u32 x = 1 / 0;").find("divided by zero"), std::string::npos);
  EXPECT_NE(error_of(".global .u64 x = 99999999999999999999;").find("at most 64 bits"), std::string::npos);
}

TEST(Parser, InitialisersAreFlattenedByTheArraysShape) {
  Module module = parsed(R"(
.visible .global .align 4 .u32 grid[2][3] = {{1, 2}, {4, 5, 6}};
.global .align 16 .v4 .f32 quad[2] = {{1.0, 2.0}, {0f40400000, 4.0, 5.0, 6.0}};
.const .align 8 .u64 pointers[] = {generic(grid)+4, grid, 0};
.global .align 1 .b8 mixed[9] = {1, 0xFF(generic(grid)+8), 0xFF00(generic(grid)+8)};
.global .attribute(.managed) .align 4 .u32 managed = 3;
.extern .shared .align 16 .b8 dynamic[];
.weak .common .global .u32 both;
)");
  ASSERT_EQ(module.variables.size(), 7u);
  const Variable& grid = module.variables[0];
  EXPECT_EQ(grid.count, 6u);
  ASSERT_EQ(grid.initial.size(), 6u);
  EXPECT_EQ(std::get<Integer>(grid.initial[2].value).bits, 0u);
  EXPECT_EQ(std::get<Integer>(grid.initial[3].value).bits, 4u);
  const Variable& quad = module.variables[1];
  EXPECT_EQ(quad.size(), 32u);
  ASSERT_EQ(quad.initial.size(), 8u);
  EXPECT_EQ(std::get<Float>(quad.initial[4].value).bits, 0x40400000u);
  const Variable& pointers = module.variables[2];
  EXPECT_EQ(pointers.count, 3u);
  EXPECT_TRUE(pointers.initial[0].generic);
  EXPECT_EQ(std::get<Symbol>(pointers.initial[0].value).offset, 4);
  EXPECT_FALSE(pointers.initial[1].generic);
  const Variable& mixed = module.variables[3];
  EXPECT_EQ(mixed.initial[2].mask, 0xff00u);
  EXPECT_EQ(std::get<Symbol>(mixed.initial[2].value).name, "grid");
  EXPECT_TRUE(module.variables[4].is_managed);
  EXPECT_EQ(module.variables[5].count, 0u);
  EXPECT_TRUE(module.variables[5].is_array && module.variables[5].is_extern);
  EXPECT_TRUE(module.variables[6].is_common);
  EXPECT_NE(error_of(".global .u32 x[2] = {1, 2, 3};").find("more than 2"), std::string::npos);
}

TEST(Parser, NamesOfInnerScopesAreMadeUnique) {
  Function function = body(R"(
  .reg .b32 %r<4>; .reg .b32 same;
  { .reg .pred p; .reg .b32 same; setp.eq.s32 p, %r1, 3; @p bra L; mov.b32 same, 1; L: }
  { .reg .pred p; .reg .b32 %r<2>; setp.eq.s32 p, %r1, %r3; @p bra L; mov.b32 same, 2; L: { L: } bra L; }
)");
  auto all = instructions(function);
  ASSERT_EQ(all.size(), 7u);
  auto name = [&](size_t i, size_t operand) { return as<Register>(all[i].operands[operand]).name; };
  EXPECT_NE(name(0, 0), name(3, 0));  // two predicates p
  EXPECT_EQ(name(0, 1), "%r1");       // the function's
  EXPECT_NE(name(3, 1), "%r1");       // the scope's own
  EXPECT_EQ(name(3, 2), "%r3");       // beyond the scope's range: the function's
  EXPECT_NE(name(2, 0), "same");
  EXPECT_EQ(name(5, 0), "same");
  std::vector<std::string> labels;
  for (const auto& entry : function.body)
    if (auto* label = std::get_if<Label>(&entry)) labels.push_back(label->name);
  ASSERT_EQ(labels.size(), 3u);
  EXPECT_EQ(as<Symbol>(all[1].operands[0]).name, labels[0]);
  EXPECT_EQ(as<Symbol>(all[4].operands[0]).name, labels[1]);
  EXPECT_EQ(as<Symbol>(all[6].operands[0]).name, labels[1]);
  EXPECT_NE(labels[1], labels[2]);
}

TEST(Parser, CallsOfEveryForm) {
  Function function =
      body(R"(
  .reg .b64 %rd<3>; .reg .b32 %r<3>;
  { .param .b32 a; .param .b32 out;
    st.param.b32 [a+0], 1;
    call.uni (out), f, (a);
    ld.param.b32 %r1, [out+0]; }
  { .param .b32 a; .param .b32 out;
    proto : .callprototype (.param .b32 _) _ (.param .b32 _);
    call (out), %rd1, (a), proto; }
  g_calls: .calltargets g, g2;
  call %rd2, (), g_calls;
  call.uni g;
  call.uni g, ();
)",
           ".func (.param .b32 r) f(.param .b32 a) { ret; }\n.func g() { ret; }\n.func g2() { ret; }\n");
  auto all = instructions(function);
  ASSERT_EQ(all.size(), 7u);
  ASSERT_TRUE(all[1].call);
  EXPECT_EQ(all[1].call->target, "f");
  EXPECT_EQ(all[1].call->returned.size(), 1u);
  EXPECT_EQ(all[1].call->arguments,
            (std::vector<std::string>{std::get<Symbol>(as<Address>(all[0].operands[0]).base).name}));
  EXPECT_NE(all[1].call->arguments, all[3].call->arguments);  // each scope's own `a`
  EXPECT_EQ(all[3].call->target, "%rd1");
  ASSERT_EQ(function.prototypes.size(), 1u);
  EXPECT_EQ(all[3].call->prototype, function.prototypes[0].label);
  EXPECT_EQ(function.prototypes[0].signature.parameters.size(), 1u);
  ASSERT_EQ(function.call_targets.size(), 1u);
  EXPECT_EQ(all[4].call->prototype, function.call_targets[0].label);
  EXPECT_EQ(function.call_targets[0].targets, (std::vector<std::string>{"g", "g2"}));
  EXPECT_EQ(all[5].call->target, "g");
  EXPECT_TRUE(all[6].call->arguments.empty());
}

TEST(Parser, TablesOfBranches) {
  Function function = body(R"(
  .reg .b32 %r<2>;
  $L_brx_0: .branchtargets $A, $B;
  brx.idx %r1, $L_brx_0;
  $A:
  $B: ret;
)");
  ASSERT_EQ(function.branch_targets.size(), 1u);
  EXPECT_EQ(function.branch_targets[0].label, "$L_brx_0");
  EXPECT_EQ(function.branch_targets[0].targets, (std::vector<std::string>{"$A", "$B"}));
}

TEST(Parser, VectorRegistersBecomeTheirElements) {
  Function function = body(".reg .v4 .f32 v; .reg .f32 f; add.f32 f, v.x, v.a; st.global.v4.f32 [0], v;");
  auto all = instructions(function);
  EXPECT_EQ(as<Register>(all[0].operands[1]).name, "v.x");
  EXPECT_EQ(as<Register>(all[0].operands[2]).name, "v.w");
  ASSERT_EQ(as<Vector>(all[1].operands[1]).elements.size(), 4u);
  EXPECT_EQ(as<Register>(as<Vector>(all[1].operands[1]).elements[3]).name, "v.w");
  EXPECT_EQ(function.registers.size(), 5u);
}

TEST(Parser, DebuggingAndHintsAreSkipped) {
  Module module = parsed(R"(
.file 1 "/tmp/a.cu", 1, 2
.visible .func g()
{
	.loc 1 5 3
	.loc	1 9 5, function_name $L__info_string0, inlined_at 1 14 3
$L__tmp1:
	.pragma "nounroll";
	ret;
}
.section .debug_str
{
$L__info_string0:
.b8 95,90
}
.alias h, g;
.pragma "a hint";
)");
  ASSERT_EQ(module.functions.size(), 1u);
  EXPECT_EQ(instructions(module.functions[0]).size(), 1u);
  EXPECT_EQ(module.aliases.at("h"), "g");
}

TEST(Parser, FunctionsOfRegistersAsOfOldTexts) {
  Module module =
      parsed(".func (.reg .u32 r) f(.reg .u32 a, .reg .f64 b) { mov.u32 r, a; ret; }\n.extern .func g;\n");
  const Function& function = module.functions[0];
  EXPECT_EQ(function.parameters[1].space, Space::kReg);
  EXPECT_EQ(function.registers.size(), 3u);
  EXPECT_EQ(as<Register>(instructions(function)[0].operands[0]).name, "r");
  EXPECT_TRUE(module.functions[1].is_extern);
  EXPECT_FALSE(module.functions[1].has_body);
}

TEST(Parser, ErrorsNameTheLineAndTheExpectation) {
  EXPECT_EQ(error_of(".visible .entry k()\n{\n  add.s32 %r1, 1, 2;\n}\n"),
            "PTX line 6: the register %r1 is not declared");
  EXPECT_EQ(error_of(".visible .entry k()\n{\n  ret\n}\n"), "PTX line 7: expected an operand, found '}'");
  EXPECT_EQ(error_of(".visible .entry k()\n{\n  bra nowhere;\n}\n"), "PTX line 6: nowhere is not declared");
  EXPECT_EQ(error_of(".reg .u32 x;\n").substr(0, 11), "PTX line 4:");
  EXPECT_EQ(error_of(".global .u32 x\n"), "PTX line 5: expected ';', found the end of the text");
  EXPECT_EQ(error_of(".global .q32 x;\n"),
            "PTX line 4: expected a state space, a type or a name, found '.q32'");
  EXPECT_EQ(error_of(".entry k() { .reg .u32 a; .reg .f32 a; }"),
            "PTX line 4: a is declared twice in one scope");
  EXPECT_EQ(error_of("/* never closed\n"), "PTX line 4: this comment does not end");
  EXPECT_FALSE(parse(""));
  EXPECT_FALSE(parse("int main() {}"));
}

TEST(Parser, DuplicateDefinitionsAreRefused) {
  EXPECT_NE(error_of(".func f() { ret; }\n.func f() { ret; }\n").find("f is defined twice"),
            std::string::npos);
  EXPECT_NE(error_of(".entry f() { ret; }\n.func f() { ret; }\n").find("defined twice"), std::string::npos);
  EXPECT_NE(error_of(".global .u32 v;\n.global .u32 v;\n").find("v is defined twice"), std::string::npos);
  EXPECT_EQ(error_of(".func f();\n.func f() { ret; }\n.func f();\n"), "no error");
  EXPECT_EQ(error_of(".extern .global .u32 v;\n.global .u32 v;\n"), "no error");
  auto body = [](const std::string& text) { return error_of(".entry k() { " + text + " ret; }\n"); };
  for (const char* text : {".reg .b32 %r<13>; .reg .b64 %r1<3>;", ".reg .b64 %r1<3>; .reg .b32 %r<13>;",
                           ".reg .b32 %r<3>; .reg .b64 %r2;", ".reg .b64 %r2; .reg .b32 %r<3>;"})
    EXPECT_NE(body(text).find("declared twice"), std::string::npos) << text;
  for (const char* text : {".reg .b32 %r<10>; .reg .b64 %r1<3>;", ".reg .b64 %r1<3>; .reg .b32 %r<10>;",
                           ".reg .b32 %r<3>; .reg .b64 %r3;", ".reg .b32 %r<13>; { .reg .b64 %r1<3>; }",
                           ".reg .b32 %r<13>; .reg .b64 %rd<13>;"})
    EXPECT_EQ(body(text), "no error") << text;
}

TEST(Parser, DirectivesOfFunctionsAreKnownOrRefused) {
  Module module = parsed(
      ".entry k() .reqnctapercluster 2, 1 .maxclusterrank 8 .maxnreg 32 { ret; }\n"
      ".entry e() .explicitcluster { ret; }\n");
  EXPECT_EQ(module.functions[0].cluster, (std::vector<uint32_t>{2, 1}));
  EXPECT_FALSE(module.functions[0].is_explicit_cluster);
  EXPECT_TRUE(module.functions[1].is_explicit_cluster);
  EXPECT_NE(error_of(".entry k() .notthere 2 { ret; }\n").find(".notthere"), std::string::npos);
}

// A damaged text is an error, never a crash, and takes no memory that it does not have.
TEST(Parser, EveryTextIsReadOrRefused) {
  std::string text = kHead + R"(
.visible .global .align 4 .u32 grid[2][3] = {{1, 2}, {4, 5, 0xFF(generic(grid)+4)}};
.visible .entry k(.param .align 8 .b8 p[24]) .maxntid 256
{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .v2 .b32 v;
  { .param .b32 a; @!%p1 bra L; call.uni (a), f, (a); L: }
  ld.global.v2.b32 {%r1, v.x}, [%r2+-(3*4)]; tex.1d.v4.f32.s32 {%r1,%r2,%r3,%r4}, [%r1, {%r2}];
  t: .branchtargets L2; brx.idx %r1, t; L2: .loc 1 2 3
  mov.b32 %r1, 1 ? (2 + 3) : ~4;
}
.func (.param .b32 r) f(.param .b32 a) { ret; }
)";
  ASSERT_TRUE(parse(text)) << parse(text).error().message;
  for (size_t cut = 0; cut < text.size(); cut++) (void)parse(text.substr(0, cut));
  uint64_t random = 1;
  const std::string replacements = "{}()[];,:.%@!|<>=-+*/~0x9fU\"\n a";
  for (int i = 0; i < 5000; i++) {
    std::string damaged = text;
    for (int k = 0; k < 3; k++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      damaged[(random >> 33) % damaged.size()] = replacements[(random >> 20) % replacements.size()];
    }
    (void)parse(damaged);
  }
  EXPECT_FALSE(parse(kHead + ".global .u32 x = " + std::string(100000, '(') + ";"));
  EXPECT_FALSE(parse(kHead + ".global .u32 x = " + std::string(100000, '-') + "1;"));
  EXPECT_FALSE(parse(kHead + ".entry k() {" + std::string(100000, '{')));
  EXPECT_FALSE(parse(kHead + ".global .b8 x[99999999][99999999][99999999];"));
  EXPECT_FALSE(parse(kHead + ".entry k() { .reg .b32 %r<4000000000>; }"));
}

}  // namespace
}  // namespace cropdl::ptx
