"""Sound: folders of .wav and .flac files as corpora of clips, read as mono at the rate that a model wants."""

from theodolite.sources.audio.clips import Clip, read_clip
from theodolite.sources.audio.corpus import AudioOptions, open_audio, scan_audio

__all__ = ["AudioOptions", "Clip", "open_audio", "read_clip", "scan_audio"]
