"""What a probe found as JUnit XML, for whoever gates on it: a test suite for each server, a test case for each check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from agentgym_cli.env.probe import CheckResult, ProbeReport, ServerReport

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, in whatever way they are written."""


def junit_xml(report: ProbeReport) -> str:
    """The report as a document. A check that is n/a is skipped; a known deviation passes and says what it is on standard output."""
    root = ElementTree.Element("testsuites", name=f"agentgym probe, dialect {report.dialect}, level {report.level}")
    for server in report.servers:
        _suite(root, server)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _suite(root: ElementTree.Element, server: ServerReport) -> None:
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_text(server.url),
        tests=str(len(server.checks)),
        failures=str(len(server.failed)),
        errors="0",
        skipped=str(sum(check.result == "n/a" for check in server.checks)),
        time=f"{sum(check.seconds for check in server.checks):.3f}",
    )
    for check in server.checks:
        _case(suite, server, check)


def _case(suite: ElementTree.Element, server: ServerReport, check: CheckResult) -> None:
    case = ElementTree.SubElement(suite, "testcase", name=check.name, classname=_text(server.url), time=f"{check.seconds:.3f}")
    detail = _text(check.detail)
    if check.result == "fail":
        ElementTree.SubElement(case, "failure", message=detail, type="contract").text = detail
    elif check.result == "n/a":
        ElementTree.SubElement(case, "skipped", message=detail)
    else:
        ElementTree.SubElement(case, "system-out").text = f"{check.result}: {detail}"


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
