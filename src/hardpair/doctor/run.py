"""All checks, one after the other; none of them can stop the rest."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hardpair.doctor.compute import check_compute
from hardpair.doctor.disk import check_disk
from hardpair.doctor.finding import Finding, bad, summary
from hardpair.doctor.images import check_images
from hardpair.doctor.installation import check_installation
from hardpair.doctor.narrow import check_narrow
from hardpair.doctor.options import Doctor
from hardpair.doctor.rate import check_rate
from hardpair.doctor.resume import check_resume
from hardpair.doctor.together import check_together
from hardpair.errors import UserError

Check = Callable[[Doctor], Iterable[Finding]]
CHECKS: dict[str, Check] = {
    "installation": check_installation,
    "compute": check_compute,
    "narrow layers": check_narrow,
    "images": check_images,
    "disk": check_disk,
    "data rate": check_rate,
    "resume": check_resume,
    "processes": check_together,
}


def run_doctor(options: Doctor) -> int:
    """Check and print; 1 where something is bad, else 0."""
    began, findings = time.monotonic(), []
    for finding in examine(options):
        findings.append(finding)
        if not options.json:
            print(finding.line(), flush=True)
    words = summary(findings, time.monotonic() - began)
    print(json.dumps(_as_json(findings, words), indent=2) if options.json else words)
    return int(any(finding.level == "bad" for finding in findings))


def examine(options: Doctor) -> Iterator[Finding]:
    """Findings as they come; what goes wrong inside a check is one of them."""
    for name, check in CHECKS.items():
        try:
            yield from check(options)
        except Exception as error:  # whatever it is, the other checks still have something to say
            yield bad(name, _words(error))


def _words(error: Exception) -> str:
    """A user's mistake explains itself; anything else also says what kind of error it is."""
    lines = str(error).strip().splitlines() or ["no words"]
    return lines[0] if isinstance(error, UserError) else f"{type(error).__name__}: {lines[0]}"


def _as_json(findings: list[Finding], words: str) -> dict[str, Any]:
    return {"findings": [dataclasses.asdict(finding) for finding in findings], "summary": words}
