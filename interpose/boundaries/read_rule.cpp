// Reads DWARF call frame information, as compilers write it for x86-64 (.eh_frame and its sorted table
// .eh_frame_hdr: Linux Standard Base Core 5.0, 10.6; the instructions: DWARF 5, 6.4). Only what tells where a
// frame's caller is.
#include <cstring>

#include "interpose/boundaries/frame_rules.h"

namespace cropdl::boundaries {

namespace {

constexpr int kRbp = 6, kRsp = 7, kReturnAddress = 16;  // DWARF's numbers (x86-64 psABI, 3.6.2)
// Encodings of addresses (DW_EH_PE_…).
constexpr uint8_t kUdata4 = 0x03, kSdata4 = 0x0b, kFormat = 0x0f, kTableOfSdata4 = 0x3b, kOmit = 0xff;

class Reader {
 public:
  Reader(uint64_t at, uint64_t end) : at_(at), end_(end) {}
  uint64_t at() const { return at_; }
  bool more() const { return at_ < end_; }
  void skip(uint64_t bytes) { at_ = bytes > end_ - at_ ? end_ : at_ + bytes; }
  template <class T>
  T get() {
    T value{};
    if (end_ - at_ >= sizeof value) std::memcpy(&value, reinterpret_cast<const void*>(at_), sizeof value);
    skip(sizeof value);
    return value;
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = get<uint8_t>();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
  }
  int64_t sleb() {
    int64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = get<uint8_t>();
      if (shift < 64) value |= static_cast<int64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return shift < 57 && (byte & 0x40) ? value | -(int64_t{1} << (shift + 7)) : value;
    }
  }

 private:
  uint64_t at_, end_;
};

// The part of a common information entry that matters.
struct Common {
  uint64_t code_alignment = 0;
  int64_t data_alignment = 0;
  uint8_t encoding = 0;  // of addresses in its entries
  Reader instructions{0, 0};
};

// Reads the length of an entry; the entry's content follows. False: the end of the list, or more than 4 GiB.
bool read_length(uint64_t entry, Reader* content) {
  const auto length = Reader(entry, entry + 4).get<uint32_t>();
  if (length == 0 || length == 0xffff'ffff) return false;
  *content = Reader(entry + 4, entry + 4 + length);
  return true;
}

bool read_common(uint64_t entry, Common* common) {
  Reader r{0, 0};
  if (!read_length(entry, &r) || r.get<uint32_t>() != 0) return false;
  const auto version = r.get<uint8_t>();
  if (version != 1 && version != 3) return false;
  char augmentation[8] = {};
  for (size_t i = 0;; ++i) {
    if (i == sizeof augmentation) return false;
    augmentation[i] = static_cast<char>(r.get<uint8_t>());
    if (augmentation[i] == 0) break;
  }
  common->code_alignment = r.uleb();
  common->data_alignment = r.sleb();
  if (r.uleb() != kReturnAddress) return false;
  if (augmentation[0] != 'z') return false;
  Reader data(r);
  const uint64_t length = data.uleb();
  common->instructions = data;
  common->instructions.skip(length);
  for (const char* letter = augmentation + 1; *letter != 0; ++letter) {
    if (*letter == 'R') {
      common->encoding = data.get<uint8_t>();
    } else if (*letter == 'L') {
      data.get<uint8_t>();
    } else if (*letter == 'P') {
      const auto encoding = data.get<uint8_t>();
      if (encoding == kOmit) return false;
      const uint8_t format = encoding & kFormat;
      data.skip(format == kUdata4 || format == kSdata4 ? 4 : 8);
    } else {  // S: a signal handler's frame; others are unknown
      return false;
    }
  }
  return true;
}

struct Row {
  int cfa_register = -1;  // -1: the CFA is an expression
  int32_t cfa_offset = 0;
  int32_t saved_rbp = 0;  // bytes below the CFA; 0: rbp is the caller's
  bool rbp_is_lost = false;
};

// Runs the instructions that lead to the row of one address.
class Machine {
 public:
  explicit Machine(const Common& common) : common_(common) {}
  Row row;

  // `begin`: the first address of the function. False: an unknown instruction.
  bool run(Reader r, uint64_t begin, uint64_t address) {
    location_ = begin;
    while (r.more()) {
      if (!step(&r)) return false;
      if (location_ > address) {
        row = before_;
        return true;
      }
    }
    return true;
  }
  void keep_as_initial() { initial_ = row; }

 private:
  void advance(uint64_t units) {
    before_ = row;
    location_ += units * common_.code_alignment;
  }
  void save(uint64_t which, int64_t offset) {  // at the CFA plus the offset
    if (which == kRbp) {
      row.saved_rbp = static_cast<int32_t>(-offset);
      row.rbp_is_lost = offset >= 0;
    }
    return_address_moved_ |= which == kReturnAddress && offset != -8;
  }
  void lose(uint64_t which) {
    row.rbp_is_lost |= which == kRbp;
    return_address_moved_ |= which == kReturnAddress;
  }
  void restore(uint64_t which) {
    if (which != kRbp) return;
    row.saved_rbp = initial_.saved_rbp;
    row.rbp_is_lost = initial_.rbp_is_lost;
  }
  int64_t scaled(int64_t offset) const { return offset * common_.data_alignment; }
  void define_offset(bool is_scaled, Reader* r) {
    row.cfa_offset = static_cast<int32_t>(is_scaled ? scaled(r->sleb()) : static_cast<int64_t>(r->uleb()));
  }
  bool step(Reader* r);

  const Common& common_;
  Row before_, initial_, remembered_[4];
  size_t remembered_count_ = 0;
  uint64_t location_ = 0;
  bool return_address_moved_ = false;
};

bool Machine::step(Reader* r) {
  const auto byte = r->get<uint8_t>();
  const uint8_t high = byte & 0xc0, operation = high != 0 ? high : byte;
  const auto first = [&] { return high != 0 ? uint64_t{byte} & 0x3f : r->uleb(); };  // operand
  uint64_t which;
  switch (operation) {
    case 0x00:  // DW_CFA_nop
      break;
    case 0x40:  // DW_CFA_advance_loc
      advance(first());
      break;
    case 0x02:  // DW_CFA_advance_loc1, 2, 4
      advance(r->get<uint8_t>());
      break;
    case 0x03:
      advance(r->get<uint16_t>());
      break;
    case 0x04:
      advance(r->get<uint32_t>());
      break;
    case 0x80:  // DW_CFA_offset, _extended, _extended_sf
    case 0x05:
    case 0x11:
      which = first();
      save(which, scaled(operation == 0x11 ? r->sleb() : static_cast<int64_t>(r->uleb())));
      break;
    case 0xc0:  // DW_CFA_restore, _extended
    case 0x06:
      restore(first());
      break;
    case 0x07:  // DW_CFA_undefined, register, expression, val_expression
    case 0x09:
    case 0x10:
    case 0x16:
      lose(r->uleb());
      if (operation == 0x09) r->uleb();
      if (operation == 0x10 || operation == 0x16) r->skip(r->uleb());
      break;
    case 0x08:  // DW_CFA_same_value
      if (r->uleb() == kRbp) row.saved_rbp = 0, row.rbp_is_lost = false;
      break;
    case 0x0a:  // DW_CFA_remember_state
      if (remembered_count_ == sizeof remembered_ / sizeof *remembered_) return false;
      remembered_[remembered_count_++] = row;
      break;
    case 0x0b:  // DW_CFA_restore_state
      if (remembered_count_ == 0) return false;
      row = remembered_[--remembered_count_];
      break;
    case 0x0c:  // DW_CFA_def_cfa, _sf
    case 0x12:
      row.cfa_register = static_cast<int>(r->uleb());
      define_offset(operation == 0x12, r);
      break;
    case 0x0d:  // DW_CFA_def_cfa_register
      row.cfa_register = static_cast<int>(r->uleb());
      break;
    case 0x0e:  // DW_CFA_def_cfa_offset, _sf
    case 0x13:
      define_offset(operation == 0x13, r);
      break;
    case 0x0f:  // DW_CFA_def_cfa_expression
      row.cfa_register = -1;
      r->skip(r->uleb());
      break;
    case 0x2e:  // DW_CFA_GNU_args_size
      r->uleb();
      break;
    default:
      return false;
  }
  return !return_address_moved_;
}

// The last entry of the sorted table that does not begin behind the address. Source: LSB Core 5.0, 10.6.2.
bool find_entry(uint64_t address, uint64_t header, uint64_t* begin, uint64_t* entry) {
  Reader r(header, header + 4);
  const auto version = r.get<uint8_t>(), list = r.get<uint8_t>(), count = r.get<uint8_t>(),
             table = r.get<uint8_t>();
  if (version != 1 || (list & kFormat) != kSdata4 || count != kUdata4 || table != kTableOfSdata4)
    return false;
  struct Entry {
    int32_t begin, entry;  // relative to the header
  };
  const auto entries = Reader(header + 8, header + 12).get<uint32_t>();
  const auto row = [&](uint64_t i) { return Reader(header + 12 + 8 * i, header + 20 + 8 * i).get<Entry>(); };
  const auto begins = [&](uint64_t i) { return header + static_cast<uint64_t>(int64_t{row(i).begin}); };
  uint64_t low = 0, high = entries;
  if (entries == 0 || begins(0) > address) return false;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (begins(middle) <= address ? low : high) = middle;
  }
  *begin = begins(low);
  *entry = header + static_cast<uint64_t>(int64_t{row(low).entry});
  return true;
}

}  // namespace

// Empty if there is no entry for the site, the frame is a signal handler's, or the entry has a form that
// compilers do not use for x86-64.
FrameRule read_rule(uint64_t site, uint64_t eh_frame_hdr) {
  const uint64_t address = site - 1;
  FrameRule rule;
  uint64_t begin, entry;
  if (eh_frame_hdr == 0 || !find_entry(address, eh_frame_hdr, &begin, &entry)) return rule;
  Reader r{0, 0};
  if (!read_length(entry, &r)) return rule;
  const uint64_t pointer = r.at();
  const auto distance = r.get<uint32_t>();
  Common common;
  if (distance == 0 || !read_common(pointer - distance, &common)) return rule;
  const uint8_t format = common.encoding & kFormat;
  const bool short_form = format == kUdata4 || format == kSdata4;
  r.skip(short_form ? 4 : 8);  // where the function begins: the table has told
  const uint64_t size = short_form ? r.get<uint32_t>() : r.get<uint64_t>();
  if (address - begin >= size) return rule;
  r.skip(r.uleb());  // augmentation data
  Machine machine(common);
  if (!machine.run(common.instructions, begin, ~uint64_t{0})) return rule;
  machine.keep_as_initial();
  if (!machine.run(r, begin, address)) return rule;
  const Row& row = machine.row;
  if (row.cfa_register < 0 || row.cfa_offset <= 0 || row.cfa_offset >= kLargestFrame ||
      row.cfa_offset % 8 != 0)
    return rule;
  if (row.cfa_register == kRsp)
    rule.above_sp = row.cfa_offset;
  else if (row.cfa_register == kRbp)
    rule.above_bp = row.cfa_offset;
  rule.saved_bp = row.rbp_is_lost ? -1 : row.saved_rbp;
  return rule;
}

}  // namespace cropdl::boundaries
