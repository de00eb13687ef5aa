"""Audio that cannot be used is named with the reason; with skip_bad it is skipped and counted."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.corpora.media.sounds import tone, wav

from theodolite.corpora.audio_corpus import AudioOptions, open_audio, scan_audio
from theodolite.corpora.media_corpus import BadFileError
from theodolite.errors import InputError


def cut_short(path: Path) -> Path:
    whole = wav(path, tone(1, 8_000), 8_000).read_bytes()
    path.write_bytes(whole[:-1_000])
    return path


def spoiled(path: Path) -> Path:
    values = tone(1, 8_000)
    values[5_000] = np.nan
    return wav(path, values, 8_000, "f32")


def mu_law(path: Path) -> Path:
    raw = bytearray(wav(path, tone(1, 8_000), 8_000, "u8").read_bytes())
    at = raw.index(b"fmt ") + 8
    raw[at : at + 2] = (7).to_bytes(2, "little")
    path.write_bytes(raw)
    return path


def half_a_flac(path: Path) -> Path:
    path = path.with_suffix(".flac")
    soundfile.write(path, tone(3, 8_000), 8_000)
    path.write_bytes(path.read_bytes()[:8_000])
    return path


def ogg_named_flac(path: Path) -> Path:
    path = path.with_suffix(".flac")
    soundfile.write(path, tone(3, 8_000), 8_000, format="OGG")
    return path


def flac_named_wav(path: Path) -> Path:
    soundfile.write(path, tone(3, 8_000), 8_000, format="FLAC")
    return path


def written(content: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return write


BAD: list[tuple[Callable[[Path], Path], str]] = [
    (lambda path: wav(path, np.zeros(8_000), 8_000), "is silent: all samples are equal"),
    (lambda path: wav(path, np.full(8_000, 0.25), 8_000), "is silent: all samples are equal"),
    (lambda path: wav(path, np.outer(tone(1, 8_000), [1, -1]), 8_000, "f32"), "is silent"),  # channels cancel
    (lambda path: wav(path, tone(0.05, 8_000), 8_000), "is too short: 0.05 s; expected at least 0.1 s"),
    (lambda path: wav(path, np.zeros(0), 8_000), "is too short: 0 s"),
    (
        lambda path: wav(path, tone(0.001, 1_092_676), 1_092_676),
        "has a rate of 1,092,676 samples per second",
    ),
    (lambda path: wav(path, tone(300, 8), 8), "has a rate of 8 samples per second; expected 2,000 to 768,000"),
    (cut_short, "does not decode (it is truncated: it has 15,000 of 16,000 bytes of samples)"),
    (spoiled, "has samples that are not finite"),
    (mu_law, "does not decode (its samples are ULAW; convert it to 16-bit PCM)"),
    (written(b""), "does not decode (Format not recognised)"),
    (written(b"RIFF\0\0\0\0WAVE"), "does not decode (Error in WAV file. No 'data' chunk marker)"),
    (
        written(b"RIFF\0\0\0\0WAVEdata\x04\0\0\0abcd"),
        "does not decode (Error in WAV file. No 'data' chunk marker)",
    ),
    (
        written(b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0ab"),
        "does not decode (Error in WAV/W64/RF64 file. Short 'fmt ' chunk)",
    ),
    (half_a_flac, "does not decode"),
    (ogg_named_flac, "does not decode (it is OGG, not FLAC)"),
    (flac_named_wav, "does not decode (it is FLAC, not WAV)"),
]


@pytest.mark.parametrize(("make", "words"), BAD, ids=range(len(BAD)))
def test_bad_audio_files_are_named(tmp_path: Path, make: Callable[[Path], Path], words: str) -> None:
    path = make(tmp_path / "b.wav")
    with pytest.raises(BadFileError) as caught:
        scan_audio(open_audio(tmp_path))
    assert f"'{path.name}' {words}" in str(caught.value)
    assert "--skip-bad" in str(caught.value)
    assert caught.value.exit_code == 2

    wav(tmp_path / "a.wav", tone(1, 8_000), 8_000)
    found = scan_audio(open_audio(tmp_path, AudioOptions(skip_bad=True)))
    assert (found.documents, found.read, len(found.pieces)) == (1, 2, 1)
    ((name, reason),) = found.skipped
    assert name == path.name
    assert reason.startswith(words)


def test_only_bad_files_is_an_error_even_if_skipped(tmp_path: Path) -> None:
    for number in range(7):
        wav(tmp_path / f"{number}.wav", np.zeros(8_000), 8_000)
    with pytest.raises(InputError, match=r"none can be used: .* 7 cannot be used \('0.wav' .* and 2 more\)"):
        scan_audio(open_audio(tmp_path, AudioOptions(skip_bad=True)))


def test_a_file_deleted_after_the_scan_is_named(tmp_path: Path) -> None:
    from theodolite.corpora.audio_corpus import read_clip

    path = wav(tmp_path / "a.wav", tone(1, 8_000), 8_000)
    ((_, clip),) = scan_audio(open_audio(tmp_path)).pieces
    path.unlink()
    with pytest.raises(InputError, match=r"'a\.wav' cannot be read \(No such file"):
        read_clip(clip, 8_000)


def test_contradictory_bounds_are_rejected() -> None:
    with pytest.raises(
        InputError, match="--min-seconds 20 and --max-seconds 30: expected a minimum of at least 0 and a maximum"
    ):
        AudioOptions(min_seconds=20)
    with pytest.raises(InputError, match="--sample requires a fraction"):
        AudioOptions(sample=2.0)
