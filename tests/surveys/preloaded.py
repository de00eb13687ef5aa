"""What every survey imports on its way, imported once in the server that processes are forked from."""

import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import safetensors.torch  # noqa: F401
from transformers import AutoModel, AutoTokenizer, BertModel, GPT2Model  # noqa: F401
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
