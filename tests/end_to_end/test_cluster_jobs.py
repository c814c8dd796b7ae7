"""What takes long, on a real cluster of three nodes on loopback: the same results, nodes killed."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learning_worlds import make_collection, make_documents, save_models
from tests.unit.training.recipes.test_pixar import RECIPE, make_pairs, make_start
from tiny_encoder import save_tiny_encoder

import quoth
from quoth.cli.main import main
from quoth.cluster.adding import AddJob, add_on_cluster
from quoth.cluster.connecting import joined
from quoth.cluster.counting import ClusterWorkers
from quoth.cluster.mapping import map_in_order
from quoth.cluster.training import train_on_cluster
from quoth.collection.shards import create_shards, open_shards
from quoth.engine.adding import AddReport
from quoth.engine.engine import Engine
from quoth.errors import ClusterError, ConfigError
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.state import read_state
from quoth.jobs.learn import job as learning
from quoth.jobs.learn.plan import LearnRequest
from quoth.jobs.ray import ClusterHelp
from quoth.models.pixar.pixar import Pixar
from quoth.models.pretrained import digest_weights
from quoth.records import Query
from quoth.search.dense import filling
from quoth.search.searcher import ignore_progress
from quoth.shards.opening import open_engine
from quoth.shards.ray_add import add_with_cluster
from quoth.shards.ray_encode import fill_vectors
from quoth.training.identifiers.pairs import save_identifier_pairs
from quoth.training.identifiers.run_pixar import PixarFiles
from quoth.training.retriever.run_packed import ENCODER, train_packed
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.training import train_phrases
from quoth.vocabulary.phrases.workers import Threads

pytest.importorskip("ray")
pytestmark = pytest.mark.slow  # three nodes on a small machine take minutes

_QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
_STORE = 80_000_000


@dataclass
class Nodes:
    """A cluster: a head that computes nothing, and two nodes with one processor each."""

    cluster: Any
    workers: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> None:
        self.workers.append(self.cluster.add_node(num_cpus=1, object_store_memory=_STORE))

    def kill(self, node_id: str = "") -> None:
        """Kill a node, as a lost machine would be."""
        chosen = next((n for n in self.workers if n.node_id == node_id), self.workers[-1])
        self.workers.remove(chosen)
        self.cluster.remove_node(chosen, allow_graceful=False)

    def complete(self) -> None:
        """Put another node into the place of one that was killed."""
        while len(self.workers) < 2:
            self.add()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        head = {
            "num_cpus": 0,
            "include_dashboard": False,
            "object_store_memory": _STORE,
            "_system_config": _QUICK_TO_NOTICE,
        }
        made = Nodes(Cluster(initialize_head=True, head_node_args=head))
        try:
            made.complete()
            with joined(made.address):
                yield made
        finally:
            made.cluster.shutdown()


@pytest.fixture(autouse=True)
def all_nodes(nodes: Nodes) -> None:
    """Begin each test with all nodes."""
    nodes.complete()


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Compute as a worker with one processor does, so that numbers can be compared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of documents, with a line and a file that cannot be read, and a docid that repeats."""
    folder = tmp_path_factory.mktemp("sources")
    documents = make_documents(120)
    for number in range(8):
        lines = [
            json.dumps({"id": each.docid, **{name: own[0] for name, own in each.fields.items()}})
            for each in [*documents[15 * number : 15 * number + 15], documents[3]]
        ]
        (folder / f"part-{number}.jsonl").write_text("\n".join([*lines, "{half"]) + "\n")
    (folder / "broken.docx").write_bytes(b"not a document")
    return folder


def once(action: Callable[[], None]) -> Callable[..., None]:
    """Do something at the first call only."""
    left = [action]
    return lambda *_told: left.pop()() if left else None


def add(folder: Path, source: Path, progress: Callable[..., None]) -> tuple[AddReport, list[str]]:
    problems: list[str] = []
    told = add_with_cluster(
        folder,
        [str(source)],
        settings=[],
        report=lambda problem: problems.append(str(problem)),
        progress=progress,
    )
    return told, sorted(problems)


def rankings(folder: Path) -> list[list[tuple[str, float]]]:
    queries = [Query(str(at), each.fields["title"][0]) for at, each in enumerate(make_documents(9))]
    with open_engine(folder) as engine:
        found = engine.run(queries, k=20)
    return [[(hit.docid, round(hit.score, 4)) for hit in own] for own in found.hits.values()]


def stored_vectors(collection: Path) -> dict[tuple[int, int], bytes]:
    """Return the bytes of every vector by row and unit."""
    (folder,) = (collection / "dense").iterdir()
    state = read_state(folder)
    assert state is not None
    index = DenseIndex.open(folder, model=state.model, config=DenseConfig(storage=state.storage))
    rows, units, stored = index.read(index.rows())
    return {
        (int(row), int(unit)): codes.tobytes() + scale.tobytes()
        for row, unit, codes, scale in zip(rows, units, stored.codes, stored.scales, strict=True)
    }


def test_documents_come_in_from_all_nodes_as_from_one(
    nodes: Nodes, sources: Path, tmp_path: Path
) -> None:
    problems: list[str] = []
    with Engine.open(tmp_path / "plain") as engine:
        plain = engine.add([str(sources)], report=lambda each: problems.append(str(each)))
        docids = engine.docids()
    create_shards(tmp_path / "shards", count=3)
    for name in ("whole", "shards"):
        kill = once(nodes.kill) if name == "shards" else ignore_progress
        assert add(tmp_path / name, sources, kill) == (plain, sorted(problems))
        with open_engine(tmp_path / name) as engine:
            assert engine.docids() == docids
        assert rankings(tmp_path / name) == rankings(tmp_path / "plain")
    again, _problems = add(tmp_path / "shards", sources, ignore_progress)
    assert (again.added, again.updated, again.unchanged) == (0, 0, plain.added)


def test_a_writer_gets_its_documents_in_order_and_its_errors_are_told(
    nodes: Nodes, sources: Path
) -> None:
    def read(source: str) -> Iterator[Any]:
        from quoth.settings.config import build_config
        from quoth.shards.ray_add import read_one

        return read_one(source, config=build_config(), directory="/")

    def write(_shard: int, numbered: Iterator[Any]) -> list[tuple[int, str]]:
        found = [(number, located.document.docid) for number, located in numbered]
        if any(docid == "d007" for _number, docid in found):
            raise ConfigError("d007 is not wanted")
        return found

    paths = sorted(map(str, sources.glob("*.jsonl")))
    job = AddJob(paths[2:], read, write, shard_of=lambda _docid: 4, shards=[4])
    problems: list[Any] = []
    found = add_on_cluster(job, report=problems.append, progress=lambda _done: None)
    expected = [
        docid
        for part in range(2, 8)
        for docid in [*(f"d{15 * part + at:03}" for at in range(15)), "d003"]
    ]
    assert found == {4: list(enumerate(expected))}
    assert len(problems) == 6
    bad = AddJob(paths[:1], read, write, shard_of=lambda _docid: 4, shards=[4])
    with pytest.raises(ConfigError, match="d007 is not wanted"):
        add_on_cluster(bad, report=problems.append, progress=lambda _done: None)


@pytest.mark.parametrize("count", [0, 2])
def test_vectors_made_on_a_cluster_that_loses_a_node_are_those_made_here(
    nodes: Nodes,
    models: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    monkeypatch.setattr(filling, "CHUNK", 8)
    settings = [{"dense": {"encoder": str(models[0])}}]
    for name in ("here", "there"):
        if count:
            create_shards(tmp_path / name, count=count)
        with open_engine(tmp_path / name) as engine:
            engine.add_documents(make_documents(80))
    told: list[str] = []

    def progress(_what: str, done: int, _total: int) -> None:
        if done == 16 and not told:
            told.append("killed")
            nodes.kill()

    fill_vectors(tmp_path / "there", settings=settings, progress=progress, note=told.append)
    assert told == ["killed"]
    for name in ("here", "there"):
        with open_engine(tmp_path / name, settings=settings) as engine:
            engine.encode()
    folders = [
        open_shards(tmp_path / name).shards if count else (tmp_path / name,)
        for name in ("here", "there")
    ]
    for here, there in zip(*folders, strict=True):
        assert stored_vectors(here) == stored_vectors(there)


def test_work_is_done_in_order_and_its_errors_are_told_as_they_are(nodes: Nodes) -> None:
    def make() -> Callable[[int], int]:
        def work(piece: int) -> int:
            if piece < 0:
                raise ConfigError(f"{piece} is no piece")
            return 10 // piece

        return work

    assert list(map_in_order(make, [5, 2, 1])) == [2, 5, 10]
    assert list(map_in_order(make, [])) == []
    with pytest.raises(ConfigError, match="-3 is no piece"):
        list(map_in_order(make, [1, -3]))
    with pytest.raises(ClusterError, match=r"failed: .*ZeroDivisionError"):
        list(map_in_order(make, [1, 0]))


def test_phrases_counted_on_a_cluster_are_those_counted_here(nodes: Nodes) -> None:
    texts = [each.fields["text"][0] for each in make_documents(60)]
    config = PhraseConfig(size=400, piece_count=2)
    here = train_phrases(texts, config, workers=Threads(1))
    there = train_phrases(texts, config, workers=ClusterWorkers())
    assert there.fingerprint == here.fingerprint
    assert np.array_equal(there.uses, here.uses)


def learn(collection: Path, models: tuple[Path, Path], request: LearnRequest) -> Any:
    encoder, generator = models
    settings = {
        "dense": {"encoder": str(encoder)},
        "learn": {
            "generator": str(generator),
            "method": "none",
            "warm_up_steps": 40,
            "warm_up_batch": 8,
            "learning_rate": 2e-3,
            "device": "cpu",
        },
    }
    with Engine.open(collection, settings=[settings]) as engine:
        return learning.learn(engine, request)


def test_learning_with_a_cluster_gives_the_model_that_learning_here_gives(
    nodes: Nodes, models: tuple[Path, Path], tmp_path: Path
) -> None:
    found = {}
    for name, remote in (("here", None), ("there", ClusterHelp())):
        collection = make_collection(tmp_path / name, make_documents())
        outcome = learn(collection, models, LearnRequest(remote=remote))
        assert outcome.report is not None
        (model,) = (collection / "models").iterdir()
        found[name] = digest_weights(model), model.name, outcome.report.quality
    assert found["there"] == found["here"]


def test_training_goes_on_after_its_node_is_lost_as_if_nothing_had_happened(
    nodes: Nodes, models: tuple[Path, Path], tmp_path: Path
) -> None:
    collection = make_collection(tmp_path / "birds", make_documents())
    packed = tmp_path / "birds.packed"
    learn(collection, models, LearnRequest(pack=packed))
    tell: Callable[..., None] = ignore_progress
    named = {"encoder": str(models[0]), "generator": str(models[1]), "device": "cpu"}
    train_packed(packed, tmp_path / "here", tell=tell, **named)
    begun, there = tmp_path / "begun", tmp_path / "there"

    def work(_tell: Callable[..., None]) -> None:
        import ray

        with begun.open("a") as stream:
            stream.write(ray.get_runtime_context().get_node_id() + "\n")

        def wait(_stage: str, step: int, _steps: int) -> None:
            while step > 20 and len(begun.read_text().splitlines()) == 1:
                time.sleep(0.1)  # until the node is killed

        train_packed(packed, there, tell=wait, **named)

    def kill() -> None:
        while not list(there.glob("stages/*/step-*")):
            time.sleep(0.1)
        nodes.kill(begun.read_text().splitlines()[0])

    killer = threading.Thread(target=kill)
    killer.start()
    train_on_cluster(work, folder=tmp_path / "ray", tell=tell)
    killer.join()
    assert len(begun.read_text().splitlines()) == 2
    assert digest_weights(there / ENCODER) == digest_weights(tmp_path / "here" / ENCODER)


def test_two_processes_train_one_model_together(
    nodes: Nodes, models: tuple[Path, Path], tmp_path: Path
) -> None:
    collection = make_collection(tmp_path / "birds", make_documents())
    packed = tmp_path / "birds.packed"
    learn(collection, models, LearnRequest(pack=packed))
    told: list[tuple[str, int, int]] = []
    ClusterHelp(workers=2).train(
        packed,
        tmp_path / "two",
        encoder=str(models[0]),
        device="cpu",
        tell=lambda *found: told.append(found),
    )
    facts = json.loads((tmp_path / "two" / "trained.json").read_text())
    assert facts["stages"][0]["steps"] == 40
    assert digest_weights(tmp_path / "two" / ENCODER) != digest_weights(models[0])
    assert told[-1][1:] == (40, 40)


def test_two_processes_that_split_the_head_train_the_pixar_that_one_trains(
    nodes: Nodes, tmp_path: Path
) -> None:
    pairs = make_pairs(held_out_share=0.3)
    start = make_start(save_tiny_encoder(tmp_path / "base"), pairs)
    start.save(tmp_path / "start", dtype="fp32", mapped="none")
    save_identifier_pairs(tmp_path / "pairs.bin", pairs)
    recipe = replace(RECIPE, steps=12, batch_size=3, validate_every=4, checkpoint_every=5)
    found, told = {}, []
    for workers in (1, 2):
        files = PixarFiles(
            tmp_path / "start",
            tmp_path / "pairs.bin",
            tmp_path / f"checkpoints-{workers}",
            tmp_path / f"trained-{workers}",
        )
        report = ClusterHelp(workers).train_pixar(
            files, recipe, device="cpu", tell=lambda *each: told.append(each)
        )
        assert report.steps == 12 and told.pop() == ("training", 12, 12)
        found[workers] = Pixar.load(files.trained, fast=False), report
    (one, alone), (two, together) = found[1], found[2]
    np.testing.assert_allclose(together.validations, alone.validations, rtol=1e-4)
    np.testing.assert_allclose(two.head.rows, one.head.rows, atol=1e-4)
    assert not np.array_equal(two.head.rows, one.head.rows), "two round otherwise than one"


def test_commands_take_the_address_of_a_cluster(
    nodes: Nodes,
    sources: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*arguments: object) -> tuple[Any, dict[str, Any]]:
        given = ["quoth", *map(str, arguments), "--ray", nodes.address, "--json"]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, json.loads(capsys.readouterr().out)

    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(each.fields["text"][0] for each in make_documents(20)))
    code, told = run("add", tmp_path / "c", sources)
    assert (code, told["added"], told["skipped"]) == (1, 120, 17)
    code, told = run("phrases", "build", texts, "--out", tmp_path / "p", "--size", 300)
    assert (code, told["numbers"]["texts"]) == (0, 20)


def test_a_node_of_another_version_is_refused(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from quoth.cluster import connecting

    monkeypatch.setattr(quoth, "__version__", "99.0")
    with pytest.raises(ClusterError, match=r"has Quoth .*, this machine 99\.0.*same versions"):
        connecting._require_same_versions(ray)
