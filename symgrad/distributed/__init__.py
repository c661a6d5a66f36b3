"""MPI communication in compiled steps: communicators and collectives, under MPI's names."""

from symgrad.distributed.checkpoints import Checkpoints as Checkpoints
from symgrad.distributed.collectives import all_gather as all_gather
from symgrad.distributed.collectives import all_reduce as all_reduce
from symgrad.distributed.collectives import all_to_all as all_to_all
from symgrad.distributed.collectives import barrier as barrier
from symgrad.distributed.collectives import broadcast as broadcast
from symgrad.distributed.collectives import reduce_scatter as reduce_scatter
from symgrad.distributed.collectives import same as same
from symgrad.distributed.collectives import send_recv as send_recv
from symgrad.distributed.communicator import Communicator as Communicator
from symgrad.distributed.communicator import world as world
from symgrad.distributed.random_streams import per_rank as per_rank
from symgrad.distributed.tensor_parallel import shard as shard
from symgrad.frontend.publication import publish as _publish

__all__ = _publish(globals())
