"""From a plan to what is trained."""

from __future__ import annotations

from quoth.jobs.learn.plan import LearnPlan
from quoth.settings.learn import LearnConfig
from quoth.training.retriever.curriculum import Curriculum


def make_curriculum(plan: LearnPlan, config: LearnConfig, *, is_labelled: bool) -> Curriculum:
    """Return what the encoder is trained on; labelled pairs are learned whole, and alone."""
    return Curriculum(
        method="none" if is_labelled else plan.method,
        warm_up_steps=plan.warm_up_steps,
        warm_up_batch=plan.warm_up_batch,
        steps=max(1, plan.steps),
        batch_size=plan.batch_size,
        k=plan.k,
        learning_rate=plan.learning_rate,
        share=1.0 if is_labelled else config.share,
        validations=plan.validations,
        validation_queries=plan.validation_queries,
        validation_passages=plan.validation_passages,
        seed=config.seed,
        similarity=config.similarity,
        marginal=config.marginal,
    )
