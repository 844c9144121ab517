#!/usr/bin/env python3
"""Writes the sources from which a library of the software device exports what NVIDIA's library of that name exports.

NAME_not_built.cpp: for every function that returns the library's status, a weak definition that prints its name once and returns "not
supported". An ordinary definition elsewhere replaces it when linking. Functions with another return type must be written by hand (those
that the headers declare are listed in a comment).
NAME.map: the linker's version script: exactly these names, under the versions of NVIDIA's library.
NAME_procedures.cpp (--typedefs): base name, version and default stream of each, for cuGetProcAddress.

The names come from the library if the toolkit has it (for libcuda, its stub), otherwise from the headers' declarations.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

PER_THREAD = r"(_pt[sd][sz])?"


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines() if line.split()[-2] in "TWi"}


def declarations(args):
    source = "".join(f"#include <{header}>\n" for header in args.header)
    command = [args.compiler, "-E", "-P", "-x", "c++", "-D__CUDA_API_VERSION_INTERNAL", "-I", args.include, "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text, flags=re.S)


def declared(text, prefix):
    """{name: the text before it in its declaration, that is, its type}"""
    found = {}
    for before, name in re.findall(r"([\w\s*]+?[\s*])(\w+)\s*\(", text):
        if re.match(prefix, name) and not re.search(r"\b(return|typedef|inline)\b", before):
            found.setdefault(name, before.split())
    return found


def procedures(args, names):
    """The typedefs header has one entry per function and version, such as PFN_cuMemAlloc_v3020. The k-th version of a base name belongs to
    the k-th of the symbols cuMemAlloc, cuMemAlloc_v2, …; their numbers are compared."""
    text = "".join(open(os.path.join(args.include, header)).read() for header in args.typedefs)
    versions = collections.defaultdict(set)
    for base, version, per_thread in re.findall(r"\*PFN_(cu\w+?)_v(\d+)" + PER_THREAD + r"\)", text):
        versions[base, bool(per_thread)].add(int(version))
    rows = []
    for (base, per_thread), introduced in sorted(versions.items()):
        suffixes = ["_ptsz", "_ptds"] if per_thread else [""]
        stems = [base] + [f"{base}_v{number}" for number in range(2, 10)]
        symbols = [stem + suffix for stem in stems for suffix in suffixes if stem + suffix in names]
        if len(symbols) != len(introduced):
            sys.exit(f"{args.typedefs[0]} has {len(introduced)} versions of {base}, the library {symbols}: "
                     "make_table.py cannot tell which is which")
        rows += [(base, version, per_thread, symbol) for version, symbol in zip(sorted(introduced), symbols)]
    return rows


def write(path, text):
    if not os.path.exists(path) or open(path).read() != text:
        with open(path, "w") as file:
            file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the files that are written: cuda, cudart, …")
    parser.add_argument("--library", help="NVIDIA's; may be missing")
    parser.add_argument("--include", required=True)
    parser.add_argument("--header", action="append", required=True)
    parser.add_argument("--typedefs", action="append", default=[])
    parser.add_argument("--prefix", required=True, help="what the functions' names begin with")
    parser.add_argument("--status-type", required=True)
    parser.add_argument("--status", required=True, help="the number that says: not supported")
    parser.add_argument("--node", help="version of the symbols, as in cudaMalloc@@libcudart.so.13")
    parser.add_argument("--also", action="append", default=[], help="exported too, written by hand (may have a *)")
    parser.add_argument("--by-hand", action="append", default=[], help="not returning the status, and in no header")
    parser.add_argument("--speaker", default="software GPU", help="who says that a function is not built")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    types = declared(declarations(args), args.prefix)
    if args.library and os.path.exists(args.library):
        names = {name for name in exported(args.library) if re.match(args.prefix, name)}
    else:
        names = set(types)
    by_hand = {name for name in names if name in types and types[name][-1] != args.status_type} | set(args.by_hand)
    generated = sorted(names - by_hand)
    if not generated:
        sys.exit(f"make_table.py: no function of {args.name} found")

    text = f"""// Made by gpu_state/software/table/make_table.py: functions of {args.name} that nobody has built. Each is weak.
// Not here since they return something else: {", ".join(sorted(by_hand)) or "none"}.
#include "gpu_state/software/settings/settings.h"

namespace {{
int not_built(const char* name) {{
  cropdl::settings::say_not_built(name, "{args.speaker}");
  return {args.status};
}}
}}  // namespace

extern "C" {{
"""
    text += "".join(f'[[gnu::weak, gnu::visibility("default")]] int {n}() {{ return not_built("{n}"); }}\n' for n in generated)
    write(os.path.join(args.out, f"{args.name}_not_built.cpp"), text + "}\n")

    lines = "".join(f"    {name};\n" for name in sorted(names) + args.also)
    write(os.path.join(args.out, f"{args.name}.map"),
          f"{args.node or ''} {{\n  global:\n{lines}  local:\n    *;\n}};\n".lstrip())

    if args.typedefs:
        rows = procedures(args, names)
        text = """// Made by gpu_state/software/table/make_table.py from the toolkit's header of typedefs.
#include "gpu_state/software/driver/procedures.h"

extern "C" {
"""
        text += "".join(f"void {symbol}();\n" for symbol in sorted({row[3] for row in rows}))
        text += "}\n\nnamespace cropdl::driver {\n\nconst Procedure kProcedures[] = {\n"
        text += "".join(f'    {{"{base}", {version}, {str(per_thread).lower()}, &{symbol}}},\n'
                        for base, version, per_thread, symbol in rows)
        text += "};\nconst size_t kProcedureCount = sizeof kProcedures / sizeof kProcedures[0];\n\n}  // namespace cropdl::driver\n"
        write(os.path.join(args.out, f"{args.name}_procedures.cpp"), text)


main()
