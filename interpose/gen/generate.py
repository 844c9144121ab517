#!/usr/bin/env python3
"""The generator's command line: headers and checked-in tables in, C++ out. See docs/generator.md.

    generate.py --out DIR --header NAME=HEADER:FLAGS... [--library NAME=LIBRARY.so] [--list]

Runs at build time only."""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

import emit  # noqa: E402
from header import Header, dynamic_symbols  # noqa: E402
from model import Model, TableError  # noqa: E402

HERE = Path(__file__).parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--header", action="append", default=[], metavar="NAME=FILE[,FLAG...]", required=True)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--fortran", action="append", default=[], metavar="NAME=FILE[,FILE...]")
    parser.add_argument("--annotations", type=Path, default=HERE / "annotations.toml")
    parser.add_argument("--functions", type=Path, default=HERE / "functions.txt")
    parser.add_argument("--predefined", type=Path, default=HERE / "predefined.txt")
    parser.add_argument("--frozen", type=Path, default=HERE / "frozen.txt")
    parser.add_argument("--hand", type=Path, help="list of functions whose lower side is written by hand")
    parser.add_argument("--list", action="store_true", help="print what was decided for each function")
    return parser.parse_args()


def main():
    options = arguments()
    import tomllib
    names = tomllib.loads(options.annotations.read_text())["names"]
    headers = {}
    for item in options.header:
        name, _, rest = item.partition("=")
        file, *flags = rest.split(",")
        headers[name] = Header(Path(file), flags, names)
    model = Model(headers, options.annotations, options.functions, options.predefined, options.frozen, options.hand)
    templates = emit.environment()

    def render(output, template, **values):
        emit.write(options.out / output, templates.get_template(template).render(model=model, **values))

    render("mpi_functions.h", "functions.h.j2", implementations=sorted(headers))
    render("mpi_predefined.h", "predefined.h.j2", kinds=emit.predefined(model))
    render("lower_functions.h", "lower_functions.h.j2", bodies=emit.lower_bodies(model, next(iter(headers))))
    for name in headers:
        render(f"constants_{name}.h", "constants.h.j2", implementation=name)
        render(f"lower_predefined_{name}.inc", "lower_predefined.inc.j2", kinds=emit.predefined(model, name))
        render(f"lower_{name}.cpp", "lower.cpp.j2", implementation=name, bodies=emit.lower_bodies(model, name))
        render(f"upper_{name}.cpp", "upper.cpp.j2", abi=name, bodies=emit.upper_bodies(model, name))
        fortran = next((f.partition("=")[2].split(",") for f in options.fortran if f.startswith(name + "=")), [])
        render(f"upper_handles_{name}.h", "upper_handles.h.j2", abi=name, kinds=emit.predefined(model, name),
               integers=emit.integer_handles(model, name),
               fortran=emit.fortran_integers([Path(f) for f in fortran]))
    for item in options.library:
        name, _, file = item.partition("=")
        objects = emit.data_objects(model, dynamic_symbols(Path(file)), name, model.table.get("pointers", {}))
        render(f"upper_data_{name}.S", "data.S.j2", objects=objects, abi=name)
    emit.write(options.out / "coverage.tsv",
               "".join("\t".join(row) + "\n" for row in emit.coverage(model)))
    if options.list:
        print((options.out / "coverage.tsv").read_text(), end="")


if __name__ == "__main__":
    try:
        main()
    except TableError as error:
        sys.exit(f"generator: {error}")
