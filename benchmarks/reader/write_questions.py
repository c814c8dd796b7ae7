"""Let a language model write questions with their answers, to train the reader on.

    python -m benchmarks.reader.write_questions texts OUT           passages to be asked about
    python3 -m benchmarks.reader.write_questions write OUT --data CARRIED --base FOLDER \
        --encoder FOLDER --reader FOLDER                            # GPU

The questions of squad-train-slice and text/reading are too few for a reader, and passages without
questions are many. SmolLM2 learns from the former to continue a passage with answers, each followed
by its question, in the manner of a source; it then does so for paragraphs of Wikipedia and for
passages of natural pairs. A question is kept if its answer stands in the passage and the reader
that we have, asked it, finds that answer, or at least does not rule it out (a round trip).
Nothing of any dev or test split is read; questions about held-out passages teach nothing here.
`texts` writes OUT/asked.jsonl.gz, `write` adds OUT/written.jsonl.gz, which `pack` reads, and
OUT/written.json, what was done and how much of it was kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import AutoModelForCausalLM

from benchmarks.reader.pack import (
    PAIR_WORDS,
    Example,
    draw_paragraphs,
    is_held_out,
    questions,
    read_rows,
)
from benchmarks.reader.rerank import pad_sequences
from benchmarks.reader.train_gpu import open_network
from quoth.models.reader.inputs import ReaderInputs
from quoth.models.reader.network import ReaderNetwork
from quoth.models.reader.spans import MAX_SUBWORDS

WRITTEN_SOURCE = "written"
TEXTS, WRITTEN, REPORT = "asked.jsonl.gz", "written.jsonl.gz", "written.json"
NUM_PARAGRAPHS, PER_ARTICLE, LEAST_WORDS = 42_000, 8, 50
PAIR_TEXTS = {"acl": 2_500, "elife": 2_500, "mdn": 3_000, "debian": 3_000, "us_code": 3_000}
PAIR_TEXTS |= {"medquad": 2_000, "forum_title": 4_000}

MANNERS = {
    "squad-train-slice": 0.45,
    "squadshifts_new_wiki": 0.3,
    "sleepqa": 0.15,
    "squadshifts_reddit": 0.1,
}
MAX_TEXT, MAX_TARGETS, MAX_SEQUENCE = 240, 8, 420  # subwords, questions, subwords
MAX_WRITTEN = 104  # subwords
MAX_QUESTION_WORDS, MAX_ANSWER_WORDS = 30, 16
LEAST_OVERLAP, LEAST_CHANCE = 0.5, 0.05


@dataclass(frozen=True)
class Written:
    """A question that the language model wrote about a passage."""

    text: int
    question: str
    answer: str


def main() -> None:
    """Choose passages, or learn to ask and ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("texts", "write"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--base", type=Path, help="folder of SmolLM2")
    parser.add_argument("--encoder", type=Path, help="folder of MiniLM")
    parser.add_argument("--reader", type=Path, help="folder of a reader")
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=4.0, help="for writing, at most")
    parser.add_argument("--asked", type=int, default=1_536, help="passages asked about at once")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--limit", type=int, default=0, help="passages; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.what == "texts":
        write_lines(given.out / TEXTS, choose_texts(given.data))
    else:
        write(given)


# --- passages ------------------------------------------------------------------------------------


def choose_texts(data: Path) -> Iterator[dict[str, str]]:
    """Choose passages that nobody has asked about."""
    chance = np.random.default_rng(1)
    drawn = draw_paragraphs(
        data, chance, least_words=LEAST_WORDS, per_article=PER_ARTICLE, count=NUM_PARAGRAPHS
    )
    chosen_texts = [{"title": title, "text": text} for title, text in drawn]
    taken: Counter[str] = Counter()
    rows = list(read_rows(data / "text" / "pairs.jsonl.zst"))
    for at in chance.permutation(len(rows)).tolist():
        row = rows[at]
        words = row["passage"].split()[:PAIR_WORDS]
        wanted = taken[row["source"]] < PAIR_TEXTS.get(row["source"], 0)
        if wanted and len(words) >= LEAST_WORDS:
            taken[row["source"]] += 1
            chosen_texts.append({"title": "", "text": " ".join(words)})
    for at in chance.permutation(len(chosen_texts)).tolist():
        yield chosen_texts[at]


# --- learning to ask -----------------------------------------------------------------------------


class Prompts:
    """Passages and questions as subwords of the language model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.begin = tokenizer.token_to_id("<|im_start|>")
        self._label = self._ids("\nAnswer:")

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def prompt(self, manner: str, title: str, text: str) -> list[int]:
        """Turn a passage into what comes before its questions."""
        head = self._ids(f"{manner}: {title}\n")
        return [self.begin, *head, *self._ids(text)[:MAX_TEXT], *self._label]

    def target(self, answer: str, question: str) -> list[int]:
        """Turn an answer and its question into what is written, up to the next answer."""
        return [*self._ids(f" {answer}\nQuestion: {question}"), *self._label]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn subwords into text."""
        text: str = self._tokenizer.decode(list(ids))
        return text


def teaching_sequences(
    examples: Sequence[Example], prompts: Prompts, chance: np.random.Generator
) -> list[tuple[list[int], int]]:
    """Make a sequence of each passage with its questions, and say where they begin."""
    asked: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for each in examples:
        if each.answers and not is_held_out(each.passage.text, each.passage.text):
            key = (each.source, each.passage.title, each.passage.text)
            answer = each.answers[int(chance.integers(len(each.answers)))]
            asked.setdefault(key, []).append((answer, each.question))
    made = []
    for key, pairs in asked.items():
        prompt = prompts.prompt(*key)
        for start in range(0, len(pairs), MAX_TARGETS):
            own = [pairs[at] for at in chance.permutation(len(pairs)).tolist()]
            targets = [prompts.target(*pair) for pair in own[start : start + MAX_TARGETS]]
            ids = [*prompt, *(each for target in targets for each in target)]
            made.append((ids[:MAX_SEQUENCE], len(prompt)))
    return made


def teach(
    model: Any, sequences: Sequence[tuple[list[int], int]], given: argparse.Namespace, device: Any
) -> dict[str, Any]:
    """Tune all weights to continue passages with their questions."""
    chance = np.random.default_rng(given.seed)
    per_epoch = math.ceil(len(sequences) / given.batch)
    steps = max(1, round(given.epochs * per_epoch))
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=given.rate, weight_decay=0.01, betas=(0.9, 0.98)
    )
    lengths = np.array([len(ids) for ids, _ in sequences])
    batches: list[np.ndarray[Any, Any]] = []
    began, losses = time.perf_counter(), []
    model.train()
    for step in range(steps):
        if not batches:  # of like length, in any order
            order = np.argsort(lengths + chance.uniform(0, 40, len(lengths)))
            batches = np.array_split(order, per_epoch)
            batches = [batches[at] for at in chance.permutation(len(batches)).tolist()]
        rows = [sequences[at] for at in batches.pop().tolist()]
        width = max(len(ids) for ids, _ in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        is_target = torch.zeros(len(rows), width, dtype=torch.bool)
        for at, (own, start) in enumerate(rows):
            ids[at, : len(own)] = torch.tensor(own)
            is_target[at, start : len(own)] = True
        ids, is_target = ids.to(device), is_target.to(device)
        rate = min(1.0, (step + 1) / 60) * (1 - step / steps)
        for group in optimiser.param_groups:
            group["lr"] = given.rate * rate
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            states = model.model(input_ids=ids).last_hidden_state[:, :-1]
            logits = model.lm_head(states[is_target[:, 1:]])
        loss = functional.cross_entropy(logits.float(), ids[:, 1:][is_target[:, 1:]])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        if step % 100 == 99:
            mean = torch.stack(losses[-100:]).mean().item()
            print(f"  {step + 1}/{steps}: {mean:.3f} nats", flush=True)
    last = torch.stack(losses[-200:]).mean().item()
    return {"steps": steps, "nats": round(last, 4), "seconds": round(time.perf_counter() - began)}


# --- asking --------------------------------------------------------------------------------------


@torch.inference_mode()
def ask(
    model: Any,
    prompts: Prompts,
    texts: Sequence[dict[str, str]],
    given: argparse.Namespace,
    device: Any,
) -> list[Written]:
    """Write questions about passages until time is up."""
    torch.manual_seed(given.seed)
    chance = np.random.default_rng(given.seed)
    manners = chance.choice(list(MANNERS), size=len(texts), p=list(MANNERS.values())).tolist()
    began, found = time.perf_counter(), []
    model.eval()
    for start in range(0, len(texts), given.asked):
        if time.perf_counter() - began > 60 * given.minutes:
            break
        rows = range(start, min(len(texts), start + given.asked))
        ids = [prompts.prompt(manners[at], texts[at]["title"], texts[at]["text"]) for at in rows]
        width = max(map(len, ids))
        tokens = torch.tensor([[prompts.begin] * (width - len(own)) + own for own in ids])
        mask = torch.tensor([[0] * (width - len(own)) + [1] * len(own) for own in ids])
        out = model.generate(
            input_ids=tokens.to(device),
            attention_mask=mask.to(device),
            max_new_tokens=MAX_WRITTEN,
            do_sample=True,
            temperature=given.temperature,
            top_k=40,
            eos_token_id=None,
            pad_token_id=prompts.begin,
        )[:, width:].tolist()
        for at, own in zip(rows, out, strict=True):
            found += parse(at, prompts.decode(own), texts[at]["text"])
        seconds = time.perf_counter() - began
        print(f"  {rows[-1] + 1} passages, {len(found)} questions, {seconds:.0f} s", flush=True)
    return found


def parse(text: int, written: str, passage: str) -> Iterator[Written]:
    r"""Read what was written as answers and questions; what is not whole or not there is left out.

    >>> list(parse(0, " Oslo\nQuestion: Where is it?\nAnswer: Rome\nQuestion: Where", "In Oslo."))
    [Written(text=0, question='Where is it?', answer='Oslo')]
    """
    known = set()
    for part in written.split("\nAnswer:")[:-1]:
        answer, mark, question = part.partition("\nQuestion:")
        answer, question = answer.strip(), question.strip()
        num_words = len(question.split())
        is_plain = bool(mark) and "\n" not in question and 3 <= num_words <= MAX_QUESTION_WORDS
        fits = 0 < len(answer.split()) <= MAX_ANSWER_WORDS and answer in passage
        told = answer.lower() in question.lower()
        if is_plain and fits and not told and question not in known:
            known.add(question)
            yield Written(text, question, answer)


# --- the round trip ------------------------------------------------------------------------------


@torch.inference_mode()
def read_back(
    network: ReaderNetwork,
    inputs: ReaderInputs,
    written: Sequence[Written],
    texts: Sequence[dict[str, str]],
    device: Any,
) -> list[tuple[float, float]]:
    """Say how much the reader's answer overlaps with the one meant, and how probable that is."""
    asked = [ids[:64] for ids, _ in inputs.tokenise([each.question for each in written])]
    rows = sorted({each.text for each in written})
    read = dict(zip(rows, inputs.tokenise([texts[at]["text"] for at in rows]), strict=True))
    none = inputs.tokenise([""])[0][0]
    order = np.argsort([len(read[each.text][0]) for each in written], kind="stable")
    found = [(0.0, 0.0)] * len(written)
    network = network.to(device).eval()
    for part in np.array_split(order, max(1, len(order) // 384)):
        sequences, places = [], []
        for at in part.tolist():
            each = written[at]
            ids, spans = read[each.text]
            ids = ids[: 500 - len(asked[at])]
            sequence = inputs.join(asked[at], none, ids)
            start = texts[each.text]["text"].find(each.answer)
            first = int(np.searchsorted(spans[:, 1], start, side="right"))
            last = int(np.searchsorted(spans[:, 0], start + len(each.answer), side="left")) - 1
            sequences.append(sequence)
            places.append((sequence.text, sequence.text + first, sequence.text + last))
        batch = pad_sequences(sequences, device)
        width = batch.mask.shape[1]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = network(batch)
        begins, ends = scores.starts.float(), scores.ends.float()
        offsets = torch.tensor([each[0] for each in places], device=device)
        column = torch.arange(width, device=device)
        outside = (column < offsets[:, None]) | ~batch.mask
        begins = begins.masked_fill(outside & (column > 0), -torch.inf)
        ends = ends.masked_fill(outside & (column > 0), -torch.inf)
        log_begin, log_end = begins.log_softmax(1), ends.log_softmax(1)
        band = torch.ones(width, width, device=device).triu().tril(MAX_SUBWORDS - 1).bool()
        both = (log_begin[:, :, None] + log_end[:, None, :]).masked_fill(~band, -torch.inf)
        both[:, 0] = -torch.inf
        best = both.flatten(1).argmax(1)
        for row, at in enumerate(part.tolist()):
            _offset, first, last = places[row]
            if last >= width:
                continue  # the answer stands in what was cut off
            chance = float((log_begin[row, first] + log_end[row, last]).exp())
            found[at] = (overlap((first, last), divmod(int(best[row]), width)), chance)
    return found


def overlap(meant: tuple[int, int], found: tuple[int, int]) -> float:
    """Return the F1 of two stretches.

    >>> overlap((3, 4), (4, 5))
    0.5
    """
    shared = max(0, min(meant[1], found[1]) - max(meant[0], found[0]) + 1)
    return 2 * shared / (meant[1] - meant[0] + found[1] - found[0] + 2)


def write(given: argparse.Namespace) -> None:
    """Learn to ask, ask, and keep what the reader can answer."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(given.seed)
    torch.set_float32_matmul_precision("high")
    prompts = Prompts(Tokenizer.from_file(str(given.base / "tokenizer.json")))
    examples = [each for each in questions(given.data) if each.source != WRITTEN_SOURCE]
    sequences = teaching_sequences(examples, prompts, np.random.default_rng(given.seed))
    print(f"{len(sequences):,} passages with questions", flush=True)
    model = AutoModelForCausalLM.from_pretrained(given.base, dtype=torch.float32).to(device)
    report: dict[str, Any] = {"settings": {key: str(value) for key, value in vars(given).items()}}
    report["teaching"] = teach(model, sequences, given, device)
    texts = [*read_rows(given.out / TEXTS)]
    texts = texts[: given.limit or None]
    began = time.perf_counter()
    model = model.to(torch.bfloat16 if device.type == "cuda" else torch.float32)
    written = ask(model, prompts, texts, given, device)
    report["asking"] = {"questions": len(written), "seconds": round(time.perf_counter() - began)}
    write_lines(given.out / WRITTEN, [asdict(each) for each in written])  # should the rest fail
    network, inputs = open_network(given.encoder, given.reader)
    began = time.perf_counter()
    backs = read_back(network, inputs, written, texts, device)
    kept = []
    for each, (same, chance) in zip(written, backs, strict=True):
        if same >= LEAST_OVERLAP or chance >= LEAST_CHANCE:
            row = {"text": each.text, "question": each.question, "answer": each.answer}
            kept.append(row | {"overlap": round(same, 2), "chance": round(chance, 4)})
    write_lines(given.out / WRITTEN, kept)
    report["round_trip"] = {
        "kept": len(kept),
        "same": sum(same == 1 for same, _chance in backs),
        "seconds": round(time.perf_counter() - began),
    }
    print(json.dumps(report, indent=1), flush=True)
    (given.out / REPORT).write_text(json.dumps(report, indent=1) + "\n")


def write_lines(path: Path, rows: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> None:
    """Write rows as compressed lines of JSON."""
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as stream:
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
