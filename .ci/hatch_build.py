"""What the build adds to the distributions: the page that an index shows, and a bill of materials.

Hatchling calls both classes (``[tool.hatch]`` in pyproject.toml).
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from pathlib import Path
from typing import Any

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.utils import get_reproducible_timestamp
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packageurl import PackageURL
from packaging.requirements import Requirement

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)]+)\)")
_SAMPLE = "written by Apache RocketMQ's own classes; data, not code"


def absolute_links(text: str, source: str | None, tag: str) -> str:
    """Return the README as an index can show it, which has no files of the tree beside it.

    Args:
        text: The README; its links are relative to the tree.
        source: The address of the repository; without it a link becomes its text.
        tag: The tag of the version, to whose files the links lead.
    """
    target = rf"[\1]({source.rstrip('/')}/blob/{tag}/\2)" if source else r"\1"
    return _LINK.sub(target, text)


def bill_of_materials(
    project: dict[str, Any], dependencies: dict[str, list[str]], seconds: int
) -> str:
    """Return what is in the wheel and what it asks for, as CycloneDX 1.6.

    The wheel carries no code of others: its dependencies are named with what it accepts of them,
    for which version is there is decided where it is installed.

    Args:
        project: ``name``, ``version``, ``description`` and ``license``.
        dependencies: The requirements of each extra; those of the empty name are always needed.
        seconds: The time of the build that is told, in seconds of the epoch.
    """
    name, version = project["name"], project["version"]
    ours = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        description=project["description"],
        licenses=[LicenseExpression(project["license"])],
        purl=PackageURL("pypi", name=name, version=version),
        bom_ref=f"{name}=={version}",
    )
    sample = Component(
        name="rmqindex/sample/store",
        type=ComponentType.DATA,
        description=_SAMPLE,
        bom_ref="sample-store",
    )
    # A name and a version, and no chance: the same wheel has the same number.
    bom = Bom(components=[sample], serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(ours.purl)))
    bom.metadata.component = ours
    needed = []
    for extra, requirements in dependencies.items():
        for text in requirements:
            asked = Requirement(text)
            told = {"requirement": text} | ({"extra": extra} if extra else {})
            needed.append(
                Component(
                    name=asked.name,
                    type=ComponentType.LIBRARY,
                    scope=ComponentScope.OPTIONAL if extra else ComponentScope.REQUIRED,
                    purl=PackageURL("pypi", name=asked.name),
                    bom_ref=asked.name,
                    properties=[Property(name=f"rmqindex:{key}", value=told[key]) for key in told],
                )
            )
    bom.components.update(needed)
    bom.register_dependency(ours, [sample, *needed])
    # The library's own is that of the clock.
    bom.metadata.timestamp = dt.datetime.fromtimestamp(seconds, dt.UTC)
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    return text + "\n"


class SbomHook(BuildHookInterface):
    """Puts the bill of materials into ``.dist-info/sboms`` (PEP 770)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write it where hatchling takes it from, but for an editable installation."""
        if version == "editable":
            return
        core = self.metadata.core
        project = {
            "name": core.name,
            "version": self.metadata.version,
            "description": core.description,
            "license": core.license_expression,
        }
        text = bill_of_materials(
            project,
            {"": core.dependencies, **core.optional_dependencies},
            # SOURCE_DATE_EPOCH or a constant, as for the times of the files.
            get_reproducible_timestamp(),
        )
        target = Path(self.root) / "build" / "sbom" / f"{core.name}.cdx.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        build_data["sbom_files"].append(str(target))


class ReadmeHook(MetadataHookInterface):
    """Makes README.md the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field ``readme``, which pyproject.toml declares to be dynamic."""
        text = (Path(self.root) / "README.md").read_text()
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, source, f"v{metadata['version']}"),
        }
