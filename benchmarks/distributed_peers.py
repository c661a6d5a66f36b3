"""Training on ranks in PyTorch: DistributedDataParallel over gloo, in the processes of the ranks.

Each rank has its own batch, as in symgrad, and one core. Gloo talks over the loopback device, and
sends buckets of gradients while the backward goes on.
"""

from __future__ import annotations

import socket
from typing import Any

from benchmarks.network_peers import BETA1, BETA2, EPSILON, RATE, Arrays, Network, Step
from benchmarks.timing import optional


def ddp_step(network: Network, weights: Arrays, batch: Arrays, comm: Any) -> Step | None:
    """Return a step of PyTorch on the ranks of `comm`, which all call this; None without torch.

    Without `comm` it is a step of PyTorch as it is, of one process.
    """
    torch = optional("torch")
    is_installed = torch is not None
    if not (is_installed if comm is None else all(comm.exchange(is_installed))):
        return None
    torch.set_num_threads(1)
    parameters, loss_of = network.torch(weights, batch)

    class Loss(torch.nn.Module):  # type: ignore[misc, name-defined]
        """The loss as a module, which is what DDP wraps."""

        def __init__(self) -> None:
            super().__init__()
            self.own = torch.nn.ParameterList(parameters)

        def forward(self) -> Any:
            return loss_of()

    loss_module: Any = Loss()
    if comm is not None:
        _join(torch.distributed, comm)
        loss_module = torch.nn.parallel.DistributedDataParallel(loss_module)
    optimizer = torch.optim.Adam(parameters, lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_module()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _join(distributed: Any, comm: Any) -> None:
    """Make the process group of gloo of the ranks of `comm`, once."""
    if distributed.is_initialized():
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = comm.mpi.bcast(free.getsockname()[1])
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", address, rank=comm.rank, world_size=comm.size)
