#!/usr/bin/env python3
"""A library's coverage table: every function that the real library exports has one line, with a reason if it is not generated; the shim, if
there is one (else "none"), exports each of them in the real library's version.

    coverage_test.py REAL_LIBRARY=COVERAGE=UPPER_HALF=EXPECTED

EXPECTED: a hand-checked sample, one function and its treatment per line; for most of them, types and names suggest a wrong one."""
import collections
import sys
import unittest
from pathlib import Path

REAL, TABLE, UPPER, EXPECTED = [Path(part) for part in sys.argv[1].split("=")]
sys.path.insert(0, str(Path(__file__).parents[3] / "interpose" / "gen"))
sys.dont_write_bytecode = True
from header import dynamic_symbols  # noqa: E402

WAYS = {"forwarded", "create", "free", "set-state", "by hand", "refused at a cut", "refused at once"}
ROWS = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]]
THEIRS = {name: s for name, s in dynamic_symbols(REAL).items() if s.kind == "FUNC"}


class Coverage(unittest.TestCase):
    def test_every_exported_function_has_one_way(self):
        self.assertEqual([name for name, n in collections.Counter(r[0] for r in ROWS).items() if n > 1], [])
        prefix = "p" if "pncclGetVersion" in THEIRS else ""
        named = {r[0] for r in ROWS} | {prefix + r[0] for r in ROWS}
        self.assertEqual(sorted(set(THEIRS) - named), [])
        ours = dynamic_symbols(UPPER) if UPPER.name != "none" else None
        for name, way, above, below, where, why in ROWS:
            self.assertIn(way, WAYS, name)
            if way in ("by hand", "refused at a cut", "refused at once"):
                self.assertNotEqual(why, "", f"{name} has no reason")
            if ours is not None and where != "none":
                self.assertIn(name, ours)
                # A stub library lacks some functions, which are refused.
                if name in THEIRS or way != "refused at once":
                    self.assertEqual(ours[name].version, THEIRS[name].version, name)
        counts = collections.Counter(r[1] for r in ROWS)
        generated = sum(counts[way] for way in ("forwarded", "create", "free", "set-state"))
        if len(ROWS) > 100:
            self.assertGreaterEqual(generated, (len(ROWS) - counts["refused at once"]) / 4)
        print(f"{REAL.name}: {len(ROWS)} functions, " + ", ".join(f"{n} {way}" for way, n in sorted(counts.items())))

    def test_the_sample_is_as_a_person_said(self):
        expected = dict(line.split(maxsplit=1) for line in EXPECTED.read_text().splitlines() if line[:1] != "#")
        self.assertGreater(len(expected), 0)
        seen = {r[0]: r[1] for r in ROWS}
        self.assertEqual({name: seen.get(name) for name in expected}, expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
