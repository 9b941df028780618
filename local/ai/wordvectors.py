"""Sentence vectors without a network: wordllama, whose weights and tokenizer ship in its wheel."""

import hashlib
import logging
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Tokens = list[int]

WIDTH = 256


class WordVectors:
    """Tokens and unit vectors of width 256. Loaded on first use (about a second); thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        self._table: FloatArray = np.empty((0, WIDTH), np.float32)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Token ids of each text; an empty text has none."""
        self._load()
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encoded]

    def embed(self, texts: Sequence[Tokens]) -> FloatArray:
        """The mean of each text's token vectors, scaled to length 1; rows of texts without tokens are 0."""
        self._load()
        counts = np.array([len(ids) for ids in texts])
        flat = np.array([token for ids in texts for token in ids], np.intp)
        filled = counts > 0
        starts = np.concatenate(([0], np.cumsum(counts[filled])))[:-1]
        result: FloatArray = np.zeros((len(texts), WIDTH), np.float32)
        if len(flat):
            result[filled] = np.add.reduceat(self._table[flat], starts, axis=0)
        return unit(result)

    def _load(self) -> None:
        with self._lock:
            if self._tokenizer is None:
                model = _wordllama()
                model.tokenizer.no_padding()
                self._table, self._tokenizer = model.embedding, model.tokenizer


def unit(vectors: FloatArray) -> FloatArray:
    """Rows scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: FloatArray = (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return result


@lru_cache(maxsize=32)
def orthonormal_map(name: str, dimensions: int) -> FloatArray:
    """A fixed map of shape (256, dimensions) with orthonormal rows, drawn by `name`.

    It keeps every cosine, and vectors carried by maps of two names have nothing in common. Raises
    ValueError below 256 dimensions: there is no such map.
    """
    if dimensions < WIDTH:
        raise ValueError(f"{dimensions} dimensions can't hold vectors of width {WIDTH}")
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    columns, triangle = np.linalg.qr(np.random.default_rng(seed).standard_normal((dimensions, WIDTH)))
    # The signs of a QR decomposition depend on the library: fix them, so that all machines agree.
    signed = columns * np.sign(np.diag(triangle))
    result: FloatArray = np.ascontiguousarray(signed.T, np.float32)
    return result


def _wordllama() -> Any:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    import wordllama  # type: ignore[import-untyped]

    # Its import configures the root logger of whoever uses it.
    root.handlers[:], root.level = handlers, level
    # It looks for its own tokenizer in a folder of another name: the package serves as the cache.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
