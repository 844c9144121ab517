#!/usr/bin/env python3
"""Every function of NVIDIA's libraries that a table marks as hand-written exists: none of the generated placeholder entries is left in the
lower half.

    hand_written_test.py LIST_OF_GENERATED_OBJECTS LIST_OF_OBJECTS_BY_HAND      one file name per line"""
import subprocess
import sys
import unittest
from pathlib import Path

GENERATED, BY_HAND = (Path(name).read_text().split() for name in sys.argv[1:3])


def symbols(objects, kinds):
    lines = subprocess.run(["nm", "--defined-only", *objects], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split() for line in lines]
    return {row[2] for row in rows if len(row) == 3 and row[1] in kinds and row[2].startswith("lower_")}


class Hands(unittest.TestCase):
    def test_every_function_by_hand_is_written(self):
        expected = symbols(GENERATED, "W")
        self.assertGreater(len(expected), 100)
        left = sorted(expected - symbols(BY_HAND, "T"))
        self.assertEqual([name.removeprefix("lower_") for name in left], [], f"{len(left)} functions are not written")

    def test_what_is_written_is_by_hand_in_a_table(self):
        self.assertEqual(sorted(symbols(BY_HAND, "T") - symbols(GENERATED, "W")), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
