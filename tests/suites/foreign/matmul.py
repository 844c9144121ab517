"""Large products, a factorization and a solution by numpy's threaded OpenBLAS. Prints a digest."""

import ctypes
import hashlib
import os

import numpy

SIZE, STEPS = 1200, 40

nonce = os.urandom(8).hex()
with open("nonce", "w") as f:
    f.write(nonce)
ctypes.CDLL("libopenblas.so.0").openblas_set_num_threads(4)  # also on machines with fewer processors
generator = numpy.random.default_rng(1)
a = generator.standard_normal((SIZE, SIZE))
b = generator.standard_normal((SIZE, SIZE))
digest = hashlib.sha256()
for step in range(STEPS):
    c = a @ b
    c /= numpy.abs(c).max()
    x = numpy.linalg.solve(c[:400, :400] + 4 * numpy.eye(400), b[:400, :40])
    q, r = numpy.linalg.qr(c[:, :200])
    a, b = b, c + 1e-3 * (q @ r[:, :1]).sum()
    digest.update(x.tobytes())
with open("nonce") as f:
    assert f.read() == nonce, "not the process that began"
digest.update(a.tobytes() + b.tobytes())
with open("/proc/self/maps") as f:
    library = {line.split()[-1] for line in f if "blas" in line}
with open("/proc/self/status") as f:
    threads = next(line.split()[1] for line in f if line.startswith("Threads:"))
print(f"result: {digest.hexdigest()}")
print(f"with {threads} threads, {', '.join(sorted(library))}")
