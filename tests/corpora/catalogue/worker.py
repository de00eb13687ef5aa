"""Run as a separate process: obtain an entry slowly, with each unpacking recorded in a log.

Arguments: the entry as JSON, the log's path, seconds to linger half way through unpacking.
"""

import json
import sys
import time
from pathlib import Path

from theodolite.corpora.catalogue import lookup
from theodolite.corpora.catalogue.cache import Facts
from theodolite.corpora.catalogue.corpus_unpacking import unpack_texts
from theodolite.corpora.catalogue.entries import CorpusEntry


def main(entry: str, log: str, linger: str) -> None:
    def slowly(archive: Path, member: str, made: Path) -> Facts:
        (made / "documents.jsonl").write_text("half")
        with Path(log).open("a") as lines:
            lines.write("unpacking\n")
        time.sleep(float(linger))
        return unpack_texts(archive, member, made)

    lookup.UNPACK["texts"] = slowly
    print(lookup.get_entry_folder(CorpusEntry(**json.loads(entry))))


if __name__ == "__main__":
    main(*sys.argv[1:])
