"""How one replica is spread over GPUs and nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """Sizes of a replica's groups of GPUs; every rank is one GPU.

    `tensor` ranks share each layer, `pipeline` stages follow each other, `data` copies of the
    attention layers take different requests. With `expert` the routed experts are spread over the
    tensor x data ranks instead of being cut by `tensor`. The ranks fill `nodes` nodes evenly: a
    tensor group spans nodes only inside one NVLink domain.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False
    nodes: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.pipeline * self.data

    @property
    def gpus_per_node(self) -> int:
        """GPUs that each of the replica's pods requests."""
        return self.gpus // self.nodes

    @property
    def expert_ranks(self) -> int:
        """Ranks over which whole experts are spread; 1 where they are cut like the other layers."""
        return self.tensor * self.data if self.expert else 1

    @property
    def tensor_spans_nodes(self) -> bool:
        """Whether one tensor group has GPUs of several nodes."""
        return self.tensor > self.gpus_per_node

    @property
    def name(self) -> str:
        """As people write it: TP8, TP8 PP2, TP8 DP2 EP16."""
        parts = [f"TP{self.tensor}"]
        parts += [f"PP{self.pipeline}"] if self.pipeline > 1 else []
        parts += [f"DP{self.data}"] if self.data > 1 else []
        parts += [f"EP{self.expert_ranks}"] if self.expert else []
        return " ".join(parts)


ONE_GPU = Layout()
