// Facts read from device code: its end, its variables, and whether its kernels call malloc. The options with
// which a restart loads it.
#include "interpose/cuda/lower/code_image.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <zstd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "interpose/cuda/lower/load_options.h"

namespace cropdl::cuda {
namespace {

constexpr char kText[] = R"(//
.version 8.0
.target sm_75
.address_size 64
	// .globl	first  .global .u32 comment;
.extern .global .align 4 .u32 elsewhere;
.global .align 1 .b8 $str[4] = {97, 98, 99};
.visible .global .align 4 .u32 plain = 3;
.global .attribute(.managed) .align 4 .u32 managed;
.const .align 4 .b8 constant[28];
.weak .global .align 8 .v2 .f32 pairs[2] = {1.0, 2.0,
  3.0, 4.0};
.visible .entry first(.param .u64 first_param_0)
{
	.reg .b32 %r<2>;
	ld.global.u32 	%r1, [plain];
	st.global.u32 	[my_malloc_count], %r1;
	ret;
}
.global .align 4 .u32 _ZZ5firstE4once;
)";
constexpr char kAllocates[] = R"(.version 8.0
.target sm_90
.extern .func  (.param .b64 func_retval0) malloc
(
	.param .b64 malloc_param_0
)
;
.global .u32 newer;
.visible .entry second() { ret; }
)";

const std::set<std::string> kVariables = {"plain", "managed", "constant", "pairs", "_ZZ5firstE4once"};

void append(std::string* to, const void* bytes, size_t n) { to->append(static_cast<const char*>(bytes), n); }

// A PTX entry as nvcc 13.0 writes it.
std::string entry(uint32_t architecture, const std::string& text, bool compressed) {
  std::string payload = text;
  uint64_t flags = 0;
  uint32_t size = 0;
  if (compressed) {
    payload.resize(ZSTD_compressBound(text.size()));
    payload.resize(ZSTD_compress(payload.data(), payload.size(), text.data(), text.size(), 3));
    size = static_cast<uint32_t>(payload.size());
    flags = 0x8000;
  }
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string header(0x40, '\0');
  const auto put = [&](size_t at, auto number) { memcpy(header.data() + at, &number, sizeof number); };
  put(0, uint16_t{1});
  put(2, uint16_t{0x101});
  put(4, uint32_t{0x40});
  put(8, uint64_t{payload.size()});
  put(0x10, size);
  put(0x1c, architecture);
  put(0x28, flags);
  put(0x38, compressed ? uint64_t{text.size()} : uint64_t{0});
  return header + payload;
}

std::string fat_binary(const std::string& entries) {
  std::string all;
  const uint32_t magic = 0xba55ed50;
  const uint16_t version = 1, header = 16;
  const uint64_t size = entries.size();
  append(&all, &magic, 4);
  append(&all, &version, 2);
  append(&all, &header, 2);
  append(&all, &size, 8);
  return all + entries;
}

TEST(CodeImage, TextEndsAtItsZero) {
  const auto code = code_at(kText);
  EXPECT_EQ(code.size(), sizeof kText);
  EXPECT_TRUE(code_at("\x01\x02\x03\x04 is nothing").empty());
  EXPECT_TRUE(code_at(nullptr).empty());
}

TEST(CodeImage, VariablesOfTextAreFound) {
  const CodeFacts facts = facts_of(code_at(kText), 75, true);
  EXPECT_TRUE(facts.read);
  EXPECT_FALSE(facts.allocates);
  EXPECT_EQ(facts.variables, kVariables);
}

std::set<std::string> variables_of(const std::string& declarations) {
  const CodeFacts facts =
      facts_of(code_at((".version 8.0\n.target sm_75\n" + declarations).c_str()), 75, true);
  EXPECT_TRUE(facts.read) << declarations;
  return facts.variables;
}

TEST(CodeImage, VariablesAreFoundHoweverTheyAreWritten) {
  using Names = std::set<std::string>;
  EXPECT_EQ(variables_of(".global .u32 a, b = 3, c[2] = {1, 2}, d;"), (Names{"a", "b", "c", "d"}));
  EXPECT_EQ(variables_of(".global .u32 a; .const .u32 b; .shared .u32 s;"), (Names{"a", "b"}));
  EXPECT_EQ(variables_of(".visible .global .align 4\n .u32\nx\n;"), Names{"x"});
  EXPECT_EQ(variables_of(".global .u32 r<3>;"), (Names{"r0", "r1", "r2"}));
  EXPECT_EQ(variables_of("/* { */ .global .u32 a; // {\n.global .u32 b;"), (Names{"a", "b"}));
  EXPECT_EQ(variables_of(".file 1 \"a{b\\\".cu\", 12, 13\n.global .u32 a;"), Names{"a"});
  EXPECT_EQ(variables_of(".section .debug_str { info: .b8 1\n.b64 info }\n.global .u64 p = generic(a)+4;"),
            Names{"p"});
  EXPECT_EQ(variables_of(".extern .global .u32 e; .weak .global .u32 w; .common .global .u32 c;"),
            (Names{"c", "w"}));
  EXPECT_EQ(variables_of(".global .attribute(.managed, .unified(1,2)) .u32 m; .global .texref t;"),
            Names{"m"});
  EXPECT_EQ(
      variables_of(".entry k(.param .u64 .ptr .global .align 4 p) .maxntid 1,1,1 .pragma \"nounroll\"; {\n"
                   "ld.global.u32 %r1, [x]; { .reg .u32 t; } }\n.func (.reg .u32 r) f (.reg .u32 "
                   "a);\n.global .u32 x;"),
      Names{"x"});
}

TEST(CodeImage, TextThatDoesNotParseIsNotRead) {
  for (const std::string text :
       {".global .u32 a", ".global .u32 a; }", "/* .global .u32 a;", ".entry k() { .global .u32 mine; }",
        ".entry k() { ", ".file 1 \"a.cu", "#include \"b.ptx\"", ".unheard_of 3; .global .u32 a;",
        ".global .u32 r<n>;", "some words"}) {
    const CodeFacts facts = facts_of(code_at(text.c_str()), 75, true);
    EXPECT_FALSE(facts.read) << text;
    EXPECT_TRUE(facts.broken) << text;
  }
}

TEST(CodeImage, MallocIsFoundWhereverItStands) {
  const auto allocates = [](const std::string& text) {
    return facts_of(code_at(text.c_str()), 75, true).allocates;
  };
  EXPECT_TRUE(allocates(".func f() { .reg .u32 malloc_1; call (r), malloc, (p); }"));
  EXPECT_TRUE(allocates(".extern .func (.param .b64 r)\nmalloc\n(.param .b64 malloc_param_0);"));
  EXPECT_FALSE(allocates(".func f() { // malloc\n call my_malloc, (p); } .file 1 \"malloc\""));
  // new of an aligned type, as nvcc 13.0 writes it
  EXPECT_TRUE(
      allocates(".extern .func (.param .b64 func_retval0) __cuda_syscall_aligned_malloc\n(\n"
                "\t.param .b64 __cuda_syscall_aligned_malloc_param_0,\n"
                "\t.param .b64 __cuda_syscall_aligned_malloc_param_1\n)\n;"));
  // a kernel's cudaMalloc
  EXPECT_TRUE(
      allocates(".extern .func (.param .b32 func_retval0) __cudaCDP2Malloc\n(\n"
                "\t.param .b64 __cudaCDP2Malloc_param_0,\n"
                "\t.param .b64 __cudaCDP2Malloc_param_1\n)\n;"));
  EXPECT_FALSE(allocates(".func (.param .b64 r) _Znwm(.param .b64 n) { ret; }")) << "the program's own new";
  EXPECT_FALSE(allocates(".func f() { call free, (p); call (r), __cuda_syscall_cnpv2GetDevice, (p); }"));
}

// An object file with one symbol, which it does not define.
std::string object_that_calls(const char* name) {
  const std::string names = std::string("\0", 1) + name + '\0';
  Elf64_Ehdr header{};
  Elf64_Sym symbols[2] = {};
  Elf64_Shdr sections[3] = {};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = sizeof header;
  header.e_shnum = 3;
  header.e_shentsize = sizeof(Elf64_Shdr);
  symbols[1].st_name = 1;
  sections[1].sh_type = SHT_SYMTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = sizeof symbols;
  sections[1].sh_entsize = sizeof(Elf64_Sym);
  sections[1].sh_link = 2;
  sections[2].sh_offset = sections[1].sh_offset + sizeof symbols;
  sections[2].sh_size = names.size();
  std::string all;
  append(&all, &header, sizeof header);
  append(&all, sections, sizeof sections);
  append(&all, symbols, sizeof symbols);
  return all + names;
}

TEST(CodeImage, MallocIsFoundInMachineCode) {
  const auto facts = [](const char* name) {
    const std::string all = object_that_calls(name);
    return facts_of({all.data(), all.size()}, 90, false);
  };
  for (const char* name : {"malloc", "__cuda_syscall_aligned_malloc"}) {
    EXPECT_TRUE(facts(name).read) << name;
    EXPECT_TRUE(facts(name).allocates) << name;
  }
  EXPECT_TRUE(facts("free").read);
  EXPECT_FALSE(facts("free").allocates);
}

TEST(CodeImage, KernelsThatCallMallocAreFound) {
  const CodeFacts facts = facts_of(code_at(kAllocates), 90, true);
  EXPECT_TRUE(facts.allocates);
  EXPECT_EQ(facts.variables, std::set<std::string>{"newer"});
}

TEST(CodeImage, OfAFatBinaryThePartCountsThatTheDeviceTakes) {
  for (bool compressed : {false, true}) {
    const std::string all = fat_binary(entry(75, kText, compressed) + entry(90, kAllocates, compressed));
    const auto code = code_at(all.data());
    EXPECT_EQ(code.size(), all.size());
    EXPECT_EQ(facts_of(code, 80, true).variables, kVariables);
    EXPECT_FALSE(facts_of(code, 80, true).allocates);
    EXPECT_TRUE(facts_of(code, 90, true).allocates);
    EXPECT_FALSE(facts_of(code, 70, true).read);
  }
}

TEST(CodeImage, AWrapperStandsForItsTarget) {
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void* data = nullptr;
    const void* const* parts = nullptr;
  } wrapper;
  const std::string one = fat_binary(entry(75, kText, true)),
                    other = fat_binary(entry(75, kAllocates, false));
  wrapper.data = one.data();
  EXPECT_EQ(code_at(&wrapper).size(), one.size());
  EXPECT_EQ(facts_at(&wrapper, 90, true).variables, kVariables);
  // Separate compilation: several parts cannot be copied as one, but each is read.
  const void* const parts[] = {other.data(), nullptr};
  wrapper.version = 2;
  wrapper.parts = parts;
  EXPECT_TRUE(code_at(&wrapper).empty());
  EXPECT_TRUE(facts_at(&wrapper, 90, true).allocates);
  EXPECT_TRUE(facts_at(&wrapper, 90, true).variables.contains("plain"));
}

int a_variable_of_this_program = 1;

TEST(CodeImage, VariablesOfAnObjectFileAreFound) {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::string all(std::istreambuf_iterator<char>(file), {});
  const auto code = code_at(all.data());
  EXPECT_LE(code.size(), all.size());
  bool found = false;
  for (const std::string& name : facts_of(code, 90, false).variables)
    found = found || name.find("a_variable_of_this_program") != std::string::npos;
  EXPECT_TRUE(found) << a_variable_of_this_program++;
}

struct LoadRecipe {
  int32_t names[1] = {1};  // CU_JIT_THREADS_PER_BLOCK
  void* values[1] = {reinterpret_cast<void*>(96)};
  template <class T>
  const T* array() {
    if constexpr (std::is_same_v<T, int32_t>)
      return names;
    else
      return values;
  }
  template <class T>
  T value() {
    return 1;
  }
};

TEST(LoadOptions, WhatTheDriverWritesIntoAValueStaysOutOfTheRecipe) {
  LoadRecipe recipe;
  LoadOptions options = read_options(recipe);
  ASSERT_EQ(options.count(), 1u);
  EXPECT_EQ(*options.names_as<int32_t>(), 1);
  EXPECT_EQ(options.values[0], reinterpret_cast<void*>(96));
  options.values[0] = reinterpret_cast<void*>(1024);
  EXPECT_EQ(recipe.values[0], reinterpret_cast<void*>(96));
}

// Memory of whole pages, the end of whose contents is the end of what can be read.
class AtTheEnd {
 public:
  explicit AtTheEnd(size_t size) : size_(size) {
    at_ = static_cast<char*>(
        mmap(nullptr, 2 * kHalf, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(at_ + kHalf, kHalf, PROT_NONE);
  }
  ~AtTheEnd() { munmap(at_, 2 * kHalf); }
  AtTheEnd(const AtTheEnd&) = delete;
  char* data() { return at_ + kHalf - size_; }

 private:
  static constexpr size_t kHalf = 1 << 16;
  char* at_;
  size_t size_;
};

TEST(CodeImage, DamagedMachineCodeIsReadWithinItsBounds) {
  const std::string all = object_that_calls("malloc");
  AtTheEnd copy(all.size());
  std::mt19937_64 random(5);
  const uint64_t numbers[] = {0,          1,     8,          all.size() - 1,     all.size(), all.size() + 1,
                              1ull << 31, ~0ull, 1ull << 63, ~0ull - all.size(), ~0ull - 23};
  int read = 0;
  for (int turn = 0; turn < 200'000; ++turn) {
    memcpy(copy.data(), all.data(), all.size());
    for (uint64_t changes = random() % 3; changes <= 2; ++changes) {
      const uint64_t number = numbers[random() % std::size(numbers)];
      const size_t bytes = size_t{1} << random() % 4;
      memcpy(copy.data() + SELFMAG + random() % (all.size() - SELFMAG - bytes), &number, bytes);
    }
    read += facts_of({copy.data(), all.size()}, 90, false).read;
  }
  EXPECT_GT(read, 1000);
}

TEST(CodeImage, ATruncatedImageHasNoFacts) {
  const std::string all = fat_binary(entry(75, kText, true) + entry(90, kAllocates, false));
  for (size_t n = 0; n < all.size(); n += 3) {
    const std::string part = all.substr(0, n);
    facts_of({part.data(), part.size()}, 90, true);
  }
  std::string damaged = all;
  for (size_t at = 16; at < damaged.size(); at += 5) {
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    facts_of({damaged.data(), damaged.size()}, 90, true);
    damaged[at] = all[at];
  }
}

}  // namespace
}  // namespace cropdl::cuda
