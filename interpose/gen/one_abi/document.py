#!/usr/bin/env python3
"""Makes docs/gpu-functions.md from the coverage tables: for every function of every library with one ABI, how it is
handled, and the reason.

    document.py DOCUMENT NAME=COVERAGE.tsv=LIBRARY.so... [--write]

Compares DOCUMENT with the generated text, or writes it. Sections of libraries that are not named are kept: their headers
are not on this host. Runs at build time only."""
import collections
import difflib
import re
import sys
from pathlib import Path

HEAD = """# Functions of NVIDIA's libraries

What becomes of a call of each function that these libraries export (`docs/generator.md` says what the ways mean). Made from the tables
in `interpose/gen` by `cmake --build build --target gpu_functions`; a test compares.

Libraries that keep nothing on a device have no table: they live in the upper half as they are, like any library of the program's, so that
their state is in the image and their calls cost what they cost natively. **NVRTC** and **nvJitLink** turn text and objects into code, all of
it in host memory, to which their handles point; what the program loads of that code passes through the tables below. **NVTX** is a
header that looks for a profiler in the process and finds none (`libnvtx3interop` likewise). Should one of them open `libcuda.so.1`, it gets
the shim. Code that is linked into kernels (`libcudadevrt`) is part of the program's modules; what is linked into the program
(`libcudart_static`) has the entries of the runtime's shim. Profilers (CUPTI, `libnvperf`) work on the driver's private tables, which
are refused (`cuGetExportTable`).
"""
WAYS = ["forwarded", "create", "free", "set-state", "by hand", "refused at a cut", "refused at once", "absent"]


def section(name, coverage, library):
    rows = [line.split("\t") for line in Path(coverage).read_text().splitlines()[1:]]
    counts = collections.Counter(way for _, way, *_ in rows)
    classes = collections.defaultdict(list)
    for function, way, _, _, _, why in rows:
        classes[WAYS.index(way), why].append(function)
    lines = [f"## {name}", "", f"`{Path(library).name.partition('.so')[0]}.so`, {len(rows)} functions: " + ", ".join(f"{counts[w]} {w}" for w in WAYS if counts[w]) + ".", ""]
    for (way, why), functions in sorted(classes.items(), key=lambda item: (item[0][0], item[1][0])):
        lines.append(f"- **{WAYS[way]}**{f' ({why})' if why else ''}: " + ", ".join(f"`{f}`" for f in functions))
    return "\n".join(lines) + "\n"


def main():
    write = "--write" in sys.argv
    path, *items = [Path(sys.argv[1]), *(a for a in sys.argv[2:] if a != "--write")]
    was = path.read_text() if path.exists() else ""
    sections = {match.group(1): match.group(0).rstrip() + "\n" for match in re.finditer(r"^## (\w+)\n.*?(?=^## |\Z)", was, re.M | re.S)}
    for item in items:
        name, *files = item.split("=")
        sections[name] = section(name, *files)
    now = "\n".join([HEAD, *(sections[name] for name in sorted(sections))])
    if write:
        path.write_text(now)
    elif was != now:
        sys.stdout.writelines(difflib.unified_diff(was.splitlines(True), now.splitlines(True), str(path), "what the tables say", n=0))
        sys.exit(f"{path} is not what the tables say: cmake --build build --target gpu_functions")


main()
