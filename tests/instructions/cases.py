"""One case per instruction and type: its text, inputs and expected outputs. The text is inline assembly over untyped registers ({d} {e}:
results, {a} {b} {c}: operands), so that bits are passed unchanged."""

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Callable

import exact
from exact import BF16, F16, F32, F64, FORMATS

NUMBER_OF_INPUTS = 640  # whole warps


@dataclasses.dataclass
class Case:
    name: str  # the instruction, with all its modifiers
    text: str
    results: list  # in bits, of {d} and {e}
    operands: list  # kinds of {a}, {b}, {c}: see inputs()
    expect: Callable  # expect(operands' bits): a list with, per result, its bits or a function that checks bits
    note: str = ""  # distinguishes cases of the same instruction
    # For instructions that access memory or other lanes. before: preceding lines of C++. besides: further operands ({p}, {s}: letter,
    # constraint, expression). written: the number of results that the assembly itself writes (the others are in memory). whole: `expect`
    # gets all inputs at once.
    before: str = ""
    besides: list = dataclasses.field(default_factory=list)
    written: int = -1
    whole: bool = False


FAMILIES = {}


def family(function):
    FAMILIES[function.__name__] = function
    return function


def cases_of(name):
    """The family's cases; names are unique."""
    cases = list(FAMILIES[name]())
    names = [(case.name, case.note) for case in cases]
    assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1]
    return cases


# --- inputs -------------------------------------------------------------------------------------------------------------------

WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32, "pred": 1}


def width_of(kind):
    return WIDTHS.get(kind) or int(kind.split(":")[0].lstrip("usb"))


def specials(kind):
    if kind in FORMATS:
        form = FORMATS[kind]
        one = form.bias << form.mantissa
        some = [0, 1, 2, (1 << form.mantissa) - 1, 1 << form.mantissa, one, one + 1, one - 1, one + (1 << form.mantissa - 1),
                form.largest, form.infinity, form.infinity | 1 << form.mantissa - 1, form.infinity | 1, form.nan,
                one + (form.mantissa << form.mantissa), one + ((form.mantissa + 1) << form.mantissa), one >> 1]  # fmt: skip
        if form.width >= 32:
            for power in (7, 8, 15, 16, 31, 32, 63, 64):
                some += [one + (power << form.mantissa), one + (power << form.mantissa) - 1, one + (power << form.mantissa) + 1]
        return [b for x in some for b in (x, x | form.sign)]
    if kind == "pred":
        return [0, 1]
    if ":" in kind:
        bits, most = kind.split(":")
        return list(range(min(int(most), 80) + 1))
    width = width_of(kind)
    top = 1 << width
    return [0, 1, 2, 3, 5, 7, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1, top // 3, top // 5, 0x80 % top, 0xFF % top,
            1 << (width // 2), (1 << (width // 2)) - 1, top - (1 << (width // 2))]  # fmt: skip


def some(kind, random_):
    if kind in ("f16x2", "bf16x2"):
        half = kind[:-2]
        return some(half, random_) | some(half, random_) << 16
    if random_.random() < 0.35:
        return random_.choice(specials(kind))
    if kind in FORMATS and random_.random() < 0.6:  # close to each other, so that sums must be rounded
        form = FORMATS[kind]
        spread = min(form.bias // 2, form.mantissa + 3)
        exponent = form.bias + random_.randrange(-spread, spread)
        return random_.getrandbits(1) << (form.width - 1) | exponent << form.mantissa | random_.getrandbits(form.mantissa)
    if ":" in kind:
        return random_.randrange(int(kind.split(":")[1]) + 1)
    bits = random_.getrandbits(width_of(kind))
    return bits >> random_.randrange(width_of(kind)) if random_.random() < 0.3 else bits


def inputs(case):
    """Tuples of the operands' bits: all pairs of special values, then random ones; always the same."""
    random_ = random.Random(case.name + case.note)
    lists = [specials(kind) if kind not in ("f16x2", "bf16x2") else [some(kind, random_) for _ in range(20)] for kind in case.operands]
    product = 1
    for values in lists:
        product *= len(values)
    if product <= NUMBER_OF_INPUTS * 2 // 3:
        chosen = list(itertools.product(*lists))
    else:
        chosen = [tuple(random_.choice(values) for values in lists) for _ in range(NUMBER_OF_INPUTS * 2 // 3)]
    while len(chosen) < NUMBER_OF_INPUTS:
        chosen.append(tuple(some(kind, random_) for kind in case.operands))
    return chosen[:NUMBER_OF_INPUTS]


# --- integers ----------------------------------------------------------------------------------------------------------------

UNSIGNED, SIGNED = ("u16", "u32", "u64"), ("s16", "s32", "s64")
INTEGERS = UNSIGNED + SIGNED


def as_value(bits, kind):
    width = width_of(kind)
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def limits(kind):
    width = width_of(kind)
    return (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def clamp(value, kind):
    low, high = limits(kind)
    return max(low, min(high, value))


def bits_of(value, width):
    return value & ((1 << width) - 1)


def simple(name, result, operands, function, note=""):
    """A case whose operands and result are values of their kinds."""
    letters = ", ".join("{" + letter + "}" for letter in "abcd"[: len(operands)])
    letters = letters.replace("{d}", "{q}")
    kinds = [kind for kind in operands]

    def expect(*bits):
        return [bits_of(function(*(as_value(b, k.split(":")[0] if ":" in k else k) for b, k in zip(bits, kinds))), result)]

    return Case(name, f"{name} {{d}}, {letters};", [result], operands, expect, note)


def truncated(a, b):
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


@family
def integer():
    for kind in INTEGERS:
        width = width_of(kind)
        low, high = limits(kind)
        yield simple(f"add.{kind}", width, [kind, kind], lambda a, b: a + b)
        yield simple(f"sub.{kind}", width, [kind, kind], lambda a, b: a - b)
        yield simple(f"mul.lo.{kind}", width, [kind, kind], lambda a, b: a * b)
        yield simple(f"mul.hi.{kind}", width, [kind, kind], lambda a, b, w=width: a * b >> w)
        yield simple(f"mad.lo.{kind}", width, [kind] * 3, lambda a, b, c: a * b + c)
        yield simple(f"mad.hi.{kind}", width, [kind] * 3, lambda a, b, c, w=width: (a * b >> w) + c)
        yield simple(f"sad.{kind}", width, [kind] * 3, lambda a, b, c: c + abs(a - b))
        yield simple(f"min.{kind}", width, [kind, kind], min)
        yield simple(f"max.{kind}", width, [kind, kind], max)
        # PTX does not define division by zero; minimum / -1 overflows.
        yield Case(f"div.{kind}", f"div.{kind} {{d}}, {{a}}, {{b}};", [width], [kind, kind],
                   lambda a, b, k=kind, w=width: [anything if not b else bits_of(truncated(as_value(a, k), as_value(b, k)), w)])  # fmt: skip
        yield Case(f"rem.{kind}", f"rem.{kind} {{d}}, {{a}}, {{b}};", [width], [kind, kind],
                   lambda a, b, k=kind, w=width: [anything if not b else
                       bits_of(as_value(a, k) - truncated(as_value(a, k), as_value(b, k)) * as_value(b, k), w)])  # fmt: skip
        if width < 64:
            yield simple(f"mul.wide.{kind}", 2 * width, [kind, kind], lambda a, b: a * b)
            wide = kind[0] + str(2 * width)
            yield simple(f"mad.wide.{kind}", 2 * width, [kind, kind, wide], lambda a, b, c: a * b + c)
    for kind in SIGNED:
        width = width_of(kind)
        yield simple(f"abs.{kind}", width, [kind], abs)
        yield simple(f"neg.{kind}", width, [kind], lambda a: -a)
    yield simple("add.sat.s32", 32, ["s32", "s32"], lambda a, b: clamp(a + b, "s32"))
    yield simple("sub.sat.s32", 32, ["s32", "s32"], lambda a, b: clamp(a - b, "s32"))
    yield simple("mad.hi.sat.s32", 32, ["s32"] * 3, lambda a, b, c: clamp((a * b >> 32) + c, "s32"))
    for kind in ("u32", "s32"):
        low24 = (lambda a: a & 0xFFFFFF) if kind == "u32" else (lambda a: as_value(a << 8, "s32") >> 8)
        yield simple(f"mul24.lo.{kind}", 32, [kind] * 2, lambda a, b, f=low24: f(a) * f(b))
        yield simple(f"mul24.hi.{kind}", 32, [kind] * 2, lambda a, b, f=low24: f(a) * f(b) >> 16)
        yield simple(f"mad24.lo.{kind}", 32, [kind] * 3, lambda a, b, c, f=low24: f(a) * f(b) + c)
        yield simple(f"mad24.hi.{kind}", 32, [kind] * 3, lambda a, b, c, f=low24: (f(a) * f(b) >> 16) + c)
    yield simple("mad24.hi.sat.s32", 32, ["s32"] * 3,
                 lambda a, b, c: clamp(((as_value(a << 8, "s32") >> 8) * (as_value(b << 8, "s32") >> 8) >> 16) + c, "s32"))  # fmt: skip
    for sides in itertools.product("us", repeat=2):
        result = "s" if "s" in sides else "u"

        def dot4(a, b, c, sides=sides):
            return c + sum(as_value(a >> 8 * i, sides[0] + "8") * as_value(b >> 8 * i, sides[1] + "8") for i in range(4))

        yield simple(f"dp4a.{sides[0]}32.{sides[1]}32", 32, ["b32", "b32", result + "32"], dot4)
        for half in (0, 1):

            def dot2(a, b, c, sides=sides, half=half):
                return c + sum(as_value(a >> 16 * i, sides[0] + "16") * as_value(b >> 8 * (i + 2 * half), sides[1] + "8") for i in (0, 1))

            yield simple(f"dp2a.{('lo', 'hi')[half]}.{sides[0]}32.{sides[1]}32", 32, ["b32", "b32", result + "32"], dot2)


def anything(_):
    return True


@family
def bits():
    for width in (16, 32, 64):
        kind = f"b{width}"
        yield simple(f"and.{kind}", width, [kind] * 2, lambda a, b: a & b)
        yield simple(f"or.{kind}", width, [kind] * 2, lambda a, b: a | b)
        yield simple(f"xor.{kind}", width, [kind] * 2, lambda a, b: a ^ b)
        yield simple(f"not.{kind}", width, [kind], lambda a: ~a)
        yield simple(f"cnot.{kind}", width, [kind], lambda a: int(a == 0))
        yield simple(f"shl.{kind}", width, [kind, "u32:70"], lambda a, b, w=width: a << b if b < w else 0)
        for sign in "usb":
            yield simple(f"shr.{sign}{width}", width, [f"{sign}{width}", "u32:70"], lambda a, b: a >> b)
    for width in (32, 64):
        kind = f"b{width}"
        yield simple(f"popc.{kind}", 32, [kind], lambda a: bin(a).count("1"))
        yield simple(f"clz.{kind}", 32, [kind], lambda a, w=width: w - a.bit_length())
        yield simple(f"brev.{kind}", width, [kind], lambda a, w=width: int(f"{a:0{w}b}"[::-1], 2))
        yield simple(f"bfi.{kind}", width, [kind, kind, "u32:255", "u32:255"], lambda a, b, c, d, w=width: insert(a, b, c, d, w))
        for sign in "us":
            typed = f"{sign}{width}"
            yield simple(f"bfe.{typed}", width, [typed, "u32:255", "u32:255"], lambda a, b, c, k=typed: extract(a, b, c, k))
            yield simple(f"bfind.{typed}", 32, [typed], lambda a: (~a if a < 0 else a).bit_length() - 1)
            yield simple(f"bfind.shiftamt.{typed}", 32, [typed],
                         lambda a, w=width: w - (~a if a < 0 else a).bit_length() if a not in (0, -1) else -1)  # fmt: skip
    for mode in ("clamp", "wrap"):
        limit = (lambda x: min(x, 32)) if mode == "clamp" else (lambda x: x % 32)
        yield simple(f"bmsk.{mode}.b32", 32, ["u32:40", "u32:40"],
                     lambda a, b, f=limit: (((1 << f(b)) - 1) << f(a)) if f(a) < 32 else 0)  # fmt: skip
        for sign in "us":

            def extended(a, b, f=limit, sign=sign):
                places = f(b)
                if places == 0:
                    return 0
                if places >= 32:
                    return a
                kept = a & ((1 << places) - 1)
                return kept - (1 << places) if sign == "s" and kept >> (places - 1) else kept

            yield simple(f"szext.{mode}.{sign}32", 32, ["b32", "u32:40"], extended)
        for side in "lr":

            def funnel(a, b, c, f=limit, side=side):
                joined = b << 32 | a
                return joined << f(c) >> 32 if side == "l" else joined >> f(c)

            yield simple(f"shf.{side}.{mode}.b32", 32, ["b32", "b32", "u32:70"], funnel)
    for table in (0x00, 0x01, 0x1E, 0x3C, 0x40, 0x80, 0x96, 0xB8, 0xCA, 0xE8, 0xF8, 0xFE, 0xFF):

        def looked_up(a, b, c, table=table):
            result = 0
            for place in range(32):
                row = (a >> place & 1) << 2 | (b >> place & 1) << 1 | c >> place & 1
                result |= (table >> row & 1) << place
            return [result]

        yield Case("lop3.b32", f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", [32], ["b32"] * 3, looked_up, f"0x{table:02x}")
        for operation, function in (("or", lambda x, y: x | y), ("and", lambda x, y: x & y)):
            yield Case(f"lop3.{operation}.b32", f"{{{{ .reg .pred p, q; setp.ne.u32 q, {{q}}, 0; lop3.{operation}.b32 {{d}}|p, {{a}}, {{b}}, {{c}}, {table}, q; "
                       f"selp.u32 {{e}}, 1, 0, p; }}}}", [32, 32], ["b32"] * 3 + ["u32:1"],
                       lambda a, b, c, q, f=looked_up, g=function: f(a, b, c) + [g(int(f(a, b, c)[0] != 0), q)], f"0x{table:02x}")  # fmt: skip
    yield simple("prmt.b32", 32, ["b32"] * 3, lambda a, b, c: permuted(a, b, [c >> 4 * i & 15 for i in range(4)]))
    modes = {
        "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "rc8": [[i] * 4 for i in range(4)],
        "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
    }
    for mode, rows in modes.items():
        yield simple(f"prmt.b32.{mode}", 32, ["b32"] * 3, lambda a, b, c, rows=rows: permuted(a, b, rows[c & 3]))
    # fns: the n-th set bit from `base` on, upwards (n > 0) or downwards (n < 0)
    yield simple("fns.b32", 32, ["b32", "u32:31", "s32:0"], lambda a, b, c: nth_set(a, b, 0), "0")
    for count in (1, 2, 5, -1, -2, -4):
        yield Case("fns.b32", f"fns.b32 {{d}}, {{a}}, {{b}}, {count};", [32], ["b32", "u32:31"],
                   lambda a, b, n=count: [bits_of(nth_set(a, b, n), 32)], str(count))  # fmt: skip


def insert(a, b, start, length, width):
    start, length = start & 255, length & 255
    mask = ((1 << length) - 1) << start & ((1 << width) - 1)
    return b & ~mask | a << start & mask


def extract(a, start, length, kind):
    """The definition in PTX ISA: bits beyond the top repeat the sign bit, which is that of the field's last bit, or of a."""
    width = width_of(kind)
    start, length = start & 255, length & 255
    a = bits_of(a, width)
    sign = 0 if kind[0] == "u" or length == 0 else a >> min(start + length - 1, width - 1) & 1
    result = 0
    for i in range(width):
        bit = a >> (start + i) & 1 if i < length and start + i < width else sign
        result |= bit << i
    return result


def permuted(a, b, selectors):
    all_bytes = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for place, selector in enumerate(selectors):
        byte = all_bytes[selector & 7]
        if selector & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * place
    return result


def nth_set(a, base, n):
    if n == 0:
        return base if a >> base & 1 else 0xFFFFFFFF
    places = range(base, 32) if n > 0 else range(base, -1, -1)
    found = [place for place in places if a >> place & 1]
    return found[abs(n) - 1] if len(found) >= abs(n) else 0xFFFFFFFF


@family
def carries():
    for width in (32, 64):
        for sign in "us":
            kind = f"{sign}{width}"
            mask = (1 << width) - 1
            yield Case(f"add.cc.{kind} addc.{kind}", f"add.cc.{kind} {{d}}, {{a}}, {{b}}; addc.{kind} {{e}}, {{a}}, {{c}};", [width] * 2,
                       [f"u{width}"] * 3, lambda a, b, c, m=mask, w=width: [a + b & m, a + c + (a + b >> w) & m])  # fmt: skip
            yield Case(f"add.cc.{kind} addc.cc.{kind} addc.{kind}",
                       f"{{{{ .reg .b{width} t; add.cc.{kind} t, {{a}}, {{b}}; addc.cc.{kind} {{d}}, t, {{c}}; addc.{kind} {{e}}, 0, 0; }}}}",
                       [width] * 2, [f"u{width}"] * 3,
                       lambda a, b, c, m=mask, w=width: [((a + b & m) + c + (a + b >> w)) & m, ((a + b & m) + c + (a + b >> w)) >> w])  # fmt: skip
            yield Case(f"sub.cc.{kind} subc.{kind}", f"sub.cc.{kind} {{d}}, {{a}}, {{b}}; subc.{kind} {{e}}, {{c}}, {{a}};", [width] * 2,
                       [f"u{width}"] * 3, lambda a, b, c, m=mask: [a - b & m, c - a - (a < b) & m])  # fmt: skip
            # A subtraction leaves a carry flag (no borrow): nvcc's 128-bit divisions depend on it.
            yield Case(f"sub.cc.{kind} addc.{kind}", f"sub.cc.{kind} {{d}}, {{a}}, {{b}}; addc.{kind} {{e}}, 0, 0;", [width] * 2,
                       [f"u{width}"] * 2, lambda a, b, m=mask: [a - b & m, int(a >= b)])  # fmt: skip
            yield Case(f"add.cc.{kind} subc.{kind}", f"add.cc.{kind} {{d}}, {{a}}, {{b}}; subc.{kind} {{e}}, {{c}}, {{a}};", [width] * 2,
                       [f"u{width}"] * 3, lambda a, b, c, m=mask, w=width: [a + b & m, c - a - 1 + (a + b >> w) & m])  # fmt: skip
            yield Case(f"mad.lo.cc.{kind} madc.hi.{kind}",
                       f"mad.lo.cc.{kind} {{d}}, {{a}}, {{b}}, {{c}}; madc.hi.{kind} {{e}}, {{a}}, {{b}}, 7;", [width] * 2, [kind] * 3,
                       lambda a, b, c, m=mask, w=width, k=kind: [a * b + c & m,
                           (as_value(a, k) * as_value(b, k) >> w) + 7 + ((a * b & m) + c >> w) & m])  # fmt: skip
            yield Case(f"sub.cc.{kind} subc.cc.{kind} addc.{kind}",
                       f"{{{{ .reg .b{width} t; sub.cc.{kind} t, {{a}}, {{b}}; subc.cc.{kind} {{d}}, {{c}}, {{a}}; addc.{kind} {{e}}, 0, 0; }}}}",
                       [width] * 2, [f"u{width}"] * 3, lambda a, b, c, m=mask: [c - a - (a < b) & m, int(c >= a + (a < b))])  # fmt: skip
            for part in ("lo", "hi"):

                def product(a, b, c, carry, part=part, kind=kind, mask=mask, width=width):
                    half = as_value(a, kind) * as_value(b, kind) >> (width if part == "hi" else 0) & mask
                    return [half + c + carry & mask, half + c + carry >> width]

                tail = f"{part}.cc.{kind} {{d}}, {{a}}, {{b}}, {{c}}; addc.{kind} {{e}}, 0, 0;"
                yield Case(f"mad.{part}.cc.{kind} addc.{kind}", f"mad.{tail}", [width] * 2, [kind] * 3, lambda a, b, c, f=product: f(a, b, c, 0))
                head = f"{{{{ .reg .b{width} t; add.cc.{kind} t, {{a}}, {{b}}; madc."
                yield Case(f"add.cc.{kind} madc.{part}.cc.{kind}", f"{head}{tail} }}}}", [width] * 2, [kind] * 3,
                           lambda a, b, c, f=product, w=width: f(a, b, c, a + b >> w))  # fmt: skip
                yield Case(f"add.cc.{kind} madc.{part}.{kind}", f"{head}{part}.{kind} {{d}}, {{a}}, {{b}}, {{c}}; }}}}", [width], [kind] * 3,
                           lambda a, b, c, f=product, w=width: f(a, b, c, a + b >> w)[:1])  # fmt: skip


# --- comparison and selection -------------------------------------------------------------------------------------------------

ORDERED = {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}
UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}


def comparisons(kind):
    if kind in FORMATS:
        return list(ORDERED) + list(UNORDERED) + ["num", "nan"]
    if kind[0] == "b":
        return ["eq", "ne"]
    return list(ORDERED) + (["lo", "ls", "hi", "hs"] if kind[0] == "u" else [])


def holds(comparison, a, b, kind, ftz=False):
    if kind in FORMATS:
        order = exact.compare(exact.decode(a, FORMATS[kind], ftz), exact.decode(b, FORMATS[kind], ftz))
    else:
        a, b = as_value(a, kind), as_value(b, kind)
        order = (a > b) - (a < b)
    if comparison == "num":
        return order is not None
    if comparison == "nan":
        return order is None
    if order is None:
        return comparison in UNORDERED
    comparison = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(comparison, UNORDERED.get(comparison, comparison))
    return order in ORDERED[comparison]


COMPARED = ("b16", "b32", "b64") + INTEGERS + ("f32", "f64", "f16", "bf16")


@family
def comparing():
    for kind in COMPARED:
        for ftz in ("", ".ftz") if kind in ("f32", "f16") else ("",):
            for comparison in comparisons(kind):
                name = f"setp.{comparison}{ftz}.{kind}"
                yield Case(name, f"{{{{ .reg .pred p, q; {name} p, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, p; }}}}", [32], [kind] * 2,
                           lambda a, b, c=comparison, k=kind, f=bool(ftz): [int(holds(c, a, b, k, f))])  # fmt: skip
    for operation, combine in (("and", lambda x, y: x and y), ("or", lambda x, y: x or y), ("xor", lambda x, y: x != y)):
        for kind in ("s32", "u64", "f32", "f64", "b16"):
            comparison = "ltu" if kind[0] == "f" else "ne" if kind[0] == "b" else "lt"
            name = f"setp.{comparison}.{operation}.{kind}"
            yield Case(name,
                       f"{{{{ .reg .pred p, q, r; setp.ne.u32 r, {{c}}, 0; {name} p|q, {{a}}, {{b}}, r; selp.u32 {{d}}, 1, 0, p; "
                       f"selp.u32 {{e}}, 1, 0, q; }}}}", [32, 32], [kind, kind, "u32:1"],
                       lambda a, b, c, x=comparison, k=kind, f=combine: [int(f(holds(x, a, b, k), bool(c))), int(f(not holds(x, a, b, k), bool(c)))])  # fmt: skip
            yield Case(name + " !", f"{{{{ .reg .pred p, r; setp.ne.u32 r, {{c}}, 0; {name} p, {{a}}, {{b}}, !r; selp.u32 {{d}}, 1, 0, p; }}}}", [32],
                       [kind, kind, "u32:1"], lambda a, b, c, x=comparison, k=kind, f=combine: [int(f(holds(x, a, b, k), not c))])  # fmt: skip
    for kind in ("s32", "u32", "b32", "s64", "u16", "f32", "f64"):
        comparison = "ge" if kind[0] != "b" else "eq"
        for result in ("u32", "s32", "f32"):
            true = 0x3F800000 if result == "f32" else 0xFFFFFFFF
            yield Case(f"set.{comparison}.{result}.{kind}", f"set.{comparison}.{result}.{kind} {{d}}, {{a}}, {{b}};", [32], [kind] * 2,
                       lambda a, b, c=comparison, k=kind, t=true: [t if holds(c, a, b, k) else 0])  # fmt: skip
    for kind in ("b16", "b32", "b64") + INTEGERS + ("f32", "f64"):
        width = width_of(kind)
        yield Case(f"selp.{kind}", f"{{{{ .reg .pred p; setp.ne.u32 p, {{c}}, 0; selp.{kind} {{d}}, {{a}}, {{b}}, p; }}}}", [width],
                   [f"b{width}", f"b{width}", "u32:1"], lambda a, b, c: [a if c else b])  # fmt: skip
        yield Case(f"slct.{kind}.s32", f"slct.{kind}.s32 {{d}}, {{a}}, {{b}}, {{c}};", [width], [f"b{width}", f"b{width}", "s32"],
                   lambda a, b, c: [a if as_value(c, "s32") >= 0 else b])  # fmt: skip
        yield Case(f"slct.{kind}.f32", f"slct.{kind}.f32 {{d}}, {{a}}, {{b}}, {{c}};", [width], [f"b{width}", f"b{width}", "f32"],
                   lambda a, b, c: [a if holds("ge", c, 0, "f32") else b])  # fmt: skip
        yield Case(f"slct.ftz.{kind}.f32", f"slct.ftz.{kind}.f32 {{d}}, {{a}}, {{b}}, {{c}};", [width], [f"b{width}", f"b{width}", "f32"],
                   lambda a, b, c: [a if holds("ge", c, 0, "f32", True) else b])  # fmt: skip
    for kind in ("f32", "f64"):
        form = FORMATS[kind]
        tests = {
            "finite": lambda n, b: n.kind == "finite",
            "infinite": lambda n, b: n.kind == "inf",
            "number": lambda n, b: n.kind != "nan",
            "notanumber": lambda n, b: n.kind == "nan",
            "normal": lambda n, b, f=form: n.kind == "finite" and n.magnitude >> f.mantissa != 0,
            "subnormal": lambda n, b, f=form: n.kind == "finite" and n.magnitude != 0 and not n.magnitude >> f.mantissa,
        }
        for test, function in tests.items():
            yield Case(f"testp.{test}.{kind}", f"{{{{ .reg .pred p; testp.{test}.{kind} p, {{a}}; selp.u32 {{d}}, 1, 0, p; }}}}", [32], [kind],
                       lambda a, f=function, form=form: [int(f(exact.decode(a, form), a))])  # fmt: skip
        yield Case(f"copysign.{kind}", f"copysign.{kind} {{d}}, {{a}}, {{b}};", [form.width], [kind, kind],
                   lambda a, b, f=form: [b & ~f.sign | a & f.sign])  # fmt: skip
    for operation, function in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
        yield Case(f"{operation}.pred",
                   f"{{{{ .reg .pred p, q; setp.ne.u32 p, {{a}}, 0; setp.ne.u32 q, {{b}}, 0; {operation}.pred p, p, q; selp.u32 {{d}}, 1, 0, p; }}}}",
                   [32], ["u32:1", "u32:1"], lambda a, b, f=function: [f(a, b)])  # fmt: skip
    yield Case("not.pred", "{{ .reg .pred p; setp.ne.u32 p, {a}, 0; not.pred p, p; selp.u32 {d}, 1, 0, p; }}", [32], ["u32:1"], lambda a: [1 - a])
    yield Case("mov.pred", "{{ .reg .pred p, q; setp.ne.u32 p, {a}, 0; mov.pred q, p; selp.u32 {d}, 1, 0, q; }}", [32], ["u32:1"], lambda a: [a])


@family
def moving():
    for kind in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"):
        width = width_of(kind)
        yield Case(f"mov.{kind}", f"mov.{kind} {{d}}, {{a}};", [width], [f"b{width}"], lambda a: [a])
    yield Case("mov.b32 {,}", "mov.b32 {d}, {{{a}, {b}}};", [32], ["b16", "b16"], lambda a, b: [b << 16 | a])
    yield Case("mov.b64 {,}", "mov.b64 {d}, {{{a}, {b}}};", [64], ["b32", "b32"], lambda a, b: [b << 32 | a])
    yield Case("mov.b64 {,,,}", "mov.b64 {d}, {{{a}, {b}, {c}, {q}}};", [64], ["b16"] * 4, lambda a, b, c, d: [d << 48 | c << 32 | b << 16 | a])
    yield Case("mov.b32 to {,}", "mov.b32 {{{d}, {e}}}, {a};", [16, 16], ["b32"], lambda a: [a & 0xFFFF, a >> 16])
    yield Case("mov.b64 to {,}", "mov.b64 {{{d}, {e}}}, {a};", [32, 32], ["b64"], lambda a: [a & 0xFFFFFFFF, a >> 32])
    yield Case("mov.b64 to {_,}", "mov.b64 {{_, {d}}}, {a};", [32], ["b64"], lambda a: [a >> 32])


# --- floating point ----------------------------------------------------------------------------------------------------------


def floating(name, form, operands, function, mode="rn", ftz=False, sat=False, note=""):
    """A case over numbers of one format, rounded once. A double's NaN may have any payload (PTX leaves it open)."""
    letters = ", ".join("{" + letter + "}" for letter in "abc"[:operands])

    def expect(*bits):
        result = function(*(exact.decode(b, form, ftz) for b in bits))
        if result.kind == "nan" and form is F64:
            return [is_nan64]
        return [exact.encode(result, form, mode, ftz, sat)]

    return Case(name, f"{name} {{d}}, {letters};", [form.width], [form.name] * operands, expect, note)


def is_nan64(bits):
    return exact.decode(bits, F64).kind == "nan"


def fused(mode):
    return lambda a, b, c: exact.add(exact.multiply(a, b), c, mode) if exact.multiply(a, b).kind != "nan" and c.kind != "nan" else exact.NAN


def pick(smaller, nan=False):
    """min (smaller = True) or max: NaN is ignored, or returned (.NaN); -0 is less than +0."""

    def function(a, b):
        if a.kind == "nan" or b.kind == "nan":
            return exact.NAN if nan or a.kind == b.kind else b if a.kind == "nan" else a
        order = exact.compare(a, b) or (b.sign - a.sign)
        return a if (order < 0) == smaller else b

    return function


@family
def floats():
    modifiers = [("", "rn")] + [(f".{m}", m) for m in ("rn", "rz", "rm", "rp")]
    for text, mode in modifiers:
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                t, f, s = f"{text}{ftz}{sat}.f32", bool(ftz), bool(sat)
                yield floating(f"add{t}", F32, 2, lambda a, b, m=mode: exact.add(a, b, m), mode, f, s)
                yield floating(f"sub{t}", F32, 2, lambda a, b, m=mode: exact.add(a, exact.negated(b), m), mode, f, s)
                yield floating(f"mul{t}", F32, 2, exact.multiply, mode, f, s)
                if text:
                    yield floating(f"fma{t}", F32, 3, fused(mode), mode, f, s)
                    yield floating(f"mad{t}", F32, 3, fused(mode), mode, f, s)
            if text:
                t, f = f"{text}{ftz}.f32", bool(ftz)
                yield floating(f"div{t}", F32, 2, exact.divide, mode, f)
                yield floating(f"rcp{t}", F32, 1, lambda a: exact.divide(exact.finite(1), a), mode, f)
                yield floating(f"sqrt{t}", F32, 1, exact.square_root, mode, f)
        t = f"{text}.f64"
        yield floating(f"add{t}", F64, 2, lambda a, b, m=mode: exact.add(a, b, m), mode)
        yield floating(f"sub{t}", F64, 2, lambda a, b, m=mode: exact.add(a, exact.negated(b), m), mode)
        yield floating(f"mul{t}", F64, 2, exact.multiply, mode)
        if text:
            yield floating(f"fma{t}", F64, 3, fused(mode), mode)
            yield floating(f"mad{t}", F64, 3, fused(mode), mode)
            yield floating(f"div{t}", F64, 2, exact.divide, mode)
            yield floating(f"rcp{t}", F64, 1, lambda a: exact.divide(exact.finite(1), a), mode)
            yield floating(f"sqrt{t}", F64, 1, exact.square_root, mode)
    for form in (F32, F64):
        for ftz in ("", ".ftz") if form is F32 else ("",):
            f = bool(ftz)
            for operation in ("abs", "neg"):
                keep = (lambda a: dataclasses.replace(a, sign=0)) if operation == "abs" else (lambda a: dataclasses.replace(a, sign=1 - a.sign))
                case = floating(f"{operation}{ftz}.{form.name}", form, 1, keep, ftz=f)
                inner = case.expect
                # The sign of a NaN result is unspecified.
                case.expect = lambda a, form=form, inner=inner: [is_nan_of(form)] if exact.decode(a, form).kind == "nan" else inner(a)
                yield case
            for operation in ("min", "max"):
                yield floating(f"{operation}{ftz}.{form.name}", form, 2, pick(operation == "min"), ftz=f)
                if form is F32:
                    yield floating(f"{operation}{ftz}.NaN.f32", form, 2, pick(operation == "min", nan=True), ftz=f)
                    yield signed_pick(f"{operation}{ftz}.xorsign.abs.f32", operation == "min", False, f)
                    yield signed_pick(f"{operation}{ftz}.NaN.xorsign.abs.f32", operation == "min", True, f)


def is_nan_of(form):
    return lambda bits: exact.decode(bits, form).kind == "nan"


def signed_pick(name, smaller, nan, ftz):
    """.xorsign.abs: min or max of the magnitudes, with the exclusive or of the signs."""

    def expect(a, b):
        x, y = exact.decode(a, F32, ftz), exact.decode(b, F32, ftz)
        result = pick(smaller, nan)(*(n if n.kind == "nan" else dataclasses.replace(n, sign=0) for n in (x, y)))
        if result.kind == "nan":
            return [is_nan_of(F32)]
        return [exact.encode(dataclasses.replace(result, sign=(a ^ b) >> 31), F32, ftz=ftz)]

    return Case(name, f"{name} {{d}}, {{a}}, {{b}};", [32], ["f32", "f32"], expect)


def relu(number):
    """max(x, 0); NaN becomes canonical."""
    if number.kind == "nan":
        return number
    return exact.finite(0) if number.sign else number


def near(form, wanted, relative, absolute=0.0, ftz=False):
    """A check of bits: within this error of the wanted value (a Python float). With .ftz, a subnormal result may be flushed."""

    def judge(bits):
        number = exact.decode(bits, form)
        if math.isnan(wanted):
            return number.kind == "nan"
        if number.kind == "nan":
            return False
        got = exact.as_float(number)
        largest = exact.as_float(exact.decode(form.largest, form))
        if math.isinf(got):
            return got == wanted or abs(wanted) * (1 + relative) + absolute > largest and (got > 0) == (wanted > 0)
        if math.isinf(wanted):
            return False
        smallest = exact.as_float(exact.decode(1, form))
        if ftz and got == 0 and abs(wanted) * (1 - relative) < smallest * (1 << form.mantissa):
            return True
        return abs(got - wanted) <= max(abs(wanted) * relative, absolute, smallest)

    return judge


def approximate(name, form, function, relative, absolute=0.0, domain=lambda x: True):
    """An approximation with one operand, checked against the bound in PTX ISA; `function` gives the special values."""
    ftz = ".ftz" in name

    def expect(a):
        number = exact.decode(a, form, ftz)
        x = exact.as_float(number)
        if number.zero and number.sign:
            x = -0.0
        if not domain(x):
            return [anything]
        wanted = function(x)
        if wanted == 0 or math.isinf(wanted):
            if wanted == 0 and absolute and x != 0:
                return [near(form, wanted, relative, absolute, ftz)]
            return [exact.encode(exact.infinity(int(wanted < 0)) if wanted else exact.finite(0, 0, int(math.copysign(1, wanted) < 0)), form)]
        return [near(form, wanted, relative, absolute, ftz)]

    return Case(name, f"{name} {{d}}, {{a}};", [form.width], [form.name], expect)


def reciprocal(x):
    return math.nan if math.isnan(x) else math.copysign(math.inf, x) if x == 0 else 1 / x


def root(x):
    return math.nan if math.isnan(x) or x < 0 else x if x == 0 or math.isinf(x) else math.sqrt(x)


def reciprocal_root(x):
    if math.isnan(x) or x < 0:
        return math.nan
    return math.copysign(math.inf, x) if x == 0 else 0.0 if math.isinf(x) else 1 / math.sqrt(x)


def logarithm(x):
    if math.isnan(x) or x < 0:
        return math.nan
    return -math.inf if x == 0 else x if math.isinf(x) else math.log2(x)


def exponential(x):
    if math.isnan(x):
        return x
    return math.inf if x > 200 else 0.0 if x < -200 else 2.0**x


@family
def approximations():
    ulp = 2.0**-23
    for ftz in ("", ".ftz"):
        yield approximate(f"rcp.approx{ftz}.f32", F32, reciprocal, ulp)
        yield approximate(f"sqrt.approx{ftz}.f32", F32, root, ulp)
        yield approximate(f"rsqrt.approx{ftz}.f32", F32, reciprocal_root, 2.0**-22.4)
        for name, function in (("sin", math.sin), ("cos", math.cos)):
            yield approximate(f"{name}.approx{ftz}.f32", F32, lambda x, f=function: math.nan if math.isinf(x) or math.isnan(x) else f(x), 0,
                              2.0**-20.5, lambda x: not abs(x) > 2 * math.pi or math.isinf(x))  # fmt: skip
        yield approximate(f"lg2.approx{ftz}.f32", F32, logarithm, 2.0**-22, 2.0**-22)
        yield approximate(f"ex2.approx{ftz}.f32", F32, exponential, 2.0**-22)
        for name, bound in (("div.approx", 2.0**-22), ("div.full", 2.0**-22)):

            def quotient(a, b, ftz=bool(ftz), name=name):
                x, y = exact.decode(a, F32, ftz), exact.decode(b, F32, ftz)
                result = exact.divide(x, y)
                size = abs(exact.as_float(y))
                if name == "div.approx" and 2.0**126 < size < 2.0**128:
                    return [anything]
                if result.kind != "finite" or result.zero:
                    return [exact.encode(result, F32)]
                return [near(F32, exact.as_float(result) if result.magnitude.bit_length() < 900 else 0.0, 2.0**-22, 0.0, ftz)]

            yield Case(f"{name}{ftz}.f32", f"{name}{ftz}.f32 {{d}}, {{a}}, {{b}};", [32], ["f32", "f32"], quotient)
    yield approximate("tanh.approx.f32", F32, math.tanh, 2.0**-11)
    # Only the upper half of operand and result counts: twenty bits of the mantissa.
    yield approximate("rcp.approx.ftz.f64", F64, reciprocal, 2.0**-19)
    yield approximate("rsqrt.approx.ftz.f64", F64, reciprocal_root, 2.0**-19)
    yield approximate("rsqrt.approx.f64", F64, reciprocal_root, 2.0**-20)
    yield approximate("tanh.approx.f16", F16, math.tanh, 0, 2.0**-10.987)
    yield approximate("tanh.approx.bf16", BF16, math.tanh, 0, 2.0**-8)
    yield approximate("ex2.approx.f16", F16, exponential, 2.0**-9.9)
    yield approximate("ex2.approx.ftz.bf16", BF16, exponential, 2.0**-7)
    for name, form, function, relative, absolute in (
        ("tanh.approx.f16x2", F16, math.tanh, 0, 2.0**-10.987),
        ("tanh.approx.bf16x2", BF16, math.tanh, 0, 2.0**-8),
        ("ex2.approx.f16x2", F16, exponential, 2.0**-9.9, 0),
        ("ex2.approx.ftz.bf16x2", BF16, exponential, 2.0**-7, 0),
    ):
        one = approximate(name, form, function, relative, absolute).expect

        def both(a, one=one):
            low, high = one(a & 0xFFFF)[0], one(a >> 16)[0]
            return [lambda got: agrees(low, got & 0xFFFF) and agrees(high, got >> 16)]

        yield Case(name, f"{name} {{d}}, {{a}};", [32], [form.name + "x2"], both)


def agrees(wanted, got):
    return wanted(got) if callable(wanted) else wanted == got


@family
def halves():
    for form in (F16, BF16):
        for packed in ("", "x2"):
            operations = {
                "add": (2, exact.add),
                "sub": (2, lambda a, b: exact.add(a, exact.negated(b))),
                "mul": (2, exact.multiply),
                "fma": (3, fused("rn")),
            }
            for operation, (count, function) in operations.items():
                if form is F16:
                    forms = [("", False, False), (".rn", False, False), (".ftz", True, False), (".sat", False, True), (".rn.ftz.sat", True, True),
                             (".rn.ftz", True, False), (".rn.sat", False, True), (".ftz.sat", True, True)]  # fmt: skip
                else:
                    forms = [("", False, False), (".rn", False, False)]
                if operation == "fma":
                    forms = [m for m in forms if m[0].startswith(".rn")]
                for text, ftz, sat in forms:
                    yield half_case(f"{operation}{text}.{form.name}{packed}", form, count, function, bool(packed), ftz, sat)
                if operation == "fma":
                    for ftz in ("", ".ftz") if form is F16 else ("",):
                        yield half_case(f"fma.rn{ftz}.relu.{form.name}{packed}", form, 3, lambda a, b, c: relu(fused("rn")(a, b, c)), bool(packed), bool(ftz), False)
            for operation in ("min", "max"):
                for ftz, nan in itertools.product(("", ".ftz") if form is F16 else ("",), ("", ".NaN")):
                    yield half_case(f"{operation}{ftz}{nan}.{form.name}{packed}", form, 2, pick(operation == "min", bool(nan)), bool(packed), bool(ftz), False)
            for operation in ("abs", "neg"):
                keep = (lambda a: dataclasses.replace(a, sign=0)) if operation == "abs" else (lambda a: dataclasses.replace(a, sign=1 - a.sign))
                for ftz in ("", ".ftz") if form is F16 else ("",):
                    yield half_case(f"{operation}{ftz}.{form.name}{packed}", form, 1, keep, bool(packed), bool(ftz), False, any_nan=True)


def half_case(name, form, count, function, packed, ftz, sat, any_nan=False):
    def one(*bits):
        result = function(*(exact.decode(b, form, ftz) for b in bits))
        return result.kind, exact.encode(result, form, "rn", ftz, sat)

    def expect(*bits):
        low = one(*(b & 0xFFFF for b in bits))
        if not packed:
            return [is_nan_of(form) if any_nan and low[0] == "nan" else low[1]]
        high = one(*(b >> 16 for b in bits))
        if any_nan and "nan" in (low[0], high[0]):
            return [lambda got: halves_match(got & 0xFFFF, low, form) and halves_match(got >> 16, high, form)]
        return [high[1] << 16 | low[1]]

    letters = ", ".join("{" + letter + "}" for letter in "abc"[:count])
    kind = form.name + ("x2" if packed else "")
    return Case(name, f"{name} {{d}}, {letters};", [32 if packed else 16], [kind] * count, expect)


def halves_match(got, wanted, form):
    return exact.decode(got, form).kind == "nan" if wanted[0] == "nan" else got == wanted[1]


@family
def pairs():
    """Two (or four) values in one register."""
    for form in (F16, BF16):
        kind = form.name
        for comparison in comparisons(kind):
            def both(a, b, c=comparison, k=kind):
                return [holds(c, a >> s & 0xFFFF, b >> s & 0xFFFF, k) for s in (0, 16)]  # fmt: skip

            name = f"setp.{comparison}.{kind}x2"
            yield Case(name, f"{{{{ .reg .pred p, q; {name} p|q, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, p; selp.u32 {{e}}, 1, 0, q; }}}}", [32, 32],
                       [f"{kind}x2"] * 2, lambda a, b, f=both: [int(x) for x in f(a, b)])  # fmt: skip
            one = F16.bias << F16.mantissa if form is F16 else BF16.bias << BF16.mantissa
            name = f"set.{comparison}.{kind}x2.{kind}x2"
            yield Case(name, f"{name} {{d}}, {{a}}, {{b}};", [32], [f"{kind}x2"] * 2,
                       lambda a, b, f=both, one=one: [sum(one << s for x, s in zip(f(a, b), (0, 16)) if x)])  # fmt: skip
            name = f"set.{comparison}.{kind}.{kind}"
            yield Case(name, f"{name} {{d}}, {{a}}, {{b}};", [16], [kind] * 2,
                       lambda a, b, c=comparison, k=kind, one=one: [one if holds(c, a, b, k) else 0])  # fmt: skip
            name = f"set.{comparison}.u32.{kind}x2"
            yield Case(name, f"{name} {{d}}, {{a}}, {{b}};", [32], [f"{kind}x2"] * 2,
                       lambda a, b, f=both: [sum(0xFFFF << s for x, s in zip(f(a, b), (0, 16)) if x)])  # fmt: skip
    for sign in "us":
        for operation, function in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
            yield simple(f"{operation}.{sign}16x2", 32, ["b32"] * 2, lambda a, b, f=function, s=sign:
                         sum(bits_of(f(as_value(a >> p, s + "16"), as_value(b >> p, s + "16")), 16) << p for p in (0, 16)))  # fmt: skip
    for operation, function in (("min", min), ("max", max)):
        yield simple(f"{operation}.relu.s32", 32, ["s32"] * 2, lambda a, b, f=function: max(f(a, b), 0))
        yield simple(f"{operation}.relu.s16x2", 32, ["b32"] * 2, lambda a, b, f=function:
                     sum(max(f(as_value(a >> p, "s16"), as_value(b >> p, "s16")), 0) << p for p in (0, 16)))  # fmt: skip
    for width in (16, 8, 4, 2):
        for sign in "us":

            def packed(a, b, c=0, kind=f"{sign}{width}", width=width):
                return c << 2 * width | bits_of(clamp(a, kind), width) << width | bits_of(clamp(b, kind), width)

            more = ["b32"] if width < 16 else []
            yield simple(f"cvt.pack.sat.{sign}{width}.s32{'.b32' if more else ''}", 32, ["s32", "s32"] + more, packed)
    for lanes, width in (("2", 16), ("4", 8)):
        for sign in "us":
            kind = f"{sign}{width}"

            def each(function, kind=kind, width=width):
                return lambda a, b, c: sum(
                    bits_of(function(as_value(a >> p, kind), as_value(b >> p, kind)), width) << p for p in range(0, 32, width)
                )

            for operation, function in (
                ("vadd", lambda a, b: a + b),
                ("vsub", lambda a, b: a - b),
                ("vmin", min),
                ("vmax", max),
                ("vabsdiff", lambda a, b: abs(a - b)),
                ("vavrg", lambda a, b: a + b + 1 - (1 if a + b < 0 else 0) >> 1),
            ):
                name = f"{operation}{lanes}.{sign}32.{sign}32.{sign}32"
                yield simple(name, 32, ["b32", "b32", "b32:0"], each(function))
                if operation in ("vadd", "vsub"):
                    name = f"{operation}{lanes}.{sign}32.{sign}32.{sign}32.sat"
                    yield simple(name, 32, ["b32", "b32", "b32:0"], each(lambda a, b, f=function, k=kind: clamp(f(a, b), k)))
            for comparison in ORDERED:
                name = f"vset{lanes}.{sign}32.{sign}32.{comparison}"
                yield simple(name, 32, ["b32", "b32", "b32:0"], each(lambda a, b, c=comparison: int((a > b) - (a < b) in ORDERED[c])))


# --- conversions -------------------------------------------------------------------------------------------------------------


@family
def conversions():
    small = ("u8", "s8")
    # integer to integer: through registers of at least 16 bits
    for to in small + INTEGERS:
        for source in small + INTEGERS:
            if to == source:
                continue
            register = max(width_of(to), 16)
            taken = "b" + str(max(width_of(source), 16))
            fits = limits(to)[0] <= limits(source)[0] and limits(source)[1] <= limits(to)[1]
            for sat in ("",) if fits else ("", ".sat"):  # ptxas takes .sat only where it can do something
                name = f"cvt{sat}.{to}.{source}"

                def converted(a, to=to, source=source, sat=bool(sat), register=register):
                    value = as_value(a, source)
                    value = clamp(value, to) if sat else as_value(value, to)
                    return [bits_of(value, register)]

                yield Case(name, f"{name} {{d}}, {{a}};", [register], [taken], converted)
    for form in (F32, F64, F16):
        for kind in small + INTEGERS:
            width = max(width_of(kind), 16)
            for mode in ("rn", "rz", "rm", "rp"):
                name = f"cvt.{mode}.{form.name}.{kind}"
                yield Case(name, f"{name} {{d}}, {{a}};", [form.width], [f"b{width}"],
                           lambda a, f=form, k=kind, m=mode: [exact.encode(exact.finite(as_value(a, k)), f, m)])  # fmt: skip
            for mode in ("rni", "rzi", "rmi", "rpi"):
                for ftz in ("", ".ftz") if form is F32 else ("",):
                    name = f"cvt.{mode}{ftz}.{kind}.{form.name}"
                    yield Case(name, f"{name} {{d}}, {{a}};", [width], [form.name],
                               lambda a, f=form, k=kind, m=mode, z=bool(ftz), w=width: to_integer(a, f, k, m, z, w))  # fmt: skip
    for to, source in itertools.permutations((F16, F32, F64), 2):
        narrowing = to.width < source.width
        for mode in ("rn", "rz", "rm", "rp") if narrowing else ("",):
            for ftz in ("", ".ftz") if F32 in (to, source) else ("",):
                name = f"cvt{'.' + mode if mode else ''}{ftz}.{to.name}.{source.name}"
                yield between(name, to, source, mode or "rn", bool(ftz))
                if narrowing or to is F32:
                    sat = name.replace(f".{to.name}.", f".sat.{to.name}.", 1)
                    yield between(sat, to, source, mode or "rn", bool(ftz), sat=True)
    for form in (F16, F32, F64):
        for mode in ("rni", "rzi", "rmi", "rpi"):
            name = f"cvt.{mode}.{form.name}.{form.name}"

            def integral(a, form=form, mode=mode):
                number = exact.decode(a, form)
                return [is_nan_of(form) if number.kind == "nan" else exact.encode(exact.to_integral(number, mode), form)]

            yield Case(name, f"{name} {{d}}, {{a}};", [form.width], [form.name], integral)
    for mode in ("rn", "rz"):
        for extra in ("", ".relu"):
            yield between(f"cvt.{mode}{extra}.bf16.f32", BF16, F32, mode, False, relu=bool(extra))
            if extra:
                yield between(f"cvt.{mode}.relu.f16.f32", F16, F32, mode, False, relu=True)
            for form in (F16, BF16):
                name = f"cvt.{mode}{extra}.{form.name}x2.f32"

                def both(a, b, form=form, mode=mode, extra=extra):
                    parts = []
                    for bits in (b, a):
                        number = exact.decode(bits, F32)
                        parts.append(exact.encode(relu(number) if extra else number, form, mode))
                    return [parts[1] << 16 | parts[0]]

                yield Case(name, f"{name} {{d}}, {{a}}, {{b}};", [32], ["f32", "f32"], both)
    yield between("cvt.f32.bf16", F32, BF16, "rn", False)

    def tf32(a):
        number = exact.decode(a, F32)
        return [is_nan_of(F32) if number.kind == "nan" else (lambda got: got & ~0x1FFF & 0xFFFFFFFF == exact.encode(number, TF32, "rna") << 13)]

    yield Case("cvt.rna.tf32.f32", "cvt.rna.tf32.f32 {d}, {a};", [32], ["f32"], tf32)


TF32 = exact.Format("tf32", 8, 10, 0x3FFFF)


def to_integer(a, form, kind, mode, ftz, width):
    """NaN gives zero; if f64 or 64 bits are involved, MININT or, unsigned, MAXINT / 2 + 1 (PTX ISA, cvt, "Integer Notes")."""
    number = exact.decode(a, form, ftz)
    if number.kind == "nan":
        if form is not F64 and width_of(kind) != 64:
            return [0]
        return [bits_of(as_value(1 << width_of(kind) - 1, kind), width)]
    low, high = limits(kind)
    return [bits_of(exact.to_integer(number, low, high, mode, 0), width)]


def between(name, to, source, mode, ftz, sat=False, relu=False):
    def expect(a):
        number = exact.decode(a, source, ftz and source is F32)
        if relu:
            number = globals()["relu"](number)
        if number.kind == "nan" and not sat:
            return [is_nan_of(to) if to is F64 or source is F64 or to.width > source.width else exact.encode(number, to)]
        return [exact.encode(number, to, mode, ftz and to is F32, sat)]

    return Case(name, f"{name} {{d}}, {{a}};", [to.width], [source.name], expect)


# --- memory ------------------------------------------------------------------------------------------------------------------

SCALARS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64", "f32", "f64")
SHARED = "__shared__ __align__(16) uint64_t place[128 * 2]; uint64_t* slot = &place[threadIdx.x * 2]; slot[0] = in[i]; slot[1] = in[kInputs + i];"
LOCAL = "alignas(16) uint64_t slot[2] = {in[i], in[kInputs + i]}; asm volatile(\"\" :: \"l\"(slot) : \"memory\");"
GLOBAL = "const uint64_t* slot = in + i;"
SPACES = {
    "": (GLOBAL, "l", "slot"),
    ".global": (GLOBAL, "l", "slot"),
    ".shared": (SHARED, "r", "static_cast<uint32_t>(__cvta_generic_to_shared(slot))"),
    ".local": (LOCAL, "l", "__cvta_generic_to_local(slot)"),
}

# A sixteen-byte slot of the thread, filled with the first two operands.
WIDE = "uint64_t* slot = out + (kInputs + i) * 2; slot[0] = in[i]; slot[1] = in[kInputs + i];"
WIDE_SPACES = {space: (WIDE if before is GLOBAL else before, constraint, expression) for space, (before, constraint, expression) in SPACES.items()}
PARTS = "{{t0, t1, t2, t3}}"  # sixteen bytes, to be used after DECLARED
DECLARED = ".reg .b32 t0, t1, t2, t3; .reg .b128 t;"
TAKEN_APART = "mov.b64 {{t0, t1}}, {%s}; mov.b64 {{t2, t3}}, {%s};"


def widened(bits, kind, register):
    width = width_of(kind)
    return bits_of(as_value(bits, kind) if kind[0] == "s" else bits & ((1 << width) - 1), register)


@family
def loads():
    for space, (before, constraint, expression) in SPACES.items():
        semantics = ["", ".volatile", ".relaxed.gpu", ".relaxed.cta", ".relaxed.sys", ".acquire.gpu", ".acquire.sys", ".acquire.cta"]
        semantics = [""] if space == ".local" else semantics
        for kind in SCALARS:
            for semantic in semantics if kind in ("u32", "b64", "f32", "u8") else semantics[:2]:
                # into the register of its size and into wider ones, which the ISA permits
                for register in sorted({max(width_of(kind), 16), 32, 64}):
                    if register < width_of(kind) or kind[0] == "f" and register != width_of(kind):
                        continue
                    name = f"ld{semantic}{space}.{kind}"
                    yield Case(name, f"{name} {{d}}, [{{p}}];", [register], ["b64", "b64"],
                               lambda a, b, k=kind, r=register: [widened(a, k, r)], f"to {register}",
                               before=before, besides=[("p", constraint, expression)])  # fmt: skip
        for kind, count in (("u32", 2), ("f32", 2), ("u16", 4), ("b64", 2), ("u8", 4), ("u8", 2), ("u16", 2)):
            if space in ("", ".global") and width_of(kind) * count > 64:
                continue  # the memory behind belongs to another operand: .shared and .local see two words
            name = f"ld{space}.v{count}.{kind}"
            register = max(width_of(kind), 16)
            letters = ["{d}", "{e}"] + ["t2", "t3"][: count - 2]
            declared = f".reg .b{register} t2, t3;" if count > 2 else ""

            def elements(a, b, k=kind):
                both, width = b << 64 | a, width_of(k)
                return [both >> width * j & ((1 << width) - 1) for j in (0, 1)]

            yield Case(name, f"{{{{ {declared} {name} {{{{{', '.join(letters)}}}}}, [{{p}}]; }}}}", [register] * 2, ["b64", "b64"], elements,
                       before=before, besides=[("p", constraint, expression)])  # fmt: skip
        before, constraint, expression = WIDE_SPACES[space]
        arguments = dict(before=before, besides=[("p", constraint, expression)])
        for kind in ("u32", "s32", "b32", "f32"):
            name = f"ld{space}.v4.{kind}"
            yield Case(name, f"{{{{ {DECLARED} {name} {PARTS}, [{{p}}]; mov.b64 {{d}}, {{{{t0, t1}}}}; mov.b64 {{e}}, {{{{t2, t3}}}}; }}}}", [64] * 2, ["b64"] * 2,
                       lambda a, b: [a, b], **arguments)  # fmt: skip
        yield Case(f"ld{space}.v2.u64", f"ld{space}.v2.u64 {{{{{{d}}, {{e}}}}}}, [{{p}}];", [64] * 2, ["b64"] * 2, lambda a, b: [a, b], **arguments)
        yield Case(f"ld{space}.b128", f"{{{{ {DECLARED} ld{space}.b128 t, [{{p}}]; mov.b128 {{{{{{d}}, {{e}}}}}}, t; }}}}", [64] * 2, ["b64"] * 2,
                   lambda a, b: [a, b], **arguments)  # fmt: skip
    for name in ("ld.global.nc.u32", "ld.global.ca.u32", "ld.global.cg.u32", "ld.global.cs.u32", "ld.global.cv.u32", "ld.global.lu.u32",
                 "ldu.global.u32", "ld.global.nc.L1::no_allocate.u32", "ld.global.L2::128B.u32"):  # fmt: skip
        yield Case(name, f"{name} {{d}}, [{{p}}];", [32], ["b64", "b64"], lambda a, b: [a & 0xFFFFFFFF], before=GLOBAL, besides=[("p", "l", "slot")])
    yield Case("ld.global.u32 +4", "ld.global.u32 {d}, [{p}+4];", [32], ["b64", "b64"], lambda a, b: [a >> 32], before=GLOBAL, besides=[("p", "l", "slot")])
    yield Case("ld.global.s8 +7", "ld.global.s8 {d}, [{p}+7];", [32], ["b64", "b64"], lambda a, b: [widened(a >> 56, "s8", 32)], before=GLOBAL,
               besides=[("p", "l", "slot")])  # fmt: skip


@family
def stores():
    """Writes the second operand into a slot that contains the first; the whole slot is read back."""
    targets = {
        "": ("out[i] = a;", "l", "out + i"),
        ".global": ("out[i] = a;", "l", "out + i"),
        ".shared": (SHARED, "r", "static_cast<uint32_t>(__cvta_generic_to_shared(slot))"),
        ".local": (LOCAL, "l", "__cvta_generic_to_local(slot)"),
    }
    for space, (before, constraint, expression) in targets.items():
        back = "" if space in ("", ".global") else " ld%s.u64 {d}, [{p}];" % space
        semantics = [""] if space == ".local" else ["", ".volatile", ".relaxed.gpu", ".release.sys", ".release.cta", ".relaxed.cta"]
        for kind in SCALARS:
            for semantic in semantics if kind in ("u32", "b64", "f32", "u8") else semantics[:2]:
                name = f"st{semantic}{space}.{kind}"
                width = width_of(kind)
                given = f"b{max(width, 16)}"
                mask = (1 << width) - 1
                yield Case(name, f"{name} [{{p}}], {{b}};{back}", [64], ["b64", given], lambda a, b, m=mask: [a & ~m | b & m],
                           before=before, besides=[("p", constraint, expression)], written=1 if back else 0)  # fmt: skip
        for kind, count in (("u32", 2), ("u16", 4), ("u8", 4), ("f32", 2)):
            name = f"st{space}.v{count}.{kind}"
            width = width_of(kind)
            given = f"b{max(width, 16)}"
            letters = ["{b}", "{c}", "{b}", "{c}"][:count]

            def together(a, b, c, width=width, count=count):
                mask = (1 << width * count) - 1
                new = sum((((b, c)[j & 1]) & ((1 << width) - 1)) << width * j for j in range(count))
                return [a & ~mask | new]

            yield Case(name, f"{name} [{{p}}], {{{{{', '.join(letters)}}}}};{back}", [64], ["b64", given, given], together,
                       before=before, besides=[("p", constraint, expression)], written=1 if back else 0)  # fmt: skip
        before, constraint, expression = WIDE_SPACES[space]
        arguments = dict(before=before, besides=[("p", constraint, expression)])
        back = f"ld{space}.v2.u64 {{{{{{d}}, {{e}}}}}}, [{{p}}];"
        for kind in ("u32", "f32"):
            name = f"st{space}.v4.{kind}"
            yield Case(name, f"{{{{ {DECLARED} {TAKEN_APART % ('c', 'q')} {name} [{{p}}], {PARTS}; {back} }}}}", [64] * 2, ["b64"] * 4,
                       lambda a, b, c, d: [c, d], **arguments)  # fmt: skip
        yield Case(f"st{space}.b128", f"{{{{ {DECLARED} mov.b128 t, {{{{{{c}}, {{q}}}}}}; st{space}.b128 [{{p}}], t; {back} }}}}", [64] * 2, ["b64"] * 4,
                   lambda a, b, c, d: [c, d], **arguments)  # fmt: skip


# --- atomics: one slot per thread, so that old and new value are known -------------------------------------------------------------


def stepped(kind, operation):
    width = width_of(kind)
    operations = {
        "add": lambda a, b: a + b,
        "min": lambda a, b: min(as_value(a, kind), as_value(b, kind)),
        "max": lambda a, b: max(as_value(a, kind), as_value(b, kind)),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "exch": lambda a, b: b,
        "inc": lambda a, b: 0 if a >= b else a + 1,
        "dec": lambda a, b: b if a == 0 or a > b else a - 1,
    }
    return lambda a, b: bits_of(operations[operation](a, b), width)


def summed(form, ftz=False):
    def add(a, b):
        result = exact.add(exact.decode(a, form, ftz), exact.decode(b, form, ftz))
        return exact.encode(result, form, "rn", ftz) if result.kind != "nan" else None

    return add


ATOMICS = [(o, k) for o, ks in {
    "add": ("u32", "s32", "u64"), "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"), "and": ("b32", "b64"),
    "or": ("b32", "b64"), "xor": ("b32", "b64"), "exch": ("b32", "b64"), "inc": ("u32",), "dec": ("u32",)}.items() for k in ks]  # fmt: skip


@family
def atomics():
    places = {
        "": ("out[kInputs + i] = a;", "l", "out + kInputs + i", ""),
        ".global": ("out[kInputs + i] = a;", "l", "out + kInputs + i", ""),
        ".shared": (SHARED, "r", "static_cast<uint32_t>(__cvta_generic_to_shared(slot))", " ld.shared.u64 {e}, [{p}];"),
    }
    for space, (before, constraint, expression, back) in places.items():
        written = 2 if back else 1
        arguments = dict(before=before, besides=[("p", constraint, expression)], written=written)
        for operation, kind in ATOMICS:
            width = width_of(kind)
            mask = (1 << width) - 1
            function = stepped(kind, operation)
            semantics = ["", ".relaxed.gpu", ".acq_rel.gpu", ".acquire.cta", ".release.sys"] if (operation, kind) in (("add", "u32"), ("exch", "b64")) else [""]
            for semantic in semantics:
                name = f"atom{semantic}{space}.{operation}.{kind}"
                yield Case(name, f"{name} {{d}}, [{{p}}], {{b}};{back}", [width, 64], ["b64", f"b{width}"],
                           lambda a, b, f=function, m=mask: [a & m, a & ~m | f(a & m, b)], **arguments)  # fmt: skip
                if operation != "exch" and "acq" not in semantic:
                    name = name.replace("atom", "red", 1)
                    yield Case(name, f"{name} [{{p}}], {{b}}; mov.b{width} {{d}}, 0;{back}", [width, 64], ["b64", f"b{width}"],
                               lambda a, b, f=function, m=mask: [0, a & ~m | f(a & m, b)], **arguments)  # fmt: skip
        for width in (16, 32, 64):
            mask = (1 << width) - 1
            name = f"atom{space}.cas.b{width}"
            # In half of the cases the comparison succeeds.
            yield Case(name, f"{name} {{d}}, [{{p}}], {{b}}, {{c}};{back}", [width, 64], ["b64", f"b{width}", f"b{width}"],
                       lambda a, b, c, m=mask: [a & m, a & ~m | c if a & m == b else a], **arguments)  # fmt: skip
            yield Case(name, f"{{{{ .reg .b{width} t; ld{space}.b{width} t, [{{p}}]; {name} {{d}}, [{{p}}], t, {{c}}; }}}}{back}", [width, 64],
                       ["b64", f"b{width}", f"b{width}"], lambda a, b, c, m=mask: [a & m, a & ~m | c], "equal", **arguments)  # fmt: skip
        for form, text, ftz in ((F32, "f32", space != ".shared" and False), (F64, "f64", False)):
            name = f"atom{space}.add.{text}"
            mask = (1 << form.width) - 1

            def added(a, b, form=form, mask=mask):
                return [a & mask, judged_sum(a, [(form, 0, b)], mask)]

            yield Case(name, f"{name} {{d}}, [{{p}}], {{b}};{back}", [form.width, 64], ["b64", text], added, **arguments)
        for form, text in ((F16, "f16"), (BF16, "bf16")):
            for pair in ("", "x2"):
                name = f"atom{space}.add.noftz.{text}{pair}"
                width = 32 if pair else 16
                mask = (1 << width) - 1

                def halves_added(a, b, form=form, mask=mask, pair=pair):
                    parts = [(form, 0, b & 0xFFFF)] + ([(form, 16, b >> 16)] if pair else [])
                    return [a & mask, judged_sum(a, parts, mask)]

                yield Case(name, f"{name} {{d}}, [{{p}}], {{b}};{back}", [width, 64], ["b64", f"b{width}"], halves_added, **arguments)


@family
def wide_atomics():
    """Atomics on sixteen bytes, and on vectors up to that size: the old value and the new one."""
    arguments = dict(before=WIDE, besides=[("p", "l", "slot")])
    back = "ld.v2.u64 {{{d}, {e}}}, [{p}];"
    for space in ("", ".global", ".shared"):
        before, constraint, expression = WIDE_SPACES[space]
        here = dict(before=before, besides=[("p", constraint, expression)])
        declared = f"{{{{ {DECLARED} .reg .b128 u, v; mov.b128 u, {{{{{{c}}, {{q}}}}}};"
        there, old = f"ld{space}.v2.u64 {{{{{{d}}, {{e}}}}}}, [{{p}}]; }}}}", "mov.b128 {{{d}, {e}}}, t; }}"
        for name, text, then in (
            (f"atom{space}.exch.b128", f"{declared} atom{space}.exch.b128 t, [{{p}}], u;", True),
            (f"atom{space}.cas.b128", f"{declared} ld{space}.b128 v, [{{p}}]; atom{space}.cas.b128 t, [{{p}}], v, u;", True),
            (f"atom{space}.cas.b128 of another", f"{declared} atom{space}.cas.b128 t, [{{p}}], u, u;", False),
        ):
            yield Case(name, f"{text} {old}", [64] * 2, ["b64"] * 4, lambda a, b, c, d: [a, b], "old", **here)
            yield Case(name, f"{text} {there}", [64] * 2, ["b64"] * 4, lambda a, b, c, d, then=then: [c, d] if then else [a, b], "new", **here)
    for operation, kind, count in (("add", "f32", 4), ("add", "f16", 8), ("add", "bf16", 8), ("add", "f16x2", 4), ("add", "bf16x2", 4), ("min", "f16", 8),
                                   ("max", "f16x2", 4), ("min", "bf16x2", 4), ("max", "bf16", 8)):  # fmt: skip
        form = FORMATS[kind.removesuffix("x2")]
        noftz = "" if kind == "f32" else ".noftz"
        apart = ["t0", "t1", "t2", "t3"]
        split = f"{{{{ {DECLARED} .reg .b16 h<8>; {TAKEN_APART % ('c', 'q')} "
        if count == 8:
            apart = [f"h{j}" for j in range(8)]
            split += "".join(f"mov.b32 {{{{h{2 * j}, h{2 * j + 1}}}}}, t{j}; " for j in range(4))

        def each(a, b, c, d, form=form, operation=operation):
            width = form.width
            return [judged(old, [(form, j, new >> j & (1 << width) - 1) for j in range(0, 64, width)], operation) for old, new in ((a, c), (b, d))]

        name = f"red.global.v{count}.{kind}.{operation}{noftz}"
        yield Case(name, f"{split} {name} [{{p}}], {{{{{', '.join(apart)}}}}}; {back} }}}}", [64] * 2, ["b64"] * 4, each, **arguments)
        name = name.replace("red", "atom", 1)
        together = "" if count == 4 else "".join(f"mov.b32 t{j}, {{{{h{2 * j}, h{2 * j + 1}}}}}; " for j in range(4))
        yield Case(name, f"{split} {name} {{{{{', '.join(apart)}}}}}, [{{p}}], {{{{{', '.join(apart)}}}}}; {together} mov.b64 {{d}}, {{{{t0, t1}}}}; "
                   f"mov.b64 {{e}}, {{{{t2, t3}}}}; }}}}", [64] * 2, ["b64"] * 4, lambda a, b, c, d: [a, b], **arguments)  # fmt: skip


def judged(a, parts, operation):
    """Like judged_sum, also for min and max."""
    if operation == "add":
        return judged_sum(a, parts, (1 << 64) - 1)

    def judge(got):
        for form, place, b in parts:
            one = (1 << form.width) - 1
            wanted = pick(operation == "min")(exact.decode(a >> place & one, form), exact.decode(b, form))
            value = got >> place & one
            if exact.decode(value, form).kind != "nan" if wanted.kind == "nan" else value != exact.encode(wanted, form):
                return False
        return True

    return judge


def judged_sum(a, parts, mask):
    """Each part of the slot is the exact sum, rounded. An f32 in global memory may flush subnormals or not (atom.add.f32 flushes on global
    memory, not on shared memory). A NaN may have any payload."""

    def judge(got):
        if got & ~mask != a & ~mask:
            return False
        for form, place, b in parts:
            one = (1 << form.width) - 1
            x, value = a >> place & one, got >> place & one
            if value not in (summed(form)(x, b), summed(form, True)(x, b)):
                if not (summed(form)(x, b) is None and exact.decode(value, form).kind == "nan"):
                    return False
        return True

    return judge


# --- operations among lanes, checked warp by warp -----------------------------------------------------------------------------


def by_warp(function):
    """All results of a case from those of each warp: function(rows of 32 lanes) gives 32 lists of results."""

    def expect(rows):
        return [result for start in range(0, len(rows), 32) for result in function(rows[start : start + 32])]

    return expect


@family
def lanes():
    everyone = "0xffffffff"
    for mode in ("up", "down", "bfly", "idx"):
        for segment in (32, 16, 8, 2):
            # c: clamp in the low five bits, segment mask above them (shfl's definition in PTX ISA)
            c = (32 - segment) << 8 | (0 if mode == "up" else 31)

            def shuffled(rows, mode=mode, c=c):
                result = []
                for lane, (a, b) in enumerate(rows):
                    segment_mask, clamp_value, b = c >> 8 & 31, c & 31, b & 31
                    limit = lane & segment_mask | clamp_value & ~segment_mask & 31
                    first = lane & segment_mask
                    source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | b & ~segment_mask & 31}[mode]
                    inside = source >= limit if mode == "up" else source <= limit
                    result.append([rows[source if inside else lane][0], int(inside)])
                return result

            name = f"shfl.sync.{mode}.b32"
            yield Case(name, f"{{{{ .reg .pred p; {name} {{d}}|p, {{a}}, {{b}}, {c}, {everyone}; selp.u32 {{e}}, 1, 0, p; }}}}", [32, 32],
                       ["b32", "u32:31"], by_warp(shuffled), f"{segment}", whole=True)  # fmt: skip
    votes = {
        "all": lambda values: int(all(values)),
        "any": lambda values: int(any(values)),
        "uni": lambda values: int(all(values) or not any(values)),
    }
    for mode, function in votes.items():
        yield Case(f"vote.sync.{mode}.pred",
                   f"{{{{ .reg .pred p, q; setp.ne.u32 p, {{a}}, 0; vote.sync.{mode}.pred q, p, {everyone}; selp.u32 {{d}}, 1, 0, q; }}}}", [32],
                   ["u32:1"], by_warp(lambda rows, f=function: [[f([a for (a,) in rows])]] * 32), whole=True)  # fmt: skip
        # warps in which all lanes agree, which is rare with random values
        yield Case(f"vote.sync.{mode}.pred",
                   f"{{{{ .reg .pred p, q; setp.ne.u32 p, {{a}}, 0x12345678; vote.sync.{mode}.pred q, p, {everyone}; selp.u32 {{d}}, 1, 0, q; }}}}", [32],
                   ["b32"], by_warp(lambda rows, f=function: [[f([a != 0x12345678 for (a,) in rows])]] * 32), "one mind", whole=True)  # fmt: skip
    yield Case("vote.sync.ballot.b32", f"{{{{ .reg .pred p; setp.ne.u32 p, {{a}}, 0; vote.sync.ballot.b32 {{d}}, p, {everyone}; }}}}", [32], ["u32:1"],
               by_warp(lambda rows: [[sum(a << lane for lane, (a,) in enumerate(rows))]] * 32), whole=True)  # fmt: skip
    for width in (32, 64):
        yield Case(f"match.any.sync.b{width}", f"match.any.sync.b{width} {{d}}, {{a}}, {everyone};", [32], [f"b{width}"],
                   by_warp(lambda rows: [[sum(1 << i for i, other in enumerate(rows) if other == row)] for row in rows]), whole=True)  # fmt: skip
        yield Case(f"match.all.sync.b{width}", f"{{{{ .reg .pred p; match.all.sync.b{width} {{d}}|p, {{a}}, {everyone}; selp.u32 {{e}}, 1, 0, p; }}}}", [32, 32],
                   [f"b{width}"], by_warp(lambda rows: [[0xFFFFFFFF, 1] if len(set(rows)) == 1 else [0, 0]] * 32), whole=True)  # fmt: skip
        yield Case(f"match.all.sync.b{width}",
                   f"{{{{ .reg .pred p; .reg .b{width} t; and.b{width} t, {{a}}, 0; match.all.sync.b{width} {{d}}|p, t, {everyone}; selp.u32 {{e}}, 1, 0, p; }}}}",
                   [32, 32], [f"b{width}"], by_warp(lambda rows: [[0xFFFFFFFF, 1]] * 32), "equal", whole=True)  # fmt: skip
    reductions = {"add": sum, "min": min, "max": max}
    for operation, function in reductions.items():
        for kind in ("u32", "s32"):
            name = f"redux.sync.{operation}.{kind}"
            yield Case(name, f"{name} {{d}}, {{a}}, {everyone};", [32], [kind],
                       by_warp(lambda rows, f=function, k=kind: [[bits_of(f(as_value(a, k) for (a,) in rows), 32)]] * 32), whole=True)  # fmt: skip
    for operation, function in (("and", lambda x, y: x & y), ("or", lambda x, y: x | y), ("xor", lambda x, y: x ^ y)):
        name = f"redux.sync.{operation}.b32"
        yield Case(name, f"{name} {{d}}, {{a}}, {everyone};", [32], ["b32"],
                   by_warp(lambda rows, f=function: [[functools.reduce(f, (a for (a,) in rows))]] * 32), whole=True)  # fmt: skip
    yield Case("activemask.b32", "activemask.b32 {d};", [32], ["b32"], by_warp(lambda rows: [[0xFFFFFFFF]] * 32), whole=True)
    yield Case("activemask.b32", "{{ .reg .pred p; setp.ne.u32 p, {a}, 0; mov.b32 {d}, 0; @p bra in; bra out; in: activemask.b32 {d}; out: }}", [32], ["u32:1"],
               by_warp(lambda rows: [[sum(a << i for i, (a,) in enumerate(rows)) if row[0] else 0] for row in rows]), "divergent", whole=True)  # fmt: skip
    yield Case("elect.sync", f"{{{{ .reg .pred p; elect.sync {{d}}|p, {everyone}; selp.u32 {{e}}, 1, 0, p; }}}}", [32, 32], ["b32"],
               by_warp(lambda rows: [[lambda leader: leader < 32, lambda elected: elected in (0, 1)]] * 32), whole=True)  # fmt: skip
    # All lanes see the same leader, which is the elected lane: the ballot of the elected is 1 << leader.
    yield Case("elect.sync", f"{{{{ .reg .pred p; .reg .b32 leader, t; elect.sync leader|p, {everyone}; vote.sync.ballot.b32 t, p, {everyone}; "
               f"shl.b32 leader, 1, leader; setp.eq.u32 p, leader, t; selp.u32 {{d}}, 1, 0, p; }}}}", [32], ["b32"],
               by_warp(lambda rows: [[1]] * 32), "leader", whole=True)  # fmt: skip


# --- addresses and special registers -----------------------------------------------------------------------------------------------


@family
def special():
    def numbered(function):
        return lambda rows: [[function(i)] for i in range(len(rows))]

    registers = {
        "%tid.x": lambda i: i % 128, "%tid.y": lambda i: 0, "%tid.z": lambda i: 0, "%ntid.x": lambda i: 128, "%ntid.y": lambda i: 1, "%ntid.z": lambda i: 1,
        "%ctaid.x": lambda i: i // 128, "%ctaid.y": lambda i: 0, "%ctaid.z": lambda i: 0, "%nctaid.x": lambda i: 5, "%nctaid.y": lambda i: 1,
        "%nctaid.z": lambda i: 1, "%laneid": lambda i: i % 32, "%lanemask_eq": lambda i: 1 << i % 32, "%lanemask_lt": lambda i: (1 << i % 32) - 1,
        "%lanemask_le": lambda i: (2 << i % 32) - 1, "%lanemask_gt": lambda i: 0xFFFFFFFF & ~((2 << i % 32) - 1),
        "%lanemask_ge": lambda i: 0xFFFFFFFF & ~((1 << i % 32) - 1), "%dynamic_smem_size": lambda i: 0}  # fmt: skip
    for register, function in registers.items():
        yield Case("mov.u32", f"mov.u32 {{d}}, {register};", [32], ["b32"], numbered(function), register, whole=True)
    for register, limit in (("%warpid", 64), ("%nwarpid", 65), ("%smid", 1024), ("%nsmid", 1025)):
        yield Case("mov.u32", f"mov.u32 {{d}}, {register};", [32], ["b32"], lambda a, m=limit: [lambda got: got < m], register)
    for register in ("%clock64", "%globaltimer"):
        yield Case("mov.u64", f"{{{{ .reg .b64 t, u; .reg .pred p; mov.u64 t, {register}; mov.u64 u, {register}; setp.ge.u64 p, u, t; selp.u64 {{d}}, 1, 0, p; }}}}", [64],
                   ["b32"], lambda a: [1], register)  # fmt: skip
    yield Case("mov.u32", "mov.u32 {d}, %clock;", [32], ["b32"], lambda a: [anything], "%clock")
    yield Case("isspacep.global", "{{ .reg .pred p; isspacep.global p, {p}; selp.u32 {d}, 1, 0, p; }}", [32], ["b32"], lambda a: [1], besides=[("p", "l", "out")])
    yield Case("isspacep.shared", "{{ .reg .pred p; isspacep.shared p, {p}; selp.u32 {d}, 1, 0, p; }}", [32], ["b64", "b64"], lambda a, b: [1], before=SHARED,
               besides=[("p", "l", "slot")])  # fmt: skip
    yield Case("isspacep.shared", "{{ .reg .pred p; isspacep.shared p, {p}; selp.u32 {d}, 1, 0, p; }}", [32], ["b64", "b64"], lambda a, b: [0], "of global",
               besides=[("p", "l", "out")])  # fmt: skip
    yield Case("isspacep.local", "{{ .reg .pred p; isspacep.local p, {p}; selp.u32 {d}, 1, 0, p; }}", [32], ["b64", "b64"], lambda a, b: [1], before=LOCAL,
               besides=[("p", "l", "slot")])  # fmt: skip
    for space, before in (("shared", SHARED), ("local", LOCAL), ("global", GLOBAL)):
        yield Case(f"cvta.to.{space}.u64 cvta.{space}.u64", f"{{{{ .reg .b64 t; cvta.to.{space}.u64 t, {{p}}; cvta.{space}.u64 t, t; ld.u64 {{d}}, [t]; }}}}", [64],
                   ["b64", "b64"], lambda a, b: [a], before=before, besides=[("p", "l", "slot")])  # fmt: skip
    for name in ("membar.cta", "membar.gl", "membar.sys", "fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.sc.gpu", "fence.sc.sys", "fence.proxy.alias",
                 "bar.warp.sync 0xffffffff", "bar.sync 0", "barrier.sync 1", "barrier.sync 2, 128", "bar.arrive 3, 160", "nanosleep.u32 10", "pmevent 1",
                 "barrier.cta.sync.aligned 0"):  # fmt: skip
        yield Case(name, f"{name}; mov.b32 {{d}}, {{a}};", [32], ["b32"], lambda a: [a])

    def blocks(function):
        return lambda rows: [[function([a for (a,) in rows[i // 128 * 128 : i // 128 * 128 + 128]])] for i in range(len(rows))]

    yield Case("bar.red.popc.u32", "{{ .reg .pred p; setp.ne.u32 p, {a}, 0; bar.red.popc.u32 {d}, 0, p; }}", [32], ["u32:1"], blocks(sum), whole=True)
    for operation, function in (("and", all), ("or", any)):
        yield Case(f"bar.red.{operation}.pred", f"{{{{ .reg .pred p, q; setp.ne.u32 p, {{a}}, 0; bar.red.{operation}.pred q, 0, p; selp.u32 {{d}}, 1, 0, q; }}}}", [32],
                   ["u32:1"], blocks(lambda values, f=function: int(f(values))), whole=True)  # fmt: skip
