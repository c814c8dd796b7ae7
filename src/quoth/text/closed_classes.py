"""English words of the closed classes: there are few of them, and everybody spells them right."""

from __future__ import annotations

import re

DETERMINERS = frozenset(
    re.findall(
        r"\S+",
        "a an the this that these those my your his her its our their each every some any no"
        " another both all",
    )
)
"""Words that may begin a noun phrase."""

BARRIERS = frozenset(
    re.findall(
        r"\S+",
        "i you he she it we they me him us them who whom which what whose there here"
        " and or but nor so yet if then than because while although though when where why how as"
        " am is are was were be been being do does did done have has had having will would shall"
        " should can could may might must not never also only just very too still even ever"
        " in on at by to from with without within into onto over under above below between among"
        " about against during before after since until through across along around for off up"
        " down out via per",
    )
)
"""Words that cannot stand inside a noun phrase."""

STOP_WORDS = DETERMINERS | BARRIERS | {"of"}
"""Words of the closed classes: they alone say nothing."""
