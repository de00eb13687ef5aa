"""docs/claims.md, made from the list of claims and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from manual.claims.claim_list import PAPERS, TITLES
from manual.claims.verdicts import HELD, NOT, OPEN, Claim, Finding
from manual.markdown import DO_NOT_EDIT
from manual.reference_surveys import COMMAND, read_reference_table

HEAD = f"""\
# The claims of the papers

{DO_NOT_EDIT}

One row per claim of the four papers, in our words. A row lists the models and corpora on which it was tried here,
the numbers, and whether it *held*, *did not hold* or *cannot be decided here*. Brackets and ± are 95% intervals:
by a jackknife over groups of documents for sums over positions, paired for differences; by a bootstrap over units
for fits. A verdict requires that the interval is on one side. A number without an interval decides by itself.

Rows with a rule are computed from [the reference table](reference-models.md) and [the sink study](sinks.md); the
others name the page that has the experiment. Numbers of decoders are without [sinks](sinks.md), if not stated
otherwise. These are few and small models on little text: a claim that did not hold here may hold for the models of
its paper.
"""


def page() -> str:
    """Return docs/claims.md."""
    lines = [HEAD, *_summarize()]
    for name, claims in PAPERS.items():
        lines += [f"## `{name}`", "", f"{TITLES[name]}.", "", "| section | claim | on | numbers | verdict |"]
        lines += ["| --- | --- | --- | --- | --- |"]
        lines += [f"| {' | '.join(_cells(claim))} |" for claim in claims]
        lines += [""]
    table = read_reference_table()
    date, version = (", ".join(sorted(set(table[name].astype(str)))) for name in ("date", "theodolite"))
    lines += [
        f"The reference table was measured on {date} with Theodolite {version}, by",
        "",
        "<!-- not run: it takes an hour, and renews this page -->",
        f"```sh\n{COMMAND}\npython -m manual.sinks build/reference-models\npython -m manual\n```\n",
    ]
    return "\n".join(lines)


def _summarize() -> list[str]:
    """Return how many claims of each paper have which verdict on all, or on some, of the models tried."""
    rows = []
    for name, claims in PAPERS.items():
        of = [{finding.verdict for finding in claim.find()} or {OPEN} for claim in claims]
        one = [sum(each == {verdict} for each in of) for verdict in (HELD, NOT, OPEN)]
        rows.append(f"| [`{name}`](#{name}) | {' | '.join(map(str, (len(of), *one, len(of) - sum(one))))} |")
    heads = "| paper | claims | held | did not hold | cannot be decided here | depends on model or corpus |"
    return [heads, "| --- | --- | --- | --- | --- | --- |", *rows, ""]


def _cells(claim: Claim) -> list[str]:
    findings = list(claim.find())
    rule = f" ({claim.rule})" if claim.rule else f" ([{claim.page.removesuffix('.md')}]({claim.page}))"
    if not findings:
        return [claim.section, f"{claim.claim}{rule}", "–", claim.missing, f"**{OPEN}**"]
    numbers = "<br>".join(f"{_on(finding)}: {finding.numbers}" for finding in findings)
    models = "<br>".join(
        f"`{name}`" if "," not in name and " " not in name else name for name in _models(findings)
    )
    return [claim.section, f"{claim.claim}{rule}", models, numbers, _verdicts(findings)]


def _on(finding: Finding) -> str:
    return f"{finding.model}, {finding.corpus.removesuffix('.txt')}"


def _models(findings: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(finding.model for finding in findings))


def _verdicts(findings: Sequence[Finding]) -> str:
    """Return one verdict if all agree, otherwise each with the models and corpora that it is about."""
    verdicts = [verdict for verdict in (HELD, NOT, OPEN) if any(one.verdict == verdict for one in findings)]
    if len(verdicts) == 1:
        return f"**{verdicts[0]}**"
    parts = []
    for verdict in verdicts:
        listed = [one for one in findings if one.verdict == verdict]
        by_model = [
            f"{model} ({', '.join(one.corpus.removesuffix('.txt') for one in of)})"
            for model, of in ((model, list(some)) for model, some in groupby(listed, key=lambda one: one.model))
        ]
        parts.append(f"**{verdict}**: {', '.join(by_model)}")
    return "<br>".join(parts)
