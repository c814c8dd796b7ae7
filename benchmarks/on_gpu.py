"""Let the networks of search read on a GPU, to measure many collections in minutes.

Quoth searches on the CPU. Here the same operations run in fp32 on a GPU, so rankings differ by
rounding alone (reading in int8, as most CPUs do, is left out). Times measured so say nothing.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch

from quoth.engine.models import LoadedModels
from quoth.models import bert, torch_bert
from quoth.models.glow import plain
from quoth.models.reader import reader

if TYPE_CHECKING:
    from quoth.models.query_generator.generator import QueryGenerator
    from quoth.models.query_generator.scoring import QueryScorer

_SUBWORDS = 32_768  # of a batch; what a CPU reads at once would leave a GPU waiting


def read_on_gpu() -> bool:
    """Let encoders and readers that are opened from now on use a GPU; says whether there is one."""
    if not torch.cuda.is_available():
        return False
    here = functools.partial(torch_bert.TorchBert, device="cuda")
    for module in (bert, plain, reader):
        module.open_bert = lambda tensors, shape, **_options: here(tensors, shape)  # type: ignore[attr-defined]
    torch_bert.TorchBert = here  # type: ignore[assignment,misc]
    plain.has_fast_bf16 = lambda: False  # type: ignore[assignment]
    reader._BUDGET = plain._BUDGET = _SUBWORDS
    return True


class GpuModels(LoadedModels):
    """Models of an engine, the query generator on the GPU as well."""

    def generator(self, name: str) -> QueryGenerator:
        """Return a query generator."""
        from quoth.models.query_generator.generator import QueryGenerator

        if name not in self._generators:
            self._generators[name] = QueryGenerator.load(name, device=torch.device("cuda"))
        return self._generators[name]

    def scorer(self, name: str) -> QueryScorer | None:
        """Return a query generator to look at hits with, the one that writes queries as well."""
        from quoth.models.query_generator.config import QueryGeneratorConfig
        from quoth.models.query_generator.scoring import QueryScorer
        from quoth.models.query_generator.torch_scorer import TorchScorer

        generator = self.generator(name)
        config = generator.config
        if not isinstance(config, QueryGeneratorConfig):
            return None
        return QueryScorer(
            TorchScorer(generator),
            generator.inputs.tokenizer,
            passage=config.max_passage_subwords,
            query=config.max_query_subwords,
        )
