"""The real catalogue: fetched once into the user's cache, then read."""

import json
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from theodolite.corpora.audio_corpus import open_audio, read_clip, scan_audio
from theodolite.corpora.catalogue.entries import CORPORA, MODELS
from theodolite.corpora.catalogue.lookup import corpora_of, corpus_file, is_cached, model_folder
from theodolite.corpora.image_corpus import open_images, read_picture, scan_images

pytestmark = [pytest.mark.weights, pytest.mark.slow]

AUDIO = Path(__file__).parents[4] / "shared/data/audio"
# The tokens of ids of the English vocabulary, since there is no tokenizer.
WORDS = {679: "he", 373: "was", 407: "not", 281: "an", 1862: "young", 582: "man", 13: "."}


def check_shape(name: str, config: Any) -> None:
    entry = MODELS[name]
    assert (config.num_hidden_layers, config.hidden_size) == (entry.layers, entry.dim)
    assert config.vocab_size == entry.vocabulary


def test_minilm_knows_a_paraphrase():
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder("minilm-l6")
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    check_shape("minilm-l6", model.config)
    lines = ["A man is playing a guitar.", "Someone plays an instrument.", "The stock market fell on Monday."]
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch.attention_mask[..., None]
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    cosines = means @ means.T
    # a margin, not merely an order, so that chance does not pass
    assert cosines[0, 1] > cosines[0, 2] + 0.3


def test_smollm2_knows_the_capital_of_france():
    import torch
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    folder = model_folder("smollm2-135m")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    check_shape("smollm2-135m", model.config)
    batch = tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        out = model(**batch, output_hidden_states=True)
        base = AutoModel.from_pretrained(folder)(**batch, output_hidden_states=True)
    assert tokenizer.decode(out.logits[0, -1].argmax()) == " Paris"
    assert len(base.hidden_states) == MODELS["smollm2-135m"].layers + 1
    assert all(torch.equal(*pair) for pair in zip(out.hidden_states, base.hidden_states, strict=True))


def test_antiberty_fills_in_a_masked_residue():
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = model_folder("antiberty")
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    check_shape("antiberty", model.config)
    # the start of a human heavy chain; its conserved cysteine is masked
    heavy = list("EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVS")
    hidden = heavy.index("C")
    heavy[hidden] = "[MASK]"
    batch = tokenizer(" ".join(heavy), return_tensors="pt")
    ids = batch.input_ids[0]
    assert tokenizer.unk_token_id not in ids
    assert len(ids) == len(heavy) + 2
    with torch.no_grad():
        logits = model(**batch).logits[0, hidden + 1]
    assert tokenizer.decode(logits.argmax()) == "C"


def test_whisper_hears_english():
    import torch
    from transformers import AutoFeatureExtractor, WhisperForConditionalGeneration, WhisperModel

    folder = model_folder("whisper-tiny-en")
    extractor = AutoFeatureExtractor.from_pretrained(folder)
    model = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    entry = MODELS["whisper-tiny-en"]
    assert (model.config.encoder_layers, model.config.decoder_layers) == (entry.layers, entry.decoder_layers)
    assert (model.config.d_model, model.config.vocab_size) == (entry.dim, entry.vocabulary)
    silence = extractor(np.zeros(16_000, np.float32), sampling_rate=16_000, return_tensors="pt")
    with torch.no_grad():
        states = WhisperModel.from_pretrained(folder).encoder(**silence).last_hidden_state
    assert states.shape == (1, 1500, entry.dim)

    clip_file = AUDIO / "sense_and_sensibility_01_austen_64kb-0880.wav"
    if not clip_file.exists():
        pytest.skip("no speech clips beside the checkout; shapes were checked")
    with wave.open(str(clip_file)) as clip:
        sound = np.frombuffer(clip.readframes(clip.getnframes()), "<i2").astype(np.float32) / 32768
        rate = clip.getframerate()
    heard = model.generate(**extractor(sound, sampling_rate=rate, return_tensors="pt"))[0].tolist()
    # "He was not an ill-disposed young man": all but the hyphenated word, which so small a model mishears
    assert [WORDS[token] for token in heard if token in WORDS] == "he was not an young man .".split()
    assert len(heard) < 15  # a model that mishears loops


@pytest.mark.parametrize("name", list(corpora_of("text")))
def test_corpora_are_complete(name):
    file = corpus_file(name)
    assert is_cached(CORPORA[name])
    with file.open("rb") as lines:
        count = sum(1 for _ in lines)
    assert count == CORPORA[name].documents


def test_corpora_are_read_as_expected():
    def first(name: str) -> str:
        with corpus_file(name).open(encoding="utf-8") as lines:
            return str(json.loads(next(lines))["text"])

    assert first("chitchat").startswith("Hello\nHow are you doing today?\nwhats up MD")
    assert first("enwik8").startswith("#REDIRECT [[")
    assert "To be, or not to be" in corpus_file("shakespeare").read_text("utf-8")


def test_enwik8_is_complete():
    record = json.loads((corpus_file("enwik8").parent / "entry.json").read_text())
    assert record["bytes_read"] == 100_000_000
    assert record["documents"] > 12_000


def test_enwik8_clean_is_text():
    documents = characters = 0
    left = dict.fromkeys(("{{", "}}", "[[", "]]", "{|", "<ref", "<br", "style=", "&nbsp;", "#REDIRECT"), 0)
    with corpus_file("enwik8-clean").open(encoding="utf-8") as lines:
        for line in lines:
            text = json.loads(line)["text"]
            documents += 1
            characters += len(text)
            for mark in left:
                left[mark] += mark in text
            if documents == 1:
                assert text.startswith("Anarchism originated as a term of abuse first used against early")
    assert 71e6 < characters < 73e6
    # Pages on which such a mark is text: a commutator [[x,y],z], Bash's [[ ]], what somebody put in nowiki.
    assert max(left.values()) <= 10, left


def test_speech_is_speech():
    found = scan_audio(open_audio("speech"))
    assert found.documents == CORPORA["speech"].documents == 19
    assert found.sorts == {"16000 Hz": 19}
    assert found.labels == {"pocketsphinx": 5, "pyannote_audio": 14}
    assert 440 < found.size < 450
    for _, clip in found.pieces:
        sound = read_clip(clip, 16_000)
        # Speech has most of its power below 4 kHz and comes in bursts; noise has neither.
        power = np.abs(np.fft.rfft(sound)) ** 2
        assert power[: len(power) // 2].sum() > 0.9 * power.sum()
        loudness = np.square(sound[: len(sound) // 1600 * 1600]).reshape(-1, 1600).mean(1)
        assert np.quantile(loudness, 0.95) > 5 * np.quantile(loudness, 0.1)


def test_pictures_are_pictures():
    found = scan_images(open_images("pictures"))
    assert found.documents == CORPORA["pictures"].documents == 21
    assert found.labels == {"scikit_image": 19, "scikit_learn": 2}
    assert not found.skipped
    china = next(picture for _, picture in found.pieces if picture.name.endswith("china.jpg"))
    assert (china.width, china.height) == (640, 427)
    assert all(np.asarray(read_picture(picture)).std() > 5 for _, picture in found.pieces)


def test_the_decoder_of_whisper_receives_the_transcript():
    import torch
    from transformers import AutoFeatureExtractor, WhisperForConditionalGeneration

    from theodolite.sources.media.source import MediaSource
    from theodolite.sources.media.speech import WhisperFeeder

    file = AUDIO / "sense_and_sensibility_01_austen_64kb-0880.wav"
    if not file.exists():
        pytest.skip("no speech clips beside the checkout")
    with wave.open(str(file)) as clip:
        sound = np.frombuffer(clip.readframes(clip.getnframes()), "<i2").astype(np.float32) / 32768
    folder = model_folder("whisper-tiny-en")
    whole = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    feeder = WhisperFeeder(whole, AutoFeatureExtractor.from_pretrained(folder), lambda _: sound)
    source = MediaSource(whole.model, feeder)
    (prepared,) = source.prepare([(0, SimpleNamespace(name=file.name, label="", window=0))])
    assert prepared.positions == -(-len(sound) // 320)  # frames of 20 ms with sound; the rest of 1,500 is padding
    inputs = feeder.complete(prepared).inputs
    fed = inputs["decoder_input_ids"][0].tolist()
    assert fed[:2] == [50257, 50362]  # start of transcript, no time stamps
    assert [WORDS[token] for token in fed if token in WORDS] == "he was not an young man .".split()
    with torch.no_grad():
        library = whole(**inputs, output_hidden_states=True)
    # Each token is the likeliest after those before it: nothing is doubled, dropped or out of place.
    assert library.logits[0, 1:-1].argmax(-1).tolist() == fed[2:]
    seen: dict[int, Any] = {}
    source.run(prepared, lambda batch: seen.update({batch.layer: batch.states}))
    for layer in source.layers:
        if layer.library_index is not None:
            ours = seen[layer.index]
            theirs = getattr(library, f"{layer.stack}_hidden_states")[layer.library_index][0, : len(ours)]
            assert (ours - theirs).norm() <= 1e-5 * theirs.norm(), layer.name
    assert {layer.stack: len(seen[layer.index]) for layer in source.layers} == {
        "encoder": prepared.positions,
        "decoder": len(fed),
    }
