#!/usr/bin/env python3
"""Measures the software GPU: launches, copies, products, and a run of the CUDA trainer (docs/software-gpu.md):   software_gpu.py [--nvcc
/usr/local/cuda/bin/nvcc] [--no-training]"""

import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "driver"))
from driver import SOURCE  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc")
    parser.add_argument("--no-training", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "software_gpu")
        subprocess.run([options.nvcc, "-std=c++17", "-O2", "-arch=sm_75", "-o", program, os.path.join(HERE, "software_gpu.cu"),
                        "-lcublas"], check=True)
        subprocess.run([os.path.join(SOURCE, "scripts", "software-gpu"), "--quiet", program], check=True)
    if not options.no_training:
        for mpi in ("openmpi", "mpich"):
            subprocess.run([sys.executable, os.path.join(HERE, "..", "driver", "cuda_scenarios.py"), f"gpu.train.{mpi}"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
