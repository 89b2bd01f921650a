"""Many owners, many machines: condense several graphs, or the parts of one, into a folder of files with a manifest.

Every source is condensed by itself, without access to the others. Only the files are combined, later and elsewhere:
:func:`load_sources` opens them, :func:`plgc.reconstruct` learns from all of them. May import every package up to
``evaluation``; ``engine`` runs the tasks, of experiments too.
"""

from plgc.method.release import check_noise
from plgc.sources.condense import condense_parts, condense_sources, share_nodes
from plgc.sources.folder import Source, Sources, SourcesError, source_seed
from plgc.sources.manifest import MANIFEST, OpenSource, default_combination, load_sources, open_sources, read_manifest

__all__ = [
    "MANIFEST",
    "OpenSource",
    "Source",
    "Sources",
    "SourcesError",
    "check_noise",
    "condense_parts",
    "condense_sources",
    "default_combination",
    "load_sources",
    "open_sources",
    "read_manifest",
    "share_nodes",
    "source_seed",
]
