"""Detects marked texts in a lake, on a Spark cluster.

    spark-submit --master spark://HOST:7077 spark.py LAKE KEY_ID ANSWER

LAKE is a folder of Parquet files with the columns `id` and `text`. Each worker loads the key by its id from the folder
that VERDIGRIS_KEYS names in the worker's environment, so that no plan and no task contains it. ANSWER gets two folders
of Parquet files: `each`, written by `mapInArrow`, with a verdict for each document, and `p`, by a `pandas_udf`, with
its p-value.

Spark runs one task per core, so a task needs only one thread: set RAYON_NUM_THREADS=1 in the environment of workers.
"""

import os
import sys
from collections.abc import Iterator

import pandas
import pyarrow
import verdigris
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import pandas_udf

# Spark has no unsigned integers.
FOUND = "id long, verdict string, marked boolean, p double, z double, tokens long, scored long, error string"
TYPES = {"tokens": pyarrow.int64(), "scored": pyarrow.int64()}


def key(key_id: str) -> verdigris.Key:
    """Loads a key on the worker on which this runs."""
    return verdigris.Ring.load(os.environ["VERDIGRIS_KEYS"])[key_id]


def verdicts(lake: DataFrame, key_id: str) -> DataFrame:
    """Returns a row for each document."""

    def judge(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        mine = key(key_id)
        for batch in batches:
            found = pyarrow.table(verdigris.detect_many(batch.column("text"), mine))
            columns = {"id": batch.column("id")}
            for name in FOUND.replace(",", "").split()[2::2]:
                columns[name] = found[name].cast(TYPES.get(name, found[name].type))
            yield from pyarrow.table(columns).to_batches()

    return lake.select("id", "text").mapInArrow(judge, FOUND)


def p_value(key_id: str):
    """Returns a function of columns: the p-value of each text, or null if there is none."""

    @pandas_udf("double")
    def p(columns: Iterator[pandas.Series]) -> Iterator[pandas.Series]:
        mine = key(key_id)
        for texts in columns:
            texts = pyarrow.array(texts, pyarrow.string(), from_pandas=True)
            yield pyarrow.table(verdigris.detect_many(texts, mine))["p"].to_pandas()

    return p


if __name__ == "__main__":
    lake, key_id, answer = sys.argv[1:]
    session = SparkSession.builder.appName("verdigris").getOrCreate()
    documents = session.read.parquet(lake)
    verdicts(documents, key_id).write.parquet(f"{answer}/each")
    documents.select("id", p_value(key_id)("text").alias("p")).write.parquet(f"{answer}/p")
    session.stop()
