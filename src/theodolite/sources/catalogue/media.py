"""Copy the sound or picture files of a corpus out of its packages, a sub-folder for each package."""

import shutil
import unicodedata
from fnmatch import fnmatchcase
from pathlib import Path

from theodolite.errors import DamagedError
from theodolite.sources.catalogue.archive import each_member
from theodolite.sources.catalogue.cache import Facts

FILES = "files"


def unpack_files(archive: Path, member: str, made: Path) -> Facts:
    """Copy each file that fits one of the patterns in `member` (separated by spaces) under its own bare name.

    The sub-folder is the package's name, which thereby is the files' label. Letters beyond ASCII lose their marks:
    systems disagree about how to store them, and names are part of a corpus's sha256.
    """
    folder = made / FILES / archive.name.partition("-")[0]
    folder.mkdir(parents=True, exist_ok=True)
    wanted = dict.fromkeys(member.split(), 0)
    for name, stream in each_member(archive, "*"):
        for pattern in wanted:
            if fnmatchcase(name, pattern):
                wanted[pattern] += 1
                with (folder / _plain(name.rpartition("/")[2])).open("xb") as sink:
                    shutil.copyfileobj(stream, sink, 1 << 20)
                break
    missing = [pattern for pattern, copied in wanted.items() if not copied]
    if missing:
        raise DamagedError(
            f"{archive.name} has no member {' nor '.join(missing)}; its other members were not used."
        )
    return {"documents": sum(1 for path in (made / FILES).rglob("*") if path.is_file())}


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
