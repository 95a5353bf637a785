"""Reads the Rust files of this repository, for check-modules, check-names and check-sizes."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Comments, raw strings, strings and characters. A lifetime has no second quote, so it stays.
TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(?P<hashes>\#*)".*?"(?P=hashes)"""
    r"""|"[^"\\]*(?:\\.[^"\\]*)*"|'(?:\\[^\n][^'\n]*|[^\\'\n])'""",
    re.DOTALL,
)


def read_sources():
    """Content of all Rust files in crates and fuzz, by path relative to the repository."""
    sources = {}
    for folder in ("crates", "fuzz"):
        for file in sorted((ROOT / folder).rglob("*.rs")):
            path = file.relative_to(ROOT)
            if "target" not in path.parts:
                sources[str(path)] = file.read_text(encoding="utf-8")
    return sources


def strip_text(source):
    """Removes comments and literals, but no newlines: line numbers stay the same."""
    return TEXT.sub(lambda match: "\n" * match.group().count("\n"), source)


def line_at(source, offset):
    return source.count("\n", 0, offset) + 1


def self_test(script, check, cases):
    """Each case: Rust files by path, and the start of every finding that `check` must return."""
    for sources, expected in cases:
        findings = check(sources)
        matches = len(findings) == len(expected) and all(
            finding.startswith(start) for finding, start in zip(findings, expected)
        )
        if not matches:
            return [f"self-test: found {findings}, expected {expected}, hint: repair {script}"]
    return []
