"""A rank that runs unittest files and records the outcome of every test at once: python3 unittest_rank.py FOLDER FILE OUT. OUT.RANK gets a
line `OUTCOME TEST: TEXT` per test and `end` after the last one, so that it shows how far a crashed run came."""

import os
import sys
import unittest


class Notes(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def note(self, outcome, test, text=""):
        self.out.write(f"{outcome} {test.id()}{': ' + text.strip() if text.strip() else ''}\n")
        self.out.flush()

    def startTest(self, test):
        super().startTest(test)
        self.note("begun", test)

    def addSuccess(self, test):
        self.note("ok", test)

    def addFailure(self, test, error):
        self.note("failed", test, str(error[1]).splitlines()[0] if str(error[1]) else "")

    def addError(self, test, error):
        self.note("error", test, f"{error[0].__name__}: {str(error[1]).splitlines()[0] if str(error[1]) else ''}")

    def addSkip(self, test, reason):
        self.note("skipped", test, reason)

    def addExpectedFailure(self, test, error):
        self.note("failed as expected", test)

    def addUnexpectedSuccess(self, test):
        self.note("ok unexpectedly", test)


def main():
    folder, name, out = sys.argv[1:4]
    rank = next((os.environ[v] for v in ("OMPI_COMM_WORLD_RANK", "PMI_RANK") if v in os.environ), "0")
    sys.path[0] = folder  # replaces this script's folder
    with open(f"{out}.{rank}", "w") as f:
        unittest.defaultTestLoader.discover(folder, name).run(Notes(f))
        f.write("end\n")


main()
