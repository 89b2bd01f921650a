from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, SGConv
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj

from plgc.method.encoder import GNN, KINDS
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import Adjacency, build_adjacency, propagate
from plgc.sparse.features import sparse_features

NODES, WIDTH_IN, HIDDEN, WIDTH_OUT = 12, 7, 16, 8


def edges(seed: int = 0, isolated: bool = True) -> Tensor:
    torch.manual_seed(seed)
    inner = erdos_renyi_graph(NODES - 1, 0.35) if isolated else erdos_renyi_graph(NODES, 0.5)
    assert inner.shape[1] > 0
    return inner


def features(nodes: int = NODES, width: int = WIDTH_IN) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(nodes, width, generator=generator) * (torch.rand(nodes, width, generator=generator) < 0.6)


def symmetric_weights(edge_index: Tensor, low: float) -> Tensor:
    table = torch.rand(NODES, NODES, generator=torch.Generator().manual_seed(4)) * 2 + low
    row, col = edge_index
    return (table + table.T)[row, col] / 2


def make(kind: str, seed: int = 0, layers: int = 2, width_in: int = WIDTH_IN, **options: float) -> GNN:
    gnn = GNN(
        kind,
        width_in,
        HIDDEN,
        WIDTH_OUT,
        layers=layers,
        generator=torch.Generator().manual_seed(seed),
        **options,
    )
    generator = torch.Generator().manual_seed(seed + 100)
    for name, parameter in gnn.named_parameters():
        if name.endswith("bias"):  # zero at the start: a forgotten bias would not show
            nn.init.normal_(parameter, generator=generator)
    return gnn


def layer_slowly(kind: str, layer: nn.Module, h: Tensor, a: Tensor) -> Tensor:
    """One layer node by node from its published definition; ``a`` is the dense weighted A without self-loops."""
    p = {name: value.detach().double() for name, value in layer.named_parameters()}
    nodes = len(h)
    closed = a + torch.eye(nodes, dtype=torch.float64)
    degree = closed.sum(1)
    rows = []
    for i in range(nodes):
        near = [j for j in range(nodes) if closed[i, j] > 0]
        others = [j for j in near if j != i]
        match kind:
            case "mlp":
                rows.append(h[i] @ p["weight"] + p["bias"])
            case "gcn":
                mixed = sum(closed[i, j] / (degree[i] * degree[j]).sqrt() * h[j] for j in near)
                rows.append(mixed @ p["weight"] + p["bias"])
            case "sage":
                total = sum(a[i, j] for j in others)
                mean = sum(a[i, j] * h[j] for j in others) / total if others else h[i]
                rows.append(h[i] @ p["own.weight"] + p["own.bias"] + mean @ p["neighbors"])
            case "gin":
                rows.append(torch.relu(sum(closed[i, j] * h[j] for j in near) @ p["first"]) @ p["second"])
            case "gat":
                heads, width = p["source"].shape
                message = (h @ p["weight"]).reshape(nodes, heads, width)
                out = []
                for head in range(heads):
                    to = message[i, head] @ p["target"][head]
                    raw = torch.stack([message[j, head] @ p["source"][head] + to for j in near])
                    raw = torch.where(raw > 0, raw, 0.2 * raw).exp() * closed[i, near]
                    out.append((raw / raw.sum()) @ message[near, head])
                rows.append(torch.cat(out) + p["bias"])
    return torch.stack(rows)


def network_slowly(gnn: GNN, x: Tensor, a: Tensor) -> Tensor:
    h = x.double()
    if gnn.kind == "sgc":
        closed = a + torch.eye(len(a), dtype=torch.float64)
        scale = closed.sum(1).rsqrt()
        spread = torch.linalg.matrix_power(scale[:, None] * closed * scale, gnn.layers[0].steps)
        weight, bias = (gnn.layers[0].get_parameter(name).detach().double() for name in ("weight", "bias"))
        return spread @ h @ weight + bias
    for number, layer in enumerate(gnn.layers):
        h = layer_slowly(gnn.kind, layer, torch.relu(h) if number else h, a)
    return h


def dense_adjacency(edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
    attributes = torch.ones(edge_index.shape[1]) if weight is None else weight
    return to_dense_adj(edge_index, edge_attr=attributes, max_num_nodes=NODES)[0].double()


# Against a slow reference


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_equals_its_definition(kind: str, layers: int, layout: str) -> None:
    edge_index, x = edges(), features()
    gnn = make(kind, layers=layers)
    given = x if layout == "dense" else sparse_features(x.to_sparse_csr())
    result = gnn(given, build_adjacency(edge_index, NODES))
    assert result.shape == (NODES, WIDTH_OUT)
    torch.testing.assert_close(
        result.double(), network_slowly(gnn, x, dense_adjacency(edge_index)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_some_nodes_alone_come_out_as_among_all(kind: str, layers: int) -> None:
    gnn, adjacency = make(kind, layers=layers), build_adjacency(edges(), NODES)
    mask = (torch.arange(WIDTH_IN) % 3 > 0).float()
    rows = torch.arange(1, NODES, 3)
    expected = gnn(features(), adjacency, mask)[rows]
    torch.testing.assert_close(gnn(features(), adjacency, mask, rows), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gnn(features(), None, mask, rows), gnn(features(), None, mask)[rows])


@pytest.mark.parametrize("width_in", [3, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_narrow_and_wide_inputs_take_the_same_path_to_the_answer(kind: str, width_in: int) -> None:
    """GCN multiplies in another order when the input is narrower than the output."""
    edge_index, x = edges(1), features(width=width_in)
    gnn = make(kind, width_in=width_in)
    expected = network_slowly(gnn, x, dense_adjacency(edge_index))
    torch.testing.assert_close(gnn(x, build_adjacency(edge_index, NODES)).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "low"),
    [
        *((kind, low) for kind in KINDS for low in (1.0, 0.0) if (kind, low) != ("sage", 0.0)),
        ("sage", 0.0),
    ],
)
def test_weighted_edges_weigh(kind: str, low: float) -> None:
    edge_index, x = edges(), features()
    weight = symmetric_weights(edge_index, low) * (1.0 if low else 0.1)
    gnn = make(kind)
    result = gnn(x, build_adjacency(edge_index, NODES, weight)).double()
    torch.testing.assert_close(
        result, network_slowly(gnn, x, dense_adjacency(edge_index, weight)), rtol=1e-4, atol=1e-4
    )
    if kind != "mlp":
        assert not torch.allclose(result, gnn(x, build_adjacency(edge_index, NODES)).double(), rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_no_adjacency_is_a_graph_without_edges(kind: str) -> None:
    x = features()
    gnn = make(kind)
    empty = build_adjacency(torch.empty(2, 0, dtype=torch.int64), NODES)
    torch.testing.assert_close(gnn(x, None), gnn(x, empty), rtol=1e-5, atol=1e-6)
    expected = network_slowly(gnn, x, torch.zeros(NODES, NODES, dtype=torch.float64))
    torch.testing.assert_close(gnn(x, None).double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gnn(sparse_features(x.to_sparse_csr()), None).double(), expected, rtol=1e-4, atol=1e-5)


def test_in_sage_a_node_without_neighbours_is_its_own() -> None:
    x = features()
    (layer,) = make("sage", layers=1).layers
    result = layer(x, build_adjacency(edges(), NODES))
    own = x[-1] @ layer.own.weight + layer.own.bias
    torch.testing.assert_close(result[-1], own + x[-1] @ layer.neighbors, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    edge_index, x = edges(), features()
    gnn = make(kind)
    adjacency = build_adjacency(edge_index, NODES)
    dense = dense_adjacency(edge_index)
    direction = torch.randn(NODES, WIDTH_OUT, generator=torch.Generator().manual_seed(9))
    parameters = list(gnn.parameters())
    gradients = torch.autograd.grad((gnn(x, adjacency) * direction).sum(), parameters)
    generator = torch.Generator().manual_seed(10)
    steps = [torch.randn(p.shape, generator=generator) for p in parameters]
    slope = sum(float((g * s).sum()) for g, s in zip(gradients, steps, strict=True))

    def value(size: float) -> float:
        with torch.no_grad():
            for parameter, step in zip(parameters, steps, strict=True):
                parameter += size * step
        found = float((network_slowly(gnn, x, dense) * direction).sum())
        with torch.no_grad():
            for parameter, step in zip(parameters, steps, strict=True):
                parameter -= size * step
        return found

    assert slope == pytest.approx((value(1e-4) - value(-1e-4)) / 2e-4, rel=0.02)


# Against torch_geometric, where its definition is ours


def pyg_layer(kind: str, layer: nn.Module, width_in: int) -> nn.Module:
    """The torch_geometric layer with our weights (its linear maps are stored transposed)."""
    p = {name: value.detach() for name, value in layer.named_parameters()}
    match kind:
        case "gcn":
            conv = GCNConv(width_in, WIDTH_OUT)
            state = {"lin.weight": p["weight"].T, "bias": p["bias"]}
        case "sgc":
            conv = SGConv(width_in, WIDTH_OUT, K=layer.steps)
            state = {"lin.weight": p["weight"].T, "lin.bias": p["bias"]}
        case "sage":
            conv = SAGEConv(width_in, WIDTH_OUT, aggr="mean")
            state = {
                "lin_l.weight": p["neighbors"].T,
                "lin_l.bias": p["own.bias"],
                "lin_r.weight": p["own.weight"].T,
            }
        case "gin":
            maps = nn.Linear(width_in, WIDTH_OUT, bias=False), nn.Linear(WIDTH_OUT, WIDTH_OUT, bias=False)
            conv = GINConv(nn.Sequential(maps[0], nn.ReLU(), maps[1]))
            state = {"eps": torch.zeros(1), "nn.0.weight": p["first"].T, "nn.2.weight": p["second"].T}
        case "gat":
            heads, width = p["source"].shape
            conv = GATConv(width_in, width, heads=heads)
            state = {
                "lin.weight": p["weight"].T,
                "att_src": p["source"][None],
                "att_dst": p["target"][None],
                "bias": p["bias"],
            }
        case _:
            raise AssertionError(kind)
    conv.load_state_dict({key: value for key, value in state.items() if key in conv.state_dict()})
    assert set(conv.state_dict()) <= set(state)
    return conv


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mlp"])
def test_layers_equal_those_of_torch_geometric(kind: str) -> None:
    """PyG's SAGEConv gives a node without neighbours a mean of zero, ours its own: compared where all have some."""
    edge_index, x = edges(2, isolated=False), features()
    assert torch.bincount(edge_index[0], minlength=NODES).min() > 0
    layer = make(kind, layers=2 if kind == "sgc" else 1).layers[0]
    conv = pyg_layer(kind, layer, WIDTH_IN)
    with torch.no_grad():
        result, expected = layer(x, build_adjacency(edge_index, NODES)), conv(x, edge_index)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_weighted_gcn_equals_that_of_torch_geometric() -> None:
    edge_index, x = edges(), features()
    weight = symmetric_weights(edge_index, 0.0)
    (layer,) = make("gcn", layers=1).layers
    conv = pyg_layer("gcn", layer, WIDTH_IN)
    with torch.no_grad():
        result, expected = layer(x, build_adjacency(edge_index, NODES, weight)), conv(x, edge_index, weight)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_attention_survives_large_scores() -> None:
    (layer,) = make("gat", layers=1).layers
    with torch.no_grad():
        layer.source.mul_(1000)
        layer.target.mul_(1000)
        result = layer(features(), build_adjacency(edges(), NODES))
    assert bool(torch.isfinite(result).all())


# Weights, kinds, dropout


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_reproduce_the_weights(kind: str) -> None:
    def weights(seed: int) -> Tensor:
        gnn = GNN(kind, WIDTH_IN, HIDDEN, WIDTH_OUT, generator=torch.Generator().manual_seed(seed))
        return torch.cat([parameter.detach().flatten() for parameter in gnn.parameters()])

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = weights(5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(weights(5), first)
    assert not torch.equal(weights(6), first)


def test_weights_are_glorot_uniform() -> None:
    gnn = GNN("gcn", 300, 500, WIDTH_OUT, generator=torch.Generator().manual_seed(0))
    weight, bound = gnn.layers[0].weight.detach(), (6 / 800) ** 0.5
    assert float(weight.abs().max()) <= bound
    assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.01)
    assert float(weight.mean()) == pytest.approx(0, abs=bound / 100)
    assert bool((gnn.layers[0].bias == 0).all())


@pytest.mark.parametrize("kind", ["GCN", "transformer", ""])
def test_an_unknown_kind_is_refused_by_name(kind: str) -> None:
    with pytest.raises(SettingError, match=f"unknown GNN kind '{kind}'.*gcn, sage, gat, gin, sgc, mlp"):
        GNN(kind, 3, 4, 5, generator=torch.Generator())


@pytest.mark.parametrize("width", [1, 3, 6, 8, 20])
def test_attention_works_for_every_width(width: int) -> None:
    gnn = GNN("gat", WIDTH_IN, HIDDEN, width, generator=torch.Generator().manual_seed(0))
    expected = network_slowly(gnn, features(), dense_adjacency(edges()))
    result = gnn(features(), build_adjacency(edges(), NODES))
    assert result.shape == (NODES, width)
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-4)


def test_dropout_acts_in_training_only() -> None:
    gnn = make("gcn", dropout=0.5)
    adjacency: Adjacency = build_adjacency(edges(), NODES)
    torch.manual_seed(0)
    gnn.train()
    assert not torch.equal(gnn(features(), adjacency), gnn(features(), adjacency))
    gnn.eval()
    expected = network_slowly(gnn, features(), dense_adjacency(edges()))
    torch.testing.assert_close(gnn(features(), adjacency).double(), expected, rtol=1e-4, atol=1e-4)


# The order of Â, X and W


@pytest.mark.parametrize("kind", ["gcn", "sgc"])
@pytest.mark.parametrize(
    ("width_in", "width_out", "of_features", "training", "propagated"),
    [
        (4, 9, False, True, 4),  # the input is narrower
        (9, 9, False, True, 9),  # equally wide, but no gradient has to go back through Â
        (15, 9, False, True, 15),
        (19, 9, False, True, 9),  # forward and backward of 9 columns are cheaper than forward of 19
        (9, 9, True, True, 9),
        (10, 9, True, True, 9),
        (4, 9, True, True, 4),
        (15, 9, False, False, 9),
    ],
)
def test_propagation_goes_where_it_is_cheapest(
    kind: str,
    width_in: int,
    width_out: int,
    of_features: bool,
    training: bool,
    propagated: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adjacency = build_adjacency(edges(), NODES)
    gnn = GNN(kind, width_in, 5, width_out, layers=1, generator=torch.Generator().manual_seed(0))
    x = features(width=width_in).requires_grad_(of_features)
    widths, needing_grad = [], []

    def watched(matrix: Adjacency | None, hidden: Tensor, steps: int = 1) -> Tensor:
        widths.append(hidden.shape[1])
        needing_grad.append(hidden.requires_grad)
        return propagate(matrix, hidden, steps)

    monkeypatch.setattr("plgc.method.encoder.propagate", watched)
    with torch.set_grad_enabled(training):
        result = gnn(x, adjacency)
    assert widths == [propagated]
    if not of_features and propagated == width_in:
        assert needing_grad == [False]  # nothing goes back through Â
    layer = gnn.layers[0]
    expected = adjacency.matrix.to_dense() @ x @ layer.weight + layer.bias
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
