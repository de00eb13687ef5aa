"""Real stores: a LanceDB folder, Qdrant's local mode, FAISS indexes and a PostgreSQL server."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stores.reading.stored import DIM, ROWS, make_ids, make_vectors, read_all

from theodolite.errors import InputError, TheodoliteError
from theodolite.stores.reading import open_store
from theodolite.stores.reading.postgres import hide_password, split_source

faiss = pytest.importorskip("faiss")


def write_index(index: Any, folder: Path, ids: Any = None) -> Path:
    vectors = make_vectors()
    index.train(vectors)
    index.add(vectors) if ids is None else index.add_with_ids(vectors, ids)
    faiss.write_index(index, str(folder / "a.faiss"))
    return folder / "a.faiss"


@pytest.mark.parametrize("kind", ["Flat", "HNSW8", "IVF4,Flat", "L2norm,IVF4,Flat", "IVF4,Flat,RFlat"])
def test_exact_indexes_give_their_vectors(kind: str, tmp_path: Path) -> None:
    reader = open_store(write_index(faiss.index_factory(DIM, kind), tmp_path))
    expected = make_vectors()
    if kind.startswith("L2norm"):
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors, ids = read_all(reader, 130)
    np.testing.assert_allclose(vectors, expected[130:], rtol=1e-6)
    assert ids == list(range(130, ROWS))
    assert reader.metric == "euclidean"


@pytest.mark.parametrize("kind", ["IDMap,Flat", "IDMap2,Flat", "IDMap,IVF4,Flat", "IVF4,Flat"])
def test_ids_of_an_index_are_kept(kind: str, tmp_path: Path) -> None:
    given = np.random.default_rng(1).permutation(10 * ROWS)[:ROWS]
    index = faiss.index_factory(DIM, kind, faiss.METRIC_INNER_PRODUCT)
    reader = open_store(write_index(index, tmp_path, given))
    vectors, ids = read_all(reader)
    assert sorted(ids) == sorted(given.tolist())
    by_id = dict(zip(given.tolist(), make_vectors(), strict=True))
    np.testing.assert_array_equal(vectors, [by_id[i] for i in ids])
    assert (reader.metric, reader.notes) == ("dot", [])


def test_approximate_indexes_say_so(tmp_path: Path) -> None:
    reader = open_store(write_index(faiss.index_factory(DIM, "SQ8"), tmp_path))
    assert reader.notes[0].startswith("The index (IndexScalarQuantizer) does not hold the vectors themselves")
    np.testing.assert_allclose(read_all(reader)[0], make_vectors(), atol=0.03)  # 256 steps over about 7


def test_indexes_that_cannot_give_vectors_back_are_rejected(tmp_path: Path) -> None:
    path = write_index(faiss.index_factory(DIM, "IVF4,PQ4x4fs"), tmp_path)
    with pytest.raises(InputError, match=r"an index of type IndexIVFPQFastScan .* cannot give its vectors back"):
        open_store(path)
    path = write_index(faiss.index_factory(DIM, "ITQ8,LSH"), tmp_path)
    with pytest.raises(InputError, match=r"cannot give its vectors back: reverse transform not implemented"):
        open_store(path)
    path.write_bytes(b"no index")
    with pytest.raises(InputError, match=r"it is no index that FAISS reads"):
        open_store(path)


def test_bits_of_a_binary_index_are_signs(tmp_path: Path) -> None:
    signs = make_vectors(40, 64) > 0
    index = faiss.IndexBinaryFlat(64)
    index.add(np.packbits(signs, axis=1))
    faiss.write_index_binary(index, str(tmp_path / "a.index"))
    reader = open_store(tmp_path / "a.index")
    assert reader.dim == 64
    np.testing.assert_array_equal(read_all(reader, 7)[0], np.where(signs, 1, -1)[7:])


@pytest.fixture
def lance(tmp_path: Path) -> Any:
    lancedb = pytest.importorskip("lancedb")
    pytest.importorskip("lance")
    rows = [
        {"id": name, "vector": vector.tolist(), "text": name.upper()}
        for name, vector in zip(make_ids(), make_vectors(), strict=True)
    ]
    return lancedb.connect(tmp_path / "db").create_table("docs", rows)


def test_a_table_of_lancedb(lance: Any, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    for source in (folder, f"{folder}#docs", folder / "docs.lance"):
        reader = open_store(source, text_column="text")
        vectors, ids = read_all(reader, 130)
        np.testing.assert_array_equal(vectors, make_vectors()[130:])
        assert ids == make_ids()[130:]
        assert next(reader.blocks(130)).columns["text"][0] == "DOC-130"
    with pytest.raises(InputError, match=r"the folder has the tables docs \(got 'dogs'\); give FOLDER#TABLE"):
        open_store(f"{folder}#dogs")


def test_a_table_of_lancedb_is_read_at_one_version(lance: Any, tmp_path: Path) -> None:
    reader = open_store(tmp_path / "db")
    blocks = reader.blocks(rows=100)
    next(blocks)
    lance.delete("id = 'doc-7' OR id = 'doc-499'")
    assert sum(map(len, blocks)) == ROWS - 100
    assert reader.notes == []
    later = open_store(tmp_path / "db")
    assert later.count == ROWS - 2
    assert later.digest != reader.digest
    assert "doc-7" not in read_all(later)[1]


def test_lancedb_states_the_metric_of_its_index(lance: Any, tmp_path: Path) -> None:
    import lance as library

    assert open_store(tmp_path / "db").metric is None
    data = library.dataset(str(tmp_path / "db/docs.lance"))
    data.create_index("vector", "IVF_FLAT", metric="cosine", num_partitions=1)
    assert open_store(tmp_path / "db").metric == "cosine"


def test_collections_of_qdrant(tmp_path: Path) -> None:
    qdrant = pytest.importorskip("qdrant_client")
    models = qdrant.models
    client = qdrant.QdrantClient(path=str(tmp_path / "q"))
    euclid = models.VectorParams(size=DIM, distance=models.Distance.EUCLID)
    client.create_collection("plain", vectors_config=euclid)
    named = {"title": euclid, "body": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    client.create_collection("named", vectors_config=named)
    points = enumerate(make_vectors().tolist())
    client.upsert("plain", [models.PointStruct(id=i, vector=v, payload={"kind": i % 3}) for i, v in points])
    some = [
        models.PointStruct(id=1, vector={"body": [3.0, 4.0]}),
        models.PointStruct(id=2, vector={"title": [0.0] * 8}),
    ]
    client.upsert("named", some)
    client.close()

    reader = open_store(f"qdrant:{tmp_path / 'q'}#plain", label_column="kind")
    assert (reader.count, reader.metric) == (ROWS, "euclidean")
    vectors, ids = read_all(reader, 130)
    np.testing.assert_array_equal(vectors, make_vectors()[130:])
    assert ids == list(range(130, ROWS))
    assert next(reader.blocks(130)).columns["label"].tolist()[:3] == [1, 2, 0]
    with pytest.raises(
        InputError, match=r"has several columns of vectors: title .*, body .*Choose one with --column"
    ):
        open_store(f"qdrant:{tmp_path / 'q'}#named")
    body = open_store(f"qdrant:{tmp_path / 'q'}#named", column="body")
    vectors, _ = read_all(body)
    np.testing.assert_allclose(vectors[0] / np.linalg.norm(vectors[0]), [0.6, 0.8], rtol=1e-6)
    assert np.isnan(vectors[1]).all()
    assert body.metric == "cosine"
    assert "1 of 2 rows have no vector or only NaN." in body.notes
    with pytest.raises(InputError, match=r"has the collections named, plain \(got none\)"):
        open_store(f"qdrant:{tmp_path / 'q'}")
    with pytest.raises(InputError, match=r"this is a folder of Qdrant; give qdrant:"):
        open_store(tmp_path / "q")
    with pytest.raises(InputError, match=r"is no folder of Qdrant's local mode"):
        open_store(f"qdrant:{tmp_path / 'none'}#plain")
    assert not (tmp_path / "none").exists()


def test_a_collection_that_grows_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    qdrant = pytest.importorskip("qdrant_client")
    models = qdrant.models
    client = qdrant.QdrantClient(path=str(tmp_path / "q"))
    client.create_collection("a", vectors_config=models.VectorParams(size=DIM, distance=models.Distance.DOT))
    client.upsert("a", [models.PointStruct(id=i, vector=v) for i, v in enumerate(make_vectors().tolist())])
    client.close()
    reader = open_store(f"qdrant:{tmp_path / 'q'}#a")
    blocks = reader.blocks(rows=100)
    next(blocks)
    reader.table._client.upsert("a", [models.PointStruct(id=ROWS, vector=[1.0] * DIM)])  # type: ignore[attr-defined]
    list(blocks)
    assert "changed while it was read (500 rows when it was opened, 501 read)" in reader.notes[0]


def test_addresses_of_postgresql() -> None:
    assert split_source("postgresql://h/db#s.t.c") == ("postgresql://h/db", ["s", "t", "c"])
    for wrong in (
        "postgresql://h/db",
        "postgresql://h/db#",
        "postgresql://h/db#a..b",
        "postgresql://h/db#a.b.c.d",
    ):
        with pytest.raises(InputError, match=r"the table is missing; give postgresql://USER@HOST/DATABASE#TABLE"):
            split_source(wrong)
    assert hide_password("postgresql://h/db?user=me&password=x%20y#t.c") == "postgresql://h/db?user=me#t.c"
    with pytest.raises(TheodoliteError) as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/db#t.c")
    assert "server cannot be reached" in str(caught.value)
    assert "secret" not in str(caught.value)


def find_postgres() -> Path | None:
    """Return the folder of the programs of a PostgreSQL server, if there is one."""
    found = [
        Path(path)
        for path in (shutil.which("initdb"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")))
        if path
    ]
    return found[0].parent if found else None


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server that listens on a socket in a folder, and return the address of its database."""
    programs = find_postgres()
    pytest.importorskip("psycopg")
    if programs is None:
        pytest.skip("requires the programs of a PostgreSQL server")
    user = {"user": "postgres"} if os.geteuid() == 0 else {}  # the server refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has at most 107 bytes
    if user:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    run = {"check": True, "capture_output": True, "cwd": folder, **user}
    subprocess.run([programs / "initdb", "-D", data, "-U", "me", "--auth=trust", "--no-sync"], **run)
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    subprocess.run([programs / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start"], **run)
    try:
        yield f"postgresql://me@/postgres?host={folder}"
    finally:
        subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **run)
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["real[]", "vector(8)", "halfvec(8)"])
def test_a_table_of_postgresql(postgres: str, kind: str) -> None:
    import psycopg

    vectors = make_vectors()
    with psycopg.connect(postgres, autocommit=True) as connection:
        if kind != "real[]":
            if not connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchall():
                pytest.skip("requires the extension pgvector")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute('DROP TABLE IF EXISTS "Docs"')
        connection.execute(f'CREATE TABLE "Docs" (id text, rank int PRIMARY KEY, "the vector" {kind}, made date)')
        marks = ("{", "}") if kind == "real[]" else ("[", "]")
        with connection.cursor() as cursor:
            values = [(name, row, marks[0] + ",".join(map(repr, v.tolist())) + marks[1])
                      for row, (name, v) in enumerate(zip(make_ids(), vectors, strict=True))]  # fmt: skip
            cursor.executemany(f'INSERT INTO "Docs" VALUES (%s, %s, %s::{kind}, NULL)', reversed(values))
        if kind == "vector(8)":
            connection.execute('CREATE INDEX ON "Docs" USING hnsw ("the vector" vector_cosine_ops)')
        reader = open_store(f"{postgres}#Docs.the vector", time_column="made")
        assert (reader.count, reader.dim) == (ROWS, DIM)
        assert reader.metric == ("cosine" if kind == "vector(8)" else None)
        blocks = reader.blocks(rows=100)
        next(blocks)
        connection.execute("""DELETE FROM "Docs" WHERE rank > 450""")  # invisible in the snapshot
        list(blocks)
        assert reader.notes == []
        read, ids = read_all(reader, 130)
        expected = vectors.astype(np.float16) if kind == "halfvec(8)" else vectors
        np.testing.assert_array_equal(read, expected[130:])
        assert read.dtype == expected.dtype
        assert ids == make_ids()[130:]
        assert next(reader.blocks()).columns["time"][0] is None
        later = open_store(f"{postgres}#public.Docs")
        assert (later.count, later.vectors) == (451, "the vector")
        assert later.digest != reader.digest
        with pytest.raises(InputError, match=r"the database has no table 'dogs'"):
            open_store(f"{postgres}#dogs.v")
