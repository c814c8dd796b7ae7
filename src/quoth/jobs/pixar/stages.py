"""The work of `quoth train pixar`, stage by stage; whatever a stage needs it reads from disk."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from quoth.jobs.context import JobContext
from quoth.jobs.job import Work
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.pixar.document_names import list_names, list_texts, require_names
from quoth.jobs.pixar.judging import ModelJudge, judge_lexical, mean_by_kind, range_scores
from quoth.jobs.pixar.plan import (
    BuildRates,
    choose_method,
    choose_phrases,
    choose_rates,
    describe_training,
    plan_training,
)
from quoth.jobs.pixar.shortlist import keep_shortlist, make_shortlist
from quoth.jobs.pixar.start import choose_start
from quoth.jobs.pixar.texts import BuildTexts, common_words, open_texts, split_texts
from quoth.jobs.pixar.writing import WrittenNames, read_labelled_queries, write_missing
from quoth.models.glow.files import find_config
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.pretrained import PretrainedPixar
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pretrained import find_folder, load_tokenizer
from quoth.search.generative.config import IDENTIFIERS, NO_GENERATOR
from quoth.search.generative.files import GenerativeModel, save_generative_model
from quoth.search.generative.searcher import GenerativeSearcher
from quoth.search.generative.state import FOLDER, TRIE
from quoth.settings.pixar import PixarBuildConfig
from quoth.settings.stored import store_generative
from quoth.training import loop
from quoth.training.identifiers.pairs import (
    IdentifierPairConfig,
    IdentifierPairs,
    LabelledQuery,
    make_identifier_pairs,
    open_identifier_pairs,
    phrase_counts,
    save_identifier_pairs,
    suggest_num_slots,
)
from quoth.training.identifiers.run_pixar import PixarFiles
from quoth.training.recipes.pixar import PixarPairs, as_pixar, loop_config, train_pixar
from quoth.training.recipes.pixar_config import PixarRecipe
from quoth.vocabulary.phrases.training import train_phrases
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, open_phrases
from quoth.vocabulary.phrases.workers import Threads

if TYPE_CHECKING:
    from quoth.jobs.ray import ClusterHelp

UNTRAINED, TRAINED = "untrained", "trained"
_MOST_REPORTS = 200
_MOST_SLOTS = 16


class PixarStages:
    """The stages of one training."""

    def __init__(
        self,
        context: JobContext,
        folder: JobFolder,
        config: PixarBuildConfig,
        *,
        device: torch.device,
        pairs: Path | None,
        remote: ClusterHelp | None = None,
    ) -> None:
        self._context = context
        self._folder = folder
        self._config = config
        self._device = device
        self._pairs = pairs
        self._remote = remote

    def in_order(self) -> dict[str, Work]:
        """Return the stages, in their order."""
        return {
            "identifiers": self.identifiers,
            "phrases": self.phrases,
            "pairs": self.pairs,
            "start": self.start,
            "training": self.training,
            "judge": self.judge,
            "install": self.install,
        }

    def identifiers(self) -> dict[str, Any]:
        """Write pseudo-queries for documents that have no identifiers, and split all names."""
        settings, written = self._context.config.generative, WrittenNames()
        if IDENTIFIERS in settings.sources and settings.generator != NO_GENERATOR:
            written = write_missing(
                self._context,
                self._config,
                folder=self._folder.path,
                rates=self._rates,
                device=self._device,
            )
        names = list(list_names(self._context))
        require_names(self._context, names)
        labelled = read_labelled_queries(
            self._context, self._pairs, [each.docid for each in names], seed=self._config.seed
        )
        texts = split_texts(
            names,
            most_judged=self._config.judged_queries,
            seed=self._config.seed,
            labelled=labelled,
            most_looked=self._config.look_queries if self._config.looks else 0,
        )
        texts.save(self._texts_file)
        return {
            **asdict(written),
            "names": texts.num_names,
            "unnamed": sum(not each.texts for each in names),
        }

    def phrases(self) -> dict[str, Any]:
        """Choose the phrases that identifiers are made of.

        Where few identifiers leave room, words of the documents fill it, so that words of new
        identifiers are not cut.
        """
        names = sorted({text for own in self._texts.names for text in own})
        config = choose_phrases(len(names), self._config, device=self._device.type)
        least = max(2, config.min_count)
        words = common_words(list_texts(self._context), least=least, most=config.size // 2)
        made = train_phrases(
            [*names, *words],
            config,
            counts=[*repeat(1, len(names)), *repeat(least, len(words))],
            folder=self._work("phrase-stages"),
            progress=lambda what, done, total: self._context.progress(
                f"choosing phrases: {what}", done, total
            ),
            workers=Threads(torch.get_num_threads()),
        )
        made.save(self._work("phrases"))
        return {"phrases": len(made)}

    def pairs(self) -> dict[str, Any]:
        """Pair queries with the identifiers of their documents, and plan the training."""
        self._context.progress("pairing identifiers", 0, 0)
        texts, vocabulary, plain = self._texts, self._vocabulary, self._pixar_config(1)
        made = make_identifier_pairs(
            texts.names,
            tokenise=PixarInputs(load_tokenizer(find_folder(self._encoder)), plain).queries,
            segment=vocabulary.segment,
            num_phrases=len(vocabulary),
            labelled=[
                LabelledQuery(each.text, document)
                for each in texts.training
                for document in each.documents
            ],
            config=IdentifierPairConfig(held_out_share=0.0, seed=self._config.seed),
        )
        save_identifier_pairs(self._work("pairs.bin"), made)
        plan = plan_training(
            len(made),
            len(vocabulary),
            self._config,
            device=self._device.type,
            rates=self._rates,
            spent=float(self._folder.found("identifiers")["seconds"]),
        )
        if self._config.train:
            self._context.note(
                describe_training(plan, num_phrases=len(vocabulary), num_inputs=len(made))
            )
        lengths = made.identifier_lengths
        slots = self._config.slots or min(_MOST_SLOTS, suggest_num_slots(lengths))
        return {
            "inputs": len(made),
            "steps": plan.steps if self._config.train else 0,
            "batch_size": plan.batch_size,
            "slots": slots if self._pretrained is None else self._pretrained.config.num_slots,
            "mean_length": round(float(lengths.mean()), 4),
        }

    def start(self) -> dict[str, Any]:
        """Make the model that training starts from: its rows are the vectors of the phrases."""
        self._context.progress("encoding phrases", 0, 0)
        vocabulary = self._vocabulary
        made = Pixar.start(
            self._encoder,
            num_phrases=len(vocabulary),
            config=self._pixar_config(int(self._folder.found("pairs")["slots"])),
            phrase_texts=[vocabulary.text_of(each) for each in range(len(vocabulary))],
            counts=phrase_counts(self._made_pairs),
            device=self._device,
            seed=self._config.seed,
            pretrained=self._pretrained,
        )
        made.save(self._work(UNTRAINED), dtype="fp32", mapped="none")
        return {}

    def training(self) -> dict[str, Any]:
        """Train, from the last checkpoint on."""
        planned = self._folder.found("pairs")
        config = self._config
        if not config.train:
            return {"steps": 0, "best_step": 0, "first_loss": 0.0, "last_loss": 0.0}
        recipe = PixarRecipe(
            steps=planned["steps"],
            batch_size=planned["batch_size"],
            targets_per_input=config.targets,
            learning_rate=config.learning_rate,
            encoder_learning_rate=config.encoder_learning_rate,
            head_learning_rate=config.head_learning_rate,
            slot_weight=config.slot_weight,
            pooled_weight=config.pooled_weight,
            normaliser_weight=config.normaliser_weight,
            bag_weight=config.bag_weight,
            report_every=max(1, planned["steps"] // _MOST_REPORTS),
            validate_every=-(-planned["steps"] // config.looks) if config.looks else 0,
            patience=config.patience,
            checkpoint_every=config.checkpoint_every,
            seed=config.seed,
        )
        train = self._train if self._remote is None else self._train_elsewhere
        report = train(recipe)
        ramp = loop_config(recipe).ramp_steps  # before it ends, losses lack some of a term
        losses = [loss for step, loss in report.losses if step > ramp or step == recipe.steps]
        best = max(report.validations, key=lambda each: each[1], default=(0, 0.0))
        return {
            "steps": report.steps,
            "best_step": best[0],
            "first_loss": losses[0],
            "last_loss": losses[-1],
        }

    def _train(self, recipe: PixarRecipe) -> loop.TrainingReport:
        start = self._load(UNTRAINED)

        def tell(report: loop.Progress) -> None:
            self._context.progress("training", report.step, recipe.steps)

        made, report = train_pixar(
            start,
            self._made_pairs,
            recipe=recipe,
            device=self._device,
            loop=loop_config(recipe),
            progress=tell,
            checkpoint=self._work("checkpoints"),
            validate=self._look(start) if self._texts.looked else None,
        )
        made.save(self._work(TRAINED), dtype="fp32", mapped="none")
        return report

    def _train_elsewhere(self, recipe: PixarRecipe) -> loop.TrainingReport:
        assert self._remote is not None
        names = (UNTRAINED, "pairs.bin", "checkpoints", TRAINED)
        files = PixarFiles(*(self._work(name).resolve() for name in names))
        progress = self._context.progress
        return self._remote.train_pixar(files, recipe, device=self._device.type, tell=progress)

    def judge(self) -> dict[str, Any]:
        """Search for the held-out queries with the untrained and the trained model."""
        texts = self._texts
        if not texts.judged:
            return {}
        scores = {"lexical": judge_lexical(self._context, texts)}
        for name in (UNTRAINED, TRAINED) if self._config.train else (UNTRAINED,):
            self._context.progress(f"judging the {name} model", 0, 0)
            model = self._with_shortlist(name)
            scores[name] = self._judge.judge(model, texts.judged)
        scores.setdefault(TRAINED, scores[UNTRAINED])
        return mean_by_kind(texts.judged, scores)

    def install(self) -> dict[str, Any]:
        """Let search use the better model, and name every document with it."""
        judged = self._folder.found("judge").values()
        better = sum(each[TRAINED] - each[UNTRAINED] for each in judged)
        chosen = TRAINED if better >= 0 and self._config.train else UNTRAINED
        model = self._with_shortlist(chosen)
        place = self._context.folder / FOLDER / str(self._folder.fact("name"))
        about = {"settings": dict(self._folder.settings), "judged": self._folder.found("judge")}
        save_generative_model(place, model, about=about)
        store_generative(self._context.store, self._context.config.generative, self._config)
        searcher = GenerativeSearcher(
            place / TRIE,
            self._context.store,
            load_model=lambda: model,
            config=self._context.config.generative,
        )
        searcher.rebuild(self._context.store, progress=self._context.progress)
        range_scores(self._context, seed=self._config.seed)
        size = sum(each.stat().st_size for each in place.rglob("*") if each.is_file())
        return {
            "installed": chosen,
            "method": model.shortlist.config.method,
            "megabytes": round(size / 1e6, 1),
        }

    # Inner workings --------------------------------------------------------------------------

    @functools.cached_property
    def _rates(self) -> BuildRates:
        return choose_rates(self._device.type, cores=torch.get_num_threads())

    @functools.cached_property
    def _pretrained(self) -> PretrainedPixar | None:
        encoder, folder = self._context.config.dense.encoder, self._context.folder
        return choose_start(self._config, encoder=encoder, collection=folder)

    @property
    def _encoder(self) -> str:
        """The encoder of queries and phrases: the pretrained network's, or the collection's."""
        if self._pretrained is not None:
            return self._pretrained.encoder.name
        return self._context.config.dense.encoder

    @property
    def _texts_file(self) -> Path:
        return self._work("texts.json")

    @functools.cached_property
    def _texts(self) -> BuildTexts:
        return open_texts(self._texts_file)

    @functools.cached_property
    def _vocabulary(self) -> PhraseVocabulary:
        return open_phrases(self._work("phrases"))

    @functools.cached_property
    def _made_pairs(self) -> IdentifierPairs:
        return open_identifier_pairs(self._work("pairs.bin"))

    @functools.cached_property
    def _judge(self) -> ModelJudge:
        folder = self._work("judged")
        return ModelJudge(self._context, self._vocabulary, self._texts, folder=folder)

    def _look(self, start: Pixar) -> Callable[[nn.Module], float]:
        """Make what scores a state of the training: RR@10 on the queries kept back for that."""

        def look(model: nn.Module) -> float:
            assert isinstance(model, PixarPairs)
            pixar = as_pixar(model, start, name=TRAINED)
            shortlist = make_shortlist(
                pixar, self._made_pairs, config=ShortlistConfig(method="full"), device=self._device
            )
            found = GenerativeModel(pixar, self._vocabulary, shortlist)
            return fmean(self._judge.judge(found, self._texts.looked))

        return look

    def _work(self, name: str) -> Path:
        return self._folder.path / name

    def _pixar_config(self, num_slots: int) -> PixarConfig:
        return PixarConfig(
            num_slots=num_slots,
            pooling=find_config(find_folder(self._encoder)).pooling,
            slots=self._config.slot_kind,
            tail=self._config.tail,
        )

    def _load(self, name: str) -> Pixar:
        return Pixar.load(self._work(name), fast=False)

    def _with_shortlist(self, name: str) -> GenerativeModel:
        pixar, config = self._load(name), self._config
        made = keep_shortlist(
            self._work(f"{name}.shortlist"),
            pixar,
            self._made_pairs,
            config=ShortlistConfig(
                method=choose_method(len(self._vocabulary), config),
                num_centroids=config.num_centroids,
                list_length=config.list_length,
                num_lists=config.num_lists,
                seed=config.seed,
            ),
            device=self._device,
            progress=self._context.progress,
        )
        return GenerativeModel(pixar, self._vocabulary, made)
