// links: gpu_data
// Integer instructions against arithmetic in 128 bits and bit by bit.
#include "rows.h"

namespace {

using rows::check;
using rows::Values;
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

struct Type {
  const char* name;
  int bits;
  bool is_signed;
};
constexpr Type kTypes[] = {{"u16", 16, false}, {"s16", 16, true},  {"u32", 32, false},
                           {"s32", 32, true},  {"u64", 64, false}, {"s64", 64, true}};
Wide value(uint64_t bits, int width, bool is_signed) {
  const Wide v = width == 64 ? Wide(bits) : Wide(bits & ((uint64_t(1) << width) - 1));
  return is_signed && (bits >> (width - 1) & 1) ? v - (Wide(1) << width) : v;
}
uint64_t cut(Wide v, int width) {
  return uint64_t(v) & (width >= 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1);
}
Wide clamp(Wide v, int width, bool is_signed) {
  const Wide most = is_signed ? (Wide(1) << (width - 1)) - 1 : (Wide(1) << width) - 1;
  const Wide least = is_signed ? -(Wide(1) << (width - 1)) : 0;
  return v > most ? most : v < least ? least : v;
}

TEST(ArithmeticInteger, SumsProductsAndExtremes) {
  for (const Type& t : kTypes) {
    const auto v = [&](uint64_t x) { return value(x, t.bits, t.is_signed); };
    const auto binary = [&](const std::string& name, auto f) {
      check(name + "." + t.name, [&](const Values& s) { return Values{cut(f(v(s[0]), v(s[1])), t.bits)}; });
    };
    const auto ternary = [&](const std::string& name, auto f) {
      check(name + "." + t.name,
            [&](const Values& s) { return Values{cut(f(v(s[0]), v(s[1]), v(s[2])), t.bits)}; });
    };
    binary("add", [](Wide a, Wide b) { return a + b; });
    binary("sub", [](Wide a, Wide b) { return a - b; });
    binary("mul.lo", [](Wide a, Wide b) { return Wide(UnsignedWide(a) * UnsignedWide(b)); });
    binary("mul.hi", [&](Wide a, Wide b) {
      return t.is_signed ? a * b >> t.bits : Wide(UnsignedWide(a) * UnsignedWide(b) >> t.bits);
    });
    ternary("mad.lo",
            [](Wide a, Wide b, Wide c) { return Wide(UnsignedWide(a) * UnsignedWide(b) + UnsignedWide(c)); });
    ternary("mad.hi", [&](Wide a, Wide b, Wide c) {
      return (t.is_signed ? a * b >> t.bits : Wide(UnsignedWide(a) * UnsignedWide(b) >> t.bits)) + c;
    });
    ternary("sad", [](Wide a, Wide b, Wide c) { return c + (a < b ? b - a : a - b); });
    binary("div", [](Wide a, Wide b) { return b == 0 ? Wide(-1) : a / b; });
    binary("rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
    binary("min", [](Wide a, Wide b) { return a < b ? a : b; });
    binary("max", [](Wide a, Wide b) { return a > b ? a : b; });
    if (t.is_signed) {
      check(std::string("abs.") + t.name,
            [&](const Values& s) { return Values{cut(v(s[0]) < 0 ? -v(s[0]) : v(s[0]), t.bits)}; });
      check(std::string("neg.") + t.name, [&](const Values& s) { return Values{cut(-v(s[0]), t.bits)}; });
    }
    if (t.bits < 64) {
      check(std::string("mul.wide.") + t.name,
            [&](const Values& s) { return Values{cut(v(s[0]) * v(s[1]), 2 * t.bits)}; });
      check(std::string("mad.wide.") + t.name, [&](const Values& s) {
        return Values{cut(v(s[0]) * v(s[1]) + value(s[2], 2 * t.bits, t.is_signed), 2 * t.bits)};
      });
    }
  }
}

TEST(ArithmeticInteger, Saturation) {
  const auto v = [](uint64_t x) { return value(x, 32, true); };
  check("add.sat.s32", [&](const Values& s) { return Values{cut(clamp(v(s[0]) + v(s[1]), 32, true), 32)}; });
  check("sub.sat.s32", [&](const Values& s) { return Values{cut(clamp(v(s[0]) - v(s[1]), 32, true), 32)}; });
  check("mad.hi.sat.s32", [&](const Values& s) {
    return Values{cut(clamp((v(s[0]) * v(s[1]) >> 32) + v(s[2]), 32, true), 32)};
  });
}

TEST(ArithmeticInteger, ProductsOf24Bits) {
  for (bool is_signed : {false, true}) {
    const std::string t = is_signed ? "s32" : "u32";
    const auto product = [&](const Values& s) {
      return value(s[0], 24, is_signed && (s[0] >> 23 & 1)) * value(s[1], 24, is_signed && (s[1] >> 23 & 1));
    };
    check("mul24.lo." + t, [&](const Values& s) { return Values{cut(product(s), 32)}; });
    check("mul24.hi." + t, [&](const Values& s) { return Values{cut(product(s) >> 16, 32)}; });
    check("mad24.lo." + t, [&](const Values& s) { return Values{cut(product(s) + Wide(s[2]), 32)}; });
    check("mad24.hi." + t, [&](const Values& s) { return Values{cut((product(s) >> 16) + Wide(s[2]), 32)}; });
  }
}

TEST(ArithmeticInteger, CarriesMakeWiderSums) {
  for (int bits : {32, 64}) {
    const std::string t = bits == 32 ? "u32" : "u64";
    const auto carry = [&](UnsignedWide v) { return Values{cut(Wide(v), bits), uint64_t(v >> bits) & 1}; };
    check("add.cc." + t, [&](const Values& s) { return carry(UnsignedWide(s[0]) + s[1]); });
    check("addc.cc." + t, [&](const Values& s) { return carry(UnsignedWide(s[0]) + s[1] + s[2]); });
    check("addc." + t, [&](const Values& s) { return Values{carry(UnsignedWide(s[0]) + s[1] + s[2])[0]}; });
    const auto inverted = [&](uint64_t v) { return UnsignedWide(cut(Wide(~v), bits)); };
    check("sub.cc." + t, [&](const Values& s) { return carry(UnsignedWide(s[0]) + inverted(s[1]) + 1); });
    check("subc.cc." + t, [&](const Values& s) { return carry(UnsignedWide(s[0]) + inverted(s[1]) + s[2]); });
    check("subc." + t,
          [&](const Values& s) { return Values{carry(UnsignedWide(s[0]) + inverted(s[1]) + s[2])[0]}; });
    for (bool is_signed : {false, true})
      for (bool high : {false, true}) {
        const std::string name = std::string(high ? "hi" : "lo");
        const std::string type = (is_signed ? "s" : "u") + std::to_string(bits);
        const auto half = [&](const Values& s) {
          const UnsignedWide p =
              UnsignedWide(value(s[0], bits, is_signed)) * UnsignedWide(value(s[1], bits, is_signed));
          return cut(Wide(high ? p >> bits : p), bits);
        };
        check("mad." + name + ".cc." + type,
              [&](const Values& s) { return carry(UnsignedWide(half(s)) + s[2]); });
        check("madc." + name + ".cc." + type,
              [&](const Values& s) { return carry(UnsignedWide(half(s)) + s[2] + s[3]); });
        check("madc." + name + "." + type,
              [&](const Values& s) { return Values{carry(UnsignedWide(half(s)) + s[2] + s[3])[0]}; });
      }
  }
}

TEST(ArithmeticInteger, ShiftsBeyondTheWidth) {
  for (int bits : {16, 32, 64}) {
    const std::string n = std::to_string(bits);
    check("shl.b" + n, [&](const Values& s) {
      return Values{s[1] >= uint64_t(bits) ? 0 : cut(Wide(s[0]) << s[1], bits)};
    });
    for (std::string t : {"b", "u"})
      check("shr." + t + n,
            [&](const Values& s) { return Values{s[1] >= uint64_t(bits) ? 0 : s[0] >> s[1]}; });
    check("shr.s" + n, [&](const Values& s) {
      return Values{cut(value(s[0], bits, true) >> (s[1] > 100 ? 100 : s[1]), bits)};
    });
  }
  for (bool wrap : {false, true}) {
    const std::string mode = wrap ? "wrap" : "clamp";
    const auto by = [=](uint64_t c) { return wrap ? c % 32 : std::min<uint64_t>(c, 32); };
    check("shf.l." + mode + ".b32", [=](const Values& s) {
      return Values{cut(Wide((UnsignedWide(s[1]) << 32 | s[0]) << by(s[2]) >> 32), 32)};
    });
    check("shf.r." + mode + ".b32", [=](const Values& s) {
      return Values{cut(Wide((UnsignedWide(s[1]) << 32 | s[0]) >> by(s[2])), 32)};
    });
  }
}

TEST(ArithmeticInteger, BitFields) {
  for (const Type& t : kTypes) {
    if (t.bits < 32) continue;
    const std::string b = "b" + std::to_string(t.bits), n = t.name;
    check("popc." + b, [&](const Values& s) {
      uint64_t c = 0;
      for (int i = 0; i < t.bits; ++i) c += s[0] >> i & 1;
      return Values{c};
    });
    check("clz." + b, [&](const Values& s) {
      int c = 0;
      while (c < t.bits && !(s[0] >> (t.bits - 1 - c) & 1)) ++c;
      return Values{uint64_t(c)};
    });
    check("brev." + b, [&](const Values& s) {
      uint64_t r = 0;
      for (int i = 0; i < t.bits; ++i) r |= (s[0] >> i & 1) << (t.bits - 1 - i);
      return Values{r};
    });
    // The document's semantics, bit by bit.
    const auto find = [&](const Values& s) {
      const bool sign = t.is_signed && (s[0] >> (t.bits - 1) & 1);
      for (int i = t.bits - 1; i >= 0; --i)
        if ((s[0] >> i & 1) != sign) return uint64_t(i);
      return uint64_t(0xffffffff);
    };
    check("bfind." + n, [&](const Values& s) { return Values{find(s)}; });
    check("bfind.shiftamt." + n, [&](const Values& s) {
      const uint64_t f = find(s);
      return Values{f == 0xffffffff ? f : t.bits - 1 - f};
    });
    check(
        "bfe." + n,
        [&](const Values& s) {
          const uint64_t pos = s[1] & 255, len = s[2] & 255, msb = t.bits - 1;
          const bool sbit = !t.is_signed || len == 0 ? 0 : s[0] >> std::min(pos + len - 1, msb) & 1;
          uint64_t d = 0;
          for (uint64_t i = 0; i <= msb; ++i)
            d |= uint64_t(i < len && pos + i <= msb ? s[0] >> (pos + i) & 1 : sbit) << i;
          return Values{d};
        },
        2000);
    check(
        "bfi." + b,
        [&](const Values& s) {
          const uint64_t pos = s[2] & 255, len = s[3] & 255, msb = t.bits - 1;
          uint64_t f = s[1];
          for (uint64_t i = 0; i < len && pos + i <= msb; ++i)
            f = (f & ~(uint64_t(1) << (pos + i))) | (s[0] >> i & 1) << (pos + i);
          return Values{f};
        },
        2000);
  }
  for (bool wrap : {false, true}) {
    const std::string mode = wrap ? "wrap" : "clamp";
    check(
        "bmsk." + mode + ".b32",
        [&](const Values& s) {
          const uint64_t a = wrap ? s[0] & 31 : s[0], b = wrap ? s[1] & 31 : s[1];
          uint64_t d = 0;
          for (uint64_t i = 0; i < 32; ++i)
            if (i >= a && i - a < b) d |= uint64_t(1) << i;
          return Values{d};
        },
        1000);
    for (bool is_signed : {false, true})
      check(
          "szext." + mode + (is_signed ? ".s32" : ".u32"),
          [&](const Values& s) {
            const uint64_t n = wrap ? s[1] & 31 : s[1];
            if (n == 0) return Values{0};
            return n >= 32 ? Values{s[0]} : Values{cut(value(s[0], int(n), is_signed), 32)};
          },
          1000);
  }
  check("fns.b32", [](const Values& s) {
    const uint32_t mask = uint32_t(s[0]), base = uint32_t(s[1]) & 31;
    const int64_t n = int32_t(s[2]);
    int64_t left = n < 0 ? -n : n;
    if (n == 0) return Values{mask >> base & 1 ? base : 0xffffffffu};
    for (int at = int(base); at >= 0 && at < 32; at += n < 0 ? -1 : 1)
      if ((mask >> at & 1) && --left == 0) return Values{uint64_t(at)};
    return Values{0xffffffffu};
  });
}

TEST(ArithmeticInteger, BytesAndHalves) {
  const auto byte = [](uint64_t v, int i, bool is_signed) { return value(v >> (8 * i) & 255, 8, is_signed); };
  const auto half = [](uint64_t v, int i, bool is_signed) {
    return value(v >> (16 * i) & 0xffff, 16, is_signed);
  };
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      const std::string types = std::string(a ? ".s32" : ".u32") + (b ? ".s32" : ".u32");
      check("dp4a" + types, [&](const Values& s) {
        Wide d = Wide(s[2]);
        for (int i = 0; i < 4; ++i) d += byte(s[0], i, a) * byte(s[1], i, b);
        return Values{cut(d, 32)};
      });
      for (int upper : {0, 1})
        check(std::string("dp2a.") + (upper ? "hi" : "lo") + types, [&](const Values& s) {
          Wide d = Wide(s[2]);
          for (int i = 0; i < 2; ++i) d += half(s[0], i, a) * byte(s[1], i + 2 * upper, b);
          return Values{cut(d, 32)};
        });
    }
  for (bool is_signed : {false, true}) {
    const std::string t = is_signed ? "s16x2" : "u16x2";
    const auto both = [&](const std::string& name, auto f) {
      check(name + "." + t, [&](const Values& s) {
        uint64_t d = 0;
        for (int i = 0; i < 2; ++i)
          d |= cut(f(half(s[0], i, is_signed), half(s[1], i, is_signed)), 16) << (16 * i);
        return Values{d};
      });
    };
    both("add", [](Wide a, Wide b) { return a + b; });
    both("min", [](Wide a, Wide b) { return a < b ? a : b; });
    both("max", [](Wide a, Wide b) { return a > b ? a : b; });
    if (is_signed) both("min.relu", [](Wide a, Wide b) { return std::max(Wide(0), a < b ? a : b); });
    if (is_signed) both("max.relu", [](Wide a, Wide b) { return std::max(Wide(0), a > b ? a : b); });
  }
  check("prmt.b32", [](const Values& s) {
    const uint64_t bytes = s[1] << 32 | s[0];
    uint64_t d = 0;
    for (int i = 0; i < 4; ++i) {
      const int pick = int(s[2] >> (4 * i)) & 15, b = int(bytes >> (8 * (pick & 7))) & 255;
      d |= uint64_t(pick & 8 ? (b & 128 ? 255 : 0) : b) << (8 * i);
    }
    return Values{d};
  });
  // The table of the document: for control 0 … 3, which byte goes to positions 3 2 1 0.
  const struct {
    const char* mode;
    int picks[4][4];
  } modes[] = {{"f4e", {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}}},
               {"b4e", {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}}},
               {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
               {"ecl", {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}}},
               {"ecr", {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}}},
               {"rc16", {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}}};
  for (const auto& mode : modes)
    check(std::string("prmt.b32.") + mode.mode, [&](const Values& s) {
      const uint64_t bytes = s[1] << 32 | s[0];
      uint64_t d = 0;
      for (int i = 0; i < 4; ++i) d |= (bytes >> (8 * mode.picks[s[2] & 3][3 - i]) & 255) << (8 * i);
      return Values{d};
    });
}

TEST(ArithmeticInteger, VideoInstructions) {
  const auto at = [](uint64_t v, int width, int i, bool is_signed) {
    return value(v >> (width * i) & ((uint64_t(1) << width) - 1), width, is_signed);
  };
  for (int width : {8, 16})
    for (bool a : {false, true})
      for (bool b : {false, true})
        for (bool d : {false, true}) {
          const std::string n = width == 8 ? "4" : "2";
          const std::string types =
              std::string(d ? ".s32" : ".u32") + (a ? ".s32" : ".u32") + (b ? ".s32" : ".u32");
          const auto all = [&](const std::string& name, auto f) {
            const auto parts = [&](const Values& s, bool saturate, bool sum) {
              uint64_t result = 0;
              Wide total = Wide(s[2]);
              for (int i = 0; i < 32 / width; ++i) {
                Wide v = f(at(s[0], width, i, a), at(s[1], width, i, b));
                if (saturate) v = clamp(v, width, d);
                result |= cut(v, width) << (width * i);
                total += value(cut(v, width), width, d);
              }
              return Values{sum ? cut(total, 32) : result};
            };
            check(
                name + n + types, [&](const Values& s) { return parts(s, false, false); }, 20);
            check(
                name + n + types + ".sat", [&](const Values& s) { return parts(s, true, false); }, 20);
            check(
                name + n + types + ".add", [&](const Values& s) { return parts(s, false, true); }, 20);
          };
          all("vadd", [](Wide x, Wide y) { return x + y; });
          all("vsub", [](Wide x, Wide y) { return x - y; });
          all("vabsdiff", [](Wide x, Wide y) { return x < y ? y - x : x - y; });
          all("vmin", [](Wide x, Wide y) { return x < y ? x : y; });
          all("vmax", [](Wide x, Wide y) { return x > y ? x : y; });
        }
  check("vset4.u32.s32.lt", [&](const Values& s) {
    uint64_t d = 0;
    for (int i = 0; i < 4; ++i) d |= uint64_t(at(s[0], 8, i, false) < at(s[1], 8, i, true)) << (8 * i);
    return Values{d};
  });
  check("vadd.s32.u32.s32.sat",
        [](const Values& s) { return Values{cut(clamp(Wide(s[0]) + value(s[1], 32, true), 32, true), 32)}; });
  check("vmin.u32.u32.u32.max", [](const Values& s) { return Values{std::max(std::min(s[0], s[1]), s[2])}; });
}

TEST(ArithmeticInteger, LogicAndSelection) {
  check("lop3.b32", [](const Values& s) {
    uint64_t d = 0;
    for (int i = 0; i < 32; ++i)
      d |= (s[3] >> ((s[0] >> i & 1) * 4 + (s[1] >> i & 1) * 2 + (s[2] >> i & 1)) & 1) << i;
    return Values{d};
  });
  check("xor.b64", [](const Values& s) { return Values{s[0] ^ s[1]}; });
  check("and.pred", [](const Values& s) { return Values{s[0] & s[1]}; });
  check("not.pred", [](const Values& s) { return Values{s[0] ^ 1}; });
  check("not.b16", [](const Values& s) { return Values{s[0] ^ 0xffff}; });
  check("cnot.b32", [](const Values& s) { return Values{s[0] == 0}; });
  check("selp.b64", [](const Values& s) { return Values{s[2] ? s[0] : s[1]}; });
  check("selp.f32", [](const Values& s) { return Values{s[2] ? s[0] : s[1]}; });
  check("slct.u64.s32", [](const Values& s) { return Values{int32_t(s[2]) >= 0 ? s[0] : s[1]}; });
  check("slct.b32.f32",
        [](const Values& s) { return Values{std::bit_cast<float>(uint32_t(s[2])) >= 0 ? s[0] : s[1]}; });
  check("mov.b64", [](const Values& s) { return Values{s[0] | s[1] << 32}; }, 100, {64, 32, 32});
  check("mov.b64", [](const Values& s) { return Values{s[0] & 0xffffffff, s[0] >> 32}; }, 100, {32, 32, 64});
  check("mov.b32", [](const Values& s) { return Values{s[0] | s[1] << 16}; }, 100, {32, 16, 16});
  check("mov.b64",
        [](const Values& s) {
          return Values{s[0] & 0xffff, s[0] >> 16 & 0xffff, s[0] >> 32 & 0xffff, s[0] >> 48};
        },
        100, {16, 16, 16, 16, 64});
}

TEST(ArithmeticInteger, Comparisons) {
  for (const Type& t : kTypes) {
    const std::pair<const char*, std::function<bool(Wide, Wide)>> all[] = {
        {"eq", [](Wide a, Wide b) { return a == b; }}, {"ne", [](Wide a, Wide b) { return a != b; }},
        {"lt", [](Wide a, Wide b) { return a < b; }},  {"le", [](Wide a, Wide b) { return a <= b; }},
        {"gt", [](Wide a, Wide b) { return a > b; }},  {"ge", [](Wide a, Wide b) { return a >= b; }}};
    for (const auto& [name, f] : all) {
      const auto holds = [&, &f = f](const Values& s) {
        return uint64_t(f(value(s[0], t.bits, t.is_signed), value(s[1], t.bits, t.is_signed)));
      };
      const std::string n = name, type = t.name;
      check("setp." + n + "." + type, [&](const Values& s) { return Values{holds(s)}; }, 50,
            {1, t.bits, t.bits});
      check("setp." + n + "." + type,
            [&](const Values& s) {
              return Values{holds(s), !holds(s)};
            },
            50, {1, 1, t.bits, t.bits});
      check("setp." + n + ".and." + type,
            [&](const Values& s) {
              return Values{holds(s) & s[2], (holds(s) ^ 1) & s[2]};
            },
            50, {1, 1, t.bits, t.bits, 1});
      check("setp." + n + ".or." + type, [&](const Values& s) { return Values{holds(s) | s[2]}; }, 50,
            {1, t.bits, t.bits, 1});
      check("setp." + n + ".xor." + type, [&](const Values& s) { return Values{holds(s) ^ s[2]}; }, 50,
            {1, t.bits, t.bits, 1});
      check(
          "set." + n + ".u32." + type, [&](const Values& s) { return Values{holds(s) ? 0xffffffffu : 0u}; },
          50);
      check(
          "set." + n + ".and.f32." + type,
          [&](const Values& s) { return Values{holds(s) & s[2] ? 0x3f800000u : 0u}; }, 50);
    }
  }
}

TEST(ArithmeticInteger, ConversionsInRegistersOfEveryWidth) {
  for (const char* d : {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
    for (const char* s : {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
      for (int to : {16, 32, 64})
        for (int from : {16, 32, 64}) {
          const int dw = atoi(d + 1), sw = atoi(s + 1);
          if (to < dw || from < sw) continue;
          const std::string types = std::string(".") + d + "." + s;
          check("cvt" + types,
                [&](const Values& v) {
                  return Values{cut(value(cut(value(v[0], sw, *s == 's'), dw), dw, *d == 's'), to)};
                },
                20, {to, from});
          check("cvt.sat" + types,
                [&](const Values& v) {
                  return Values{cut(clamp(value(v[0], sw, *s == 's'), dw, *d == 's'), to)};
                },
                20, {to, from});
        }
}

TEST(ArithmeticInteger, NegatedPredicatesAreRead) {
  const rows::Row* row = rows::find("selp.b32");
  ASSERT_TRUE(row);
  rows::Lanes a, b, p{}, before{};
  a.fill(1), b.fill(2);
  for (int lane = 0; lane < 32; lane += 3) p[lane] = 1;
  const auto out =
      rows::run(row->execute, row->destinations, row->sources, {a, b, p}, {before}, 0xffffffff, 1 << 3);
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(out[0][lane], lane % 3 == 0 ? 2u : 1u);
}

}  // namespace
