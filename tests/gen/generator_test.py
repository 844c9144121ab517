#!/usr/bin/env python3
"""Tests of the generator: the shims have every symbol of the real libraries, every function of the headers has an implementation, an index
never changes its meaning, and an error in a table stops the build.

    generator_test.py FILE_WITH_THE_GENERATOR'S_COMMAND REAL_LIBRARY=SHIM..."""
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

COMMAND = Path(sys.argv[1]).read_text().splitlines()
LIBRARIES = [item.split("=") for item in sys.argv[2:]]
GENERATOR = Path(COMMAND[1]).parent
TABLES = Path(COMMAND[2])


def exported(library):
    """{name: (type, size)} of a library's dynamic symbols."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in text.splitlines())
    return {r[7].split("@")[0]: (r[3], int(r[2], 0)) for r in rows
            if len(r) >= 8 and r[0].rstrip(":").isdigit() and r[6] != "UND"}


def generate(folder, **tables):
    """Runs the generator into `folder`, with some of its tables replaced by other text."""
    command = list(COMMAND)
    command[command.index("--out") + 1] = str(folder)
    for name, text in tables.items():
        path = Path(folder) / f"{name}.table"
        path.write_text(text)
        command += [f"--{name}", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


class Shims(unittest.TestCase):
    def test_every_mpi_symbol_of_the_real_library_is_exported(self):
        for real, shim in LIBRARIES:
            theirs, ours = exported(real), exported(shim)
            wanted = {n for n, (kind, _) in theirs.items() if re.match(r"P?MPIX?_[A-Z]", n) and kind == "FUNC"}
            self.assertGreater(len(wanted), 800)
            self.assertEqual(sorted(wanted - set(ours)), [], real)

    def test_every_data_object_has_its_real_size(self):
        for real, shim in LIBRARIES:
            theirs, ours = exported(real), exported(shim)
            objects = {n: s for n, (kind, s) in theirs.items() if kind == "OBJECT" and s > 0}
            self.assertGreater(len(objects), 10)
            self.assertEqual({n: s for n, s in objects.items() if ours.get(n, (0, 0))[1] != s}, {}, real)

    def test_only_libc_is_needed(self):
        for _, shim in LIBRARIES:
            text = subprocess.run(["readelf", "-d", shim], check=True, capture_output=True, text=True).stdout
            self.assertEqual(set(re.findall(r"NEEDED.*\[(.*)\]", text)), {"libc.so.6"}, shim)
            self.assertEqual(re.findall(r"SONAME.*\[(.*)\]", text), [Path(shim).name])

    def test_profiling_names_can_be_overridden(self):
        for _, shim in LIBRARIES:
            text = subprocess.run(["readelf", "-W", "--dyn-syms", shim], check=True, capture_output=True,
                                  text=True).stdout
            for name, binding in (("MPI_Send", "WEAK"), ("PMPI_Send", "GLOBAL"), ("MPI_Comm_rank", "WEAK")):
                self.assertRegex(text, rf"FUNC\s+{binding}\s+DEFAULT\s+\d+ {name}\n", shim)


class Generator(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.functions = (TABLES / "functions.txt").read_text()
        self.predefined = (TABLES / "predefined.txt").read_text()
        self.annotations = (TABLES / "annotations.toml").read_text()
        self.roles = (TABLES / "roles.toml").read_text()

    def test_the_core_knows_no_library(self):
        """The core contains no name from the libraries' tables: no library, handle type, kind, function, constant or fact."""
        core = sorted(GENERATOR.glob("*.py")) + sorted((GENERATOR / "templates").glob("*.j2"))
        libraries = sorted(GENERATOR.glob("*/annotations.toml"))
        self.assertGreater(len(core), 8)
        self.assertGreater(len(libraries), 0)
        said = []
        for path in libraries:
            table = tomllib.loads(path.read_text())
            handles = table.get("handles", {})
            # Words that are also ordinary English are searched in code only (in quotes or after a dot).
            names = set(handles) | set(handles.values()) | {table["library"]["success"]}
            names |= {n for kind in ("constants", "numbered") for group in table.get(kind, {}).values() for n in group} | set(table.get("errors", {}))
            names |= {line for line in (path.parent / "functions.txt").read_text().splitlines() if line[:1] != "#"}
            facts = set(table.get("facts", {}))
            prefix = re.compile(rf"(?i)(?<![a-z])(p|o)?{table['library']['name']}")
            for file in core:
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    words = set(re.findall(r"\w+", line)) & names
                    quoted = {a or b for a, b in re.findall(r"""["'](\w+)["']|facts\.(\w+)""", line)} & facts
                    if words or quoted or prefix.search(line):
                        said.append(f"{file.name}:{number}: {line.strip()}")
        self.assertEqual(said, [])

    def test_a_key_that_means_nothing_stops_the_build(self):
        result = generate(self.folder.name, annotations=self.annotations.replace("collective = true", "colective = true", 1))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("colective", result.stderr)
        result = generate(self.folder.name, roles=self.roles.replace("\nby = ", "\nbye = ", 1))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("bye", result.stderr)

    def test_a_role_that_is_not_described_stops_the_build(self):
        result = generate(self.folder.name, annotations=self.annotations.replace('role = "weights"', 'role = "wheights"'))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("wheights", result.stderr)

    def test_an_object_that_cannot_be_made_again_from_what_is_known_stops_the_build(self):
        # The lengths of a constructor's arrays are missing.
        result = generate(self.folder.name, annotations=self.annotations.replace('role = "array"\ncount = "ndims"',
                                                                                'role = "value"'))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("is an array in a recipe, whose length the table does not say", result.stderr)

    def test_one_mpi_alone_gives_the_same_shim(self):
        """The tables know parameters by the same names, whichever headers are found (parameters.txt)."""
        command, options = COMMAND[:3], list(zip(COMMAND[3::2], COMMAND[4::2]))
        if not any(value.startswith("openmpi=") for _, value in options):
            self.skipTest("built without Open MPI")
        for option, value in options:
            if not value.startswith("mpich="):
                command += [option, self.folder.name if option == "--out" else value]
        subprocess.run(command, check=True)
        alone, built = Path(self.folder.name), Path(dict(options)["--out"])
        self.assertEqual((alone / "upper_openmpi.cpp").read_text(), (built / "upper_openmpi.cpp").read_text())

    def test_every_function_has_a_writer_on_both_sides(self):
        result = generate(self.folder.name)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [line.split("\t") for line in (Path(self.folder.name) / "coverage.tsv").read_text().splitlines()[1:]]
        names = [line for line in self.functions.splitlines() if line and not line.startswith("#")]
        self.assertEqual([r[0] for r in rows], names)
        for name, way, upper, lower, where, why in rows:
            self.assertIn(way, ("forwarded", "create", "free", "set-state", "by hand", "by another", "refused at a cut",
                                "refused at once", "absent"), name)
            self.assertIn(upper, ("generated", "hand", "narrow", "none"), name)
            self.assertIn(lower, ("generated", "hand", "text", "none"), name)
            if upper == "none":
                self.assertEqual(where, "none", name)
            if upper == "hand" or lower in ("hand", "none"):
                self.assertNotEqual(why if where != "none" else "-", "", f"{name} has no reason")

    def test_a_function_that_is_not_listed_stops_the_build_by_name(self):
        # A later release's header: functions.txt ends before the function, and earlier indices stay right.
        result = generate(self.folder.name, functions=self.functions.replace("MPI_Wtime\n", ""), frozen="")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("MPI_Wtime", result.stderr)
        self.assertIn("append", result.stderr)

    def test_reordered_functions_stop_the_build(self):
        lines = self.functions.splitlines(keepends=True)
        lines[-1], lines[-2] = lines[-2], lines[-1]
        result = generate(self.folder.name, functions="".join(lines))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("index", result.stderr)

    def test_an_appended_function_keeps_all_indices(self):
        result = generate(self.folder.name, functions=self.functions + "MPI_Of_the_future\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        text = (Path(self.folder.name) / "mpi_functions.h").read_text()
        indices = dict(re.findall(r"kFn_(\w+) = (\d+),", text))
        names = [line for line in self.functions.splitlines() if line and not line.startswith("#")]
        self.assertEqual([int(indices[n]) for n in names], list(range(len(names))))

    def test_reordered_predefined_handles_stop_the_build(self):
        swapped = self.predefined.replace("MPI_Op MPI_MAX\n", "MPI_Op TEMPORARY\n")
        swapped = swapped.replace("MPI_Op MPI_MIN\n", "MPI_Op MPI_MAX\n").replace("TEMPORARY", "MPI_MIN")
        result = generate(self.folder.name, predefined=swapped)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("index", result.stderr)

    def test_reordered_error_classes_stop_the_build(self):
        swapped = self.annotations.replace("\nkErrBuffer =", "\nTEMPORARY =").replace("\nkErrCount =", "\nkErrBuffer =")
        result = generate(self.folder.name, annotations=swapped.replace("\nTEMPORARY =", "\nkErrCount ="))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("an entry under errors changed", result.stderr)

    def test_constants_that_two_sections_list_stop_the_build(self):
        result = generate(self.folder.name, annotations=self.annotations + '\n[constants.order]\nMPI_ORDER_C = "0"\n')
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("order are listed twice", result.stderr)

    def test_the_seam_and_the_table_know_the_same_kinds(self):
        """In the same order, which is part of every handle."""
        abi = (GENERATOR.parent / "seam" / "mpi_abi.h").read_text()
        table = tomllib.loads(self.annotations)
        kinds = re.findall(r"\bk\w+", re.search(r"enum class Kind : \w+ {(.*?)};", abi, re.S).group(1))
        self.assertEqual(kinds, ["kNone"] + ["k" + kind for kind in table["handles"].values()])

    def test_every_predefined_handle_of_the_headers_is_listed(self):
        listed = set(re.findall(r"^MPI_\w+ (\w+)$", self.predefined, re.M))
        for item in COMMAND:
            match = re.match(r"\w+=(.*header_\w+\.h),(.*)", item)
            if not match:
                continue
            macros = subprocess.run(["gcc", "-E", "-dM", *match.group(2).split(","), match.group(1)], check=True,
                                    capture_output=True, text=True).stdout
            found = re.findall(r"^#define (MPIX?_\w+) .*(?:OMPI_PREDEFINED_GLOBAL|\(MPI_(?:Comm|Datatype|Op|Group|Info|"
                               r"Win|Errhandler|Request|Message|Session|File)\))", macros, re.M)
            self.assertGreater(len(found), 50)
            self.assertEqual([n for n in found if n not in listed], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
