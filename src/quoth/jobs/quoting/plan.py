"""Plan `quoth train dynamic-lm`: how much is read and made, and how many steps fit into the time.

The other sections of its settings (recipe, sampling, negatives, quoting, model) are those of what
is trained; this one is the command's own.
"""

from __future__ import annotations

from quoth.settings.dynamic_lm import DynamicTrainingConfig

_USED = 0.9  # of the time; the rest is for judging and saving
_FEWEST_STEPS = 5


def fit_steps(
    config: DynamicTrainingConfig, *, seconds_per_step: float, spent: float, epoch_steps: float
) -> int:
    """Return the steps that fit into what is left of the time, and into the epochs allowed.

    >>> config = DynamicTrainingConfig(minutes=10, most_epochs=4)
    >>> fit_steps(config, seconds_per_step=0.5, spent=40, epoch_steps=1000)
    1000
    >>> fit_steps(config, seconds_per_step=0.5, spent=40, epoch_steps=30.5)
    122
    """
    left = _USED * 60 * config.minutes - spent
    fitting = min(left / seconds_per_step, config.most_epochs * epoch_steps)
    return max(_FEWEST_STEPS, int(fitting))
