"""A causal language model as a query generator: against transformers, and as a generator."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch
from half_precision import needs_bf16
from tiny_language_model import save_language_model
from transformers import LlamaForCausalLM

from quoth.errors import ConfigError, Damaged, MissingExtra
from quoth.models import language_models
from quoth.models.language_models import EMBEDDED_NAME
from quoth.models.lora import adapter_tensors, load_adapters
from quoth.models.pretrained import find_shipped
from quoth.models.query_generator import generator
from quoth.models.query_generator.causal import CausalNetwork
from quoth.models.query_generator.causal_files import ADAPTER_FILE, read_causal
from quoth.models.query_generator.config import CausalGeneratorConfig
from quoth.models.query_generator.decoding import greedy
from quoth.models.query_generator.generator import SHIPPED_NAMES, QueryGenerator
from quoth.models.query_generator.network import TextBatch
from quoth.models.query_generator.saved import CONFIG_FILE
from quoth.models.tensor_files import digest

CONFIG = CausalGeneratorConfig(max_passage_subwords=48, max_query_subwords=10, lora_rank=2)
PASSAGES = [
    "The barn owl hunts at night. It finds mice by hearing.",
    "A raven watches.",
    "Swifts sleep on the wing; no owl does.",
]
QUERIES = ["Who hunts at night", "the raven", "swifts asleep"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_model(Path(tmp_path_factory.mktemp("causal")) / "base")


@pytest.fixture(scope="module")
def causal(base: Path) -> QueryGenerator:
    """A generator whose adapters do something."""
    made = QueryGenerator.start_causal(base, config=CONFIG)
    chance = torch.Generator().manual_seed(1)
    tensors = adapter_tensors(made.network)
    moved = {
        name: 0.1 * torch.randn(each.shape, generator=chance) for name, each in tensors.items()
    }
    load_adapters(made.network, {name: each.bfloat16().float() for name, each in moved.items()})
    return made


def batches(made: QueryGenerator) -> tuple[TextBatch, TextBatch]:
    inputs = made.inputs
    return inputs.pad(inputs.passages(PASSAGES)), inputs.pad(inputs.queries(QUERIES))


def network_of(made: QueryGenerator) -> CausalNetwork:
    assert isinstance(made.network, CausalNetwork)
    return made.network


def test_fresh_adapters_leave_the_language_model_as_it_is(base: Path) -> None:
    made = QueryGenerator.start_causal(base, config=CONFIG)
    model = LlamaForCausalLM.from_pretrained(str(base), dtype=torch.float32).eval()
    for passage, query in zip(PASSAGES, QUERIES, strict=True):
        prompt = [*made.inputs.passages([passage])[0], *made.network.prefix]
        target = made.inputs.queries([query])[0]
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + target])).logits[0].log_softmax(-1)
        expected = sum(
            float(logits[len(prompt) - 1 + at, token]) for at, token in enumerate(target)
        )
        assert made.score([query], [passage]) == pytest.approx([expected], abs=1e-4)


@torch.inference_mode()
def test_steps_add_up_to_what_is_scored_at_once(causal: QueryGenerator) -> None:
    network = network_of(causal)
    passages, queries = batches(causal)
    states = network.encode(passages)
    expected = network.log_probs(queries, states, passages.mask)
    step = network.begin(states, passages.mask, per_passage=2)
    tokens = torch.full((2 * len(PASSAGES),), network.prefix[0])
    targets = queries.subword_ids.repeat_interleave(2, 0)
    for at in range(targets.shape[1]):
        found = step(tokens).log_softmax(1).gather(1, targets[:, at : at + 1])[:, 0]
        both = found.view(-1, 2)
        wanted = expected[:, at].masked_fill(~queries.mask[:, at], 0.0)
        assert torch.allclose(both[:, 0], both[:, 1], atol=1e-5)
        assert torch.allclose(both[:, 0] * queries.mask[:, at], wanted, atol=1e-4)
        tokens = targets[:, at]


@torch.inference_mode()
def test_rows_go_on_from_their_parents(causal: QueryGenerator) -> None:
    network = network_of(causal)
    passages, _queries = batches(causal)
    states = network.encode(passages)[:1]
    step = network.begin(states, passages.mask[:1], per_passage=2)
    first = torch.full((2,), network.prefix[0])
    step(first)
    step(torch.tensor([5, 9]))
    swapped = step(torch.tensor([7, 7]), torch.tensor([1, 0]))
    again = network.begin(states, passages.mask[:1], per_passage=2)
    again(first)
    again(torch.tensor([9, 5]))
    assert torch.allclose(swapped, again(torch.tensor([7, 7])), atol=1e-5)


def test_neighbours_and_padding_change_nothing(causal: QueryGenerator) -> None:
    together = causal.score(QUERIES, PASSAGES)
    apart = [causal.score([q], [p])[0] for q, p in zip(QUERIES, PASSAGES, strict=True)]
    assert together == pytest.approx(apart, abs=1e-4)
    written = causal.generate(PASSAGES, per_passage=2, seed=3)
    alone = [causal.generate([passage], per_passage=2, seed=3)[0] for passage in PASSAGES]
    assert written == alone


def test_what_is_written_depends_on_the_seed_alone(causal: QueryGenerator) -> None:
    first = causal.generate(PASSAGES, per_passage=3, seed=0)
    assert first == causal.generate(PASSAGES, per_passage=3, seed=0)
    assert first != causal.generate(PASSAGES, per_passage=3, seed=1)
    assert all(query == query.lower() for own in first for query in own)


@torch.inference_mode()
def test_greedy_takes_the_likeliest(causal: QueryGenerator) -> None:
    network, rules = network_of(causal), causal.rules()
    passages, _queries = batches(causal)
    states = network.encode(passages)
    written = greedy(network.begin(states, passages.mask), 3, rules, states.device)
    inputs = torch.tensor([[*network.prefix, *written[0]]])
    logits = network.decode(inputs, states[:1], passages.mask[:1])[0]
    logits[:, list(rules.banned)] = float("-inf")
    logits[0, rules.end] = float("-inf")
    assert logits[:2].argmax(1).tolist() == written[0][:2]


def test_case_of_queries_matters_only_where_it_is_kept(base: Path) -> None:
    lower = QueryGenerator.start_causal(base, config=CONFIG)
    assert lower.inputs.queries(["The OWL"]) == lower.inputs.queries(["the owl"])
    kept = CausalGeneratorConfig(max_passage_subwords=48, lower_case=False)
    upper = QueryGenerator.start_causal(base, config=kept)
    assert upper.inputs.queries(["The OWL"]) != upper.inputs.queries(["the owl"])


def test_passages_are_cut_and_special_words_are_text(causal: QueryGenerator) -> None:
    long = causal.inputs.passages(["owl " * 100])[0]
    assert len(long) == CONFIG.max_passage_subwords
    assert long[-2:] == causal.inputs.passages(["raven"])[0][-2:]
    assert causal.inputs.symbols.end not in causal.inputs.passages(["a <|im_end|> b"])[0]


def test_gradients_reach_all_adapters_and_nothing_else(base: Path) -> None:
    made = QueryGenerator.start_causal(base, config=CONFIG)
    passages, queries = batches(made)
    network = network_of(made)
    for tensor in adapter_tensors(network).values():
        tensor += 0.01
    losses = network.target_losses(queries, network.encode(passages), passages.mask)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    trained = {name for name, each in network.named_parameters() if each.requires_grad}
    reached = {name for name, each in network.named_parameters() if each.grad is not None}
    assert trained == reached and all(name.endswith((".up", ".down")) for name in trained)


def test_it_is_saved_and_loaded(causal: QueryGenerator, tmp_path: Path) -> None:
    causal.save(tmp_path / "saved")
    assert sorted(each.name for each in (tmp_path / "saved").iterdir()) == [
        ADAPTER_FILE,
        CONFIG_FILE,
    ]
    loaded = QueryGenerator.load(str(tmp_path / "saved"), fast=False)
    assert loaded.config == CONFIG
    assert loaded.score(QUERIES, PASSAGES).tolist() == causal.score(QUERIES, PASSAGES).tolist()
    assert loaded.identity()["digest"] != causal.identity()["digest"]
    loaded.save(tmp_path / "again")
    again = QueryGenerator.load(str(tmp_path / "again"), fast=False)
    assert {**again.identity(), "name": ""} == {**loaded.identity(), "name": ""}


@needs_bf16
def test_bf16_is_near_and_cannot_be_saved(causal: QueryGenerator, tmp_path: Path) -> None:
    causal.save(tmp_path / "saved")
    loaded = QueryGenerator.load(str(tmp_path / "saved"), fast=False)
    network_of(loaded).use_bf16()
    assert not adapter_tensors(loaded.network)
    expected = causal.score(QUERIES, PASSAGES)
    assert loaded.score(QUERIES, PASSAGES) == pytest.approx(expected, rel=0.05)
    with pytest.raises(ConfigError, match="cannot be saved"):
        loaded.save(tmp_path / "again")


def test_merged_adapters_do_the_same_and_cannot_be_saved(
    causal: QueryGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "has_fast_bf16", lambda: False)
    causal.save(tmp_path / "saved")
    loaded = QueryGenerator.load(str(tmp_path / "saved"))
    assert network_of(loaded).is_merged and not loaded.is_exact
    expected = causal.score(QUERIES, PASSAGES)
    assert loaded.score(QUERIES, PASSAGES) == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ConfigError, match="merged adapters"):
        loaded.save(tmp_path / "again")


def test_another_base_is_refused(base: Path, tmp_path: Path) -> None:
    own = shutil.copytree(base, tmp_path / "base")
    QueryGenerator.start_causal(own, config=CONFIG).save(tmp_path / "saved")
    shutil.rmtree(own)
    with pytest.raises(ConfigError, match="there is no language model"):
        QueryGenerator.load(str(tmp_path / "saved"))
    save_language_model(own)
    weights = own / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(bytes(content))
    with pytest.raises(ConfigError, match=r"was trained over another .* expected"):
        QueryGenerator.load(str(tmp_path / "saved"))


def test_a_missing_embedded_base_says_what_to_install(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = shutil.copytree(base, tmp_path / EMBEDDED_NAME)
    QueryGenerator.start_causal(named, config=CONFIG).save(tmp_path / "saved")
    assert read_causal(tmp_path / "saved").base.name == EMBEDDED_NAME
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(language_models, "EMBEDDED_PACKAGE", "no-such-package==1")
    with pytest.raises(MissingExtra, match="pip install"):
        QueryGenerator.load(str(tmp_path / "saved"))


def test_damage_is_found(causal: QueryGenerator, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    causal.save(folder)
    content = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**content, "format": 9}))
    with pytest.raises(ConfigError, match="format 9"):
        QueryGenerator.load(str(folder))
    ranked = {**content, "config": {**content["config"], "lora_rank": 3}}
    (folder / CONFIG_FILE).write_text(json.dumps(ranked))
    with pytest.raises(Damaged, match="does not fit"):
        QueryGenerator.load(str(folder))
    (folder / CONFIG_FILE).write_text(json.dumps(content))
    (folder / ADAPTER_FILE).write_bytes(b"cut")
    with pytest.raises(Damaged, match="altered or cut"):
        QueryGenerator.load(str(folder))


def test_other_things_are_not_overwritten(causal: QueryGenerator, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else"):
        causal.save(tmp_path)
    with pytest.raises(ConfigError, match="no plain Llama"):
        gpt2 = save_language_model(tmp_path / "gpt2", kind="gpt2")
        QueryGenerator.start_causal(gpt2, config=CONFIG)


def test_there_is_no_cross_attention_to_bias(causal: QueryGenerator) -> None:
    passages, queries = batches(causal)
    states = causal.network.encode(passages)
    with pytest.raises(ConfigError, match="no cross-attention"):
        causal.network.log_probs(queries, states, passages.mask, bias=torch.zeros(1))


def test_the_shipped_generator_is_sealed_and_names_the_embedded_language_model() -> None:
    if importlib.util.find_spec("quoth_weights") is None:
        pytest.skip("quoth_weights is not installed")
    folder = find_shipped("causal-query-generator")
    saved = read_causal(folder)
    assert saved.base.name == EMBEDDED_NAME and "causal-query-generator" in SHIPPED_NAMES
    assert digest(folder / ADAPTER_FILE) == saved.sha256
