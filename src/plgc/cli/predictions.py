"""Predictions as they are written: CSV or Parquet, some rows at a time, whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plgc.cli.written import PREDICTIONS
from plgc.runtime.errors import MissingExtraError
from plgc.runtime.files import write_atomically
from plgc.runtime.text import csv_cell

TABLES = (".parquet", ".pq")
ROWS = 1 << 16  # that are written at a time

Block = Sequence[Sequence[Any]]  # columns of one length; the last has probabilities


def is_table(output: Path) -> bool:
    """Whether predictions are written as Parquet, by the name of the file.

    Raises:
        MissingExtraError: they are, and pyarrow is not installed.
    """
    if output.suffix.lower() not in TABLES:
        return False
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow: pip install 'plgc[tables]'") from error
    return True


def write_predictions(output: Path, kind: int, blocks: Iterable[Block]) -> None:
    """Write predictions of nodes (``kind`` 0) or pairs (1), as they come."""
    names = PREDICTIONS[kind].split(",")
    write_atomically(output, _parquet(names, blocks) if is_table(output) else _csv(names, blocks))


def _csv(names: Sequence[str], blocks: Iterable[Block]) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for *columns, probability in blocks:
        cells = [[csv_cell(cell) for cell in column] for column in columns]
        writer.writerows(zip(*cells, (f"{share:.6f}" for share in probability), strict=True))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


class _Sink(io.RawIOBase):
    """Collects what is written to it until it is fetched."""

    def __init__(self) -> None:
        self.parts, self.size = list[bytes](), 0

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """How much has been written."""
        return self.size

    def write(self, content: Any) -> int:
        """Keep some bytes."""
        self.parts.append(bytes(content))
        self.size += len(self.parts[-1])
        return len(self.parts[-1])

    def fetch(self) -> bytes:
        """What has been written since the last time."""
        parts, self.parts = self.parts, []
        return b"".join(parts)


def _parquet(names: Sequence[str], blocks: Iterable[Block]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink, writer = _Sink(), None
    for *columns, probability in blocks:
        arrays = [pa.array(list(column)) for column in columns] + [pa.array(list(probability), pa.float32())]
        table = pa.table(dict(zip(names, arrays, strict=True)))
        writer = writer or pq.ParquetWriter(sink, table.schema)
        writer.write_table(table)
        yield sink.fetch()
    if writer is None:  # no rows at all
        writer = pq.ParquetWriter(sink, pa.schema([(name, pa.string()) for name in names]))
    writer.close()
    yield sink.fetch()
