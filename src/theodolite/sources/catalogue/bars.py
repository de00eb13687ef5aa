"""Keep transformers' progress bars off the screen while a folder is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch


@contextmanager
def no_bars() -> Iterator[None]:
    """Switch the bars off, and back on afterwards if they were on."""
    from tqdm.auto import tqdm
    from transformers import modeling_gguf_pytorch_utils as gguf
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with patch.object(gguf, "tqdm", partial(tqdm, disable=True)):  # this one does not ask the switch
            yield
    finally:
        if shown:
            logging.enable_progress_bar()
