"""JUnit XML of a probe can be read by whoever reads XML, whatever a server said."""

from __future__ import annotations

from xml.etree import ElementTree

from agentgym_cli.cli.junit import junit_xml
from tests.cli.probes import BAD, GOOD, HOSTILE, check, report


def test_each_server_is_a_suite_and_each_check_a_case():
    root = ElementTree.fromstring(junit_xml(report(GOOD, BAD)))
    assert root.tag == "testsuites"
    assert [
        (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped"), suite.get("errors"), suite.get("time")) for suite in root
    ] == [("http://host:1", "3", "0", "0", "0", "0.750"), ("http://host:2", "3", "1", "1", "0", "0.750")]
    assert [(case.get("name"), case.get("classname"), [child.tag for child in case]) for case in root[1]] == [
        ("health", "http://host:2", ["system-out"]),
        ("step", "http://host:2", ["failure"]),
        ("done_latching", "http://host:2", ["skipped"]),
    ]


def test_a_known_deviation_passes_and_says_what_it_is():
    (deviation,) = ElementTree.fromstring(junit_xml(report(GOOD)))[0][2]
    assert (deviation.tag, deviation.text) == ("system-out", "known deviation: done false (the client latches)")


def test_promise_11_hostile_text_stays_text_and_what_xml_cannot_hold_is_replaced():
    text = junit_xml(report((check("step", "fail", f"{HOSTILE}\ud800\ufffe"),)))
    (failure,) = ElementTree.fromstring(text)[0][0]
    assert failure.text == failure.get("message") == "expected text, got \ufffd[31m<script>&\"']]>\ufffd\ufffd[bold]red[/bold]\ufffd\ufffd"
    assert "<script>" not in text and "\x1b" not in text
