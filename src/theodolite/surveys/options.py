"""The options of a survey, each described once: flags, signatures, validation and settings are made from here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from theodolite.corpora.options import TOP, CorpusOptions
from theodolite.errors import InputError, nearest
from theodolite.statistics.cells import POPULATIONS
from theodolite.storage.bucket import Bucket
from theodolite.storage.location import Location, parse_location
from theodolite.text import join_words, pluralize

Function = TypeVar("Function", bound=Callable[..., Any])

TEXT_UNITS = ("id", "surface", "word")
MEDIA_UNITS = ("none", "position", "document", "label")  # text may have none, too
DTYPES = ("auto", "float32", "bfloat16", "float16")
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
ENGINES = ("local", "ray")
TEXT, SPEECH, IMAGES = ("text",), ("speech",), ("vision", "convolution")  # kinds of models


def parse_size(size: str | int) -> int:
    """Return bytes from "8G", "512M" or a plain number.

    >>> parse_size("1.5G")
    1610612736
    """
    scales = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    bare = str(size).strip().upper().removesuffix("B").removesuffix("I")
    try:
        value = float(bare.rstrip("KMGT")) * scales.get(bare[-1:], 1)
    except ValueError:
        value = -1
    if not 0 < value < 2**63:  # written this way, NaN fails too
        raise InputError(f"--memory {size!r} is not a size. Write it as 8G, 512M or a number of bytes.")
    return int(value)


def split_commas(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas.

    >>> split_commas("all, without-first")
    ('all', 'without-first')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True)
class Option:
    """What is known about an option besides its type and its default."""

    help: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    kinds: tuple[str, ...] = ()  # of models: rejected for others; empty: for all
    flag_type: Any = None  # the type of the flag, where it differs from the type in Python
    parse: Callable[[str], Any] | None = None  # from the flag's text to the value


@dataclass(frozen=True, kw_only=True)
class SurveyOptions:
    """Options that determine the numbers of a survey."""

    units: Annotated[
        str | Sequence[str] | None,
        Option(
            "What counts as one unit. Text: id (token id, default), surface (text of the token), word, or none "
            "(no table by unit); or several in one pass, such as id,word, which writes the survey by word to "
            "units/word in the folder of the survey. Speech and vision: none (default), position, document or "
            "label.",
            choices=(*TEXT_UNITS, *MEDIA_UNITS),
            flag_type=str | None,
            parse=split_commas,
        ),
    ] = None
    layers: Annotated[
        str | Sequence[int | str] | None,
        Option(
            "Layers to survey, such as 0,6,12 or 0-3 or -1. Names select layers of other streams: block 3/k, "
            "block 3/k/head 5. Default: all.",
            flag_type=str | None,
        ),
    ] = None
    streams: Annotated[
        Sequence[str],
        Option(
            "What to read of each block, comma-separated: residual (its output), q, k, v (queries, keys and "
            "values of all heads), q-rotated, k-rotated (after rotation), attn, cross, mlp (what these parts "
            "write to the residual), and q/heads, k/heads and so on, where every head is a layer.",
            flag_type=str,
            parse=split_commas,
        ),
    ] = ("residual",)
    attention: Annotated[
        bool,
        Option(
            "Also measure the attention logits of every surveyed block by head: quantiles, entropy and the weight "
            "of sinks, in attention.parquet."
        ),
    ] = False
    min_words: Annotated[int | None, Option("Keep documents with at least this many words.", kinds=TEXT)] = None
    max_words: Annotated[int | None, Option("Keep documents with fewer words than this.", kinds=TEXT)] = None
    sample: Annotated[float | None, Option("Keep this fraction of the documents, chosen by hash.")] = None
    seed: Annotated[int, Option("Seed for choosing the sample of documents.")] = 0
    limit: Annotated[int | None, Option("Keep at most this many documents, after all other filters.")] = None
    field: Annotated[str, Option("Field of a .jsonl file that contains the text.", kinds=TEXT)] = "text"
    column: Annotated[str, Option("Column of a .parquet file that contains the text.", kinds=TEXT)] = "text"
    encoding_errors: Annotated[
        str,
        Option(
            "What to do with invalid UTF-8: strict raises an error, replace inserts U+FFFD.",
            choices=("strict", "replace"),
            kinds=TEXT,
        ),
    ] = "strict"
    chat: Annotated[
        bool,
        Option(
            "Read conversations: the field or column (default: messages) contains a list of messages with role "
            "and content, which the chat template of the tokenizer writes as one text.",
            kinds=TEXT,
        ),
    ] = False
    target: Annotated[
        str | None,
        Option(
            "Field or column that the decoder of an encoder-decoder reads. Default: the text itself.",
            kinds=TEXT,
        ),
    ] = None
    by: Annotated[
        str | None,
        Option(
            "Field or column whose values group the documents, such as language: every group has its own rows in "
            "groups.parquet, from the same pass. Any corpus has length (characters, in powers of two) and file.",
            kinds=TEXT,
        ),
    ] = None
    by_top: Annotated[
        int,
        Option(
            "With --by: the number of most frequent values that are groups; all others are one group, (other).",
            minimum=1,
            kinds=TEXT,
        ),
    ] = TOP
    max_tokens: Annotated[
        int | None,
        Option("Split documents into windows of this many tokens. Default: 512 or the model's limit.", kinds=TEXT),
    ] = None
    batch_tokens: Annotated[
        int | None, Option("Tokens per batch, padding included. Default: by device.", minimum=1, kinds=TEXT)
    ] = None
    drop_special: Annotated[bool, Option("Exclude special tokens.", kinds=TEXT)] = False
    wrap: Annotated[
        bool,
        Option("Add BOS and EOS around every window if the tokenizer adds no special tokens.", kinds=TEXT),
    ] = False
    clean_words: Annotated[
        bool,
        Option(
            "Let the model read only words of 2 to 15 letters, lowercased, without punctuation and digits. "
            "Requires units word.",
            kinds=TEXT,
        ),
    ] = False
    min_count: Annotated[
        int | None,
        Option(
            "Keep no vector of units with fewer occurrences in the corpus than this, except for a sample of them. "
            "M and V of units without one are null unless they occur once, and V_W and V_B are estimated in part. "
            "Default: 1 (all units) if the tables fit in memory, else the smallest number with which they do.",
            minimum=1,
            kinds=TEXT,
        ),
    ] = None
    contextuality: Annotated[
        bool,
        Option(
            "Also compute self-similarity, intra-sentence similarity and MEV. Doubles the memory for unit tables.",
            kinds=TEXT,
        ),
    ] = False
    layer_scores: Annotated[
        bool,
        Option(
            "Also compute LiDAR, prompt entropy and curvature, by which a layer may be chosen without labels. "
            "Takes an eigenproblem per window and layer.",
            kinds=TEXT,
        ),
    ] = False
    text: Annotated[
        bool,
        Option(
            "Store a few occurrences of each unit with the text around them, for the report. Turn it off for "
            "private corpora.",
            kinds=TEXT,
        ),
    ] = True
    maps: Annotated[
        str | None,
        Option(
            "How feature maps become vectors: flat (one per image) or places (one per location). Default: flat "
            "for convolutional nets, else places.",
            kinds=IMAGES,
        ),
    ] = None
    skip_bad: Annotated[
        bool, Option("Skip and count recordings and images that cannot be decoded.", kinds=SPEECH + IMAGES)
    ] = False
    max_seconds: Annotated[float, Option("Split recordings longer than this into equal clips.", kinds=SPEECH)] = (
        30.0
    )
    populations: Annotated[
        Sequence[str],
        Option(
            f"Populations to report, comma-separated: {', '.join(POPULATIONS)}.",
            flag_type=str,
            parse=split_commas,
        ),
    ] = tuple(POPULATIONS)
    sample_size: Annotated[
        int,
        Option(
            "Vectors to sample per layer and population, for TwoNN and other measures that need vectors.",
            minimum=0,
        ),
    ] = 4096
    pilot: Annotated[
        str | Path | Bucket | None,
        Option(
            "Folder of a survey whose pilot (centres and thresholds of the layers) is used, so that both can be "
            "merged.",
            flag_type=Path | None,
        ),
    ] = None
    part: Annotated[
        str | None, Option("I/N: survey only part I of N, to merge the parts later. The first of four is 0/4.")
    ] = None
    memory: Annotated[
        int | str | None,
        Option(
            "Memory that statistics, tables and held states may use, such as 8G; the forward pass of the model is "
            "not included. If they need more, rare units of a text have no vector (see --min-count), or the "
            "survey stops with an error.",
            flag_type=str | None,
            parse=parse_size,
        ),
    ] = None
    dtype: Annotated[
        str,
        Option(
            "Precision of the model: float32, bfloat16, float16 or auto (the checkpoint's own on a GPU, float32 "
            "on a CPU).",
            choices=DTYPES,
        ),
    ] = "auto"
    attn: Annotated[
        str | None,
        Option(
            f"Implementation of attention in transformers: {', '.join(ATTENTION)}. Default: what transformers "
            "chooses for the model.",
            choices=ATTENTION,
            kinds=TEXT,
        ),
    ] = None
    trust_remote_code: Annotated[bool, Option("Allow a model to run the Python code that it ships with.")] = False

    def __post_init__(self) -> None:
        """Accept torch.bfloat16 for "bfloat16"."""
        if type(self.dtype).__module__ == "torch":
            object.__setattr__(self, "dtype", str(self.dtype).removeprefix("torch."))

    def kinds_of_units(self, default: str) -> tuple[str, ...]:
        """Return the kinds of units, the first of which is that of the survey itself."""
        given = (self.units,) if isinstance(self.units, str) else tuple(self.units or ())
        return given or (default,)

    @property
    def memory_bytes(self) -> int | None:
        """The memory that the survey may need, in bytes."""
        return None if self.memory is None else parse_size(self.memory)

    @property
    def pilot_location(self) -> Location | None:
        """Where the pilot is read from, if not taken."""
        return None if self.pilot is None else parse_location(self.pilot)

    def corpus_options(self) -> CorpusOptions:
        """Return which documents of a text corpus are kept."""
        return CorpusOptions(
            self.field,
            self.column,
            self.min_words,
            self.max_words,
            self.sample,
            self.seed,
            self.limit,
            encoding_errors=self.encoding_errors,
            target=self.target,
            chat=self.chat,
            by=self.by,
        )

    def reject_other_options(self, kind: str) -> None:
        """Raise if an option is set that has no effect on models of this kind."""
        for each in list_options(SurveyOptions):
            if each.option.kinds and kind not in each.option.kinds and getattr(self, each.name) != each.default:
                kinds = join_words(each.option.kinds)
                raise InputError(f"{flag(each.name)} applies to {kinds} only (the model is of kind {kind}).")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options that determine where and how a survey runs."""

    device: Annotated[str | None, Option("cpu, cuda or cuda:1. Default: a GPU if there is one.")] = None
    device_map: Annotated[
        str | Mapping[str, Any] | None,
        Option(
            "Spread the model over devices with accelerate: auto, balanced, balanced_low_0 or sequential; from "
            "Python also a mapping of modules to devices. Default: one device.",
            flag_type=str | None,
        ),
    ] = None
    revision: Annotated[str | None, Option("Revision of a hub model.")] = None
    engine: Annotated[str, Option("local, or ray to use several machines.", choices=ENGINES)] = "local"
    address: Annotated[
        str,
        Option("With ray: auto (the cluster of this machine), local (a new one on this machine) or HOST:PORT."),
    ] = "auto"
    workers: Annotated[
        int | None, Option("With ray: number of workers. Default: one per GPU, or one per machine.")
    ] = None
    gpus_per_worker: Annotated[int, Option("With ray: 1 gives every worker a GPU.")] = 0
    resume: Annotated[bool, Option("Continue an interrupted run, or start it if there is none.")] = False
    overwrite: Annotated[bool, Option("Replace the survey in the folder.")] = False
    keep_sums: Annotated[
        bool,
        Option(
            "Keep the sums of a finished survey whatever their size, so that it can be merged. Default: only if "
            "they are smaller than 1 GiB, or those of a part."
        ),
    ] = False
    label: Annotated[
        str | None, Option("Name of the survey in legends and reports. Default: the model and the corpus.")
    ] = None

    def __post_init__(self) -> None:
        """Accept torch.device("cuda", 1) and the number of a GPU for "cuda:1"."""
        if type(self.device).__module__ == "torch":
            object.__setattr__(self, "device", str(self.device))
        elif isinstance(self.device, int) and not isinstance(self.device, bool):
            object.__setattr__(self, "device", f"cuda:{self.device}")


def select_part(shards: Sequence[int], part: str | None) -> Sequence[int]:
    """Return the shards of part "I/N": every N-th one, starting with I = 0.

    >>> select_part(range(7), "1/3")
    range(1, 7, 3)
    """
    if part is None:
        return shards
    number, slash, count = part.partition("/")
    if not (slash and number.isdigit() and count.isdigit() and int(number) < int(count)):
        raise InputError(
            f"--part {part!r}: expected I/N with 0 <= I < N, such as 0/4 for the first of four parts."
        )
    return shards[int(number) :: int(count)]


def select_shards(shards: Sequence[int], part: str | None, warn: Callable[[str], None]) -> list[int]:
    """Return the shards of a part; raise if it is empty, and warn with the first part if later parts will be."""
    selected = list(select_part(shards, part))
    only = f"--part {part}: the corpus has only {pluralize(len(shards), 'shard')}"
    if not selected:
        raise InputError(f"{only}, so this part is empty. Use fewer parts.")
    number, _, count = (part or "0/1").partition("/")
    if int(number) == 0 and len(shards) < int(count):
        warn(f"{only}: {'this part is all of it' if len(shards) == 1 else 'later parts are empty'}")
    return selected


class Described(NamedTuple):
    """One option with its type in Python and its default."""

    name: str
    type: Any
    default: Any
    option: Option


def list_options(kind: type, names: Sequence[str] | None = None) -> Iterator[Described]:
    """Yield the options of an annotated dataclass, all or the named ones."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if names is None or field.name in names:
            annotation, option = get_args(hints[field.name])
            assert field.default is not MISSING
            yield Described(field.name, annotation, field.default, option)


def check_options(options: object) -> None:
    """Raise if an option has a value outside its choices or below its minimum."""
    for name, annotation, _, option in list_options(type(options)):
        value = getattr(options, name)
        several = option.parse is split_commas and isinstance(value, Sequence) and not isinstance(value, str)
        if isinstance(value, str) and option.parse is split_commas and not option.choices:
            raise InputError(
                f"{flag(name)} requires a list of names (got {value!r}); give {[*split_commas(value)]}."
            )
        _check_type(name, annotation, value)
        for one in value if several else (value,):
            if option.choices and one is not None and one not in option.choices:
                listed = ", ".join(option.choices)
                raise InputError(
                    f"{flag(name)} {one!r} is not one of {listed}.{nearest(str(one), [*option.choices])}"
                )
        if several and not len(value):
            raise InputError(f"{flag(name)} is empty. Omit it, or give at least one name.")
        if option.minimum is not None and value is not None and value < option.minimum:
            raise InputError(f"{flag(name)} {value} is too small: expected at least {option.minimum}.")


TYPES: dict[type, tuple[str, type | tuple[type, ...]]] = {
    bool: ("True or False", bool),
    int: ("an integer", Integral),
    float: ("a number", Real),
    str: ("a string", str),
    Sequence: ("a list", Collection),
    Mapping: ("a mapping", Mapping),
    Path: ("a path", Path),
}
"""How a message names the types of options, and what is accepted for each."""


def _check_type(name: str, annotation: Any, value: Any) -> None:
    """Raise if a value is not of one of the types of its option."""
    expected = [get_origin(each) or each for each in get_args(annotation) or (annotation,)]
    if get_origin(annotation) in (Sequence, Mapping):
        expected = [get_origin(annotation)]
    known = {each: TYPES[each] for each in expected if each in TYPES}
    accepted = [kind for each in expected for kind in [known[each][1] if each in known else each]]
    a_flag = isinstance(value, bool) and bool not in expected
    if a_flag or not isinstance(value, tuple(accepted)):
        wanted = join_words([words for words, _ in known.values()], "or")
        raise InputError(f"{name if bool in expected else flag(name)} requires {wanted} (got {value!r}).")


def flag(name: str) -> str:
    """Return the flag of an option.

    >>> flag("sample_size")
    '--sample-size'
    """
    return f"--{name.replace('_', '-')}"


def split_keywords(given: Mapping[str, Any], *kinds: type, others: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Distribute keyword arguments over dataclasses of options; raise TypeError for an unknown one.

    `others` are further arguments of the function, one of which may have been meant.
    """
    known = [{field.name for field in fields(kind)} for kind in kinds]
    for name in given:
        if not any(name in names for names in known):
            every = sorted({*others}.union(*known))
            raise TypeError(f"survey() got an unexpected keyword argument {name!r}.{nearest(name, every)}")
    return [{name: value for name, value in given.items() if name in names} for names in known]


def document_options(*kinds: type) -> Callable[[Function], Function]:
    """Replace `**options` in a signature by the options of dataclasses, and list them in the docstring."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        every = [each for kind in kinds for each in list_options(kind)]
        fixed = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        added = [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type
            )
            for each in every
        ]
        function.__signature__ = signature.replace(parameters=[*fixed, *added])  # type: ignore[attr-defined]
        listed = "\n".join(f"    - `{each.name}`: {each.option.help}" for each in every)
        function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n    Options:\n\n{listed}\n    "
        return function

    return decorate
