"""Names of the files in a survey folder."""

FACTS = "survey.json"  # a folder with this file holds a complete survey
UNFINISHED = "unfinished.json"  # a folder with this file holds a survey that can be resumed
REPLACEMENT = ".replacement"  # a folder in a finished survey: the one that will replace it
STATE = "state.safetensors"
SAMPLE = "sample.safetensors"
PILOT = "pilot.safetensors"
UNITS = "units"  # a folder of surveys by other kinds of units, made in the same pass
LAYER_NORMS = "layer_norms.safetensors"
TOKENS = "tokens.parquet"
