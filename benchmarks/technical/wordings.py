"""Questions as people type them, worded of terms, descriptions, headings and sentences.

What a description says is turned into what somebody wants ("Prints the version" → "print the
version"), with some of its words said otherwise, so that a reader cannot go by the same words
alone. Pure: strings and a generator in, strings out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from quoth.answer.noun_phrases import STOP_WORDS

Chance = np.random.Generator


class Asked(NamedTuple):
    """A question, and the stretches of text of which any answers it."""

    question: str
    answers: tuple[str, ...]


_VERBS = re.findall(
    r"\w+",
    """
abort accept access activate adapt add adjust allow alter analyze append apply archive arrange ask
assign attach avoid back backup begin bind block boot break browse build bypass calculate call
cancel capture cause change check choose clean clear clone close collapse collect colorize combine
comment commit compare compile complete compress compute concatenate configure connect consider
consult contain continue control convert copy count create cut deactivate debug declare decode
decompress decrease decrypt define delete describe detach detect determine disable discard
disconnect display divide do download draw drop dump edit eject embed emit enable encode encrypt
enforce ensure enter erase escape establish evaluate examine exclude execute exit expand export
expose extend extract fetch fill filter find flush follow force format forward free generate get
give go grant group handle hide highlight identify ignore import include increase indent
indicate inherit initialize insert inspect install interpret interrupt invert invoke join keep kill
launch leave let limit link list listen load locate lock log look lookup loop make manage map mark
match measure merge modify monitor mount move name normalize obtain omit open optimize order
output overwrite parse pass paste pause perform permit pick pipe play preserve press prevent print
process produce prompt protect prune push put query quit quote raise read rebuild receive record
recover redirect redo reduce refresh register reject release reload remove rename render repair
repeat replace report request require reset resize resolve restart restore restrict resume
retrieve return reverse revert rotate run save scale scan schedule search select send separate
serve set show shorten shut skip sort specify split start stop store strip submit substitute
summarize suppress suspend swap switch synchronize tell terminate test toggle trace track transfer
transform translate treat trim truncate try turn uncompress undo uninstall unlock unmount unpack
unset update upgrade upload use validate verify view wait warn watch wrap write zoom
""",
)
_BASE = {
    **{verb: verb for verb in _VERBS},
    **{f"{verb}s": verb for verb in _VERBS},
    **{f"{verb}es": verb for verb in _VERBS if verb.endswith(("s", "x", "ch", "sh", "o", "z"))},
    **{f"{verb[:-1]}ies": verb for verb in _VERBS if verb.endswith("y")},
}
_GERUND = {
    **{f"{verb}ing": verb for verb in _VERBS},
    **{f"{verb[:-1]}ing": verb for verb in _VERBS if verb.endswith("e")},
    **{f"{verb}{verb[-1]}ing": verb for verb in _VERBS},
}
_OTHERWISE = {
    "print": ("show", "display", "see"),
    "display": ("show", "see", "print"),
    "show": ("see", "display"),
    "list": ("see", "show", "get a list of"),
    "remove": ("delete", "get rid of"),
    "delete": ("remove", "get rid of"),
    "create": ("make",),
    "specify": ("set", "choose", "give"),
    "set": ("change", "choose"),
    "execute": ("run",),
    "invoke": ("run", "call"),
    "terminate": ("stop", "end", "kill"),
    "omit": ("leave out", "skip"),
    "suppress": ("hide", "turn off", "avoid"),
    "disable": ("turn off", "switch off", "stop"),
    "enable": ("turn on", "switch on"),
    "retrieve": ("get", "fetch"),
    "obtain": ("get",),
    "return": ("get",),
    "compute": ("calculate", "get"),
    "determine": ("find out", "find"),
    "modify": ("change", "edit"),
    "search": ("look",),
    "locate": ("find",),
    "copy": ("duplicate",),
    "rename": ("change the name of",),
    "limit": ("restrict",),
    "directory": ("folder",),
    "directories": ("folders",),
    "utilize": ("use",),
    "concatenate": ("join",),
    "combine": ("join",),
    "output": ("print", "write"),
    "ignore": ("skip",),
    "replace": ("substitute",),
    "verbose": ("more detailed",),
    "information": ("details", "info"),
    "current": ("present",),
    "maximum": ("largest", "biggest"),
    "minimum": ("smallest",),
    "begin": ("start",),
    "commence": ("start",),
    "characters": ("letters",),
    "specified": ("given", "certain"),
    "standard output": ("the screen", "stdout"),
    "recursively": ("with all subfolders", "including subdirectories"),
}
_FOR_ME = {"you": "I", "your": "my", "yours": "mine", "yourself": "myself"}
_LEAST_WORDS, _MOST_WORDS, _MOST_ANSWER = 2, 14, 20
_BREAK = re.compile(r"[;:]\s|,\s|\s\(|\.\s|\.$|\s[-–—]\s")


def wish(text: str, *, heads: bool = False) -> str:
    """Turn a description into what somebody wants to do; empty where it does not begin so.

    A heading may say what is done in it.

    >>> wish("Prints the version of your system, then exits."), wish("A list of names.")
    ('print the version of my system', '')
    >>> wish("Creating an index", heads=True)
    'create an index'
    """
    clause = clause_of(text, _MOST_WORDS)
    words = clause.split()
    if len(words) <= _LEAST_WORDS:
        return ""
    first = words[0].lower()
    verb = _BASE.get(first) or (_GERUND.get(first) if heads else None)
    if verb is None or words[1].lower() in ("is", "are", "of", "by"):
        return ""
    return " ".join([verb, *(_FOR_ME.get(word.lower(), word) for word in words[1:])])


def clause_of(text: str, most: int) -> str:
    """Return the beginning of a text up to a break, of at most so many words.

    >>> clause_of("Sort by size, largest first.", 20), clause_of("(HTTP) Send it all (again).", 20)
    ('Sort by size', 'Send it all')
    """
    flat = re.sub(r"^\([^)]{1,20}\)\s*", "", " ".join(text.split()))
    found = next((match for match in _BREAK.finditer(flat) if match.start() >= 10), None)
    clause = flat[: found.start()] if found else flat
    words = clause.split()
    return clause.rstrip(" .,;:") if len(words) <= most else ""


def opening(text: str, most: int = _MOST_ANSWER) -> str:
    """Return the first words of a text, as they stand, up to the last break within so many.

    >>> opening("Sort by size, then by name, unless told not to do it at all.", 8)
    'Sort by size, then by name'
    """
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    if len(ends) <= most:
        return text.rstrip(" .;:,\n")
    kept = text[: ends[most - 1]]
    breaks = [match.start() for match in _BREAK.finditer(kept) if match.start() > len(kept) // 3]
    return (kept[: breaks[-1]] if breaks else kept).rstrip(" .;:,\n(")


def say_otherwise(text: str, chance: Chance, *, share: float = 0.5) -> str:
    """Replace some words by others of like meaning, and leave a few small ones out."""
    found: list[str] = []
    for at, word in enumerate(text.split()):
        others = _OTHERWISE.get(word.lower().rstrip(","), ())
        is_fitting = at == 0 or word not in _BASE
        if others and is_fitting and chance.random() < share:
            found.append(others[int(chance.integers(len(others)))])
        elif word.lower() in ("the", "all", "given", "specified") and chance.random() < 0.25:
            continue
        else:
            found.append(word)
    return " ".join(found)


def pick(options: Sequence[str], chance: Chance) -> str:
    """Draw one."""
    return options[int(chance.integers(len(options)))]


# --- entries --------------------------------------------------------------------------------------

_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z0-9][\w-]*")
_CALL = re.compile(r"[\w.:$]+(?=\()")
_MOST_TERM_WORDS = 5
_NAME = re.compile(r"[\w./:$@%\\+*-]*[A-Za-z][\w./:$@%\\+*-]*")


def name_of_term(term: str, chance: Chance) -> tuple[str, str]:
    """Return what a term is called, and what it is: an option, a function, or anything else.

    >>> name_of_term("--color[=WHEN]", np.random.default_rng(0))
    ('--color', 'option')
    >>> name_of_term("re.split(pattern, string)", np.random.default_rng(0))
    ('re.split', 'function')
    >>> name_of_term("MaxClients number", np.random.default_rng(0))
    ('MaxClients', 'name')
    """
    flat = " ".join(term.split())
    if flat.startswith("-"):
        options = _OPTION.findall(flat)
        if options:
            return pick(options, chance), "option"
    if call := _CALL.search(flat):
        return call[0], "function"
    if flat.startswith("/"):
        return flat.split()[0].rstrip(",;"), "file"
    found = _NAME.match(flat)
    if found is None or found[0].lower() in STOP_WORDS or len(flat.split()) > _MOST_TERM_WORDS:
        return "", ""
    return found[0].rstrip(":."), "name"


def ask_meaning(name: str, kind: str, program: str, chance: Chance) -> str:
    """Ask what a term means."""
    plain = [
        f"what does {name} do?",
        f"what is {name}?",
        f"what is {name} for?",
        f"what does {name} mean in {program}?",
        f"what does {name} do in {program}?",
        f"{program} {name}",
        f"what is {name} in {program}?",
        f"meaning of {name}",
    ]
    own = {
        "option": [
            f"what does the {name} option do?",
            f"what does {program} {name} do?",
            f"what does the option {name} of {program} do?",
            f"{program} {name} option",
            f"what happens when I run {program} with {name}?",
            f"why would I use {name} with {program}?",
        ],
        "function": [
            f"what does {name}() do?",
            f"what does the function {name} do?",
            f"what does {name}() return?",
            f"how does {name} work?",
        ],
        "command": [
            f"what does {name} do?",
            f"what does the command {name} do?",
            f"what is the {name} command used for?",
            f"what is {name}?",
            f"purpose of {name}",
        ],
        "file": [f"what is {name}?", f"what is the file {name} for?", f"what does {name} contain?"],
        "name": [f"what is the {name} setting?", f"explain {name}", f"what does {name} control?"],
    }
    if kind in ("command", "file"):
        return pick(own[kind], chance)
    return pick([*plain, *own.get(kind, ())], chance)


def ask_means(wanted: str, kind: str, program: str, chance: Chance) -> str:
    """Ask by which means something that is wanted can be done."""
    wanted = say_otherwise(wanted, chance)
    plain = [
        f"how do I {wanted}?",
        f"how can I {wanted}?",
        f"how to {wanted}",
        f"how do I {wanted} with {program}?",
        f"how do I {wanted} in {program}?",
        f"how to {wanted} in {program}",
        f"can I {wanted}?",
        f"is there a way to {wanted}?",
        f"{program} {wanted}",
    ]
    noun = {
        "option": "option",
        "function": "function",
        "command": "command",
        "file": "file",
        "name": "setting",
    }[kind]
    means = [
        f"which {noun} do I use to {wanted}?",
        f"what {noun} lets me {wanted}?",
        f"which {noun} makes {program} {wanted}?",
        f"what is the {noun} to {wanted}?",
    ]
    if kind in ("command",):
        plain = plain[:3] + plain[6:8]
        means = [means[0], means[1], means[3]]
    return pick(plain if chance.random() < 0.7 else means, chance)


def ask_default(name: str, program: str, chance: Chance) -> str:
    """Ask for what holds where nothing is set."""
    return pick(
        [
            f"what is the default of {name}?",
            f"what is the default value of {name}?",
            f"what is the default {name} in {program}?",
            f"{name} default",
            f"what is {name} set to by default?",
            f"which value does {name} have by default?",
            f"what does {program} use for {name} if I do not set it?",
        ],
        chance,
    )


_DEFAULT = re.compile(
    r"(?:\b[Dd]efaults?(?: value| setting)?(?: is|:| to)|\b[Dd]efault=|\b[Tt]he default is)\s+"
    r"((?:\"[^\"]+\"|[^\s.;,()]+(?:\.\d+)?)(?:\s[^\s.;,()]+){0,4})"
)


def find_default(text: str) -> str:
    """Find what a description says of the default.

    >>> find_default("Seconds to wait. The default is 300 seconds."), find_default("Nothing here")
    ('300 seconds', '')
    """
    found = _DEFAULT.search(text)
    return found[1].rstrip(" .") if found else ""


# --- sentences ------------------------------------------------------------------------------------

_TO = re.compile(r"^(?:In order )?[Tt]o ([a-z]+ [^,.;:]{6,90}), (\S.{4,})$", re.S)
_IF = re.compile(
    r"^If you (?:want|wish|need|would like|'d like) to ([a-z]+ [^,.;:]{6,90}), (?:then )?"
    r"(\S.{4,})$",
    re.S,
)
_YOU_CAN = re.compile(
    r"^You (?:can|may) (?:also |then )?([a-z]+ [^,.;:]{6,90}?) (by [a-z]+ing .{4,}|with .{4,}"
    r"|using .{4,})$",
    re.S,
)
_USE = re.compile(
    r"^((?:Use|Run|Call|Try|Press|Set|Type) .{3,70}?) (?:in order )?to ([a-z]+ .{6,})$", re.S
)
_USED_TO = re.compile(
    r"^(.{3,60}?) (?:is|are|can be|may be) used to ([a-z]+ .{6,90})$|"
    r"^(.{3,60}?) (?:allows?|lets?|enables?) you(?: to)? ([a-z]+ .{6,90})$",
    re.S,
)
_IS = re.compile(
    r"^(An?|The) ([A-Za-z][\w./-]*(?: [\w./-]+){0,3}) (is|are)"
    r" ((?:an?|the|one|any|used|called)\b.+)$",
    re.S,
)
_STORED = re.compile(
    r"^(.{4,60}?) (is|are) (?:stored|located|kept|found|saved|written|installed) (?:in|at|to|under)"
    r" (.+)$",
    re.S,
)
_AMOUNT = re.compile(
    r"\b(maximum|minimum|largest|smallest|default) ([a-z][a-z -]{2,40}?) (?:is|of|are)"
    r" (?:limited to )?(\d[\w,.]*(?: [A-Za-z]+)?)"
)


def ask_of_sentence(sentence: str, program: str, chance: Chance) -> Iterator[Asked]:
    """Ask what a sentence answers by its very form; nothing where it has none of the forms.

    >>> chance = np.random.default_rng(3)
    >>> [asked] = ask_of_sentence("A leaf is a node without children.", "x", chance)
    >>> asked.answers
    ('a node without children',)
    """
    for pattern in (_TO, _IF, _YOU_CAN):
        if (found := pattern.match(sentence)) and (wanted := wish(found[1])):
            answer = opening(found[2])
            yield Asked(ask_means(wanted, "command", program, chance), (answer,))
            return
    if (found := _USE.match(sentence)) and (wanted := wish(found[2])):
        yield Asked(ask_means(wanted, "command", program, chance), (opening(found[1]),))
    elif (found := _USED_TO.match(sentence)) and (wanted := wish(found[2] or found[4])):
        answer = opening(found[1] or found[3])
        yield Asked(ask_means(wanted, "command", program, chance), (answer,))
    elif found := _IS.match(sentence):
        name = " ".join(found[2].split())
        yield Asked(_ask_what(name, found[1], found[3], program, chance), (opening(found[4]),))
    elif found := _STORED.match(sentence):
        subject = " ".join(found[1].split())
        subject = subject[0].lower() + subject[1:]
        asked = pick([f"where {found[2]} {subject} stored?", f"where do I find {subject}?"], chance)
        yield Asked(asked, (opening(found[3], 10),))
    if found := _AMOUNT.search(sentence):
        what = f"{found[1]} {' '.join(found[2].split())}"
        asked = [f"what is the {what}?", f"what is the {what} in {program}?", f"{program} {what}"]
        yield Asked(pick(asked, chance), (found[3].rstrip(".,"),))


def _ask_what(name: str, article: str, verb: str, program: str, chance: Chance) -> str:
    plain = f"{article.lower()} {name}" if chance.random() < 0.6 else name
    return pick(
        [
            f"what {verb} {plain}?",
            f"what {verb} {plain} in {program}?",
            f"what does {name} mean?",
            f"define {name}",
            f"{program} {name}",
        ],
        chance,
    )


# --- headings -------------------------------------------------------------------------------------


_IDENTIFIER = re.compile(r"[_.(:$\d-]|[A-Z]{2}|[a-z][A-Z]")


def ask_of_heading(heading: str, program: str, chance: Chance) -> str:
    """Ask what the text under a heading answers; empty where the heading says too little.

    >>> ask_of_heading("Why is it slow?", "x", np.random.default_rng(0))
    'Why is it slow?'
    """
    if heading.endswith("?"):
        return heading
    words = heading.split()
    if wanted := wish(heading, heads=True):
        return ask_means(wanted, "command", program, chance)
    first = words[0].lower() if words else ""
    if first in ("how", "why", "when", "what", "where", "which") and len(words) > 2:
        return heading
    if first in _GERUND and len(words) == 2:
        wanted = f"{_GERUND[first]} {words[1]}"
        return ask_means(wanted, "command", program, chance)
    if len(words) == 1 and _IDENTIFIER.search(heading):
        name, kind = name_of_term(heading, chance)
        return ask_meaning(name, kind, program, chance) if name else ""
    if 2 <= len(words) <= 7 and heading[:1].isalpha():
        return pick([f"{program} {heading}", heading, f"what are {heading} in {program}?"], chance)
    return ""
