"""Two workers judge a lake, and one of them is killed: python distributed-workers.py (spark | ray) DOCUMENTS.

Runs an example of crates/python/examples on a cluster on this machine, and compares its answer with that of a single
process, number by number. `tests/scripts/distributed` sets up the environment.
"""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import verdigris

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "crates/python/examples"
FILES = 40
WORDS = "the captain,a red sail,the quiet sea,an old map,the crew,a small boat,the morning,gold,went to,saw".split(",")
PATIENCE = 600


def check(truth, what):
    if not truth:
        raise SystemExit(f"FAILED: {what}")


def until(what, name, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not (found := what()):
        check(time.monotonic() < end, f"in {seconds} s: {name}")
        time.sleep(0.05)
    return found


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def make_lake(folder, documents):
    """Writes Parquet with `id` and `text`, every hundredth document marked and every thousandth missing, and a key."""
    program, keys = os.environ["VERDIGRIS_PROGRAM"], folder / "keys"
    keys.mkdir()
    key = keys / "lake.key"
    subprocess.run([program, "key", "new", key, "--id", "lake"], check=True, stdout=subprocess.DEVNULL)
    count = str(max(1, documents // 100))
    command = [program, "generate", "The captain", "--key", key, "--texts", count, "--max-tokens", "150", "--seed", "3"]
    lines = subprocess.run([*command, "--json", "--quiet"], check=True, stdout=subprocess.PIPE, text=True).stdout
    marked = [json.loads(line)["text"] for line in lines.splitlines()]
    chance = random.Random(7)
    lake = folder / "lake"
    lake.mkdir()
    each = -(-documents // FILES)
    for first in range(0, documents, each):
        ids = range(first, min(first + each, documents))
        texts = [" ".join(chance.choices(WORDS, k=80)) + "." for _ in ids]
        for place, number in enumerate(ids):
            if number % 100 == 50:
                texts[place] = marked[number // 100 % len(marked)]
            if number % 1000 == 0:
                texts[place] = None
        columns = {"id": pyarrow.array(ids, pyarrow.int64()), "text": pyarrow.array(texts, pyarrow.string())}
        table = pyarrow.table(columns)
        pyarrow.parquet.write_table(table, lake / f"{first:08}.parquet", row_group_size=250)
    return lake, keys


def alone(lake, keys):
    """The results of a single process: columns by name, in the order of ids."""
    begun = time.monotonic()
    documents = pyarrow.dataset.dataset(lake).to_table().sort_by("id")
    found = pyarrow.table(verdigris.detect_many(documents["text"], verdigris.Ring.load(keys)["lake"]))
    print(f"alone      {len(found)} documents in {time.monotonic() - begun:.1f} s")
    return {"id": documents["id"].to_pylist(), **{name: found[name].to_pylist() for name in found.column_names}}


def same(answer, truth, names):
    """Checks that an answer has each document once, with the results of the single process."""
    answer = answer.sort_by("id")
    for name in ("id", *names):
        check(answer[name].to_pylist() == truth[name], f"the column {name} is that of a single process")


class Group:
    """A process and its children, which are killed together."""

    def __init__(self, command, **options):
        self.child = subprocess.Popen(command, start_new_session=True, **options)

    def kill(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()


def spark(lake, keys, truth, folder):
    import pyspark

    home = pathlib.Path(pyspark.__file__).parent
    # Spark runs one task per core.
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "VERDIGRIS_KEYS": str(keys),
        "RAYON_NUM_THREADS": "1",
    }
    port, page = free_port(), free_port()
    options = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}

    def daemon(kind, *arguments):
        program = [home / "bin/spark-class", f"org.apache.spark.deploy.{kind}"]
        return Group([*program, "--host", "127.0.0.1", *arguments], **options)

    def tells(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/api/v1/applications{path}", timeout=5) as answer:
            return json.load(answer)

    def executors():
        """The number of completed tasks of each executor."""
        try:
            told = tells(f"/{tells('')[0]['id']}/allexecutors")
        except (OSError, ValueError, IndexError):
            return {}
        return {one["id"]: one["completedTasks"] for one in told if one["id"] != "driver"}

    url, logs = f"spark://127.0.0.1:{port}", (folder / "spark.log").open("w+")
    parts = [daemon("master.Master", "--port", str(port), "--webui-port", str(free_port()))]
    try:
        until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), "the master listens", 60)
        for number in range(2):
            work = str(folder / f"worker-{number}")
            told = ["--cores", "1", "--memory", "1g", "--work-dir", work, "--webui-port", str(free_port())]
            parts.append(daemon("worker.Worker", *told, url))
        submit = [home / "bin/spark-submit", "--master", url, "--conf", f"spark.ui.port={page}"]
        # Each file is a task, so that there are many; and the job waits for both workers.
        settings = ["sql.files.openCostInBytes=128m", "scheduler.minRegisteredResourcesRatio=1", "executor.memory=700m"]
        for option in settings:
            submit += ["--conf", f"spark.{option}"]
        submit += [EXAMPLES / "spark.py", lake, "lake", folder / "answer"]
        begun = time.monotonic()
        job = Group(submit, env=environment, stdout=logs, stderr=logs, cwd=folder)
        parts.append(job)

        def both():
            check(job.child.poll() is None, "the job ended before a worker was killed: " + said(logs))
            done = executors()
            return len(done) == 2 and min(done.values()) > 1 and done

        done = until(both, "both workers have done something")
        check(sum(done.values()) < FILES, f"there is work left: {done}")
        parts.pop(2).kill()
        print(f"killed     one of two workers, when they had done {sorted(done.values())} of {FILES} tasks")
        check(job.child.wait(PATIENCE) == 0, "the job succeeds: " + said(logs))
        print(f"answered   after {time.monotonic() - begun:.0f} s in all")
    finally:
        for part in reversed(parts):
            part.kill()
    each = pyarrow.dataset.dataset(folder / "answer/each", format="parquet").to_table()
    same(each, truth, ("verdict", "marked", "p", "z", "tokens", "scored", "error"))
    same(pyarrow.dataset.dataset(folder / "answer/p", format="parquet").to_table(), truth, ("p",))


def ray(lake, keys, truth, folder):
    os.environ.update(VERDIGRIS_KEYS=str(keys), RAYON_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0")
    from ray.cluster_utils import Cluster

    memory = 200 << 20
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": memory})
    try:
        second = cluster.add_node(num_cpus=2, object_store_memory=memory)
        cluster.wait_for_nodes()
        answer, logs = folder / "answer", (folder / "ray.log").open("w+")
        command = [sys.executable, EXAMPLES / "ray_data.py", lake, "lake", answer, "--workers", "2", "--rows", "500"]
        begun = time.monotonic()
        job = Group(command, env={**os.environ, "RAY_ADDRESS": cluster.address}, stdout=logs, stderr=logs)

        def nodes():
            check(job.child.poll() is None, "the job ended before a worker was killed: " + said(logs))
            found = {}
            for file in answer.glob("*.parquet"):
                try:
                    rows = pyarrow.parquet.read_table(file)["node"].to_pylist()
                except (OSError, pyarrow.ArrowInvalid):
                    continue  # It is being written.
                for row in rows:
                    found[row] = found.get(row, 0) + 1
            return len(found) == 2 and found

        try:
            done = until(nodes, "both nodes have judged something")
            check(second.node_id in done, f"the second node is one of them: {done}")
            cluster.remove_node(second, allow_graceful=False)
            check(sum(done.values()) < len(truth["id"]), "there is work left")
            print(f"killed     one of two nodes, when they had written {sorted(done.values())} documents")
            check(job.child.wait(PATIENCE) == 0, "the job succeeds: " + said(logs))
            print(f"answered   after {time.monotonic() - begun:.0f} s in all")
        finally:
            job.kill()
    finally:
        cluster.shutdown()
    found = pyarrow.dataset.dataset(answer, format="parquet").to_table()
    check(len(set(found["node"].to_pylist())) == 2, "both nodes have a part in the answer")
    same(found, truth, [name for name in truth if name != "id"])


def said(log):
    log.flush()
    log.seek(0)
    return "\n" + log.read()[-4000:]


def main():
    engine, documents = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lake, keys = make_lake(folder, documents)
        truth = alone(lake, keys)
        check(sum(filter(None, truth["marked"])) >= documents // 100 * 0.9, "the lake has marked documents")
        {"spark": spark, "ray": ray}[engine](lake, keys, truth, folder)
    print(f"{engine}: each document once, and each number that of a single process")


if __name__ == "__main__":
    main()
