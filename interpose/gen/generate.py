#!/usr/bin/env python3
"""The generator's command line: reads headers and a library's checked-in tables, writes C++. See docs/generator.md.

    generate.py LIBRARY_FOLDER --out DIR --header NAME=HEADER[,FLAG...] [--library NAME=LIBRARY.so] [--list]

NAME identifies an implementation of the library (implementations differ in header and ABI). Runs at build time only."""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

import emit  # noqa: E402
from header import Header, dynamic_symbols  # noqa: E402
from model import CORE, Model, read_table  # noqa: E402
from roles import TableError  # noqa: E402

TABLES = {"annotations": "annotations.toml", "roles": "roles.toml", "functions": "functions.txt",
          "parameters": "parameters.txt", "predefined": "predefined.txt", "frozen": "frozen.txt"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="LIBRARY_FOLDER")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--header", action="append", default=[], metavar="NAME=FILE[,FLAG...]", required=True)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE",
                        help="the shared library, for the symbols that programs may import")
    parser.add_argument("--fortran", action="append", default=[], metavar="NAME=FILE[,FILE...]",
                        help="Fortran headers with the integers of predefined handles")
    for name, file in TABLES.items():
        parser.add_argument(f"--{name}", type=Path, help=f"instead of LIBRARY_FOLDER/{file}")
    parser.add_argument("--list", action="store_true", help="print what was decided for each function")
    return parser.parse_args()


def by_name(items):
    return {name: rest.split(",") for name, _, rest in (item.partition("=") for item in items)}


def main():
    options = arguments()
    files = {name: getattr(options, name) or options.folder / file for name, file in TABLES.items()}
    library = read_table(files["annotations"])["library"]
    if library["family"]:
        files["roles"] = options.roles or CORE / library["family"] / "roles.toml"
        files["facts"] = CORE / library["family"] / "facts.toml"
    symbols = {name: dynamic_symbols(Path(file)) for name, (file,) in by_name(options.library).items()}
    headers = {name: Header(Path(file), flags, library["names"], symbols.get(name, {}), library["twins"],
                            library["explicit"] and not library["stub"], library["language"])
               for name, (file, *flags) in by_name(options.header).items()}
    model = Model(headers, files)
    if library["explicit"]:
        model.check_exports(symbols)
    fortran = by_name(options.fortran)
    templates = emit.environment(options.folder)
    for output in model.table["output"]:
        template = templates.get_template(output["template"])
        # A template for all implementations names only functions and handles, so any implementation gives the same text.
        each = list(headers) if "{implementation}" in output["file"] else [next(iter(headers))]
        for name in each:
            if output.get("of_library") and name not in symbols:
                continue  # the caller has not named the library's exports
            text = template.render(model=model, table=model.table, library=model.library, implementation=name,
                                   symbols=symbols.get(name, {}),
                                   fortran=emit.fortran_integers([Path(f) for f in fortran.get(name, [])]))
            emit.write(options.out / output["file"].format(implementation=name), text)
    emit.write(options.out / "coverage.tsv", "".join("\t".join(row) + "\n" for row in emit.coverage(model)))
    if options.list:
        print((options.out / "coverage.tsv").read_text(), end="")


if __name__ == "__main__":
    try:
        main()
    except TableError as error:
        sys.exit(f"generator: {error}")
