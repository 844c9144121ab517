"""Exact arithmetic, rounded once: the bits that an instruction must return. Independent of the device's code and of any floating point
unit: a number is an integer times a power of two, in Python's integers.

Source of the rules: PTX ISA 9.0 ("Floating-Point Instructions", "Half Precision …", cvt) and IEEE 754-2019."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Format:
    name: str
    exponent: int  # bits of the exponent
    mantissa: int  # stored bits of the mantissa
    nan: int  # the bits of a NaN result

    @property
    def width(self):
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self):
        return (1 << (self.exponent - 1)) - 1

    @property
    def lowest(self):  # exponent of the last place of subnormals
        return 1 - self.bias - self.mantissa

    @property
    def infinity(self):
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def largest(self):
        return self.infinity - 1

    @property
    def sign(self):
        return 1 << (self.width - 1)


F16 = Format("f16", 5, 10, 0x7FFF)
BF16 = Format("bf16", 8, 7, 0x7FFF)
F32 = Format("f32", 8, 23, 0x7FFFFFFF)
F64 = Format("f64", 11, 52, 0x7FF8000000000000)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}


@dataclasses.dataclass(frozen=True)
class Number:
    """kind: "nan", "inf" or "finite": (-1)^sign * magnitude * 2^exponent; `more`: slightly larger than that."""

    kind: str
    sign: int = 0
    magnitude: int = 0
    exponent: int = 0
    more: bool = False

    @property
    def zero(self):
        return self.kind == "finite" and self.magnitude == 0 and not self.more


NAN = Number("nan")


def infinity(sign):
    return Number("inf", sign)


def finite(value, exponent=0, sign_of_zero=0, more=False):
    return Number("finite", 1 if value < 0 else 0 if value > 0 else sign_of_zero, abs(value), exponent, more)


def decode(bits, form, ftz=False):
    sign = bits >> (form.width - 1) & 1
    exponent = bits >> form.mantissa & ((1 << form.exponent) - 1)
    fraction = bits & ((1 << form.mantissa) - 1)
    if exponent == (1 << form.exponent) - 1:
        return NAN if fraction else infinity(sign)
    if exponent == 0:
        return Number("finite", sign, 0 if ftz else fraction, form.lowest)
    return Number("finite", sign, fraction | 1 << form.mantissa, form.lowest + exponent - 1)


def signed(number):
    return -number.magnitude if number.sign else number.magnitude


def shift_right(magnitude, places):
    """The magnitude divided by 2^places, and whether bits were lost."""
    if places <= 0:
        return magnitude << -places, False
    return magnitude >> places, bool(magnitude & ((1 << places) - 1))


def rounded_up(kept, half, rest, sign, mode):
    if not half and not rest:
        return False
    if mode == "rn":
        return bool(half and (rest or kept & 1))
    if mode == "rna":
        return bool(half)
    if mode == "rz":
        return False
    return (mode == "rm") == bool(sign)


def round_at(number, exponent, mode):
    """The number's magnitude as an integer multiple of 2^exponent."""
    places = exponent - number.exponent
    if places <= 0:
        assert not number.more
        return number.magnitude << -places
    kept, _ = shift_right(number.magnitude, places)
    half = number.magnitude >> (places - 1) & 1
    rest = bool(number.magnitude & ((1 << (places - 1)) - 1)) or number.more
    return kept + (1 if rounded_up(kept, half, rest, number.sign, mode) else 0)


def encode(number, form, mode="rn", ftz=False, sat=False, nan=None):
    if number.kind == "nan":
        return 0 if sat else form.nan if nan is None else nan
    sign = number.sign << (form.width - 1)
    if sat and number.kind == "finite" and (number.sign or number.zero):
        return 0
    if sat and number.kind == "inf":
        return 0 if number.sign else encode(finite(1), form)
    if number.kind == "inf":
        return sign | form.infinity
    if number.zero:
        return sign
    if number.more and number.magnitude.bit_length() < form.mantissa + 4:  # room below the last place for lost bits
        number = Number("finite", number.sign, number.magnitude << (form.mantissa + 4), number.exponent - form.mantissa - 4, True)
    top = number.exponent + number.magnitude.bit_length() - 1
    last = max(top - form.mantissa, form.lowest)
    kept = round_at(number, last, mode) if last > number.exponent else number.magnitude << (number.exponent - last)
    if kept.bit_length() > form.mantissa + 1:
        kept, last = kept >> 1, last + 1
    if kept.bit_length() <= form.mantissa:
        bits = kept  # subnormal, or zero
        if ftz:
            bits = 0
    else:
        bits = ((last - form.lowest + 1) << form.mantissa) + (kept - (1 << form.mantissa))
    if bits >= form.infinity:
        away = mode in ("rn", "rna") or (mode == "rm") == bool(number.sign) and mode != "rz"
        bits = form.infinity if away else form.largest
    if sat and bits > encode(finite(1), form):
        bits = encode(finite(1), form)
    return sign | bits


def zero_sign(a, b, mode):
    """The sign of a sum that is exactly zero (IEEE 754, 6.3)."""
    if a.sign == b.sign:
        return a.sign
    return 1 if mode == "rm" else 0


def add(a, b, mode="rn"):
    if a.kind == "nan" or b.kind == "nan":
        return NAN
    if a.kind == "inf" or b.kind == "inf":
        if a.kind == b.kind and a.sign != b.sign:
            return NAN
        return a if a.kind == "inf" else b
    exponent = min(a.exponent, b.exponent)
    total = (signed(a) << (a.exponent - exponent)) + (signed(b) << (b.exponent - exponent))
    return finite(total, exponent, zero_sign(a, b, mode))


def negated(a):
    return a if a.kind == "nan" else dataclasses.replace(a, sign=1 - a.sign)


def multiply(a, b):
    if a.kind == "nan" or b.kind == "nan":
        return NAN
    sign = a.sign ^ b.sign
    if a.kind == "inf" or b.kind == "inf":
        return NAN if a.zero or b.zero else infinity(sign)
    return Number("finite", sign, a.magnitude * b.magnitude, a.exponent + b.exponent)


def divide(a, b):
    if a.kind == "nan" or b.kind == "nan":
        return NAN
    sign = a.sign ^ b.sign
    if a.kind == "inf":
        return NAN if b.kind == "inf" else infinity(sign)
    if b.kind == "inf":
        return Number("finite", sign)
    if b.zero:
        return NAN if a.zero else infinity(sign)
    places = 130 + b.magnitude.bit_length()
    quotient, rest = divmod(a.magnitude << places, b.magnitude)
    return Number("finite", sign, quotient, a.exponent - b.exponent - places, rest != 0)


def square_root(a):
    if a.kind == "nan" or a.sign and not a.zero:
        return NAN
    if a.kind == "inf" or a.zero:
        return a
    magnitude, exponent = a.magnitude, a.exponent
    if exponent % 2:
        magnitude, exponent = magnitude << 1, exponent - 1
    magnitude, exponent = magnitude << 260, exponent - 260
    root = math.isqrt(magnitude)
    return Number("finite", 0, root, exponent // 2, root * root != magnitude)


def compare(a, b):
    """-1, 0, 1 or None (unordered)."""
    if a.kind == "nan" or b.kind == "nan":
        return None

    def key(n):
        return (1 if n.kind == "inf" else 0) * (-1 if n.sign else 1)

    if a.kind == "inf" or b.kind == "inf":
        return (key(a) > key(b)) - (key(a) < key(b))
    exponent = min(a.exponent, b.exponent)
    x, y = signed(a) << (a.exponent - exponent), signed(b) << (b.exponent - exponent)
    return (x > y) - (x < y)


def to_integer(a, low, high, mode, nan):
    """cvt to an integer: rounded in that mode, saturated; NaN gives `nan`."""
    if a.kind == "nan":
        return nan
    if a.kind == "inf":
        return low if a.sign else high
    rounding = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}[mode]
    value = round_at(a, 0, rounding) if a.exponent < 0 else a.magnitude << a.exponent
    return max(low, min(high, -value if a.sign else value))


def to_integral(a, mode):
    """Rounds to an integral floating point number; keeps the sign of zero."""
    if a.kind != "finite" or a.exponent >= 0:
        return a
    rounding = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}[mode]
    return Number("finite", a.sign, round_at(a, 0, rounding), 0)


def as_float(a):
    """The nearest Python float, only for bounds of approximations."""
    if a.kind == "nan":
        return math.nan
    if a.kind == "inf":
        return -math.inf if a.sign else math.inf
    value = math.ldexp(a.magnitude, a.exponent) if a.magnitude.bit_length() < 900 else math.inf
    return -value if a.sign else value
