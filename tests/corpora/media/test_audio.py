"""Sound files are read as the samples that were written, at the requested rate, in bounded memory."""

import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from scipy.signal import resample_poly
from scipy.stats import linregress
from tests.corpora.media.sounds import Values, tone, wav

from theodolite.corpora.audio_corpus import AudioOptions, Clip, cut_frames, open_audio, read_clip, scan_audio
from theodolite.corpora.audio_files import open_sound

# Half a step of the coarsest quantisation written, and float32's own rounding.
STEP = {"u8": 1 / 256, "i16": 2**-16, "i24": 2**-24 + 1e-7, "i32": 1e-7, "f32": 1e-7, "f64": 1e-7}


def clips(what: Path, **options: float) -> list[Clip]:
    return [clip for _, clip in scan_audio(open_audio(what, AudioOptions(**options))).pieces]  # type: ignore[arg-type]


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize("form", list(STEP))
def test_every_wav_encoding(tmp_path: Path, form: str, extensible: bool) -> None:
    values = tone(0.3, 16_000)
    path = wav(tmp_path / "a.wav", values, 16_000, form, extensible=extensible)
    (clip,) = clips(path)
    assert (clip.rate, clip.seconds) == (16_000, 0.3)
    read = read_clip(clip, 16_000)
    assert read.dtype == np.float32
    assert np.abs(read - values).max() <= STEP[form]


def decode_by_definition(values: Values, form: str) -> NDArray[np.float32]:
    """Return what `wav` wrote as float32: integers over 2^(bits - 1), rounded once; floats rounded to float32."""
    if form == "u8":
        return ((np.round(values * 128 + 128).clip(0, 255) - 128) / 128).astype(np.float32)
    if form[0] == "f":
        return values.astype(f"<f{int(form[1:]) // 8}").astype(np.float32)
    scale = 2.0 ** (int(form[1:]) - 1)
    return (np.round(values * scale).clip(-scale, scale - 1) / scale).astype(np.float32)


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize("form", list(STEP))
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_samples_are_equal_bit_for_bit(tmp_path: Path, form: str, extensible: bool, channels: int) -> None:
    values = np.random.default_rng(7).uniform(-1, 1, (5_000, channels))
    values[0], values[1] = -1, 1
    path = wav(tmp_path / "a.wav", values, 16_000, form, extensible=extensible)
    expected = decode_by_definition(values, form).mean(axis=1, dtype=np.float32)
    with open_sound(path, "a.wav") as sound:
        assert (sound.frames, sound.rate) == (5_000, 16_000)
        for start, stop in ((0, 5_000), (17, 2_000), (4_990, 5_000)):
            assert sound.read(start, stop).tobytes() == expected[start:stop].tobytes()


def test_channels_are_averaged(tmp_path: Path) -> None:
    left, right = tone(0.2, 8_000), tone(0.2, 8_000, 300)
    (clip,) = clips(wav(tmp_path / "a.wav", np.stack([left, right], 1), 8_000))
    assert np.abs(read_clip(clip, 8_000) - (left + right) / 2).max() <= 2**-16


def test_flac_equals_wav(tmp_path: Path) -> None:
    values = np.round(np.stack([tone(7, 22_050), tone(7, 22_050, 97)], 1) * 2**15) / 2**15
    wav(tmp_path / "a.wav", values, 22_050)
    soundfile.write(tmp_path / "b.flac", values, 22_050, subtype="PCM_16")
    ours, theirs = clips(tmp_path / "a.wav", max_seconds=2), clips(tmp_path / "b.flac", max_seconds=2)
    assert len(ours) == len(theirs) == 4
    for one, other in zip(ours, theirs, strict=True):
        assert (one.start, one.stop) == (other.start, other.stop)
        assert np.array_equal(read_clip(one, 16_000), read_clip(other, 16_000))


@pytest.mark.parametrize(("rate", "target_rate"), [(44_100, 16_000), (8_000, 16_000), (48_000, 16_000)])
def test_resampled_clips_equal_the_resampled_recording(tmp_path: Path, rate: int, target_rate: int) -> None:
    values = tone(3.3, rate)
    path = wav(tmp_path / "a.wav", values, rate, "f32")
    whole = resample_poly(values, *(number // np.gcd(rate, target_rate) for number in (target_rate, rate)))
    cuts = clips(path, max_seconds=0.5)
    assert len(cuts) == 7
    joined = np.concatenate([read_clip(clip, target_rate) for clip in cuts])
    assert len(joined) == len(whole) == -(-len(values) * target_rate // rate)
    # float32 of values below 1, whose rounding on writing the filter at most doubles
    assert np.abs(joined - whole).max() < 3e-7
    # Each clip resampled by itself, as one is tempted to, hears silence beyond its seams.
    alone = [resample_poly(values[clip.start : clip.stop], target_rate, rate) for clip in cuts]
    first = len(alone[0])
    assert np.abs(alone[0][-5:] - whole[first - 5 : first]).max() > 1e-3


def test_a_rate_with_little_in_common_keeps_pitch_and_length(tmp_path: Path) -> None:
    (clip,) = clips(wav(tmp_path / "a.wav", tone(1, 44_101), 44_101, "f32"))
    read = read_clip(clip, 16_000).astype(np.float64)
    expected = tone(1, 16_000)
    assert len(read) == 16_000
    # away from the ends, where the filter hears silence; the filter's ripple in the pass band is below 1%
    fit = linregress(expected[200:-200], read[200:-200])
    assert fit.rvalue > 0.99999
    assert abs(fit.slope - 1) < 0.01


@pytest.mark.parametrize(("frames", "most"), [(0, 5), (1, 5), (5, 5), (6, 5), (31, 30), (10**7, 480_000)])
def test_clips_cover_the_recording_and_are_few_and_equal(frames: int, most: int) -> None:
    bounds = cut_frames(frames, most)
    assert [bounds[0][0], bounds[-1][1]] == [0, frames]
    assert all(one[1] == other[0] for one, other in pairwise(bounds))
    lengths = [stop - start for start, stop in bounds]
    assert max(lengths) <= most
    assert max(lengths) - min(lengths) <= 1
    assert len(bounds) == max(1, -(-frames // most))


def test_a_long_recording_is_never_completely_in_memory(tmp_path: Path) -> None:
    # Three hours at 8 kHz: 173 MB of samples. A little noise, then a hole in the file, which reads as zeros.
    path = wav(tmp_path / "long.wav", tone(10, 8_000), 8_000)
    frames = 3 * 3600 * 8_000
    head = path.read_bytes()
    at = head.index(b"data") + 4
    with path.open("r+b") as file:
        file.seek(at)
        file.write((frames * 2).to_bytes(4, "little"))
        file.truncate(at + 4 + frames * 2)
    tracemalloc.start()
    cuts = clips(path)
    longest = max(len(read_clip(clip, 16_000)) for clip in (cuts[0], cuts[100], cuts[-1]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(cuts) == 360
    assert longest == 30 * 16_000
    # a block of the check is 2^20 samples of 4 bytes, with the raw ones and a copy beside it
    assert peak < 30 * 2**20


def test_a_stream_without_its_length_is_read(tmp_path: Path) -> None:
    values: Values = tone(0.2, 16_000)
    path = wav(tmp_path / "a.wav", values, 16_000)
    raw = path.read_bytes()
    at = raw.index(b"data") + 4
    path.write_bytes(raw[:at] + b"\xff" * 4 + raw[at + 4 :])
    (clip,) = clips(path)
    assert clip.seconds == 0.2


def test_recorded_speech_is_read() -> None:
    folder = Path(__file__).parents[4] / "shared/data/audio"
    if not folder.is_dir():
        pytest.skip("no clips beside the checkout")
    found = scan_audio(open_audio(folder))
    assert (found.documents, found.sorts) == (5, {"16000 Hz": 5})
    assert 24 < found.size < 26
    for _, clip in found.pieces:
        with open_sound(clip.path, clip.name) as sound:
            assert sound.frames == clip.stop
        assert 0.01 < read_clip(clip, 16_000).std() < 0.2
