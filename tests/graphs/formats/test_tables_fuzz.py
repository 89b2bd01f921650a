"""Damaged tables and GraphML load as something valid or raise our own error, whatever was done to their bytes.

``PLGC_FUZZ`` sets how many mutations are tried; the usual run takes a few hundred.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import time
from pathlib import Path

import pytest

from plgc.graphs import check_structure, load_graph
from plgc.runtime.errors import PLGCError

COUNT = int(os.environ.get("PLGC_FUZZ", "600"))
NODES = "id,size,flag,colour,split,label\n" + "".join(
    f"n{i},{i * 0.5},{i % 2 == 0},{'red' if i % 3 else 'blue'},{('train', 'val', 'test')[i % 3]},{i % 2}\n"
    for i in range(12)
)
EDGES = "source,target,weight\n" + "".join(f"n{i},n{(i * 5 + 1) % 12},{i}\n" for i in range(12))
GRAPHML = (
    '<?xml version="1.0" encoding="UTF-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    '<key id="a" for="node" attr.name="size" attr.type="double"><default>1</default></key>'
    '<key id="b" for="node" attr.name="label" attr.type="string"/><key id="c" for="edge" attr.name="weight"/><graph>'
    + "".join(f'<node id="n{i}"><data key="a">{i}</data><data key="b">{"xy"[i % 2]}</data></node>' for i in range(8))
    + "".join(f'<edge source="n{i}" target="n{(i + 3) % 8}"/>' for i in range(8))
    + "</graph></graphml>"
)
PIECES = [
    *(b",", b"\n", b'"', b"\t", b"", b"nan", b"inf", b"1e999", b"-1", b"\xff", b"\x00", b"<", b">", b"&", b"#", b"="),
    *(b"<!DOCTYPE x>", b"node", b"id", b"\r", b"True", b"train", b";", b" ", b"\xef\xbb\xbf", b"1_0", b"'", b"[0]"),
]


def mutate(content: bytes, draw: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        place, kind = draw.randrange(len(data) + 1), draw.randrange(6)
        if kind == 0 and data:
            data[place % len(data)] = draw.randrange(256)
        elif kind == 1:
            data[place:place] = draw.choice(PIECES)
        elif kind == 2:
            del data[place : place + draw.randint(1, 30)]
        elif kind == 3:
            start = draw.randrange(len(data) + 1)
            data[place:place] = data[start : start + draw.randint(1, 60)]
        elif kind == 4 and draw.random() < 0.3:
            del data[place:]
        else:
            data[place : place + draw.randint(0, 5)] = draw.choice(PIECES)
    return bytes(data)


def parquet() -> bytes:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    content = io.BytesIO()
    pandas.read_csv(io.StringIO(NODES)).to_parquet(content)
    return content.getvalue()


@pytest.mark.parametrize("kind", ["nodes", "edges", "gzip", "parquet", "graphml"])
def test_damaged_files(kind: str, tmp_path: Path) -> None:
    draw = random.Random(kind)
    edges, nodes = tmp_path / "edges.csv", tmp_path / ("nodes.parquet" if kind == "parquet" else "nodes.csv")
    edges.write_text(EDGES)
    nodes.write_text(NODES)
    content = {
        "nodes": NODES.encode(),
        "edges": EDGES.encode(),
        "gzip": gzip.compress(NODES.encode(), mtime=0),
        "parquet": parquet() if kind == "parquet" else b"",
        "graphml": GRAPHML.encode(),
    }[kind]
    path = {"edges": edges, "graphml": tmp_path / "graph.graphml"}.get(kind, nodes)
    loaded = 0
    for number in range(COUNT // 5 + 1):
        path.write_bytes(mutate(content, draw) if number else content)
        start = time.process_time()
        try:
            data = load_graph(path) if kind == "graphml" else load_graph(edges, nodes_table=nodes)
        except PLGCError:
            assert number, "the undamaged file has to load"
        else:
            check_structure(data)
            loaded += 1
        assert time.process_time() - start < 10
    assert loaded >= 1
