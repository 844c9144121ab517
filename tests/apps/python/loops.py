"""Main loops as users write them with numpy and mpi4py: --shape WORD. Arguments and log: see ../steplog.h. One step is one iteration as the
loop's author would count it. Each step's result depends on all earlier ones."""

import argparse
import hashlib
import os
import time

import numpy
from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--shape", default="gradients")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--pace", type=int, default=20000, help="microseconds of computing after each step")
parser.add_argument("--log", default="/dev/stdout")
options = parser.parse_args()
comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
log = open(options.log + (f".{rank}" if rank else ""), "w", buffering=1)
nonce = os.urandom(8).hex()
log.write(f"nonce {nonce}\n")
own, shared = numpy.random.default_rng(rank), numpy.random.default_rng(7)
digest = hashlib.sha256()


def compute(microseconds):
    end = time.monotonic() + microseconds * 1e-6
    while time.monotonic() < end:
        pass


def averaged(values):
    total = numpy.empty_like(values)
    comm.Allreduce(values, total)
    return total / ranks


class Perceptron:
    """Two layers; a step is one gradient descent on this rank's data."""

    def __init__(self, inputs, hidden, outputs):
        self.layers = [shared.normal(size=(inputs, hidden)) * 0.1, shared.normal(size=(hidden, outputs)) * 0.1]

    def gradients(self, x, wanted):
        hidden = numpy.maximum(x @ self.layers[0], 0)
        error = hidden @ self.layers[1] - wanted
        back = (error @ self.layers[1].T) * (hidden > 0)
        return [x.T @ back / len(x), hidden.T @ error / len(x)], float((error ** 2).mean())

    def descend(self, gradients):
        for layer, gradient in zip(self.layers, gradients):
            layer -= 0.05 * gradient


def batch(model, size=16):
    x = own.normal(size=(size, len(model.layers[0])))
    return model.gradients(x, x[:, :model.layers[1].shape[1]] * 2)


def tell(value):
    digest.update(repr(value).encode())


def gradients(step):
    """One array per layer; the loss is sent as an object."""
    found, loss = batch(first)
    first.descend([averaged(one) for one in found])
    tell(comm.allreduce(loss))


def flat_gradients(step):
    """All gradients in one buffer; the loss is reduced only at some steps."""
    found, loss = batch(first)
    flat = averaged(numpy.concatenate([one.ravel() for one in found]))
    middle = first.layers[0].size
    first.descend([flat[:middle].reshape(first.layers[0].shape), flat[middle:].reshape(first.layers[1].shape)])
    comm.Barrier()
    if step % 10 == 9:
        tell(comm.gather(loss))


def objects(step):
    """Only objects, of varying size: parameters out, results back."""
    parameters = comm.bcast({"step": step, "names": ["x" * int(n) for n in shared.integers(1, 90, 3)]} if rank == 0 else None)
    found, loss = batch(first)
    everything = comm.allgather((rank, found[0][0, :int(1 + step % 7)]))
    first.descend([sum(one[0] for _, one in everything) * 1e-3, 0])
    tell((parameters["step"], comm.reduce(loss)))


def accumulation(step):
    total, losses = [0, 0], 0.0
    for _ in range(4):
        found, loss = batch(first, 4)
        total = [a + b for a, b in zip(total, found)]
        losses += float(averaged(numpy.array([loss]))[0])
    first.descend([averaged(one) for one in total])
    tell(losses)


def evaluation(step):
    """Rank 0 evaluates every sixth step; the others wait."""
    gradients(step)
    if step % 6 == 5:
        if rank == 0:
            compute(3 * options.pace)
        tell(comm.bcast(float(first.layers[0].sum()) if rank == 0 else None))
        comm.Barrier()


def last_batch(step):
    """An epoch has eight batches; the last one is smaller."""
    size = 5 if step % 8 == 7 else 16
    sums = numpy.zeros(size)
    comm.Allreduce(numpy.full(size, float(step)), sums)
    found, loss = batch(first, size)
    first.descend([averaged(one) for one in found])
    tell(comm.allreduce(loss + sums.sum()))


def overlapped(step):
    """Buckets become ready in a different order each time; one wait for all."""
    found, loss = batch(first)
    parts = [numpy.ascontiguousarray(one) for one in (found[0][:3], found[0][3:8], found[0][8:], found[1])]
    sums, requests = [numpy.empty_like(one) for one in parts], []
    for at in shared.permutation(len(parts)):
        requests.append(comm.Iallreduce(parts[at], sums[at]))
    MPI.Request.Waitall(requests)
    first.descend([numpy.concatenate(sums[:3]) / ranks, sums[3] / ranks])
    tell(comm.allreduce(loss))


def alternating(step):
    """Two models in turn, like a generator and its critic."""
    for model in (first, second):
        found, loss = batch(model)
        model.descend([averaged(one) for one in found])
        compute(options.pace / 4)
    tell(comm.allreduce(loss))


def lengths(step):
    """Sequences of random length."""
    for _ in range(2):
        mine = own.normal(size=int(shared.integers(1, 200)))
        tell(float(averaged(mine).sum()))
    found, loss = batch(first)
    first.descend([averaged(one) for one in found])
    tell(comm.allreduce(loss))


def pipeline(step):
    """Stages pass activations on as objects; the loss goes to all at the end."""
    for part in range(4):
        passing = comm.recv(source=rank - 1, tag=part) if rank else first.layers[0][part]
        passing = passing * 0.25 + rank
        if rank + 1 < ranks:
            comm.send(passing, dest=rank + 1, tag=part)
        first.layers[0][part] = passing
    tell(comm.allreduce(float(passing.sum())))


def phases(step):
    """Trains with frozen layers first, then with all."""
    found, loss = batch(first)
    if step < 12:
        first.descend([0, averaged(found[1])])
        tell(comm.allreduce(loss))
    else:
        first.descend([averaged(one) for one in found])
        tell(comm.bcast(loss, root=step % ranks))


first, second = Perceptron(12, 9, 4), Perceptron(7, 5, 3)
step_of = globals()[options.shape]
# Warm-up.
first.layers = comm.bcast(first.layers)
comm.Barrier()
tell(len(comm.allgather(os.path.basename(__file__))))

for step in range(options.steps):
    step_of(step)
    log.write(f"step {step + 1} {time.time():.6f}\n")
    compute(options.pace)
for layer in first.layers + second.layers:
    digest.update(layer.tobytes())
log.write(f"ok {digest.hexdigest()[:16]} nonce={nonce}\n")
log.close()
