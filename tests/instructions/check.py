#!/usr/bin/env python3
"""Runs the program of a family and compares each result with the exact one.

    check.py FAMILY PROGRAM... : starts PROGRAM (with a prefix such as scripts/software-gpu) with two files as arguments"""

import array
import subprocess
import sys
import tempfile

import cases


def hexadecimal(values):
    return ", ".join("judged" if callable(value) else hex(value) for value in values)


def main():
    family, command = sys.argv[1], sys.argv[2:]
    chosen = cases.cases_of(family)
    with tempfile.TemporaryDirectory() as directory:
        operands = array.array("Q")
        given = []
        for case in chosen:
            tuples = cases.inputs(case)
            given.append(tuples)
            for place in range(len(case.operands)):
                operands.extend(row[place] for row in tuples)
        with open(f"{directory}/operands", "wb") as f:
            operands.tofile(f)
        subprocess.run(command + [f"{directory}/operands", f"{directory}/results"], check=True)
        results = array.array("Q")
        with open(f"{directory}/results", "rb") as f:
            results.frombytes(f.read())
    at, compared, wrong = 0, 0, []
    for case, tuples in zip(chosen, given):
        count = len(case.results)
        bad = []
        all_wanted = case.expect(tuples) if case.whole else None
        for i, row in enumerate(tuples):
            got = [results[at + place * len(tuples) + i] for place in range(count)]
            wanted = all_wanted[i] if case.whole else case.expect(*row)
            compared += 1
            if not all(w(g) if callable(w) else w == g for w, g in zip(wanted, got, strict=True)):
                bad.append(f"  {case.name} {case.note}({hexadecimal(row)}) = {hexadecimal(got)}, exact: {hexadecimal(wanted)}")
        at += count * len(tuples)
        if bad:
            wrong.append(f"{case.name} {case.note}: {len(bad)} of {len(tuples)} differ")
            wrong.extend(bad[:3])
    if at != len(results):
        sys.exit(f"{len(results)} results, not {at}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{family}: {len(chosen)} instructions, {compared} results, all exact")


if __name__ == "__main__":
    main()
