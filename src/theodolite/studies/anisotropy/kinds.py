"""What a survey is of: text by tokens or by characters, speech, images, convolution; an encoder or a decoder."""

from __future__ import annotations

from theodolite.studies.surveyed import Surveyed

TOKENS, CHARACTERS, SPEECH, VISION = "token-level text", "character-level text", "speech", "vision"
CONVOLUTION, MODULE, VECTORS = "convolution", "module", "vectors"
KINDS = (TOKENS, CHARACTERS, SPEECH, VISION, CONVOLUTION, MODULE, VECTORS)
"""In the order in which figures group them."""
TOLD = {
    TOKENS: "is a text model by tokens",
    CHARACTERS: "is a text model by characters or bytes",
    SPEECH: "is a speech model",
    VISION: "is a vision model",
    CONVOLUTION: "is a convolutional model",
    MODULE: "is a module whose kind is not known",
    VECTORS: "was measured without a model",
}


def kind(survey: Surveyed) -> str:
    """Return what the survey is of; surveys from before modalities were recorded are of text by tokens.

    >>> kind(Surveyed({"model": {"name": "bert"}})), kind(Surveyed({"model": None}))
    ('token-level text', 'vectors')
    >>> kind(Surveyed({"model": {"modality": "module", "level": "character"}}))
    'character-level text'
    """
    model = survey.facts.get("model")
    if model is None:
        return VECTORS
    modality = model.get("modality") or "text"
    if model.get("level") == "character" and modality in ("text", "module"):
        return CHARACTERS
    return TOKENS if modality == "text" else str(modality)


def side(survey: Surveyed, stack: str) -> str:
    """Return "encoder" or "decoder": the stack, or of a model of one stack whether it is causal."""
    if stack:
        return stack
    return "decoder" if (survey.facts.get("model") or {}).get("causal") else "encoder"
