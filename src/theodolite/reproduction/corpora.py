"""What each model of a reproduction reads: text, recordings or pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from theodolite.errors import InputError
from theodolite.sources.modality import Modality, modality
from theodolite.sources.text.checkpoint import resolve
from theodolite.surveys.listener import Listener

OPTIONS = {"text": "--corpus", "speech": "--audio", "vision": "--images", "convolution": "--images"}


@dataclass(frozen=True)
class Corpora:
    """What was given for each kind of model; None where nothing was."""

    text: str | None = None
    audio: str | None = None
    images: str | None = None
    own: dict[str, str] = field(default_factory=dict)  # by model, where one reads something of its own

    def __str__(self) -> str:
        given = (self.text, self.audio, self.images, *self.own.values())
        return ", ".join(dict.fromkeys(each for each in given if each is not None))

    def reads(self, models: Sequence[str], listener: Listener) -> dict[str, tuple[str, Modality]]:
        """Return what each model reads and what kind it is; refuse one that nothing was given for at once."""
        if not str(self):
            raise InputError("Nothing to read: give --corpus for text, --audio for speech, --images for vision.")
        found: dict[str, tuple[str, Modality]] = {}
        for model in models:
            kind = self._kind(model, listener)
            corpus = self.own.get(model, {"text": self.text, "speech": self.audio}.get(kind, self.images))
            if corpus is None:
                raise InputError(
                    f"{model} is a model of {kind}: give what it reads with {OPTIONS[kind]}, or as "
                    f"--model {model}=CORPUS."
                )
            found[model] = corpus, kind
        return found

    def _kind(self, model: str, listener: Listener) -> Modality:
        if self.audio is None and self.images is None and not self.own:  # nothing to tell apart
            return "text"
        return modality(resolve(model, progress=listener.say).folder, model)


def split(models: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the models' names, and what those read that name it: MODEL=CORPUS.

    >>> split(["minilm-l6", "whisper-tiny-en=speech"])
    (['minilm-l6', 'whisper-tiny-en'], {'whisper-tiny-en': 'speech'})
    """
    names, own = [], {}
    for each in models:
        model, equals, corpus = each.partition("=")
        names.append(model)
        if equals:
            own[model] = corpus
    return names, own
