"""Options from Python: types of torch are accepted, and values of a wrong type are reported by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from theodolite.errors import InputError
from theodolite.surveys.options import RunOptions, SurveyOptions, check_options


def test_types_of_torch_are_accepted() -> None:
    assert SurveyOptions(dtype=torch.bfloat16).dtype == "bfloat16"  # type: ignore[arg-type]
    assert RunOptions(device=torch.device("cuda", 1)).device == "cuda:1"  # type: ignore[arg-type]
    assert RunOptions(device=0).device == "cuda:0"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dtype": torch.int8}, "--dtype 'int8' is not one of auto"),
        ({"attn": 5}, "--attn requires a string (got 5)."),
        ({"units": 5}, "--units requires a string or a list (got 5)."),
        ({"layers": 2}, "--layers requires a string or a list (got 2)."),
        ({"populations": 5}, "--populations requires a list (got 5)."),
        ({"populations": "all"}, "--populations requires a list of names (got 'all'); give ['all']."),
        ({"sample_size": 10.5}, "--sample-size requires an integer (got 10.5)."),
        ({"max_tokens": True}, "--max-tokens requires an integer (got True)."),
        ({"min_count": 2.5}, "--min-count requires an integer (got 2.5)."),
        ({"chat": "yes"}, "chat requires True or False (got 'yes')."),
        ({"sample": "half"}, "--sample requires a number (got 'half')."),
        ({"memory": 0.5}, "--memory requires an integer or a string (got 0.5)."),
    ],
    ids=str,
)
def test_values_of_a_wrong_type_are_rejected(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        check_options(SurveyOptions(**given))
    assert str(error.value).startswith(words)


def test_a_device_map_is_a_name_or_a_mapping() -> None:
    with pytest.raises(InputError, match=r"--device-map requires a string or a mapping \(got 5\)"):
        check_options(RunOptions(device_map=5))  # type: ignore[arg-type]
    check_options(RunOptions(device_map={"": 0}))
