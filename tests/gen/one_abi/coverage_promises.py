#!/usr/bin/env python3
"""What the coverage table of a library says: every function that the real library exports has one line, with a reason where
it is not generated; what is generated is exported in the real library's version.

    coverage_promises.py REAL_LIBRARY=COVERAGE=UPPER_HALF..."""
import collections
import sys
import unittest
from pathlib import Path

LIBRARIES = [[Path(part) for part in item.split("=")] for item in sys.argv[1:]]
sys.path.insert(0, str(Path(__file__).parents[3] / "interpose" / "gen"))
sys.dont_write_bytecode = True
from header import dynamic_symbols  # noqa: E402

WAYS = {"forwarded", "create", "free", "set-state", "by hand", "refused at a cut", "refused at once"}
# A sample that a person looked at: what types and names suggest is wrong for most of these.
EXPECTED = {
    "cudaStreamCreate": "create", "cudaStreamDestroy": "free", "cudaEventRecord": "set-state", "cudaSetDevice": "set-state",
    "cudaMalloc": "by hand", "cudaLaunchKernel": "forwarded", "cudaLaunchKernelExC": "by hand", "cudaMemcpy3D": "by hand",
    "cudaGraphAddEmptyNode": "create", "cudaGraphNodeFindInClone": "forwarded", "cudaGraphGetNodes": "by hand",
    "__cudaPopCallConfiguration": "by hand", "__cudaRegisterFatBinary": "by hand", "cudaMemcpyAsync_ptsz": "forwarded",
    "cudaIpcOpenMemHandle": "refused at a cut", "cudaGLSetGLDevice": "refused at once", "cudaLaunchHostFunc": "by hand",
    "cudaDeviceRegisterAsyncNotification": "refused at once", "cudaGetErrorString": "forwarded",
    "ncclAllReduce": "forwarded", "ncclCommInitRank": "by hand", "ncclCommDestroy": "free", "ncclMemAlloc": "by hand",
    "ncclCommWindowRegister": "refused at a cut", "ncclTeamWorld": "forwarded", "ncclGroupStart": "by hand",
}


class Coverage(unittest.TestCase):
    def test_every_exported_function_has_one_way(self):
        seen = {}
        for real, table, upper in LIBRARIES:
            rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
            again = [name for name, n in collections.Counter(r[0] for r in rows).items() if n > 1]
            self.assertEqual(again, [])
            theirs = {name: s for name, s in dynamic_symbols(real).items() if s.kind == "FUNC"}
            prefix = "p" if "pncclGetVersion" in theirs else ""
            named = {r[0] for r in rows} | {prefix + r[0] for r in rows}
            self.assertEqual(sorted(set(theirs) - named), [], real)
            ours = dynamic_symbols(upper)
            for name, way, above, below, where, why in rows:
                self.assertIn(way, WAYS, name)
                if way in ("by hand", "refused at a cut", "refused at once"):
                    self.assertNotEqual(why, "", f"{name} has no reason")
                if above == "generated" and where != "none":
                    self.assertIn(name, ours)
                    self.assertEqual(ours[name].version, theirs[name].version, name)
                else:
                    self.assertNotIn(name, ours)
                seen[name] = way
            counts = collections.Counter(r[1] for r in rows)
            print(f"{real.name}: {len(rows)} functions, " + ", ".join(f"{n} {way}" for way, n in sorted(counts.items())))
            self.assertGreater(counts["forwarded"], len(rows) / 3)
        self.assertEqual({name: seen.get(name) for name in EXPECTED}, EXPECTED)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
