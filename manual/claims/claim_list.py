"""The claims of the four papers, by section, in our words; those without a test name a page with the numbers."""

from __future__ import annotations

from manual.claims import from_tables as tables
from manual.claims.verdicts import HELD, NOT, OPEN, Claim, Finding

UNTRAINED, LARGE = "untrained bert-base block", "trained here on bytes"

NORM_VARIANCE = (
    Claim(
        "5.2, figure 4",
        "The mean squared norm Q of units varies least in the intermediate layers",
        "the lowest C.V. of Q is between a quarter and three quarters of the depth, and below that of both ends",
        tables.least_variation_inside,
    ),
    Claim(
        "5.2, figure 2",
        "There, units with a larger squared norm of the mean M have a smaller variance V",
        "the slope of V on M is negative where the C.V. of Q is lowest",
        tables.trade_off,
    ),
    Claim(
        "5.2, figure 4",
        "In Post-LN models the slope reaches about −1 and R² about 1",
        "where R² is highest, the slope is within 0.1 of −1 and R² is above 0.9",
        tables.perfect_trade_off,
    ),
    Claim(
        "5.3, figure 5",
        "The share of M in Q grows with depth",
        "larger at the last block than at the embeddings, and a rank correlation with depth above 0.5",
        tables.mean_share_rises,
    ),
    Claim(
        "5.3, figure 6",
        "The share of the variance within units, V_W/V, grows with depth",
        "as before",
        tables.within_share_rises,
    ),
    Claim(
        "5.3",
        "M/Q follows the mean cosine over layers",
        "positive rank correlation, p < 0.05; the p over circular shifts of layers must be below 0.05 too",
        tables.mean_share_and_cosine,
    ),
    Claim(
        "5.3",
        "V_W/V grows where the occurrences of a word become less similar",
        "negative rank correlation with self-similarity, p as before",
        tables.within_share_and_self_similarity,
    ),
    Claim(
        "5.4, figure 7",
        "Frequent units have a smaller M and a larger V, while Q hardly depends on frequency",
        "slopes on log10 n, divided by the mean of Q, at the middle layer: M below 0, V above 0, Q closer to 0",
        tables.frequency,
    ),
    Claim(
        "6.2, appendix I",
        "Q varies less in Post-LN than in Pre-LN models",
        "the lowest C.V. of Q is below that of the Pre-LN model on the same corpus",
        tables.post_norm_varies_less,
    ),
)

ANISOTROPY = (
    Claim(
        "2, figure 1",
        "Token-level language models are anisotropic in at least one layer",
        "some mean cosine is above 0.2",
        tables.token_models,
    ),
    Claim(
        "3.1, figure 2",
        "So are models of characters and bytes",
        "some mean cosine is above 0.2",
        tables.character_models,
    ),
    Claim("3.2, figure 3", "So are speech models", "some mean cosine is above 0.2", tables.speech_models),
    Claim(
        "3.2, figure 3",
        "Every layer of every speech model is anisotropic",
        "no mean cosine is below 0.2",
        tables.every_speech_layer,
    ),
    Claim(
        "3.2, figure 3", "So are most vision Transformers", "some mean cosine is above 0.2", tables.vision_models
    ),
    Claim(
        "3.2, figure 4",
        "Most convolutional nets are isotropic",
        "no mean cosine is above 0.2",
        tables.most_convolutions_isotropic,
        missing="the only one of the catalogue, ResNet-50, is the exception that the paper names",
    ),
    Claim("3.2, figure 4", "ResNet-50 is not", "some mean cosine is above 0.2", tables.resnet_anisotropic),
    Claim(
        "3.2, figure 4",
        "ResNet-50 becomes more isotropic with depth",
        "a lower mean cosine at the last layer than at the first, and a rank correlation with depth below −0.5",
        tables.resnet_becomes_isotropic,
    ),
    Claim(
        "3.3, figure 5",
        "In token-level models the mean cosine generally follows the drift, the norm of the mean (not in GPT-2)",
        "rank correlation over layers, p < 0.05; decided only if that of the steps between layers has too",
        tables.drift_of_text,
    ),
    Claim(
        "3.3, figure 5",
        "In several Transformers of speech and vision it does not",
        "no positive rank correlation with p < 0.05; a handful of layers has little power",
        tables.drift_of_others,
    ),
    Claim(
        "3.3, figure 5",
        "In some convolutional nets it does",
        "positive rank correlation over layers, p < 0.05; decided only if that of the steps has too",
        tables.drift_of_convolutions,
    ),
    Claim(
        "3.3, figure 5",
        "In most models of characters and bytes it does",
        "as before",
        tables.drift_of_characters,
    ),
    Claim(
        "4.2, figure 6a",
        "The output of a block is slightly more anisotropic than its input, at any bias",
        findings=(
            Finding(UNTRAINED, "rows of the table", "out − in +5e-6 to +0.034 over 9 runs", HELD),
            Finding("minilm-l6", "block 3, rows of the table", "+4e-4 to +0.36", HELD),
            Finding("smollm2-135m", "block 12, rows of the table", "+1e-4 to +0.32", HELD),
            Finding("smollm2-135m", "block 12, its own states", "never above 0", NOT),
        ),
        page="block.md",
    ),
    Claim(
        "4.2, figure 6b",
        "The norm has a fixed point, near the norms of the trained model",
        findings=(
            Finding(
                UNTRAINED, "rows of the table", "27.708 ± 0.001, but this is the norm of the layer norm", OPEN
            ),
            Finding("minilm-l6", "block 3", "11.54 ± 0.29; trained layers 10.2 to 13.6", HELD),
            Finding("smollm2-135m", "block 12, rows of the table", "none in range (up to 48)", NOT),
        ),
        page="block.md",
    ),
    Claim(
        "4.3 and 4.4, figures 7 to 10",
        "A drift of the input makes attention sharper, though little at small norms",
        findings=(
            Finding(UNTRAINED, "largest of 512 weights", "0.00195 to 0.00203", HELD),
            Finding("minilm-l6", "block 3", "0.0021 to 0.0043", HELD),
            Finding("smollm2-135m", "block 12, rows of the table", "0.085 to 0.019", NOT),
            Finding("smollm2-135m", "block 12, its own states", "0.35 to 0.52", HELD),
        ),
        page="block.md",
    ),
    Claim(
        "5",
        "During training, drift comes first and sharp attention follows (the paper proposes to test it)",
        findings=(
            Finding(
                f"decoder of 25 million weights, {LARGE}",
                "enwik8-clean",
                "half-way between steps 11 and 25, attention between steps 55 and 122, in 6 of 8 blocks; the mean "
                "cosine falls over the run",
                OPEN,
            ),
        ),
        page="dynamics.md",
    ),
)

DYNAMICS = (
    Claim(
        "4.1, figure 1",
        "The SVD anisotropy of decoders is bell-shaped over layers",
        "all positions; highest between a quarter and three quarters of the depth, and there above both ends",
        tables.bells,
    ),
    Claim(
        "4.1, figure 1",
        "The same without the first position of each window (not in the paper)",
        "as before",
        tables.bells_without_first,
    ),
    Claim(
        "4.1, figure 1",
        "The same without sinks (not in the paper)",
        "as before",
        tables.bells_without_sinks,
    ),
    Claim(
        "4.1, figure 1",
        "That of encoders is about the same at all layers",
        "differs by less than 0.1",
        tables.flat_encoders,
    ),
    Claim(
        "4.2, figures 3 and 4",
        "The anisotropy of decoders grows during training, then stays",
        findings=(Finding(f"decoder, {LARGE}", "enwik8-clean", "0.27, 0.65 at step 25, then 0.07", NOT),),
        page="dynamics.md",
    ),
    Claim(
        "4.3, figure 2",
        "The intrinsic dimension rises early in training and falls later",
        findings=(
            Finding(
                f"decoder, {LARGE}", "enwik8-clean", "2.5, 4.8 at step 55, 3.1 at step 272, then again 4.0", NOT
            ),
            Finding(f"encoder, {LARGE}", "enwik8-clean", "6.4, 9.8 at step 122, 3.7", HELD),
        ),
        page="dynamics.md",
    ),
)

MINILM, SMOLLM, TABLE = "minilm-l6", "smollm2-135m", "its tables"
BERT_SPACES = (
    Claim(
        "4.2.2",
        "Words and positions differ clearly in norm",
        findings=(Finding(MINILM, TABLE, "1.07 ± 0.23 and 0.474 ± 0.093", HELD),),
        page="weights.md",
    ),
    Claim(
        "4.2.3",
        "Late positions of the table look untrained",
        findings=(Finding(MINILM, TABLE, "22% of the last row is predicted (p = 2e-19)", NOT),),
        page="positions.md",
    ),
    Claim(
        "4.2.3, figure 19",
        "The position embeddings form a helix",
        findings=(Finding(MINILM, TABLE, "period 6.05 (5.65 to 6.68), p = 0.009; 22 in the thesis", HELD),),
        page="positions.md",
    ),
    Claim(
        "4.2.4",
        "The two segment vectors are nearly orthogonal",
        findings=(Finding(MINILM, TABLE, "cosine 0.942; -0.065 in the thesis", NOT),),
        page="weights.md",
    ),
    Claim(
        "4.2.5",
        "Tokens and positions have next to no common direction, except `[CLS]` at position 0",
        findings=(Finding(MINILM, TABLE, "7,542 pairs above 0.2, `[CLS]` at 0 with 0.382", NOT),),
        page="weights.md",
    ),
    Claim(
        "4.2, table 1",
        "Parts of speech can be read from the embedding table",
        findings=(
            Finding(MINILM, TABLE, "accuracy 0.996 [0.980, 1.000], control 0.323 [0.175, 0.471]", HELD),
            Finding(SMOLLM, TABLE, "0.978 [0.949, 1.000], control 0.326 [0.210, 0.442]", HELD),
        ),
        page="probe.md",
    ),
    Claim(
        "4.3, figure 22",
        "Steps from layer to layer have about the same length, and the last is longer",
        findings=(
            Finding(MINILM, "two sentences", "5.0 to 5.9, the last 8.1", HELD),
            Finding(SMOLLM, "two sentences", "19 to 517", NOT),
        ),
        page="trace.md",
    ),
    Claim(
        "4.3, figure 22",
        "Vectors move away from the origin with depth",
        findings=(
            Finding(MINILM, "two sentences", "9.6, 11.5, 11.5, 11.3, 12.2, 10.6, 8.9", NOT),
            Finding(SMOLLM, "two sentences", "2.5 to 795", HELD),
        ),
        page="trace.md",
    ),
    Claim(
        "5",
        "The two senses of a homonym drift apart in the layers",
        findings=(
            Finding(MINILM, "two sentences", "1.03 times the median of the other shared tokens", NOT),
            Finding(SMOLLM, "two sentences", "the word comes before the difference", OPEN),
        ),
        page="trace.md",
    ),
    Claim(
        "4.4.1, figure 23",
        "Sentences of the same meaning are close to each other",
        findings=(Finding(MINILM, "templates", "silhouette 0.52, but word counts alone give 0.45", OPEN),),
        page="groups.md",
    ),
    Claim(
        "4.4.2, table 7",
        "Differences of sentences show a bias: doctor and nurse, female and male",
        findings=(Finding(MINILM, "pairs of the thesis", "-0.377 [-0.443, -0.308]; -0.644 in the thesis", HELD),),
        page="contrast.md",
    ),
    Claim(
        "4.4.2, table 7",
        "Small cosines of differences mean something too (brightness and mood)",
        findings=(Finding(MINILM, "pairs of the thesis", "-0.002 [-0.065, 0.061]; 0.133 in the thesis", NOT),),
        page="contrast.md",
    ),
    Claim(
        "4.4.3, figure 25",
        "Texts of two sources form separate clouds",
        findings=(
            Finding(MINILM, "chitchat, enwik8-clean", "accuracy 0.945 [0.913, 0.965] at equal length", HELD),
            Finding(MINILM, "tweets, WikiText-2", "0.897 [0.858, 0.927] at equal length", HELD),
        ),
        page="clouds.md",
    ),
    Claim(
        "4.4.3, figure 26",
        "All cosines within a source are positive",
        findings=(
            Finding(MINILM, "first token", "smallest 0.41", HELD),
            Finding(MINILM, "mean of tokens", "12% of the cosines within chitchat are negative", NOT),
        ),
        page="clouds.md",
    ),
)

PAPERS = {
    "norm-variance": NORM_VARIANCE,
    "anisotropy-inherent": ANISOTROPY,
    "dynamics": DYNAMICS,
    "bert-spaces": BERT_SPACES,
}
TITLES = {
    "norm-variance": "Yamagiwa and Shimodaira 2024, "
    "*Norm of Mean Contextualized Embeddings Determines their Variance*",
    "anisotropy-inherent": "Godey, de la Clergerie and Sagot 2023, *Is Anisotropy Inherent to Transformers?*",
    "dynamics": "Razzhigaev et al. 2024, *The Shape of Learning*",
    "bert-spaces": "Luisto 2024, *A study on the embedding spaces of the BERT language model*",
}
