"""`hardpair doctor`: all checks, one after the other; none of them can stop the rest."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator

from hardpair.doctor import Doctor, Finding, bad
from hardpair.doctor.image_checks import check_images
from hardpair.doctor.machine_checks import check_compute, check_disk, check_installation, check_rate
from hardpair.doctor.training_checks import check_narrow, check_processes, check_resume
from hardpair.errors import UserError
from hardpair.text import several

CHECKS: dict[str, Callable[[Doctor], Iterable[Finding]]] = {
    "installation": check_installation,
    "compute": check_compute,
    "narrow layers": check_narrow,
    "images": check_images,
    "disk": check_disk,
    "data rate": check_rate,
    "resume": check_resume,
    "processes": check_processes,
}


def run_doctor(options: Doctor) -> int:
    """Check and print; the exit code is 1 if something is bad, else 0."""
    began, findings = time.monotonic(), []
    for finding in examine(options):
        findings.append(finding)
        if not options.json:
            print(finding.line(), flush=True)
    bads, warnings = (sum(finding.level == level for finding in findings) for level in ("bad", "warning"))
    summary = f"{several(bads, 'check')} bad" if bads else "nothing is bad"
    summary += (
        f", {several(warnings, 'warning')}; {several(len(findings), 'check')} in {time.monotonic() - began:.0f} s"
    )
    as_json = {"findings": [dataclasses.asdict(finding) for finding in findings], "summary": summary}
    print(json.dumps(as_json, indent=2) if options.json else summary)
    return int(bads > 0)


def examine(options: Doctor) -> Iterator[Finding]:
    """Findings as they come; an exception inside a check is one of them."""
    for name, check in CHECKS.items():
        try:
            yield from check(options)
        except UserError as error:
            yield bad(name, str(error))
        except Exception as error:  # whatever it is, the other checks still have something to say
            lines = str(error).strip().splitlines() or ["no message"]
            yield bad(name, f"{type(error).__name__}: {lines[0]}")
