"""What each model of a reproduction reads: text, recordings or pictures."""

from __future__ import annotations

from dataclasses import dataclass

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

    def __str__(self) -> str:
        return ", ".join(each for each in (self.text, self.audio, self.images) if each is not None)

    def kinds(self, models: list[str], listener: Listener) -> dict[str, Modality]:
        """Return what kind each model is, and refuse one that nothing was given for, before any is surveyed."""
        if not str(self):
            raise InputError("Nothing to read: give --corpus for text, --audio for speech, --images for vision.")
        if self.audio is None and self.images is None:  # nothing to tell apart
            return dict.fromkeys(models, "text")
        found: dict[str, Modality] = {}
        for model in models:
            checkpoint = resolve(model, progress=listener.say)
            found[model] = modality(checkpoint.folder, model)
            if self.of(found[model]) is None:
                option = OPTIONS[found[model]]
                raise InputError(f"{model} is a model of {found[model]}: give what it reads with {option}.")
        return found

    def of(self, kind: Modality) -> str | None:
        """Return what a model of this kind reads."""
        return {"text": self.text, "speech": self.audio}.get(kind, self.images)
