#!/usr/bin/env python3
"""Every row of the engine's table has a case here, or is listed below with the unit test that covers it.

    rows.py CORPUS: the program of corpus.cpp, which knows the table"""

import re
import subprocess
import sys

import cases

# Rows without a case: combinations whose parts have cases and that use the same functions, and rows that need a whole warp.
ELSEWHERE = {
    r"mma\..*": "ArithmeticMatrix.FragmentsOfMma",
    r"(min|max)\.(ftz\.)?(NaN\.)?xorsign\.abs\.b?f16(x2)?": "ArithmeticFloat.HalfPrecision",
    r"set\..*|setp\..*\.(and|or|xor)\..*|setp\.\w+\.ftz\.f16x2(\..*)?": "ArithmeticInteger.Comparisons, ArithmeticFloat.ComparisonsWithNaN and .ComparisonsOfHalves",
    r"v(add|sub|absdiff|min|max|avrg|set)[24]?\..*": "ArithmeticInteger.VideoInstructions",
    r"cvt\..*\.[us](8|16|32|64)": "ArithmeticFloat.FromIntegers, ArithmeticInteger.ConversionsInRegistersOfEveryWidth",
    r"cvt\..*[us](8|16|32|64)\.b?f(16|32|64)": "ArithmeticFloat.ToIntegers",
    r"cvt\..*(b?f16|f32|f64|tf32|f16x2)\.b?f(16|32|64)": "ArithmeticFloat.AmongFormats",
    r"cvt\..*e[45]m[32]x2.*": "ArithmeticFloat.EightBits",
}


def opcodes():
    for family in cases.FAMILIES:
        for case in cases.cases_of(family):
            for statement in re.split(r"[;{}]", case.text.replace("{{", "{").replace("}}", "}")):
                yield from re.findall(r"^\s*([a-z]\w*(?:\.[\w:]+)+)", statement)


def main():
    (corpus,) = sys.argv[1:]
    others = subprocess.run([corpus, "--rows"], input="\n".join(opcodes()), capture_output=True, text=True, check=True).stdout.split()
    nowhere = [row for row in others if not any(re.fullmatch(pattern, row) for pattern in ELSEWHERE)]
    stale = [pattern for pattern in ELSEWHERE if not any(re.fullmatch(pattern, row) for row in others)]
    if nowhere or stale:
        sys.exit(f"rows without a case: {' '.join(nowhere)}\npatterns that no row needs: {' '.join(stale)}")


if __name__ == "__main__":
    main()
