"""Data-parallel training as users write it: PyTorch with two intra-op threads, gradients averaged over the ranks by mpi4py. Prints a digest
of the weights."""

import hashlib
import os
import sys

import numpy
import torch
from mpi4py import MPI

STEPS, BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 60, 64

nonce = os.urandom(8).hex()
with open(f"nonce.{MPI.COMM_WORLD.rank}", "w") as f:
    f.write(nonce)
torch.set_num_threads(2)
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                            torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Dropout(0.1),
                            torch.nn.Linear(32 * 14 * 14, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.Generator().manual_seed(100 + MPI.COMM_WORLD.rank)
losses = []
for step in range(STEPS):
    images = torch.randn(BATCH, 1, 28, 28, generator=data)
    labels = (images.mean(dim=(1, 2, 3)) * 100).long() % 10
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()]).numpy()
    total = numpy.empty_like(flat)
    MPI.COMM_WORLD.Allreduce(flat, total)
    averaged = torch.from_numpy(total / MPI.COMM_WORLD.size)
    offset = 0
    for p in model.parameters():
        p.grad.copy_(averaged[offset:offset + p.numel()].view_as(p))
        offset += p.numel()
    optimizer.step()
    losses.append(loss.item())
    if MPI.COMM_WORLD.rank == 0:
        print("step", step + 1, flush=True)
with open(f"nonce.{MPI.COMM_WORLD.rank}") as f:
    assert f.read() == nonce, "not the process that began"
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.state_dict().values()))
digest.update(numpy.array(losses).tobytes())
for line in MPI.COMM_WORLD.gather(f"result rank {MPI.COMM_WORLD.rank}: {digest.hexdigest()} loss {losses[-1]!r} "
                                  f"intra-op threads {torch.get_num_threads()}") or ():
    print(line, flush=True)
