"""Many owners, many machines: condense several graphs, or the parts of one, into a folder of files with a manifest.

Every source is condensed by itself and knows nothing of the others. What is combined, later and elsewhere, are the
files alone: :func:`load_sources` opens them, :func:`plgc.reconstruct` learns from all of them.
"""

from plgc.sources.condense import condense_parts, condense_sources
from plgc.sources.manifest import MANIFEST, OpenSource, load_sources, open_sources, read_manifest
from plgc.sources.recipe import check_noise, share_nodes, source_seed
from plgc.sources.run import Source, Sources, SourcesError

__all__ = [
    "MANIFEST",
    "OpenSource",
    "Source",
    "Sources",
    "SourcesError",
    "check_noise",
    "condense_parts",
    "condense_sources",
    "load_sources",
    "open_sources",
    "read_manifest",
    "share_nodes",
    "source_seed",
]
