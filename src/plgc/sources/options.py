"""How the sources of a call are condensed: the options that all of them share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from plgc.method.condense import choose_settings
from plgc.method.release import Release
from plgc.method.settings import CondenseSettings
from plgc.runtime.errors import SettingError
from plgc.runtime.options import Compute, check_device
from plgc.sources.engine import Placement


@dataclass(frozen=True)
class SourceOptions:
    """How the sources of a call are condensed, the same for all."""

    settings: CondenseSettings
    release: Release
    compute: Compute

    @property
    def recorded(self) -> dict[str, Any]:
        """The settings as a condensed file records them."""
        clip, noise = self.release.clip, self.release.noise
        noisy = {} if clip is None else {"clip": clip, "noise": noise}
        return {**self.settings.to_dict(), **self.release.stored, **noisy}

    @property
    def published(self) -> dict[str, Any]:
        """The settings that the manifest names; all others are in the files."""
        return {
            "preset": self.settings.preset,
            "min_cluster": self.settings.min_cluster,
            "max_share": self.settings.max_share,
            "private": self.settings.private,
            "clip": self.release.clip,
            "noise": self.release.noise,
            "fingerprint": self.release.fingerprint,
            "threads": self.compute.threads,
        }


def source_options(
    preset: str, settings: CondenseSettings | None, release: Release, compute: Compute, placement: Placement
) -> SourceOptions:
    """Put the options together and check them, before any work begins."""
    if compute.threads is not None:
        raise SettingError(f"threads is {compute.threads}: for several sources give cpus, the threads of each")
    if placement.engine != "ray":  # a cluster has devices of its own
        check_device(compute.device)
    chosen = choose_settings(preset, settings, compute, release)
    if release.fingerprint and (chosen.private or release.clip is not None):
        raise SettingError(
            "private, clipped and noisy files carry no fingerprint of the graph: leave fingerprint out, or turn "
            "private off (--no-private), which several sources have by default"
        )
    release = replace(release, noise=float(release.noise))  # as files record it
    return SourceOptions(chosen, release, replace(compute, threads=placement.cpus))
