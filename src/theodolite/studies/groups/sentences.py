"""Groups of sentences from a file, templates expanded, and nonsense sentences to compare them with."""

from __future__ import annotations

import csv
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.errors import InputError
from theodolite.sources.text.windows import repair_surrogates
from theodolite.text import encodable

CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
MAX_EXPANSIONS = 10_000
"""Sentences that one template may expand to."""
ENDINGS = ("json", "jsonl", "csv")
Groups = dict[str, list[str]]
FORMAT = 'expected {"group": ["sentence", ...], ...} or rows with "group" and "sentence"'
WORDS = tuple(  # common English words, the same for every model
    (
        "able across action after again air almost along animal answer apple arm autumn away baby back bag "
        "ball bank basket beach bear bed begin bell below bench better big bird black blue board boat body "
        "bone book both bottle bottom bowl box branch bread break bridge bright bring brother brown build "
        "burn bus busy button buy cake call camp candle card care carry castle catch chain chair chance cheap "
        "child choose church circle city clean clear climb clock cloud coat coffee cold colour come cook "
        "copper copy corn corner count country cover cow cup dance dark day deep desk dig dish dollar door "
        "down draw dream dress drink drive drop dry dust each early earth east easy edge egg eight empty "
        "enough evening every eye face fall family far farm fast father feather feed feel fence few field "
        "fight fill find finger fire fish five flag flat float floor flower fly fold food foot forest forget "
        "four fox free fresh friend front fruit full funny garden gate gentle gift give glass glove gold "
        "grain grass great green grey ground grow guess hair half hall hammer hand hang hard hat hay head "
        "hear heavy hill hold hole home honey hope horse hot hour hungry ice inside iron island jump keep "
        "kettle key kind kitchen knee knife know ladder lake lamp land large late laugh leaf learn leather "
        "leave left leg lemon letter light line lion listen little long loud low machine many map market meal "
        "measure melt metal middle milk mill mirror money moon morning mother mountain mouth move music nail "
        "narrow near neck needle nest never night noise north nose nothing number ocean often oil old onion "
        "open orange outside oven paint paper park part path pencil picture piece plain plant plate play "
        "pocket point poor potato pour press pretty pull purple push quarter queen quick quiet quite rabbit "
        "rain raise reach ready red rest rice ring river road roof room root rope rough round rule run sail "
        "salt sand scale school sea season second seed sell seven shadow shake shape sharp sheep shelf ship "
        "shirt shoe shop short shoulder show shut side silver simple sing sister six skin sky sleep slow "
        "small smell smoke smooth snow soap soft soil song sound soup south space spoon spring square stand "
        "star start steam step stick still stone stop storm story stove straight street strong sugar summer "
        "sweep sweet swim table tail take tall tea teach tent thick thin thing think thread three throw thumb "
        "ticket tiger time tooth top touch towel tower town train travel tree trip trouble true turn twelve "
        "twenty uncle under until upper use valley village visit voice wait walk wall warm wash watch water "
        "wave weather week west wet wheel whistle white wide wild win window winter wire wise wood wool word "
        "work world write yard year yellow young"
    ).split()
)
CHARACTERS, RANDOM_WORDS = "random characters", "random words"
CONTROLS = (CHARACTERS, RANDOM_WORDS)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def read_groups(file: str | Path) -> Groups:
    """Return the sentences of each group, templates not yet expanded."""
    path = Path(file)
    ending = path.suffix.lower().removeprefix(".")
    if ending not in ENDINGS:
        raise InputError(f"FILE {path}: the file name must end in one of {', '.join(ENDINGS)}.")
    if not path.is_file():
        raise InputError(f"FILE {path} does not exist.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"FILE {path} is not UTF-8: {error.reason} at byte {error.start}.") from None
    rows = {"json": _json, "jsonl": _json_lines, "csv": _csv}[ending](path, text)
    groups: Groups = {}
    for group, sentence in rows:
        groups.setdefault(group, []).append(sentence)
    return groups


def expand_groups(groups: Mapping[str, Iterable[str]]) -> tuple[Groups, int]:
    """Return groups with their templates expanded, and the number of duplicate sentences that were dropped.

    Characters that cannot be encoded in UTF-8 are replaced in sentences and in names of groups.
    """
    expanded: Groups = {}
    dropped = 0
    for group, templates in groups.items():
        if isinstance(templates, str):
            raise InputError(f"Group {group!r} must be a list of sentences (got one text).")
        sentences = [
            repair_surrogates(sentence).strip() for template in templates for sentence in expand_template(template)
        ]
        if not sentences or not all(sentences):
            raise InputError(f"Group {group!r} has {'an empty sentence' if sentences else 'no sentences'}.")
        name = encodable(group)
        expanded[name] = list(dict.fromkeys(sentences))
        dropped += len(sentences) - len(expanded[name])
    return expanded, dropped


def expand_template(template: str) -> list[str]:
    """Return every sentence that a template expands to, the last choice changing fastest.

    Braces without a bar are plain text. A choice may be empty.

    >>> expand_template("A {cat|dog} {ran|sat}.")
    ['A cat ran.', 'A cat sat.', 'A dog ran.', 'A dog sat.']
    """
    parts = CHOICE.split(template)
    texts, choices = parts[::2], [part.split("|") for part in parts[1::2]]
    for text in texts:
        if "|" in text and ("{" in text or "}" in text):
            raise InputError(
                f"The template {template!r} has unmatched or nested braces; write choices as {{one|another}}."
            )
    count = prod(map(len, choices))
    if count > MAX_EXPANSIONS:
        raise InputError(
            f"The template {template!r} expands to {count:,} sentences; at most {MAX_EXPANSIONS:,} are allowed."
        )
    return ["".join(_interleave(texts, chosen)) for chosen in product(*choices)]


def _interleave(texts: list[str], chosen: tuple[str, ...]) -> list[str]:
    return [piece for pair in zip(texts, (*chosen, ""), strict=True) for piece in pair]


def _json(path: Path, text: str) -> Iterator[tuple[str, str]]:
    value = _parse_json(path, text, 1)
    if isinstance(value, dict):
        for group, sentences in value.items():
            if not isinstance(sentences, list):
                raise InputError(f"FILE {path}: group {group!r} is not a list; {FORMAT}.")
            if not sentences:
                raise InputError(f"FILE {path}: group {group!r} is empty; add sentences or remove the group.")
            for sentence in sentences:
                yield _row(path, {"group": group, "sentence": sentence}, f"group {group!r}")
    elif isinstance(value, list):
        for number, row in enumerate(value, 1):
            yield _row(path, row, f"row {number}")
    else:
        raise InputError(f"FILE {path} contains neither an object nor a list; {FORMAT}.")


def _json_lines(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _row(path, _parse_json(path, line, number), f"line {number}")


def _csv(path: Path, text: str) -> Iterator[tuple[str, str]]:
    rows = csv.DictReader(text.splitlines(keepends=True))
    missing = [name for name in ("group", "sentence") if name not in (rows.fieldnames or [])]
    if missing:
        raise InputError(
            f"FILE {path} has no column {missing[0]!r}; the first line must name the columns group and sentence."
        )
    for number, row in enumerate(rows, 2):
        yield _row(path, row, f"row {number}")


def _parse_json(path: Path, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        at = getattr(error, "lineno", 1) + line - 1
        raise InputError(
            f"FILE {path} is not valid JSON (line {at}: {getattr(error, 'msg', error)}); {FORMAT}."
        ) from None


def _row(path: Path, row: Any, where: str) -> tuple[str, str]:
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("group", "sentence")):
        raise InputError(f"FILE {path}, {where}: {FORMAT}. Groups and sentences must be strings.")
    return row["group"], row["sentence"]


def make_nonsense(sentences: Sequence[str], kind: str, count: int, seed: int) -> list[str]:
    """Return nonsense sentences of a kind, each made from one of the sentences chosen at random.

    `random characters` replaces letters and digits by random letters. `random words` replaces each word by a
    common English word. Spaces, punctuation and initial capitals are kept.

    >>> make_nonsense(["Hello there, you!"], "random characters", 1, seed=0)
    ['Wqnhi bbaev, qxn!']
    >>> make_nonsense(["Hello there, you!"], "random words", 1, seed=0)
    ['Metal towel, yard!']
    """
    rng = np.random.default_rng([seed, CONTROLS.index(kind)])
    chosen = [sentences[int(number)] for number in rng.integers(len(sentences), size=count)]
    return [_WORD.sub(lambda match: _replace_word(match[0], kind, rng), sentence) for sentence in chosen]


def _replace_word(word: str, kind: str, rng: np.random.Generator) -> str:
    if kind == CHARACTERS:
        new = "".join(string.ascii_lowercase[int(number)] for number in rng.integers(26, size=len(word)))
    else:
        new = WORDS[int(rng.integers(len(WORDS)))]
    return new.capitalize() if word[:1].isupper() else new
