from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.evaluation.scoring import learn, score
from plgc.graphs import citation_graph, load_graph
from plgc.graphs.bare import bare_graph
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.method.encoder import GNN
from plgc.rivals.clustering import kmeans, means, nearest
from plgc.rivals.ctgc import losses as ctgc_losses
from plgc.rivals.ctgc.inversion import (
    SpectralMLP,
    spectrum,
    start_normal,
    structure_loss,
    synthetic_edges,
    uniform_linear,
    waves,
)
from plgc.rivals.ctgc.losses import (
    column_mask,
    contrast_loss,
    discrimination_loss,
    match_loss,
    relay_loss,
    repulsion_loss,
)
from plgc.rivals.ctgc.phases import Phases
from plgc.rivals.ctgc.rebuild import RebuiltCTGC, rebuild_ctgc
from plgc.rivals.ctgc.settings import CTGCSettings, published_settings
from plgc.runtime.checkpoint import checkpoint_in
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.runtime.progress import silent
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.inputs import prepare
from quick_rivals import KEPT, NODES, QUICK, condense

SETTINGS = QUICK["ctgc"]


@pytest.fixture(scope="module")
def condensed(made: dict[str, plgc.CondensedGraph]) -> plgc.CondensedGraph:
    return made["ctgc"]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense_normalised(edges: Tensor, nodes: int, weight: Tensor | None = None) -> Tensor:
    matrix = torch.eye(nodes, dtype=torch.float64)
    matrix[edges[0], edges[1]] = 1.0 if weight is None else weight.double()
    scale = matrix.sum(1).rsqrt()
    return matrix * scale[:, None] * scale


# Node discrimination


def test_discrimination_against_a_dense_two_layer_gcn_with_a_full_head(graph: Data) -> None:
    inputs = prepare(graph, "none")
    encoder = GNN("gcn", 40, 8, 8, dropout=0.5, generator=seeded()).eval()
    head = uniform_linear(8, 8, seeded(1))
    with torch.no_grad():
        for layer in encoder.layers:
            layer.bias.uniform_(-1, 1, generator=seeded(2))  # pyright: ignore
    mask, order = column_mask(40, 0.2, seeded(3)), torch.randperm(NODES, generator=seeded(4))
    assert sorted(mask.tolist()) == [0.0] * 8 + [1.0] * 32

    operator = dense_normalised(graph["edge_index"], NODES)
    x = graph["x"].to_dense().double() * mask
    first, last = encoder.layers
    scores = []
    for rows in (x, x[order]):
        hidden = torch.relu(operator @ rows @ first.weight.double() + first.bias)  # pyright: ignore
        embedding = operator @ hidden @ last.weight.double() + last.bias  # pyright: ignore
        scores.append((embedding @ head.weight.T.double() + head.bias).sum(1))
    expected = -(F.logsigmoid(scores[0]).sum() + F.logsigmoid(-scores[1]).sum()) / (2 * NODES)

    loss = discrimination_loss(encoder, head, inputs, mask, order)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    wanted = torch.autograd.grad(expected, [first.weight, last.weight, head.weight])  # pyright: ignore
    found = torch.autograd.grad(loss, [first.weight, last.weight, head.weight])  # pyright: ignore
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@torch.no_grad()
def test_discrimination_drops_out_while_training_only(graph: Data) -> None:
    inputs = prepare(graph, "none")
    encoder, head = GNN("gcn", 40, 8, 8, dropout=0.5, generator=seeded()), uniform_linear(8, 8, seeded(1))
    everything, order = torch.ones(40), torch.randperm(NODES, generator=seeded(4))
    values = {}
    with torch.random.fork_rng(devices=[]):
        for mode in (True, False):
            encoder.train(mode)
            values[mode] = {float(discrimination_loss(encoder, head, inputs, everything, order)) for _ in range(3)}
    assert (len(values[True]), len(values[False])) == (3, 1)


# Contrast and repulsion


def test_contrast_by_hand() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    centres = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    cluster = torch.tensor([0, 1, 1])
    pairs = torch.tensor([1, 4, 5])  # (0, 1), (2, 0), and (2, 1), which is node 2's own and no negative
    total = sum(math.exp(s / 0.3) for s in (1.0, 1.0, 0.8, 0.0, 0.6))
    expected = sum(-math.log(math.exp(s / 0.3) / total) for s in (1.0, 1.0, 0.8))
    assert float(contrast_loss(rows, centres, cluster, pairs, 0.3)) == pytest.approx(expected, rel=1e-5)
    # it is a cross-entropy over one long row of logits, whose targets are ones for positives
    logits = torch.tensor([1.0, 1.0, 0.8, 0.0, 0.6]) / 0.3
    assert expected == pytest.approx(float(F.cross_entropy(logits, torch.tensor([1.0, 1, 1, 0, 0]))), rel=1e-5)


def test_repulsion_by_hand() -> None:
    centres = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    expected = math.log(1 + math.exp((0.6 - 1) / 0.3))
    assert float(repulsion_loss(centres, 0.3)) == pytest.approx(expected, rel=1e-5)
    assert repulsion_loss(torch.eye(2), 0.3) < repulsion_loss(centres, 0.3)


def test_relay_loss_normalises_and_weighs(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding, centroids = torch.randn(50, 4, generator=seeded()), torch.randn(5, 4, generator=seeded(1))
    cluster = torch.randint(5, (50,), generator=seeded(2))
    one, other = (
        relay_loss(scale * embedding, centroids / scale, cluster, replace(SETTINGS, repulsion=10.0), seeded(3))
        for scale in (1.0, 7.0)
    )
    assert float(one) == pytest.approx(float(other), rel=1e-5)
    without = relay_loss(embedding, centroids, cluster, replace(SETTINGS, repulsion=0.0), seeded(3))
    repulsion = repulsion_loss(F.normalize(centroids, dim=1), SETTINGS.temperature)
    assert float(one - without) == pytest.approx(10 * float(repulsion), rel=1e-4)
    drawn = []
    monkeypatch.setattr(ctgc_losses, "contrast_loss", lambda *arguments: drawn.append(arguments[3]) or torch.zeros(()))
    relay_loss(embedding, centroids, cluster, SETTINGS, seeded(3))
    assert drawn[0].shape == (150,)  # three a node
    assert int(drawn[0].min()) >= 0
    assert int(drawn[0].max()) < 250


# Clusters


def test_kmeans_finds_planted_groups_and_leaves_none_empty() -> None:
    centres = 10 * torch.eye(4)
    rows = centres[torch.arange(40) % 4] + 0.1 * torch.randn(40, 4, generator=seeded())
    for seed in range(5):
        cluster = kmeans(rows, 8, 10, seeded(seed))
        assert torch.bincount(cluster, minlength=8).min() > 0
    pairs = torch.eye(4)[torch.arange(8) // 2]  # two rows each, as many clusters as rows
    for same, count in ((torch.ones(10, 3), 4), (pairs, 7), (pairs, 8)):
        assert kmeans(same, count, 3, seeded()).unique().tolist() == list(range(count))
    found = means(rows, torch.arange(40) % 4, 4)
    assert torch.allclose(found[2], rows[2::4].mean(0), atol=1e-5)
    assert torch.equal(nearest(F.normalize(rows, dim=1), F.normalize(found, dim=1)), torch.arange(40) % 4)


# The spectrum


@pytest.mark.parametrize("nodes", [200, 700])  # whole, and by Lanczos
def test_the_spectrum_is_that_of_the_joined_graph(nodes: int) -> None:
    source = bare_graph(load_graph(citation_graph(nodes=nodes, classes=3, features=40, mean_degree=2.0)))
    values, vectors = spectrum(source, 20, 0.9, 0)
    assert (values.shape, vectors.shape) == ((20,), (nodes, 20))
    assert bool((values.diff() >= 0).all())
    gram = vectors.T @ vectors
    assert torch.allclose(gram, torch.eye(20), atol=1e-4)
    # one component alone: 0 is an eigenvalue once, and its vector is D^1/2 1 of the joined graph
    assert float(values[0]) == pytest.approx(0, abs=1e-8)
    assert float(values[1]) > 1e-6
    edges = source.edge_index
    degree = torch.bincount(edges[0], minlength=nodes) + 1
    joined = vectors[:, 0].double() ** 2
    added = joined * (degree / joined).median() - degree
    assert torch.allclose(added, added.round(), atol=0.02)
    pattern = sp.csr_matrix((np.ones(edges.shape[1]), edges.numpy()), shape=(nodes, nodes))
    components, member = connected_components(pattern)
    assert components > 2
    assert int(added.round().sum()) == 2 * (components - 1)  # one edge each, with two ends
    smaller = member != np.bincount(member).argmax()
    assert int(added.round()[smaller].sum()) == components - 1
    reached = vectors.abs().max(0).indices
    assert bool((vectors[reached, torch.arange(20)] > 0).all())


def test_lanczos_and_the_whole_decomposition_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    source = bare_graph(load_graph(citation_graph(nodes=300, classes=3, features=40, mean_degree=6.0)))
    whole = spectrum(source, 20, 0.9, 0)
    monkeypatch.setattr("plgc.rivals.ctgc.inversion.DENSE_BELOW", 0)
    some = spectrum(source, 20, 0.9, 0)
    assert torch.allclose(whole[0], some[0], atol=1e-8)
    apart = np.flatnonzero(np.diff(whole[0].numpy(), prepend=-1, append=3)[:-1] > 1e-4)
    overlap = (whole[1] * some[1]).sum(0)
    assert float(overlap[apart[:5]].min()) > 0.999
    assert all(torch.equal(a, b) for a, b in zip(spectrum(source, 20, 0.9, 0), some, strict=True))
    adjacency = dense_normalised(source.edge_index, 300)
    high = torch.linalg.eigvalsh(torch.eye(300, dtype=torch.float64) - adjacency)[-2:]
    assert torch.allclose(whole[0][-2:], high, atol=0.05)  # but for the joining edges


def test_waves_and_the_structural_model_by_hand() -> None:
    values = torch.tensor([0.0, 0.31], dtype=torch.float64)
    basis = waves(values, 3)
    expected = [math.sin(31.0 * 2**p) for p in range(3)] + [math.cos(31.0 * 2**p) for p in range(3)]
    assert basis[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert basis[1].tolist() == pytest.approx(expected, rel=1e-5)
    model = SpectralMLP(3, 4, seeded()).requires_grad_(False)
    vectors = torch.randn(5, 2, generator=seeded(1))
    hidden = torch.relu((vectors @ basis) @ model.first.weight.T + model.first.bias)
    assert torch.allclose(model(vectors, basis), hidden @ model.second.weight.T + model.second.bias, atol=1e-6)
    assert float(model.first.weight.abs().max()) <= 1 / math.sqrt(6)


# The inversion


def test_match_loss_by_hand() -> None:
    found, wanted = torch.tensor([[2.0, 0.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert float(match_loss(found, wanted, "mse")) == pytest.approx((1 + 0 + 9 + 9) / 4)
    rows = [[1.0, 0.0], [0.6, 0.8]]
    by_row = -(rows[0][0] - math.log(math.e + 1)) - (rows[1][1] - math.log(math.exp(0.6) + math.exp(0.8)))
    by_column = -(1.0 - math.log(math.e + math.exp(0.6))) - (0.8 - math.log(1 + math.exp(0.8)))
    assert float(match_loss(found, wanted, "contrast")) == pytest.approx((by_row + by_column) / 4, rel=1e-5)


def test_structure_loss_asks_for_orthonormal_columns() -> None:
    model = SpectralMLP(3, 4, seeded()).requires_grad_(False)
    basis = waves(torch.rand(6, generator=seeded()), 3)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=seeded(1)))[0]
    centroids = model(rotation, basis)
    assert float(structure_loss(model, basis, rotation, centroids, "mse")) == pytest.approx(0, abs=1e-10)
    stretched = 2 * rotation  # the Gram matrix is 4 I: six entries of 3², of 36
    expected = F.mse_loss(model(stretched, basis), centroids) + 6 * 9 / 36
    assert float(structure_loss(model, basis, stretched, centroids, "mse")) == pytest.approx(float(expected), rel=1e-5)


def inverted(condensed_nodes: int = 10, steps: int = 400) -> tuple[Tensor, Tensor, Phases]:
    """U' for random centroids, as a run finds it, and its Λ."""
    values = torch.linspace(0, 1.4, condensed_nodes, dtype=torch.float64)
    model, basis = SpectralMLP(4, 8, seeded()).requires_grad_(False), waves(values, 4)
    centroids = model(torch.linalg.qr(torch.randn(10, 10, generator=seeded(1)))[0], basis)
    vectors = start_normal(condensed_nodes, condensed_nodes, seeded(2)).requires_grad_()
    phases = Phases(checkpoint_in(None), 0, "cpu", steps, silent)
    loss = lambda _: structure_loss(model, basis, vectors, centroids, "mse")  # noqa: E731
    phases.minimise("adjacency", {"vectors": vectors}, loss, steps, 5e-3, 0.0, model)
    return values, vectors.detach(), phases


def test_inversion_lowers_its_loss_and_keeps_vectors_orthonormal() -> None:
    _, vectors, phases = inverted()
    curve = phases.curves["adjacency"]
    assert curve[-1] < 0.1 * curve[0]
    assert float((vectors.T @ vectors - torch.eye(10)).abs().max()) < 0.05


def test_edges_are_those_of_identity_minus_laplacian() -> None:
    values, vectors, _ = inverted()
    edges, weight = synthetic_edges(values, vectors)
    dense = torch.eye(10, dtype=torch.float64) - vectors.double() @ torch.diag(values) @ vectors.double().T
    matrix = torch.zeros(10, 10)
    matrix[edges[0], edges[1]] = weight
    assert torch.equal(matrix, matrix.T)
    assert torch.equal(matrix.diagonal(), torch.zeros(10))
    for i in range(10):
        for j in range(10):
            own = [d if d > 0 else 1.0 for d in (float(dense[i, i]), float(dense[j, j]))]
            expected = max(0.0, float(dense[i, j])) / math.sqrt(own[0] * own[1]) if i != j else 0.0
            assert float(matrix[i, j]) == pytest.approx(expected, abs=1e-5)
    assert bool((weight > 0).all())
    assert edges.dtype == torch.int64


def test_normalised_the_edges_are_as_if_the_diagonal_were_kept() -> None:
    ring = torch.roll(torch.eye(8, dtype=torch.float64), 1, 0)
    laplacian = torch.eye(8, dtype=torch.float64) - (0.5 * torch.eye(8, dtype=torch.float64) + (ring + ring.T) / 4)
    values, vectors = torch.linalg.eigh(laplacian)  # the diagonal of A' is .5 everywhere
    edges, weight = synthetic_edges(values, vectors)
    strong = weight > 1e-6
    found = build_adjacency(edges[:, strong], 8, weight[strong]).matrix.to_dense()
    assert torch.allclose(found.double(), torch.eye(8, dtype=torch.float64) - laplacian, atol=1e-6)


# The whole


def test_what_is_left_behind(condensed: plgc.CondensedGraph) -> None:
    assert condensed.pseudo_labels is not None
    assert torch.allclose(condensed.pseudo_labels.norm(dim=1), torch.ones(KEPT), atol=1e-5)
    assert (condensed.blocks, condensed.scaling, int(condensed.counts.sum())) == ((16,), "none", NODES)
    assert condensed.settings["rebuild_epochs"] == 60
    curves = condensed.curves
    assert set(curves) == {"pretraining", "semantic relay model", "structural relay model", "adjacency", "features"}
    assert {len(curves[name]) for name in ("adjacency", "features")} == {6}
    for name in ("pretraining", "structural relay model", "adjacency", "features"):
        assert curves[name][-1] < curves[name][0], name


class Stop(Exception):
    pass


# pretraining, its end, the first turns, half of U', half of X'
@pytest.mark.parametrize("stop", [50, 60, 90, 150, 210])
def test_a_stopped_run_goes_on_to_the_same_bytes(
    stop: int, condensed: plgc.CondensedGraph, graph: Data, tmp_path: Path
) -> None:
    def halt(message: str, done: int, total: int) -> None:
        if done >= stop:
            raise Stop

    with pytest.raises(Stop):
        condense("ctgc", graph, checkpoint=tmp_path, progress=halt)
    assert len(list(tmp_path.iterdir())) == 1
    reached: list[int] = []
    again = condense("ctgc", graph, checkpoint=tmp_path, progress=lambda _, done, total: reached.append(done) or None)
    assert again.to_bytes() == condensed.to_bytes()
    assert reached[1] > stop - 50  # what was done was not done again
    assert reached[-1] == 60 + 40 + 120
    assert not list(tmp_path.iterdir())


# Downstream


def test_rebuilding_finds_the_centroids_over_the_edges(condensed: plgc.CondensedGraph, graph: Data) -> None:
    model = rebuild_ctgc(condensed, seed=3)
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    assert condensed.pseudo_labels is not None
    operator = dense_normalised(condensed.edge_index, KEPT, condensed.edge_weight).float()
    first, last = model.gnn.layers
    hidden = torch.relu(operator @ condensed.features @ first.weight + first.bias)  # pyright: ignore
    output = operator @ hidden @ last.weight + last.bias  # pyright: ignore
    settled = match_loss(output, condensed.pseudo_labels, "contrast")
    apart = [rebuild_ctgc(replace(condensed, edge_weight=factor * condensed.edge_weight), seed=3) for factor in (1, 5)]
    alike = [torch.equal(other.gnn.layers[0].weight, first.weight) for other in apart]  # pyright: ignore
    assert alike == [True, False]
    nothing = GNN("gcn", 40, 16, 16, generator=seeded(3)).requires_grad_(False)
    start = match_loss(nothing(condensed.features, None), condensed.pseudo_labels, "contrast")
    assert float(settled) < float(start) - 0.2
    assert not any(parameter.requires_grad for parameter in model.gnn.parameters())
    embedding = model.embed(model.prepare(graph))
    assert (model.parts, tuple(embedding.shape)) == ({"learned": 16}, (NODES, 16))


@pytest.mark.parametrize("kind", ["sage", "gat", "gin", "sgc", "mlp"])
def test_every_kind_can_be_rebuilt(kind: str, condensed: plgc.CondensedGraph, graph: Data) -> None:
    model = rebuild_ctgc(condensed, kind)
    assert model.gnn.kind == kind
    assert torch.isfinite(model.embed(model.prepare(graph))).all()


def test_learn_rebuilds_it_as_its_authors_do_and_it_beats_chance(graph: Data) -> None:
    settings = replace(SETTINGS, width=32, pretrain_epochs=100, inversion_steps=200, rebuild_epochs=100)
    made = condense("ctgc", graph, nodes=30, settings=settings)
    case = draw_case(graph, Protocol(shots=5), 0)
    model = learn("ctgc", case, [made], seed=2)
    assert isinstance(model, RebuiltCTGC)
    direct = rebuild_ctgc(made, seed=2)
    inputs = model.prepare(graph)
    assert torch.equal(model.embed(inputs), direct.embed(inputs))
    assert score(model, case, "node")["accuracy"] > 55  # three classes


# Settings and refusals


def test_published_settings_by_name() -> None:
    assert published_settings("cora") == published_settings("anything else") == CTGCSettings()
    assert published_settings("Citeseer").rounds == 3
    assert published_settings("ogbn_arxiv").match == "contrast"
    assert (published_settings("reddit").repulsion, published_settings("reddit").pretrain_epochs) == (10_000.0, 20)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scaling", "l3", "scaling is 'l3'"),
        ("match", "cosine", "match is 'cosine': choose mse, contrast"),
        ("dropout", 1.0, "dropout is 1.0"),
        ("repulsion", -1.0, "repulsion is -1.0"),
        ("low_share", 0.0, "low_share is 0.0"),
        ("rounds", 0, "rounds is 0: it must be at least 1"),
        ("inversion_rate", math.nan, "inversion_rate is nan"),
    ],
)
def test_settings_out_of_range(name: str, value: float | str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        replace(SETTINGS, **{name: value})  # pyright: ignore


def test_refusals(condensed: plgc.CondensedGraph, graph: Data) -> None:
    with pytest.raises(SettingError, match="nodes is 151, but the graph has only 150"):
        condense("ctgc", graph, nodes=NODES + 1)
    with pytest.raises(ArtifactError, match="made by plgc: only one made by ctgc"):
        rebuild_ctgc(replace(condensed, method="plgc"))
    model = rebuild_ctgc(condensed)
    with pytest.raises(GraphError, match="40 features per node, the graph has 7"):
        model.prepare(Data(x=torch.ones(3, 7)))
    with pytest.raises(ArtifactError, match="made by ctgc and has edges"):
        plgc.reconstruct(condensed)
    with pytest.raises(ArtifactError, match="made by ctgc and has edges"):
        learn("ctgc", draw_case(graph, Protocol(), 0), [condensed, condensed])
