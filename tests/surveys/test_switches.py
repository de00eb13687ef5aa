"""--wrap and --clean-words: recorded in the survey, compared by resume and merge, the same in a second pass."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.listeners import RecordingListener
from tests.small_models import sentences

from theodolite.errors import InputError
from theodolite.sources.text.units import clean_text
from theodolite.storage.file_names import FACTS
from theodolite.storage.files import read_tensors
from theodolite.studies.norm_variance.token_sets import make_token_sets
from theodolite.surveys.api import survey
from theodolite.surveys.folder import SEAL, _seal, open_survey
from theodolite.surveys.merge import merge
from theodolite.surveys.provenance import differences

TEXTS = sentences(40, longest=8)
END = "<|endoftext|>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def forget_switches(folder: Path) -> None:
    """Write survey.json as it was before these options existed."""
    facts = json.loads((folder / FACTS).read_text("utf-8"))
    for settings in (facts["settings"], facts["identity"]["settings"]):
        del settings["wrap"], settings["clean_words"]
    (folder / FACTS).write_text(json.dumps(facts | {SEAL: _seal(facts)}), "utf-8")


def test_a_wrapped_survey_counts_the_ends(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path
) -> None:
    folder = small_model("gpt2")
    made = survey(folder, corpus, out=tmp_path / "s", layers="2", wrap=True, sample_size=8)
    assert made.facts["settings"]["wrap"] is True
    assert made.facts["tokenizer"]["wrapped_in"] == [END, END]
    every = made.tokens[made.tokens["population"] == "all"].set_index("unit")["n"]
    assert every[END] == 2 * len(TEXTS)
    later = made.tokens[made.tokens["population"] == "without-first"].set_index("unit")["n"]
    assert later[END] == len(TEXTS)
    assert made.units.set_index("unit")["special"][END]
    with pytest.raises(InputError, match=r"--wrap: True there, False now"):
        survey(folder, corpus, out=tmp_path / "s", layers="2", resume=True, sample_size=8)
    sets = make_token_sets(tmp_path / "s", layer=2, units=["Ġthe", END], most=1000)  # raises if counts differ
    tensors, _ = read_tensors(tmp_path / "s" / "token_sets.safetensors")
    for number, row in sets.chosen.iterrows():
        x = tensors["vectors"][tensors["unit"] == number].double()
        assert float((x**2).sum(dim=1).mean()) == pytest.approx(row["q"], rel=1e-4)  # float32, other batches


def test_wrapping_has_no_effect_if_the_tokenizer_wraps_and_this_is_reported(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path
) -> None:
    recorder = RecordingListener()
    survey(small_model("bert"), corpus, out=tmp_path / "s", layers="1", sample_size=8)
    again = survey(
        small_model("bert"), corpus, out=tmp_path / "s", layers="1", sample_size=8, wrap=True, resume=True,
        listener=recorder,
    )  # fmt: skip
    assert again.facts["settings"]["wrap"] is False
    assert recorder.warned == [
        f"--wrap has no effect on {small_model('bert')}: its tokenizer already adds [CLS] and [SEP]"
    ]


def fold_case(word: str) -> str:
    """Return a word as an uncased BERT reads it: lower case, without accents."""
    spread = unicodedata.normalize("NFD", word.lower())
    return "".join(char for char in spread if unicodedata.category(char) != "Mn")


def test_cleaned_words_are_counted(small_model: Callable[[str], Path], corpus: Path, tmp_path: Path) -> None:
    made = survey(
        small_model("bert"), corpus, out=tmp_path / "s", layers="1", units="word", clean_words=True, sample_size=8
    )
    counts = made.tokens[made.tokens["population"] == "all"].set_index("unit")["n"]
    naive: dict[str, int] = {}
    for text in (clean_text(text).replace("東京", "東 京") for text in TEXTS):  # BERT reads these one by one
        for word in map(fold_case, text.split()):
            naive[word] = naive.get(word, 0) + 1
    for special in ("[CLS]", "[SEP]"):
        naive[special] = sum(bool(clean_text(text)) for text in TEXTS)
    assert counts.to_dict() == naive
    assert "," not in counts
    with pytest.raises(InputError, match=r"--clean-words: True there, False now"):
        survey(
            small_model("bert"), corpus, out=tmp_path / "s", layers="1", units="word", resume=True, sample_size=8
        )
    made_sets = make_token_sets(tmp_path / "s", layer=1, units=["the", "of"])  # raises if counts differ
    assert made_sets.chosen["n"].tolist() == [naive[unit] for unit in made_sets.chosen["unit"]]


def test_surveys_older_than_the_options_count_as_without(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path
) -> None:
    folder, options = small_model("gpt2"), {"layers": "1", "sample_size": 8}
    survey(folder, corpus, out=tmp_path / "old", **options)  # type: ignore[arg-type]
    forget_switches(tmp_path / "old")
    assert "wrap" not in open_survey(tmp_path / "old").facts["settings"]
    survey(folder, corpus, out=tmp_path / "old", resume=True, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"--wrap: False there, True now"):
        survey(folder, corpus, out=tmp_path / "old", resume=True, wrap=True, **options)  # type: ignore[arg-type]
    new = survey(folder, sentences(20, seed=5), **options)  # type: ignore[arg-type]
    assert len(merge([tmp_path / "old", new]).layers) == 4
    wrapped = survey(folder, sentences(20, seed=5), wrap=True, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"--wrap"):
        merge([tmp_path / "old", wrapped])
    make_token_sets(tmp_path / "old", units=["Ġthe", "Ġof"])
    assert differences({"settings": {}}, {"settings": {"wrap": False, "clean_words": False}}) == []


def test_a_missing_pilot_file_does_not_stop_a_run_with_its_own_copy(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path
) -> None:
    survey(small_model("bert"), corpus, out=tmp_path / "s", layers="1", sample_size=8)
    again = survey(
        small_model("bert"), corpus, out=tmp_path / "s", layers="1", sample_size=8, resume=True, pilot=tmp_path
    )
    assert again.facts["counts"]["shards"] == 1
