#!/usr/bin/env python3
"""Writes FAMILY.cu: a kernel for each case of the family, with the instruction in inline assembly.

    generate.py FAMILY FILE"""

import sys

import cases

CONSTRAINT = {16: "h", 32: "r", 64: "l"}


def kernel(number, case):
    operands, results = [], []
    names = {}
    for place, width in enumerate(case.results):
        names["de"[place]] = f"%{place}"
        results.append((width, "xy"[place]))
    if case.written >= 0:
        results = results[: case.written]
    for place, kind in enumerate(case.operands):
        names["abcq"[place]] = f"%{len(results) + place}"
        operands.append(max(cases.width_of(kind), 16))
    for place, (letter, _, _) in enumerate(case.besides):
        names[letter] = f"%{len(results) + len(case.operands) + place}"
    text = case.text.format(**names).replace('"', '\\"')
    lines = [f"__global__ void k{number}(const uint64_t* in, uint64_t* out) {{"]
    lines.append("  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= kInputs) return;")
    for place, width in enumerate(operands):
        lines.append(f"  uint{width}_t {'abcq'[place]} = static_cast<uint{width}_t>(in[{place} * kInputs + i]);")
    for width, name in results:
        lines.append(f"  uint{width}_t {name};")
    if case.before:
        lines.append(f"  {case.before}")
    outputs = ", ".join(f'"={CONSTRAINT[width]}"({name})' for width, name in results)
    taken = ", ".join(f'"{CONSTRAINT[width]}"({"abcq"[place]})' for place, width in enumerate(operands))
    taken += "".join(f', "{constraint}"({expression})' for _, constraint, expression in case.besides)
    lines.append(f'  asm volatile("{text}" : {outputs} : {taken} : "memory");')
    for place, (width, name) in enumerate(results):
        lines.append(f"  out[{place} * kInputs + i] = {name};")
    lines.append("}")
    return "\n".join(lines)


def main():
    family, path = sys.argv[1:]
    chosen = cases.cases_of(family)
    with open(path, "w") as f:
        f.write('#include "runner.h"\n\n')
        for number, case in enumerate(chosen):
            f.write(f"// {case.name} {case.note}\n{kernel(number, case)}\n\n")
        f.write("const Case kCases[] = {\n")
        for number, case in enumerate(chosen):
            f.write(f'    {{"{case.name} {case.note}", k{number}, {len(case.operands)}, {len(case.results)}}},\n')
        f.write("};\n\nint main(int argc, char** argv) { return run(kCases, argc, argv); }\n")


if __name__ == "__main__":
    main()
