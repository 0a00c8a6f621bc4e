"""Detects marked texts in a lake, on a Ray cluster.

    RAY_ADDRESS=HOST:6379 python ray_data.py LAKE KEY_ID ANSWER

LAKE is a folder of Parquet files with the columns `id` and `text`. Each node loads the key by its id from the folder
that VERDIGRIS_KEYS names in the environment of `ray start`, so that no task contains it. ANSWER becomes a folder of
Parquet files with a verdict for each document, and the node that judged it.
"""

import argparse
import os

import pyarrow
import ray
import verdigris


class Judge:
    """A worker, which loads its key once."""

    def __init__(self, key_id: str):
        self.key = verdigris.Ring.load(os.environ["VERDIGRIS_KEYS"])[key_id]
        self.node = ray.get_runtime_context().get_node_id()

    def __call__(self, documents: pyarrow.Table) -> pyarrow.Table:
        found = pyarrow.table(verdigris.detect_many(documents["text"], self.key))
        found = found.append_column("node", pyarrow.array([self.node] * len(found), pyarrow.string()))
        return found.add_column(0, "id", documents["id"])


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("lake")
    options.add_argument("key_id")
    options.add_argument("answer")
    options.add_argument("--workers", type=int, default=2, help="number of workers, one core each")
    options.add_argument("--rows", type=int, default=10_000, help="documents per block, which is judged again if lost")
    asked = options.parse_args()
    ray.init()
    documents = ray.data.read_parquet(asked.lake, columns=["id", "text"])
    documents.repartition(target_num_rows_per_block=asked.rows).map_batches(
        Judge,
        fn_constructor_args=[asked.key_id],
        batch_format="pyarrow",
        batch_size=1024,
        compute=ray.data.ActorPoolStrategy(size=asked.workers),
        # On different nodes, if there are several.
        scheduling_strategy="SPREAD",
        num_cpus=1,
    ).write_parquet(asked.answer)
