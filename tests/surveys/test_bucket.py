"""A survey in object storage: the numbers of a folder bit for bit, whoever dies at which upload."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import torch
from tests.object_store import s3
from tests.small_models import sentences
from typer.testing import CliRunner

import theodolite
from theodolite.cli.app import app
from theodolite.engines.progress import Listener
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.state import checkpoints
from theodolite.state.checkpoints import MANIFEST, BucketRotation
from theodolite.storage import download, lock
from theodolite.storage.bucket import Bucket
from theodolite.storage.files import read_tensors
from theodolite.storage.location import parse_location
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.api import survey
from theodolite.surveys.folder import open_survey

pytestmark = pytest.mark.usefixtures("one_thread")

DOCUMENTS = sentences(24, seed=31)
SHARD_CHARS = 700
SETTINGS: dict[str, Any] = {"batch_tokens": 256, "checkpoint_every": 0.0, "layers": "0,2", "sample_size": 64}
SELDOM = SETTINGS | {"checkpoint_every": 3600.0}
TENSORS = ("state.safetensors", "sample.safetensors", "pilot.safetensors")


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with s3() as address:
        yield address


@pytest.fixture
def out(store: str) -> Bucket:
    """A folder in the bucket that nobody has used."""
    return Bucket(f"{store}/{uuid4().hex}/survey")


@pytest.fixture
def quick() -> Bucket:
    """The same in fsspec's store in memory, which answers at once."""
    return Bucket(f"memory://{uuid4().hex}/survey")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many small shards and a checkpoint after every batch; a lock expires soon."""
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", SHARD_CHARS)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    monkeypatch.setattr(lock, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(lock, "STALE_SECONDS", 0.3)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.01)


@pytest.fixture(scope="module")
def model(small_model: Any) -> Path:
    return Path(small_model("bert"))


@pytest.fixture(scope="module")
def on_disk(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the same survey leaves in a folder."""
    folder = tmp_path_factory.mktemp("disk") / "survey"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_surveys, "SHARD_CHARS", SHARD_CHARS)
        survey(model, DOCUMENTS, out=folder, **SETTINGS)
    return folder


@pytest.fixture(scope="module")
def made(model: Path, store: str) -> Bucket:
    """The same, in the bucket."""
    place = Bucket(f"{store}/finished/survey")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_surveys, "SHARD_CHARS", SHARD_CHARS)
        survey(model, DOCUMENTS, out=str(place), **SETTINGS)
    return place


class RecordingListener(Listener):
    """Keeps the messages, and stops the run after a number of batches."""

    def __init__(self, batches: int = 10**6) -> None:
        self.left, self.said = batches, list[str]()

    def stop(self) -> bool:
        self.left -= 1
        return self.left < 0

    def say(self, text: str) -> None:
        self.said.append(text)

    warn = say


def assert_equal(out: Bucket, folder: Path) -> None:
    """Compare the files in the bucket with those in the folder, bit for bit, and their names."""
    for name in TENSORS:
        mine, about = read_tensors(out / name)
        theirs, about_theirs = read_tensors(folder / name)
        assert about == about_theirs
        assert mine.keys() == theirs.keys()
        assert [key for key in mine if not torch.equal(mine[key], theirs[key])] == []
    left, right = open_survey(out), open_survey(folder)
    for table in ("layers", "tokens", "units", "coordinates"):
        assert getattr(left, table).equals(getattr(right, table))
    assert left.facts["identity"] == right.facts["identity"]
    assert left.facts["counts"] == right.facts["counts"]
    assert out.below() == sorted(path.name for path in folder.iterdir())


class KilledError(BaseException):
    """Ends a run as a kill would: no code of ours catches it."""


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the run die before its n-th upload from now on, with its lock left behind."""
    put, unlink = Bucket.put, Bucket.unlink

    def after(uploads: int) -> None:
        left = uploads

        def fatal(self: Bucket, file: Path) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError
            put(self, file)

        def kept(self: Bucket, missing_ok: bool = False) -> None:
            if not (left < 0 and self.name == lock.LOCK):
                unlink(self, missing_ok)

        monkeypatch.setattr(Bucket, "put", fatal)
        monkeypatch.setattr(Bucket, "unlink", kept)

    return after


class TestEqual:
    def test_undisturbed(self, made: Bucket, on_disk: Path) -> None:
        assert_equal(made, on_disk)

    @pytest.mark.slow
    def test_stopped_and_resumed(self, model: Path, out: Bucket, on_disk: Path) -> None:
        with pytest.raises(TheodoliteError, match=r"Interrupted after [0-9,]+ positions, all saved\. .* --resume"):
            survey(model, DOCUMENTS, out=str(out), listener=RecordingListener(6), **SETTINGS)
        names = {path.name for path in out.iterdir()}
        assert names == {"unfinished.json", "pilot.safetensors", "checkpoints"}
        assert len(BucketRotation(out / "checkpoints").names()) <= 3  # the last is not followed by a tidying
        with pytest.raises(
            InputError, match=r"contains an unfinished survey\. Run its command again with --resume"
        ):
            theodolite.open(str(out))
        with pytest.raises(
            InputError, match=r"an unfinished survey\. .* use --resume to continue it or --overwrite"
        ):
            survey(model, DOCUMENTS, out=str(out), **SETTINGS)
        listener = RecordingListener()
        survey(model, DOCUMENTS, out=str(out), resume=True, listener=listener, **SETTINGS)
        assert any(line.startswith("resuming after") for line in listener.said)
        assert_equal(out, on_disk)

    @pytest.mark.slow
    def test_killed_before_every_kind_of_upload(
        self, model: Path, quick: Bucket, on_disk: Path, dying: Callable[[int], None]
    ) -> None:
        out = quick
        # unfinished, pilot, then sample, state and manifest of each checkpoint; at the end all, survey.json last.
        for uploads in (0, 1, 4, 3, 5, 9, 2):
            dying(uploads)
            with pytest.raises(KilledError):
                survey(model, DOCUMENTS, out=str(out), resume=True, **SETTINGS)
            with pytest.raises(InputError, match=r"no folder|no survey|unfinished survey"):
                open_survey(out)
        dying(10**6)
        listener = RecordingListener()
        survey(model, DOCUMENTS, out=str(out), resume=True, listener=listener, **SETTINGS)
        assert any(line.startswith("resuming after") for line in listener.said)
        assert_equal(out, on_disk)  # and nothing half uploaded stays

    @pytest.mark.slow
    def test_killed_while_the_survey_is_written(
        self, model: Path, quick: Bucket, on_disk: Path, dying: Callable[[int], None]
    ) -> None:
        out = quick
        for uploads in (3, 2, 7):  # after two and one small files: a resumed run writes its pilot again
            dying(uploads)
            with pytest.raises(KilledError):
                survey(model, DOCUMENTS, out=str(out), resume=True, **SELDOM)
            assert not (out / "survey.json").is_file()
        dying(10**6)
        survey(model, DOCUMENTS, out=str(out), resume=True, **SELDOM)
        assert_equal(out, on_disk)

    def test_a_damaged_checkpoint_falls_back(self, model: Path, quick: Bucket, on_disk: Path) -> None:
        out = quick
        with pytest.raises(TheodoliteError, match="Interrupted"):
            survey(model, DOCUMENTS, out=str(out), listener=RecordingListener(6), **SETTINGS)
        newest = Bucket(BucketRotation(out / "checkpoints").names()[0]) / "sample.safetensors"
        newest._store.pipe_file(newest._key, newest.read_bytes()[:-1] + b"?")
        listener = RecordingListener()
        survey(model, DOCUMENTS, out=str(out), resume=True, listener=listener, **SETTINGS)
        assert sum("Using the checkpoint before it." in line for line in listener.said) == 1
        assert_equal(out, on_disk)


class TestFinished:
    def test_resuming_a_finished_survey_does_nothing(self, model: Path, made: Bucket) -> None:
        listener = RecordingListener()
        found = survey(model, DOCUMENTS, out=str(made), resume=True, listener=listener, **SETTINGS)
        assert f"{made} already contains this survey: nothing to do" in listener.said
        assert found.layers.equals(open_survey(made).layers)

    def test_show_fetches_no_more_than_it_shows(self, made: Bucket) -> None:
        download.delete_local_copy(made)
        shown = CliRunner().invoke(app, ["show", str(made), "--json"])
        assert shown.exit_code == 0, shown.output
        assert len(json.loads(shown.output)) == len(open_survey(made).layers)
        download.delete_local_copy(made)
        CliRunner().invoke(app, ["show", str(made)])
        assert {path.name for path in download.local_copy(made).iterdir()} == {"survey.json", "layers.parquet"}

    def test_report(self, made: Bucket, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        done = CliRunner().invoke(app, ["report", str(made), "--out", str(page)])
        assert done.exit_code == 0, done.output
        assert page.stat().st_size > 10_000

    def test_a_changed_survey_is_fetched_again(self, model: Path, quick: Bucket) -> None:
        out = quick
        first = survey(model, DOCUMENTS[:12], out=str(out), **SETTINGS)
        assert open_survey(out).facts["counts"] == first.facts["counts"]
        with pytest.raises(InputError, match=r"already contains a survey\. .* use --overwrite to replace it"):
            survey(model, DOCUMENTS, out=str(out), **SETTINGS)
        stale = download._copies.pop(out.url)  # as another process would have it
        second = survey(model, DOCUMENTS, out=str(out), overwrite=True, **SETTINGS)
        download.delete_local_copy(out)
        download._copies[out.url] = stale
        assert open_survey(out).layers.equals(second.layers)

    def test_damage_is_reported(self, made: Bucket, out: Bucket) -> None:
        for name in made.below():
            (made / name).copy(out / name)
        (out / "layers.parquet").write_text("nothing")
        with pytest.raises(DamagedError, match=r"layers.parquet is damaged"):
            open_survey(out)

    @pytest.mark.slow
    def test_parts_merge_within_the_bucket(self, model: Path, made: Bucket, out: Bucket) -> None:
        halves = [out.parent / f"part{i}" for i in range(2)]
        for i, half in enumerate(halves):
            pilot = str(made)  # in a bucket too
            survey(model, DOCUMENTS, out=str(half), part=f"{i}/2", pilot=pilot, **SELDOM)
        done = CliRunner().invoke(app, ["merge", *map(str, halves), "--out", str(out), "--json", "--quiet"])
        assert done.exit_code == 0, done.output
        merged, whole = open_survey(out), open_survey(made)
        assert merged.facts["counts"]["positions"] == whole.facts["counts"]["positions"]
        assert (out / "report.html").is_file()

    def test_verbs_that_write_beside_a_survey_require_a_disk(self, made: Bucket) -> None:
        for verb in ("sets", "batches"):
            done = CliRunner().invoke(app, [verb, str(made)])
            assert isinstance(done.exception, InputError)
            assert "writes to disk only. Give a local path" in str(done.exception)


def test_the_command(model: Path, out: Bucket, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(DOCUMENTS), encoding="utf-8")
    command = ["survey", str(model), "--corpus", str(corpus), "--out", str(out), "--layers", "0"]
    done = CliRunner().invoke(app, [*command, "--quiet"])
    assert done.exit_code == 0, done.output
    assert f"survey: {out}\nreport: {out}/report.html" in done.output
    assert (out / "report.html").is_file()
    assert not list(Path.cwd().glob("s3:*"))


def test_surveys_of_vectors(out: Bucket) -> None:
    made = theodolite.measure(torch.randn(50, 4).numpy(), out=str(out))
    assert theodolite.open(str(out)).layers.equals(made.layers)


class TestRefused:
    @pytest.mark.parametrize(
        ("address", "words"),
        [
            ("gs://bucket/survey", "requires a package that is not installed: pip install gcsfs"),
            (
                "s4://bucket/survey",
                r"s4:// is not a known kind of storage. .* s3://BUCKET/FOLDER",
            ),
            ("s3://bucket", "s3://bucket is a bucket. Give a folder in it, such as s3://bucket/survey"),
            (
                "s3://no-such-bucket/survey",
                "s3://no-such-bucket/survey/.* cannot be written: the bucket does not exist",
            ),
        ],
    )
    def test_rejected_before_the_model_is_loaded(self, store: str, address: str, words: str) -> None:
        with pytest.raises(TheodoliteError, match=words):
            survey("no such model", DOCUMENTS, out=address)

    @pytest.fixture
    def clients(self, store: str) -> Iterator[Any]:
        """The class of clients, with an empty instance cache before and after."""
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        yield s3fs.S3FileSystem
        s3fs.S3FileSystem.clear_instance_cache()

    @pytest.mark.usefixtures("clients")
    def test_without_credentials(self, out: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
        with pytest.raises(TheodoliteError, match=r"no credentials were found in the usual places"):
            survey("no such model", DOCUMENTS, out=str(out))

    def test_without_permission(self, out: Bucket, clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        async def forbidden(self: Any, *given: Any, **more: Any) -> None:
            raise PermissionError("Access Denied")

        monkeypatch.setattr(clients, "_pipe_file", forbidden)
        with pytest.raises(TheodoliteError, match=r"cannot be written: permission denied \(Access Denied\)"):
            survey("no such model", DOCUMENTS, out=str(out))

    def test_an_unreachable_store_is_not_an_empty_one(
        self, model: Path, out: Bucket, on_disk: Path, clients: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """fsspec's isfile returns False for every error; a resumed run would start again and delete the saves."""
        with pytest.raises(TheodoliteError, match="Interrupted"):
            survey(model, DOCUMENTS, out=str(out), listener=RecordingListener(6), **SELDOM)

        async def cut_off(self: Any, *given: Any, **more: Any) -> None:
            raise ConnectionError("the network is down")

        with monkeypatch.context() as patch:
            patch.setattr(clients, "_info", cut_off)
            clients.clear_instance_cache()
            assert not clients().isfile("surveys/anything")
            with pytest.raises(TheodoliteError, match="cannot be reached: ConnectionError: the network is down"):
                survey(model, DOCUMENTS, out=str(out), resume=True, **SELDOM)
        clients.clear_instance_cache()
        listener = RecordingListener()
        survey(model, DOCUMENTS, out=str(out), resume=True, listener=listener, **SELDOM)
        assert any(line.startswith("resuming after") for line in listener.said)
        assert_equal(out, on_disk)

    def test_foreign_objects_are_not_changed(self, out: Bucket) -> None:
        (out / "thesis.tex").touch()
        with pytest.raises(InputError, match=r"contains files that are not part of a survey \(thesis.tex\)"):
            survey("no such model", DOCUMENTS, out=str(out), overwrite=True)


class TestLease:
    def test_two_at_once(self, out: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lock, "STALE_SECONDS", 600.0)  # on a busy machine a renewal may come late
        with (
            lock.hold_lease(out, lambda text: None),
            pytest.raises(InputError, match=r"another run is writing there \(.*process \d+"),
            lock.hold_lease(out, lambda text: None),
        ):
            pass
        assert out.below() == []  # given back

    def test_the_lease_of_a_killed_run_is_taken_over(self, out: Bucket) -> None:
        (out / lock.LOCK).write_text(lock._lease_text("a machine that burnt"))
        said: list[str] = []
        with lock.hold_lease(out, said.append):
            assert "a machine that burnt" not in (out / lock.LOCK).read_text()
        assert "to see whether a machine that burnt is still writing there" in said[0]

    def test_of_several_simultaneous_takeovers_one_succeeds(
        self, out: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (out / lock.LOCK).write_text(lock._lease_text("a machine that burnt"))
        entered, is_stale = list[int](), lock._is_stale
        found, written, decided = (threading.Barrier(3, timeout=600) for _ in range(3))

        def all_find_it(*given: Any) -> bool:
            stale = is_stale(*given)
            found.wait()
            return stale

        def settle(seconds: float) -> None:
            if seconds == lock.SETTLE_SECONDS:
                written.wait()
            else:
                time.sleep(seconds)

        # However busy the machine is: all find the lease stale before one writes, and all write before one looks.
        monkeypatch.setattr(lock, "_is_stale", all_find_it)
        monkeypatch.setattr(lock, "time", SimpleNamespace(monotonic=time.monotonic, sleep=settle))

        def enter(number: int) -> None:
            try:
                with lock.hold_lease(out, lambda text: None):
                    entered.append(number)
                    decided.wait()
            except InputError:
                decided.wait()

        threads = [threading.Thread(target=enter, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(entered) == 1

    def test_a_lost_lease_is_reported(self, out: Bucket) -> None:
        said: list[str] = []
        with lock.hold_lease(out, said.append):
            until = time.monotonic() + 600
            while not said and time.monotonic() < until:
                (out / lock.LOCK).write_text(lock._lease_text("another"))  # again if a renewal was in between
                time.sleep(0.2)
        assert "another run took over and writes there too" in said[0]
        assert "another" in (out / lock.LOCK).read_text()  # and is not deleted


class TestPlaced:
    def test_what_is_an_address(self) -> None:
        assert parse_location("folder/s3") == Path("folder/s3")
        assert parse_location(Path("s3://bucket/a/b")) == Bucket(
            "s3://bucket/a/b"
        )  # of whose slashes a Path keeps one
        assert parse_location("S3://bucket/a/b/") == Bucket("s3://bucket/a/b")
        assert (
            parse_location("file:///somewhere/a")
            == parse_location(Path("file:///somewhere/a"))
            == Path("/somewhere/a")
        )
        assert parse_location("C:/windows") == Path("C:/windows")

    def test_a_folder_is_not_confused_with_one_with_the_same_prefix(self, out: Bucket) -> None:
        for name in ("work/a", "workers/b", "workers/c/d"):
            (out / name).touch()
        assert (out / "work").below() == ["a"]
        (out / "work").rmtree()
        assert out.below() == ["workers/b", "workers/c/d"]
        assert [path.name for path in out.iterdir()] == ["workers"]
        assert (out / "workers").is_dir()
        assert not (out / "workers").is_file()
        assert not (out / "work").is_dir()


def test_an_upload_without_its_manifest_does_not_count(out: Bucket, tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "state").write_text("sums")
        (folder / MANIFEST).write_text('{"state": ""}')

    rotation = BucketRotation(out)
    rotation.keep(write)
    (whole,) = rotation.names()
    (out / "000002-half" / "state").touch()
    assert rotation.names() == [whole]
    for _ in range(3):
        rotation.keep(write)
    rotation.tidy()
    assert len(rotation.names()) == 2
    assert len(out.below()) == 4  # two files each, and what was half uploaded is gone
