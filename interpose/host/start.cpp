// Starts a program: loads it into the window with the layout that the kernel and ld.so would give it.
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

#include "base/file.h"
#include "base/format.h"
#include "base/random.h"
#include "base/say.h"
#include "interpose/host/loaded_objects.h"
#include "interpose/host/process.h"
#include "restart/process/machine.h"

namespace cropdl::host {
namespace {

constexpr uint64_t kGap = 1 << 20;  // between a loaded file and the next mapping

// main() has taken CROPDL_BOOT out of it.
std::vector<std::string> program_environment(const launching::Boot& boot) {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) out.emplace_back(*e);
  if (!boot.preload.empty()) out.push_back("LD_PRELOAD=" + boot.preload);
  return out;
}

Result<launching::MappedElf> map_at_next(const launching::ElfFile& elf) {
  auto* state = seam::state();
  auto mapped = launching::map_elf(elf, state->map_next);
  if (mapped && seam::in_window(mapped->begin))
    state->map_next = (mapped->end + kGap + 0x1fffff) & ~0x1fffffull;
  return mapped;
}

// Whether `0f 05` at text[i] is a `syscall` instruction, not part of a displacement or constant: an
// instruction shortly before must set eax, and no opcode of a jump, a call or a constant come just before.
bool looks_like_syscall(const uint8_t* text, uint64_t i) {
  if (i < 7) return true;
  const uint8_t before = text[i - 1];
  if (before == 0xe8 || before == 0xe9 || (text[i - 2] == 0x0f && (before & 0xf0) == 0x80) ||
      (before >= 0xb8 && before <= 0xbf))
    return false;
  for (uint64_t back = 2; back <= 24 && back <= i; ++back) {
    const uint8_t* p = text + i - back;
    if (p[0] == 0xb8 && back >= 5 && p[2] < 4 && p[3] == 0 && p[4] == 0) return true;  // mov $small, %eax
    if (p[0] == 0x31 && p[1] == 0xc0) return true;                                     // xor %eax, %eax
    if (p[0] == 0x89 && (p[1] & 0xc7) == 0xc0) return true;                            // mov %reg, %eax
    if (p[0] == 0x8b && (p[1] & 0x38) == 0) return true;                               // mov memory, %eax
    if (back >= 7 && p[0] == 0xc7 && p[1] == 0xc0) return true;                        // mov $imm, %rax
  }
  return false;
}

// A position-dependent program lies below 4 GiB. There the filter cannot distinguish its system calls from
// those of programs that its children exec. ld.so and the libraries are in the window.
bool has_own_system_calls(const launching::ElfFile& elf, const launching::MappedElf& image) {
  if (elf.position_independent()) return false;
  for (const auto& s : elf.segments) {
    if (s.p_type != PT_LOAD || (s.p_flags & PF_X) == 0) continue;
    const auto* text = reinterpret_cast<const uint8_t*>(image.bias + s.p_vaddr);
    const uint8_t* const end = text + s.p_filesz;
    for (const uint8_t* p = text;
         (p = static_cast<const uint8_t*>(memmem(p, end - p, "\x0f\x05", 2))) != nullptr; ++p)
      if (looks_like_syscall(text, p - text)) return true;
  }
  return false;
}

}  // namespace

void start_program(Process& p, const std::vector<std::string>& argv) {
  if (p.launch.rank == 0) {
    restart::StoreIdentity identity{random_hex(16), p.program, p.arguments, p.launch.ranks};
    if (auto s = open_versions(p, identity); !s) die(s.error().message);
  }
  if (auto s = map_fresh_state(p.boot.installation, p.program); !s) die(s.error().message);
  if (auto s = p.libraries.format(); !s) die(s.error().message);
  choose_stand_ins(p.boot);
  fill_control_page(p);

  const auto program = launching::read_elf(p.program);
  if (!program) die(program.error().message);
  const auto loader = launching::read_elf(program->interpreter);
  if (!loader) die(loader.error().message);
  const auto image = map_at_next(*program);
  if (!image) die(image.error().message);
  auto* state = seam::state();
  state->map_next += drawn(kSpread);
  const auto interpreter = map_at_next(*loader);
  if (!interpreter) die(interpreter.error().message);
  for (const int fd : p.inherited.programs) {
    if (fd >= static_cast<int>(seam::kMaxDescriptors)) die(formatted("descriptor {} is too high", fd));
    seam::set_owned(state, static_cast<uint64_t>(fd), true);
    if (fd < 3) state->streams[fd] = static_cast<uint8_t>(fd + 1);
  }
  state->text_begin = interpreter->begin;
  state->text_end = interpreter->end;
  if (p.libraries.follow_objects())
    if (auto s = follow_loaded_objects(loader->path, *interpreter); !s)
      say("cropdl-run: " + s.error().message);
  state->no_lower_half_below_4gib = p.boot.sanitizer.empty() ? 0 : 1;
  state->uses_raw_syscalls_low = has_own_system_calls(*program, *image) ? 1 : 0;

  for (const auto& s : program->segments)
    if (s.p_type == PT_GNU_STACK && (s.p_flags & PF_X) != 0) state->executable_stacks = 1;
  const auto sp = build_stack({.arguments = argv,
                               .environment = program_environment(p.boot),
                               .program = p.program,
                               .image = *image,
                               .interpreter = *interpreter,
                               .segments = program->header.e_phnum});
  if (!sp) die(sp.error().message);
  launching::set_software_devices(&p.boot);
  p.libraries.prepare(p.boot);

  p.processors = process::possible_processors();
  if (auto s = start_tls_block_pool(); !s) die(s.error().message);
  if (auto s = start_agent(p); !s) die(s.error().message);
  const std::string name = file_name_of(p.program);
  prctl(PR_SET_NAME, name.c_str());
  enter_program(*sp, interpreter->entry);
}

}  // namespace cropdl::host
