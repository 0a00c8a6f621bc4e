"""Detection in many texts: results are those of single texts, and Arrow is accepted and exported."""

import multiprocessing
import threading
import time

import pytest
import verdigris

FIELDS = ("verdict", "marked", "p", "log10_p", "z", "tokens", "scored", "score", "expected", "looks", "sampled",
          "key_id", "dialect", "payload", "doubt", "error")


@pytest.fixture(scope="module")
def mine():
    return verdigris.Key.lists(id="many", width=1)


TEXTS = [f"The captain number {i} came on deck at dawn, and the crew stood there. " * (i % 5) for i in range(300)]


def test_each_text_is_what_it_is_alone(mine):
    found = verdigris.detect_many([*TEXTS, None], mine)
    assert len(found) == len(TEXTS) + 1 and found[-1] is None and found.errors == {}
    for text, one in zip(TEXTS, found):
        assert one.to_dict() == verdigris.detect(text, mine).to_dict()
    with pytest.raises(IndexError):
        found[301]


def test_arrow_goes_in_and_comes_out(mine):
    pyarrow = pytest.importorskip("pyarrow", reason="SKIPPED: pyarrow is not installed, so Arrow is not tested")
    texts = [*TEXTS, None, "caf\u00e9 \U0001f40b"]
    alone = verdigris.detect_many(texts, mine)
    want = [{name: getattr(one, name) for name in FIELDS} if one else dict.fromkeys(FIELDS) for one in alone]
    plain = pyarrow.array(texts)
    columns = [plain, plain.cast(pyarrow.large_string()), plain.cast(pyarrow.string_view()),
               pyarrow.chunked_array([plain[:7], plain[7:7], plain[7:]]), pyarrow.array([None, *texts])[1:]]
    for column in columns:
        found = verdigris.detect_many(column, mine)
        table = pyarrow.record_batch(found)
        table.validate(full=True)
        assert table.schema.names == list(FIELDS)
        assert table.to_pylist() == want
        assert pyarrow.table(found).num_rows == len(texts)
    empty = pyarrow.record_batch(verdigris.detect_many(pyarrow.array([], pyarrow.string()), mine))
    assert empty.num_rows == 0
    with pytest.raises(TypeError, match="give one of strings"):
        verdigris.detect_many(pyarrow.array([1, 2]), mine)
    # Arrow does not check that strings are UTF-8.
    broken = pyarrow.array([TEXTS[1].encode(), "a caf\u00e9".encode()[:-1], b"caf\xe9", None], pyarrow.binary())
    for column in (broken.view(pyarrow.string()), broken.cast(pyarrow.large_binary()).view(pyarrow.large_string())):
        found = verdigris.detect_many(column, mine)
        assert found[0].to_dict() == verdigris.detect(TEXTS[1], mine).to_dict() and found[3] is None
        assert found.errors == {1: "byte 5 is not valid UTF-8", 2: "byte 3 is not valid UTF-8"}


def test_a_text_that_cannot_be_judged_does_not_stop_the_others(mine):
    form = verdigris.Constraint.regex("[a-z ]*")
    found = verdigris.detect_many(["a quiet sea", "A LOUD SEA", "another"], mine, constraint=form)
    assert found[0] is not None and found[2] is not None
    assert list(found.errors) == [1] and "constraint" in found.errors[1]
    with pytest.raises(verdigris.BadText) as alone:
        found[1]
    assert str(alone.value) == found.errors[1]
    pyarrow = pytest.importorskip("pyarrow", reason="SKIPPED: pyarrow is not installed, so Arrow is not tested")
    row = pyarrow.record_batch(found).to_pylist()[1]
    assert row["verdict"] == "error" and row["error"] == found.errors[1] and row["p"] is None


@pytest.mark.parametrize("judge", [
    lambda text, key: verdigris.detect(text, key), lambda text, key: verdigris.detect_many([text], key),
])
def test_other_threads_of_python_go_on_meanwhile(mine, judge):
    """While a text is judged, another thread reads the clock. It would stop if the interpreter lock were held."""
    longest, stop = [0.0], threading.Event()

    def watch():
        last = time.perf_counter()
        while not stop.is_set():
            now = time.perf_counter()
            longest[0], last = max(longest[0], now - last), now

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        longest[0], began = 0.0, time.perf_counter()
        judge("The captain came on deck at dawn, and the crew stood there. " * 100_000, mine)
        took = time.perf_counter() - began
    finally:
        stop.set()
        thread.join()
    assert longest[0] < took / 2, (longest, took)


def test_a_forked_process_has_threads_of_its_own(mine):
    """After a fork, as by `multiprocessing` and the workers of Spark, earlier threads do not exist."""
    want = verdigris.detect_many(TEXTS, mine)[1].p
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=lambda: results.put(verdigris.detect_many(TEXTS, mine)[1].p))
    child.start()
    child.join(60)
    hangs = child.is_alive()
    child.kill()
    assert not hangs and results.get(timeout=10) == want


def test_what_is_no_column_of_texts_is_refused(mine):
    for wrong in ("one text", [1], [b"bytes"], 7):
        with pytest.raises(verdigris.WrongType):
            verdigris.detect_many(wrong, mine)
    assert len(verdigris.detect_many([], mine)) == 0
