#!/usr/bin/env python3
"""Complete tables in the generator: an error in a table, or a library function that it does not list, stops the build with a message that
names it.

    table_test.py FILE_WITH_THE_GENERATOR'S_COMMAND REAL_LIBRARY UPPER_HALF"""
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = Path(sys.argv[1]).read_text().splitlines()
REAL, UPPER = sys.argv[2:]
TABLES = Path(COMMAND[2])
ANNOTATIONS, FUNCTIONS = ((TABLES / name).read_text() for name in ("annotations.toml", "functions.txt"))
sys.path.insert(0, str(Path(COMMAND[1]).parent))
sys.dont_write_bytecode = True
import emit  # noqa: E402
from header import Header, Symbol, dynamic_symbols  # noqa: E402
from model import Model  # noqa: E402
from roles import TableError  # noqa: E402


def header(twins):
    name, _, rest = COMMAND[COMMAND.index("--header") + 1].partition("=")
    file, *flags = rest.split(",")
    symbols = dynamic_symbols(Path(REAL))
    return {name: Header(Path(file), flags, "^toy[A-Z]", symbols, twins)}, {name: symbols}


HEADERS, SYMBOLS = header(["_twin"])


def exported(library):
    """{name: version}"""
    return {name: s.version for name, s in dynamic_symbols(Path(library)).items() if s.kind == "FUNC"}


class Tables(unittest.TestCase):
    def model(self, annotations=ANNOTATIONS, functions=FUNCTIONS, headers=HEADERS):
        """The model, as generate.py makes it."""
        with tempfile.TemporaryDirectory() as folder:
            files = {name: Path(COMMAND[1]).parent / "one_abi" / f"{name}.toml" for name in ("roles", "facts")}
            for name, text in {"annotations": annotations, "functions": functions, "predefined": "", "frozen": ""}.items():
                files[name] = Path(folder) / name
                files[name].write_text(text)
            model = Model(headers, files)
            model.check_exports(SYMBOLS)
            return model

    def refused(self, *words, **tables):
        with self.assertRaises(TableError) as raised:
            self.model(**tables)
        for word in words:
            self.assertIn(word, str(raised.exception))

    def with_class(self, match, body, add=""):
        """The table with another body for the class with this `match`."""
        before, found, after = ANNOTATIONS.partition(f"match = '{match}'\n")
        self.assertTrue(found)
        return before + found + body + add + "[[class]]" + after.partition("[[class]]")[2]

    def test_every_way_is_in_the_coverage_table(self):
        ways = {name: way for name, way, *_ in emit.coverage(self.model())[1:]}
        self.assertEqual(set(ways), set(FUNCTIONS.split()))
        self.assertEqual(ways, {**dict.fromkeys(ways, "forwarded"), "toyMake": "create", "toyMakeFrom": "create", "toyChild": "create", "toyFree": "free",
                                "toyTag": "set-state", "toyUntag": "set-state", "toyPoint": "set-state",
                                "toySet": "set-state", "toyReset": "set-state", "toyPut": "set-state", "toyTake": "set-state",
                                "toyPutAll": "set-state", "toyLabel": "set-state", "toyWorkspace": "set-state", "toyShare": "refused at a cut", "toyConfigure": "by hand",
                                "toyCall": "by hand", "toyShow": "refused at once"})

    def test_versions_are_the_real_librarys(self):
        theirs, ours = exported(REAL), exported(UPPER)
        self.assertEqual(theirs["toyMake"], "TOY_1")
        self.assertEqual(ours, theirs)

    def test_an_older_version_of_a_function_is_not_left_out(self):
        symbols = {**SYMBOLS["toy"], "toySet": Symbol("FUNC", 1, "TOY_1", ("TOY_0",))}
        with self.assertRaisesRegex(TableError, "toySet has also the versions TOY_0"):
            emit.versions(self.model(), symbols)

    def test_a_function_in_no_class(self):
        self.refused("toyReset", "exactly one", annotations=ANNOTATIONS.replace("match = '^toyReset$'", "match = '^toyNothing$'"))

    def test_a_function_in_two_classes(self):
        self.refused("toyReset", "exactly one", annotations=ANNOTATIONS + "[[class]]\nmatch = '^toyReset$'\n")

    def test_a_function_that_is_exported_and_listed_nowhere(self):
        self.refused("toyGet_twin", headers=header([])[0], functions=FUNCTIONS.replace("toyGet_twin\n", ""))

    def test_a_handle_in_a_structure_is_not_forwarded(self):
        self.refused("toyConfigure", "toy_t", annotations=self.with_class("^toyConfigure$", ""))

    def test_a_function_of_the_programs_is_not_forwarded(self):
        self.refused("toyCall", "function", annotations=self.with_class("^toyCall$", ""))

    def test_a_new_handle_is_not_guessed(self):
        self.refused("toyMake", "create", annotations=self.with_class("^toyMake(From)?$", ""))

    def test_an_array_of_handles_needs_its_length(self):
        self.refused("toySum", "length", annotations=ANNOTATIONS.replace("count = \"count\"\n", "", 1))

    def test_free_names_a_parameter(self):
        self.refused("toyFree", "thong", annotations=ANNOTATIONS.replace('free = "thing"', 'free = "thong"'))

    def test_by_hand_needs_a_reason(self):
        self.refused("toyCall", "reason", annotations=ANNOTATIONS.replace('why = "the function is the program\'s"\n', ""))

    def test_what_is_said_of_recipes_is_in_the_coverage_table(self):
        why = {name: why for name, *_, why in emit.coverage(self.model())[1:]}
        self.assertEqual(why["toyPut"], "one value for each key; sets a value")
        self.assertEqual(why["toyTake"], "one value for each key; takes back a value")
        self.assertEqual(why["toyPutAll"], "not made again: the values are asked for")
        self.assertEqual(why["toyWorkspace"], "the object keeps the pointer memory")

    def test_a_pointer_of_a_call_that_is_made_again(self):
        for rule in ("^toyPut:value$", "^toyLabel:label$"):
            self.refused(rule.strip("^$"), "text, value_in", annotations=ANNOTATIONS.replace(rule, "^toyNothing:value$"))
        self.refused("toyWorkspace:memory", annotations=ANNOTATIONS.replace('kept = "memory"\n', ""))
        self.refused("toyPutAll:values", annotations=self.with_class("^toyPutAll$", 'set-state = "thing"\n').replace("^toyPutAll:values$", "^toyNothing:v$"))

    def test_a_key_is_a_parameter(self):
        self.refused("toyTag", "kee", annotations=ANNOTATIONS.replace('key = "key"', 'key = "kee"', 1))

    def test_what_is_taken_back_is_set_by_a_function(self):
        self.refused("toyTake", "a value", annotations=ANNOTATIONS.replace('sets = "a value"', 'sets = "another"'))
        self.model(annotations=ANNOTATIONS.replace('undoes = "a value"', 'undoes = "toyPut"'))

    def test_whose_state_it_is_may_be_a_threads(self):
        text = self.with_class("^toyReset$", 'set-state = "thread"\n')
        self.assertIn(("toyReset", "set-state", "the calling thread's state"), [(r[0], r[1], r[5]) for r in emit.coverage(self.model(text))])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
