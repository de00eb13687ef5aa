"""theodolite reproduce, on two small models: everything is drawn, surveys are reused, errors are one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from tests.synthetic_surveys import make_layer_survey

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, MemoryLimitError, TheodoliteError
from theodolite.exhibits.drawing.style import RC
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.needs import WORDS
from theodolite.exhibits.registry import all_exhibits, find
from theodolite.reproduction import drawing, plan, surveys
from theodolite.reproduction import reproduce as module
from theodolite.reproduction.plan import drop_repeated, plan_editions, plan_surveys
from theodolite.storage.files import write_json
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

PAPER = "norm-variance"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    from tests.small_models import make

    root = tmp_path_factory.mktemp("models")
    return [make("bert", root / "b & <b>"), make("llama", root / "llama")]


def reproduce(out: Path, models: list[Path], corpus: Path, exhibits: dict[str, Exhibit]) -> module.Reproduction:
    """Draw exhibits as PNG only and one of them beyond the paper; the command below writes all formats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "all_exhibits", lambda: exhibits)
        patch.setattr(drawing, "ENDINGS", {"figure": ("png",), "table": ("png", "md")})
        patch.setitem(RC, "savefig.dpi", 40)
        patch.setattr(plan, "BY_POPULATION", ("norm-variance/fig6",))
        patch.setattr(plan, "UNBIASED", ("norm-variance/fig6",))
        options = {"limit": 30, "layers": "0,-1"}
        return module.reproduce(PAPER, [str(model) for model in models], str(corpus), out, options=options)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, models: list[Path], corpus: Path) -> module.Reproduction:
    """Exhibits of each kind: with and without a choice, of words, a table."""
    kept = [f"{PAPER}/{id_}" for id_ in ("fig4", "fig6", "fig9", "fig22", "table1")]
    exhibits = {name: found for name, found in all_exhibits().items() if name in kept}
    return reproduce(tmp_path_factory.mktemp("made") / "out", models, corpus, exhibits)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a figure, a table, and a table of the surveys by words, all quick: what is tested is the rest."""
    kept = {name: all_exhibits()[name] for name in (f"{PAPER}/fig9", f"{PAPER}/table1")}
    table1 = kept[f"{PAPER}/table1"].make
    words = Exhibit(f"{PAPER}/words", "By words", "table", lambda *given: table1(*given), (WORDS,), reads=())
    monkeypatch.setattr(module, "all_exhibits", lambda: kept | {words.name: words})


def arguments(made: module.Reproduction, *more: object) -> list[object]:
    each = [part for task in made.tasks[:2] for part in ("--model", task.model)]
    return ["reproduce", PAPER, *each, "--corpus", made.corpus, "--out", made.out, "--layers", "0,-1", *more]


def _written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_every_exhibit_is_drawn(tmp_path, models, corpus):
    made = reproduce(tmp_path / "out", models, corpus, all_exhibits())
    assert [(one.edition.stem, one.note) for one in made.results if not (one.drawn or one.same_as)] == []
    expected = [found for found in all_exhibits().values() if found.paper == PAPER]
    assert {one.edition.exhibit.make for one in made.results} == {found.make for found in expected}
    for one in (each for each in made.results if each.drawn):
        assert {"png", "csv"} <= set(one.files)
        assert (made.out / one.files["png"]).read_bytes().startswith(b"\x89PNG")
        assert all((made.out / path).stat().st_size > 0 for path in one.files.values())


@pytest.mark.slow
def test_figures_show_both_models_and_the_choice(made):
    table = pd.read_csv(made.out / "figures" / "fig4.csv")
    assert table["survey"].nunique() == 2
    default = pd.read_csv(made.out / "figures" / "fig6.csv")
    assert set(default["population"]) == {"without-sinks"}  # one of the models is causal
    other = next(one for one in made.results if one.edition.stem == "fig6-without-first")
    assert other.same_as == "fig6"  # the first positions have special units, which sums leave out
    by_word = pd.read_csv(made.out / "figures" / "fig22.csv")
    assert by_word["survey"].nunique() == 2


def test_the_index_lists_all_and_is_escaped(made):
    page = made.index.read_text("utf-8")
    for one in made.results:
        assert f'id="{one.edition.stem}"' in page
    assert "<b>b & <b>" not in page
    assert "b &amp; &lt;b&gt;" in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    links = re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert len(links) > 2 * len(made.results)
    assert all((made.out / link.replace("%20", " ")).is_file() for link in links)


@pytest.mark.slow
def test_the_json_index_equals_the_page(made):
    as_json = json.loads((made.out / "index.json").read_text("utf-8"))
    assert as_json == made.to_dict()
    assert [survey["units"] for survey in as_json["surveys"]] == ["surface", "surface", "word", "word"]
    assert all((row["state"] == "drawn") != bool(row["same_as"]) for row in as_json["exhibits"])


def test_an_edition_with_the_numbers_of_another_is_reported_and_not_drawn(tmp_path, monkeypatch):
    survey = make_layer_survey("bert", populations=("all", "without-first"))
    layers = survey.layers
    every = layers[layers["population"] == "all"].assign(population="without-massive")
    populations = ["all", "without-first", "without-massive"]
    equal = SurveyData(survey.facts | {"populations": populations}, {"layers": pd.concat([layers, every])})
    writer = drawing.ExhibitWriter([], tmp_path, endings={"figure": ("png",)})
    monkeypatch.setattr(writer, "_surveys", lambda found: ([equal], ""))
    found = find("anisotropy-inherent/fig1")
    editions = [plan.Edition(found, Choice(one), "" if one == "all" else one) for one in populations]
    editions.append(
        plan.Edition(found, Choice(depth="normalised"), "by-depth")
    )  # the same numbers on another axis
    results = [writer.draw(edition) for edition in editions]
    assert [result.drawn for result in results] == [True, True, False, True]
    assert [result.same_as for result in results] == ["", "", "fig1", ""]
    assert results[2].note == "Its numbers are those of fig1."
    made = module.Reproduction("anisotropy-inherent", "notes.txt", tmp_path, [], results)
    made.write()
    page = made.index.read_text("utf-8")
    assert "3 exhibits drawn, 1 with the numbers of another" in page
    assert "Its numbers are those of fig1." in page
    assert [row["same_as"] for row in made.to_dict()["exhibits"]] == ["", "", "fig1", ""]


def test_surveys_with_the_same_settings_are_reused(made, few, theodolite):
    before = _written(made.out / "surveys")
    ran = theodolite(*arguments(made, "--limit", 30))
    assert ran.code == 0
    assert re.sub(r"\s+", " ", ran.err).count("already contains this survey: nothing to do") == 2
    assert "positions" not in ran.err
    assert {
        path: path.stat().st_mtime_ns for path in (made.out / "surveys").rglob("*") if path.is_file()
    } == before
    assert ran.out.splitlines()[-1] == f"index: {made.index}"
    figures = made.out / "figures"
    assert all((figures / name).is_file() for name in ("fig9.svg", "fig9.csv", "words.md", "words.png"))


@pytest.mark.slow
def test_other_settings_are_rejected_with_the_folder_and_a_fix(made, few, theodolite):
    page = made.index.read_bytes()
    ran = theodolite(*arguments(made, "--limit", 20, "--quiet"))
    assert (ran.code, ran.out) == (2, "")
    assert f"{made.tasks[0].folder} holds a survey of {made.tasks[0].model} with other settings:" in ran.err
    assert "corpus.sha256" in ran.err
    assert "give another --out, or delete that folder" in ran.err
    assert "--resume" not in ran.err
    assert made.index.read_bytes() == page


def test_a_failing_exhibit_does_not_affect_others(made, few, theodolite, monkeypatch):
    def broken(surveys, choice):
        raise ZeroDivisionError("a <b> too many")

    whole = module.all_exhibits()
    bad = Exhibit(f"{PAPER}/broken", "Broken & so on", "figure", broken, reads=())
    monkeypatch.setattr(module, "all_exhibits", lambda: {bad.name: bad} | whole)
    ran = theodolite(*arguments(made, "--limit", 30, "--json", "--quiet"))
    assert ran.code == 1
    assert f"1 of 4 exhibits failed (broken); the reasons are in {made.index}." in ran.err
    states = {row["name"]: row["state"] for row in json.loads(ran.out)["exhibits"]}
    assert states.pop(bad.name) == "failed"
    assert set(states.values()) == {"drawn"}
    page = made.index.read_text("utf-8")
    assert "Drawing it failed (ZeroDivisionError: a &lt;b&gt; too many)." in page
    assert "Broken &amp; so on" in page


def test_an_unknown_paper_and_a_folder_in_use_are_rejected(models, corpus, theodolite, tmp_path):
    (tmp_path / "surveys" / "llama").mkdir(parents=True)
    (tmp_path / "surveys" / "llama" / "notes.txt").write_text("mine")
    common = ["--model", models[1], "--corpus", corpus, "--out", tmp_path]
    ran = theodolite("reproduce", "norm-varience", *common)
    assert (ran.code, "Did you mean 'norm-variance'?" in ran.err) == (2, True)
    ran = theodolite("reproduce", PAPER, *common)
    assert (ran.code, "holds notes.txt and no survey" in ran.err) == (2, True)
    ran = theodolite("reproduce", PAPER, *common, "--model", models[1])
    assert (ran.code, "is given more than once" in ran.err) == (2, True)


def test_options_are_passed_to_the_surveys_that_use_them(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(surveys, "survey", lambda model, corpus, **options: given.append(options))
    monkeypatch.setattr(surveys, "_write_report", lambda task: None)
    for units in ("surface", "word"):
        task = plan.Task("bert", units, tmp_path / units)
        surveys.ensure_survey(task, {"wrap": True, "clean_words": True}, Listener())
        surveys.ensure_survey(task, {}, Listener())
    assert [options["clean_words"] for options in given] == [False, False, True, False]
    assert [options.get("wrap") for options in given] == [True, None, True, None]


@pytest.mark.parametrize(
    ("paper", "given", "expected"),
    [
        (PAPER, None, {"surface": True, "word": True}),  # one pass makes both
        (PAPER, False, {"surface": False, "word": False}),
        (PAPER, True, {"surface": True, "word": True}),
        ("dynamics", None, {"id": False}),
    ],
)
def test_contextuality_is_surveyed_if_the_paper_uses_it(monkeypatch, tmp_path, paper, given, expected):
    asked = {}

    def ensure(task, options, listener, other_units=()):
        asked.update(dict.fromkeys((task.units, *other_units), options["contextuality"]))

    monkeypatch.setattr(surveys, "ensure_survey", ensure)
    monkeypatch.setattr(surveys, "_write_report", lambda task: None)
    monkeypatch.setattr(module, "run_second_passes", lambda *given: None)
    monkeypatch.setattr(module, "ExhibitWriter", lambda *given: given)
    listener = Listener()
    monkeypatch.setattr(listener, "stop", lambda: True)  # nothing is drawn
    with pytest.raises(TheodoliteError, match="Interrupted"):
        module.reproduce(paper, ["bert"], "t.txt", tmp_path, options={"contextuality": given}, listener=listener)
    assert asked == expected


def test_one_pass_makes_the_survey_by_word_unless_it_cannot(monkeypatch, tmp_path):
    asked, tasks = [], plan_surveys(["bert"], tmp_path, "surface", [find("norm-variance/fig22")])
    monkeypatch.setattr(surveys, "_write_report", lambda task: None)

    def survey(model, corpus, *, units, out, **options):
        asked.append((units, out.name))
        if options.get("memory") and len(units) > 1:
            raise MemoryLimitError("Too large.")

    def folders(**options):
        asked.clear()
        found = surveys.ensure_surveys(tasks, lambda task: options, Listener())
        assert [task.units for task in found] == ["surface", "word"]
        return [task.folder.relative_to(tmp_path / "surveys").as_posix() for task in found]

    monkeypatch.setattr(surveys, "survey", survey)
    assert folders() == ["bert", "bert/units/word"]
    assert asked == [(["surface", "word"], "bert")]
    separate = [(["surface"], "bert"), (["word"], "bert-word")]
    assert folders(clean_words=True) == ["bert", "bert-word"]  # the model reads another text
    assert asked == separate
    assert folders(memory=1) == ["bert", "bert-word"]
    assert asked == [(["surface", "word"], "bert"), *separate]
    (tmp_path / "surveys" / "bert-word").mkdir(parents=True)
    write_json(tmp_path / "surveys" / "bert-word" / "unfinished.json", {"settings": {"units": "word"}})
    assert folders() == ["bert", "bert-word"]  # made by an older version
    assert asked == separate


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            "--resume: the run in x has other settings; give them, or another --out:\n"
            "  --contextuality: False there, True now",
            "Give the settings of that survey (--no-contextuality),",
        ),
        (
            "--resume: the run in x has other settings; give them, or another --out:\n"
            "  --units: 'id' there, 'word' now",
            "Give the settings of that survey, give another --out",
        ),
        (
            "Too large; survey fewer, or allow more with --memory.",
            "fewer, or give --no-contextuality, which halves",
        ),
    ],
)
def test_errors_caused_by_contextuality_name_the_option(monkeypatch, tmp_path, error, words):
    def fail(*given, **options):
        raise InputError(error)

    monkeypatch.setattr(surveys, "survey", fail)
    with pytest.raises(InputError) as raised:
        surveys.ensure_survey(plan.Task("m", "id", tmp_path / "m"), {"contextuality": True}, Listener())
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("massive", "populations", "expected"),
    [
        (3, ["all", "without-massive"], "without-massive"),
        (0, ["all", "without-massive"], "all"),
        (3, ["all", "without-first"], "all"),
    ],
)
def test_sets_exclude_massive_positions_if_there_are_any(monkeypatch, tmp_path, massive, populations, expected):
    layers = pd.DataFrame({"layer": [0, 1, 2], "population": "all", "massive": [9, massive, 9]})
    facts = {"model": {"name": "m", "blocks": 2}, "populations": populations}
    facts["layers"] = [{"index": index, "name": f"block {index}"} for index in range(3)]
    asked = []
    monkeypatch.setattr(
        surveys, "read_survey_data", lambda folder, tables: SurveyData(facts, {"layers": layers}, folder)
    )
    monkeypatch.setattr(surveys, "make_token_sets", lambda folder, **options: asked.append(options["population"]))
    surveys.ensure_token_sets(plan.Task("m", "surface", tmp_path, "texts.txt"), Listener())
    assert asked == [expected]


def test_the_plan_names_a_folder_for_every_survey(tmp_path):
    exhibits = [found for found in all_exhibits().values() if found.paper == PAPER]
    planned = plan_surveys(["a/bert", "b/bert", "bert-word"], tmp_path, "id", exhibits)
    assert len({task.folder for task in planned}) == len(planned) == 6
    assert [task.units for task in planned] == 3 * ["id"] + 3 * ["word"]
    assert planned[0].folder == tmp_path / "surveys" / "bert"
    assert len(plan_surveys(["bert"], tmp_path, "word", exhibits)) == 1
    assert len(plan_surveys(["bert"], tmp_path, "id", [])) == 1
    with pytest.raises(InputError, match="--model is missing"):
        plan_surveys([], tmp_path, "id", exhibits)


def test_a_figure_that_the_paper_repeats_is_drawn_once():
    names = [found.id for found in drop_repeated(all_exhibits().values()) if found.paper == PAPER]
    assert {"fig11", "fig14"} <= set(names)
    assert not {"fig12", "fig13", "fig15", "fig16"} & set(names)
    stems = [edition.stem for edition in plan_editions(PAPER, all_exhibits().values())]
    assert len(stems) == len(set(stems))
    assert {"fig4-without-massive", "fig17-unbiased"} <= set(stems)
