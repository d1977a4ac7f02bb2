"""Python and the packages we stand on, against the bounds of our own metadata."""

import platform
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from hardpair.doctor.finding import Finding, bad, good, warning
from hardpair.doctor.options import Doctor

NAMED = ("torch", "torchvision", "timm", "safetensors")  # whose versions are worth reading even when all is well


def check_installation(_options: Doctor) -> Iterator[Finding]:
    """A line on Python, a line on the packages."""
    try:
        own = metadata.metadata("hardpair")
    except metadata.PackageNotFoundError:
        advice = "install it (pip install .), so that the versions it needs are known"
        yield warning("python", f"{platform.python_version()}; hardpair itself is not installed", advice)
        return
    yield _python(own["Requires-Python"] or "")
    yield _packages(metadata.requires("hardpair") or [])


def _python(bounds: str) -> Finding:
    version = platform.python_version()
    if SpecifierSet(bounds).contains(version, prereleases=True):
        return good("python", f"{version}, wanted {bounds}")
    return bad("python", f"{version}, wanted {bounds}", "make a new environment with such a Python")


def _packages(lines: list[str]) -> Finding:
    """Those that we need; extras for developers do not count."""
    requirements = [Requirement(line) for line in lines]
    needed = [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    if wrong := [words for requirement in needed if (words := _trouble(requirement))]:
        return bad("packages", "; ".join(wrong), "install them with pip install --upgrade hardpair")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in NAMED)
    return good("packages", f"{versions} and {len(needed) - len(NAMED)} others are as wanted")


def _trouble(requirement: Requirement) -> str:
    """What is wrong with a package; nothing where all is well."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is missing, wanted {requirement.specifier}"
    fits = requirement.specifier.contains(version, prereleases=True)
    return "" if fits else f"{requirement.name} is {version}, wanted {requirement.specifier}"
