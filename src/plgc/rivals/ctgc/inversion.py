"""The structural side of CTGC: the graph's spectrum, the model that reads it, and the inversion back to (A', X').

CTGC (Gao et al., "Contrastive graph condensation", KDD 2025) describes structure by eigenpairs (Λ, U) of the Laplacian
L = I − Â: K of them, most from the low end, some from the high end. Once a relay model has learned centroids from them,
U' [K, K] is sought whose image under the frozen model is the centroids, and A' = I − U'ΛU'ᵀ; X' is sought likewise.
:class:`Phases` is how all of CTGC's minimisations run.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn
from torch_geometric.data import Data

from plgc.rivals.ctgc.losses import match_loss
from plgc.runtime.checkpoint import Checkpoint
from plgc.runtime.progress import Progress
from plgc.sparse.inputs import scale_rows

REPORT_EVERY, SAVE_EVERY = 10, 50  # steps; the second a multiple of the first
STREAMS = 1000  # random streams of one seed: more than a run has minimisations
CANDIDATES = 1000  # nodes of the largest component that a smaller one may be joined to
DENSE_BELOW = 600  # nodes: smaller graphs are decomposed whole
FREQUENCY = 100.0  # factor on the eigenvalues before they become phases


# The spectrum


def spectrum(bare: Data, count: int, low_share: float, seed: int) -> tuple[Tensor, Tensor]:
    """K eigenpairs of L = I − Â of the joined graph: λ [K] float64, ascending, and U [N, K] float32.

    Args:
        bare: features and edges.
        count: K; ⌈low_share · K⌉ pairs are the smallest, the others the largest.
        low_share: share of the low end.
        seed: of the start vector, and of the nodes that components are joined to.
    """
    rng = np.random.default_rng(seed)
    assert bare.num_nodes is not None
    matrix = _normalised(_joined(bare, rng), bare.num_nodes)
    nodes, low = bare.num_nodes, math.ceil(low_share * count)
    if nodes < DENSE_BELOW or 4 * count > nodes:
        values, vectors = np.linalg.eigh(matrix.toarray())
        chosen = np.r_[0 : count - low, nodes - low : nodes]  # the low end of L is the high end of Â
        values, vectors = values[chosen], vectors[:, chosen]
    else:
        start = rng.standard_normal(nodes)
        ends = [("LA", low), ("SA", count - low)]
        found = [eigsh(matrix, k=wanted, which=end, v0=start) for end, wanted in ends if wanted > 0]
        values, vectors = np.concatenate([v for v, _ in found]), np.concatenate([u for _, u in found], axis=1)
    order = np.argsort(-values, kind="stable")
    values, vectors = 1.0 - values[order], vectors[:, order]
    # An eigenvector's sign is free, and the model is not blind to it: its largest entry is made positive.
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), np.arange(count)])
    return torch.from_numpy(values.copy()), torch.from_numpy(vectors.astype(np.float32))


def _joined(bare: Data, rng: np.random.Generator) -> sp.csr_matrix:
    """A, with one edge from every smaller component to the node of the largest that its first node is most like."""
    assert bare.edge_index is not None
    assert bare.num_nodes is not None
    assert bare.x is not None
    nodes, (row, col) = bare.num_nodes, bare.edge_index.numpy()
    weight = bare["edge_weight"].double().numpy() if "edge_weight" in bare else np.ones(len(row))
    adjacency = sp.csr_matrix((weight, (row, col)), shape=(nodes, nodes))
    components, member = connected_components(adjacency, directed=False)
    if components == 1:
        return adjacency
    largest = np.bincount(member).argmax()
    first = np.unique(member, return_index=True)[1]
    source = np.delete(first, largest)
    inside = np.flatnonzero(member == largest)
    target = rng.choice(inside, min(CANDIDATES, len(inside)), replace=False)
    x = scale_rows(bare.x.float(), "l2")
    if x.layout == torch.sparse_csr:
        parts = x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
        rows = sp.csr_matrix(parts, shape=tuple(x.shape))
        similarity = (rows[source] @ rows[target].T).toarray()
    else:
        similarity = (x[source] @ x[target].T).numpy()
    target = target[similarity.argmax(1)]
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    return adjacency + sp.csr_matrix((np.ones(len(ends[0])), ends), shape=(nodes, nodes))


def _normalised(adjacency: sp.csr_matrix, nodes: int) -> sp.csr_matrix:
    """Â = D^-1/2 (A + I) D^-1/2."""
    closed = adjacency + sp.eye_array(nodes, format="csr")
    scale = sp.diags_array(1.0 / np.sqrt(np.asarray(closed.sum(axis=1)).ravel()))
    return sp.csr_matrix(scale @ closed @ scale)


# The structural relay model


def waves(values: Tensor, periods: int) -> Tensor:
    """[sin, cos](2^p · 100 λ) for p < periods, float32 [K, 2·periods]; phases reach 10⁷, hence in double."""
    phase = FREQUENCY * values.double()[:, None] * 2.0 ** torch.arange(periods, dtype=torch.float64)
    return torch.cat([phase.sin(), phase.cos()], dim=1).float()


class SpectralMLP(nn.Module):
    """The structural relay model: two layers on U · waves(Λ); a row of U is a node's position in the spectrum."""

    def __init__(self, periods: int, width: int, generator: torch.Generator):
        super().__init__()
        self.first = uniform_linear(2 * periods, width, generator)
        self.second = uniform_linear(width, width, generator)

    def forward(self, vectors: Tensor, basis: Tensor) -> Tensor:
        """Embed every row of U."""
        return self.second(torch.relu(self.first(vectors @ basis)))


def uniform_linear(width_in: int, width_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer, weights and biases uniform in ±1/√width_in (torch's own rule), from an explicit generator."""
    layer = nn.Linear(width_in, width_out, device="meta").to_empty(device="cpu")  # draws nothing by itself
    bound = 1 / math.sqrt(width_in)
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


# The inversion


def start_normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Glorot-normal entries, where U' and X' start."""
    return torch.randn(rows, columns, generator=generator) * math.sqrt(2 / (rows + columns))


def structure_loss(relay: SpectralMLP, basis: Tensor, vectors: Tensor, centroids: Tensor, rule: str) -> Tensor:
    """Of U': its distance to the centroids under the relay model, and that of U'ᵀU' to I (mean squares)."""
    gram, identity = vectors.T @ vectors, torch.eye(vectors.shape[1], device=vectors.device)
    return match_loss(relay(vectors, basis), centroids, rule) + F.mse_loss(gram, identity)


@torch.no_grad()
def synthetic_edges(values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """A' = I − U'ΛU'ᵀ without its negative entries: edges [2, E] both ways and weights [E], without self-loops.

    The public code keeps the diagonal of A' as weights of self-loops; ours are 1 wherever a graph is used. So A' is
    scaled to a unit diagonal, A'_ij / √(A'_ii A'_jj): the normalised matrix is then the same where the diagonal is
    constant, and nearly so where it is not. A diagonal entry that is not positive counts as 1.
    """
    values, vectors = values.cpu().double(), vectors.cpu().double()
    dense = torch.eye(len(vectors), dtype=torch.float64) - (vectors * values) @ vectors.T
    dense = ((dense + dense.T) / 2).clamp(min=0)
    own = dense.diagonal()
    scale = torch.where(own > 0, own, 1.0).rsqrt()
    dense = dense * scale[:, None] * scale
    dense.fill_diagonal_(0)
    edge_index = dense.nonzero().T.contiguous()
    return edge_index, dense[edge_index[0], edge_index[1]].float()


# Minimisation, step by step, with checkpoints


def named(prefix: str, model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters by name."""
    return {f"{prefix} {name}": parameter for name, parameter in model.named_parameters()}


class Phases:
    """A run as a row of minimisations, each with Adam and random streams of its own, that can go on where it stopped.

    ``kept`` holds the latest value of everything learned so far. On resuming, finished phases only put those back: a
    phase sees the same values as if nothing had happened, since every one before it has run to its end.
    """

    def __init__(self, checkpoint: Checkpoint, seed: int, device: str, steps: int, progress: Progress):
        tensors, values = checkpoint.load() or ({}, {})
        self.checkpoint, self.seed, self.device, self.steps, self.progress = checkpoint, seed, device, steps, progress
        self.kept = {name.removeprefix("kept "): t for name, t in tensors.items() if name.startswith("kept ")}
        self.running = {name: tensor for name, tensor in tensors.items() if not name.startswith("kept ")}
        self.finished, self.step = int(values.get("finished", 0)), int(values.get("step", 0))
        self.curves: dict[str, list[float]] = dict(values.get("curves", {}))
        self.phase, self.done = 0, 0

    def reporting(self, message: str) -> None:
        """Tell what is being done."""
        self.progress(message, self.done, self.steps)

    def once(self, names: tuple[str, ...], make: Callable[[], tuple[Tensor, ...]]) -> list[Tensor]:
        """Values that are made once and kept."""
        if names[0] not in self.kept:
            self.kept.update({name: value.cpu() for name, value in zip(names, make(), strict=True)})
        return [self.kept[name].to(self.device) for name in names]

    def minimise(
        self,
        message: str,
        parameters: dict[str, Tensor],
        loss: Callable[[torch.Generator], Tensor],
        steps: int,
        learning_rate: float,
        weight_decay: float,
        model: nn.Module,
    ) -> None:
        """Take ``steps`` of Adam on the parameters in place; every tenth loss is kept in ``curves[message]``.

        The model is in training mode meanwhile (dropout), afterwards not.
        """
        phase, self.phase = self.phase, self.phase + 1
        model.eval()
        if phase < self.finished:
            _put(parameters, self.kept)
            self.done += steps
            return
        stream = self.seed * STREAMS + phase
        optimizer = torch.optim.Adam(list(parameters.values()), lr=learning_rate, weight_decay=weight_decay, fused=True)
        draws = torch.Generator().manual_seed(stream)
        model.train()
        on_gpu = torch.device(self.device).type == "cuda"
        with torch.random.fork_rng(devices=[self.device] if on_gpu else []):
            torch.manual_seed(stream)  # dropout draws from torch's own generator
            if self.step:
                self._restore(parameters, optimizer, draws)
            for step in range(self.step + 1, steps + 1):
                value = loss(draws)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                if step % REPORT_EVERY == 0 or step == steps:
                    self.curves.setdefault(message, []).append(float(value.detach()))
                    if step < steps:
                        if step % SAVE_EVERY == 0:
                            self._save(self._state(parameters, optimizer, draws), step)
                        self.progress(message, self.done + step, self.steps)
        model.eval()
        self.kept.update({name: tensor.detach().cpu().clone() for name, tensor in parameters.items()})
        self.finished, self.step, self.done = phase + 1, 0, self.done + steps
        self._save({}, 0)
        self.reporting(message)

    def _save(self, running: dict[str, Tensor], step: int) -> None:
        values = {"finished": self.finished, "step": step, "curves": self.curves}
        self.checkpoint.save({**{f"kept {name}": tensor for name, tensor in self.kept.items()}, **running}, values)

    def _state(
        self, parameters: dict[str, Tensor], optimizer: torch.optim.Optimizer, draws: torch.Generator
    ) -> dict[str, Tensor]:
        state = {f"now {name}": tensor for name, tensor in parameters.items()}
        for index, moments in optimizer.state_dict()["state"].items():
            state |= {f"adam {index} {name}": tensor for name, tensor in moments.items()}
        dropout = torch.cuda.get_rng_state(self.device) if "cuda" in self.device else torch.get_rng_state()
        return {**state, "draws": draws.get_state(), "dropout": dropout}

    def _restore(self, parameters: dict[str, Tensor], optimizer: torch.optim.Optimizer, draws: torch.Generator) -> None:
        _put(parameters, {name.removeprefix("now "): tensor for name, tensor in self.running.items()})
        state = optimizer.state_dict()
        for name, tensor in self.running.items():
            kind, *rest = name.split(" ")
            if kind == "adam":
                state["state"].setdefault(int(rest[0]), {})[rest[1]] = tensor
        optimizer.load_state_dict(state)
        draws.set_state(self.running["draws"])
        if "cuda" in self.device:
            torch.cuda.set_rng_state(self.running["dropout"], self.device)
        else:
            torch.set_rng_state(self.running["dropout"])


@torch.no_grad()
def _put(parameters: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, parameter in parameters.items():
        parameter.copy_(values[name])
