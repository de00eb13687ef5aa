"""docs/models.md names what the tests run, no more and no less, with the result that they assert."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import encoder_decoders, media_models
from tests.models.test_text_anatomy import FURTHER, built
from tests.models.test_text_anatomy import REFUSED as REFUSED_ALONE
from tests.small_models import FACTS

from theodolite.errors import InputError
from theodolite.models.text_anatomy import Anatomy

PAGE = Path(__file__).parents[1] / "docs/models.md"
SPELLED = {"bert": "Bert", "roberta": "Roberta", "gpt2": "GPT2", "llama": "Llama"}


def table_rows() -> dict[str, list[str]]:
    """Return the cells of each row by the class in the first."""
    rows = [
        line.strip("| \n").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")
    ]
    return {row[0]: row[1:] for row in rows if row[0] != "class"}


def test_the_page_lists_exactly_the_classes_that_are_run() -> None:
    supported = {*(SPELLED[family] for family in FACTS), *FURTHER, *encoder_decoders.SUPPORTED, "ByT5", "Canine"}
    supported |= {*media_models.VISION, *media_models.WAVES, "Whisper"}
    refused = {*REFUSED_ALONE, *encoder_decoders.REFUSED}
    rows = table_rows()
    assert {name for name, cells in rows.items() if cells[-1].startswith("SUPPORTED")} == supported
    assert {name for name, cells in rows.items() if cells[-1].startswith("rejected")} == refused
    assert rows.keys() == supported | refused


def test_norms_on_the_page_agree_with_the_tests() -> None:
    norm = {SPELLED[family]: facts.final_norm for family, facts in FACTS.items()}
    norm |= {name: ends for name, (_, ends) in FURTHER.items()}
    norm |= {name: ends for name, (_, ends) in encoder_decoders.SUPPORTED.items()}
    norm |= {name: "final norm" in kind.names for name, kind in media_models.VISION.items()}
    norm |= {name: ends for name, (_, _, ends) in media_models.WAVES.items()}
    rows = table_rows()
    assert {name: rows[name][-2].startswith("yes") for name in norm} == norm
    assert {name: rows[name][1] == "yes" for name in media_models.VISION} == {
        name: kind.first for name, kind in media_models.VISION.items()
    }


REFUSALS = sorted({*REFUSED_ALONE, *encoder_decoders.REFUSED})


@pytest.mark.parametrize("name", REFUSALS)
def test_error_messages_are_quoted(name: str) -> None:
    alone = name in REFUSED_ALONE
    model = built(name, REFUSED_ALONE[name][0]) if alone else encoder_decoders.build(name)
    with pytest.raises(InputError) as refusal:
        Anatomy.of(model)
    quoted = re.search('"(.*)"', table_rows()[name][-1])
    assert quoted is None or quoted[1] in str(refusal.value)
