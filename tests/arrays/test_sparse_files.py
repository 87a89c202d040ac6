"""Files of sparse tensors: what is read, and every wrong one refused at its line."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from teir.arrays import sparse_files
from teir.arrays.sparse import Sparse
from teir.errors import TeirError

HEAD = "%%MatrixMarket matrix coordinate real general\n"
HERMITIAN = "%%MatrixMarket matrix coordinate complex hermitian\n"
SKEW = HEAD.replace("general", "skew-symmetric")
SYMMETRIC = HEAD.replace("general", "symmetric")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("field", ["real", "double", "integer", "unsigned-integer"])
@pytest.mark.parametrize("kind", ["coordinate", "array"])
def test_fields_of_one_number(tmp_path: Path, field: str, kind: str) -> None:
    matrix = np.array([[0.0, 3.0], [7.0, 0.0]])
    given = scipy.sparse.coo_array(matrix) if kind == "coordinate" else matrix
    path = tmp_path / "m.mtx"
    scipy.io.mmwrite(path, given, field="real")
    path.write_text(path.read_text().replace(" real ", f" {field} "))
    assert Sparse.from_file(path).to_dense().tolist() == matrix.tolist()


@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz", ".MTX"])
def test_matrix_market(tmp_path: Path, ending: str) -> None:
    text = HEAD + "% comment\n\n2 3 3\n1 1 5\n2 3 -1e2\n1 1 0.5\n"
    path = write(tmp_path, f"m{ending}", text)
    assert Sparse.from_file(path).to_dense().tolist() == [[5.5, 0, 0], [0, 0, -100]]


@pytest.mark.parametrize(
    ("head", "entries", "expected"),
    [
        ("coordinate real symmetric", "2 2 2\n1 1 1\n2 1 3\n", [[1, 3], [3, 0]]),
        ("coordinate integer skew-symmetric", "2 2 1\n2 1 3\n", [[0, -3], [3, 0]]),
        ("coordinate complex hermitian", "2 2 1\n2 1 3 1\n", [[0, 3 - 1j], [3 + 1j, 0]]),
        ("coordinate pattern general", "2 2 1\n2 1\n", [[0, 0], [1, 0]]),
        ("array real general", "2 2\n1\n2\n3\n4\n", [[1, 3], [2, 4]]),
        ("array real symmetric", "2 2\n1\n2\n4\n", [[1, 2], [2, 4]]),
        ("array real skew-symmetric", "2 2\n2\n", [[0, -2], [2, 0]]),
        ("coordinate real general", "0 3 0\n", np.zeros((0, 3)).tolist()),
    ],
)
def test_fields_and_symmetries(
    tmp_path: Path, head: str, entries: str, expected: list[list[complex]]
) -> None:
    path = write(tmp_path, "m.mtx", f"%%MatrixMarket matrix {head}\n{entries}")
    assert Sparse.from_file(path).to_dense().tolist() == expected


@pytest.mark.parametrize("ending", [".tns", ".tns.gz"])
def test_frostt(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, f"t{ending}", "# comment\n1 2 3 4.5\n\n2 1 1 -1\n")
    tensor = Sparse.from_file(path, levels="sss", mode_order=(2, 0, 1))
    assert tensor.shape == (2, 2, 3)
    assert (tensor.to_dense()[0, 1, 2], tensor.to_dense()[1, 0, 0]) == (4.5, -1)
    assert Sparse.from_file(path, shape=(4, 4, 4)).shape == (4, 4, 4)
    head = write(tmp_path, f"h{ending}", "3\n4 5 6\n1 2 3 4.5\n")
    assert Sparse.from_file(head).shape == (4, 5, 6)


def test_archives(tmp_path: Path) -> None:
    dense = np.array([[0.0, 2, 0], [3, 0, 4]])
    row, col = np.nonzero(dense)
    parts = {"shape": np.array(dense.shape), "data": dense[row, col]}
    np.savez(tmp_path / "coords.npz", coords=np.array([row, col]), **parts)
    np.savez(tmp_path / "elements.npz", coords=np.array([row, col]).T, **parts)
    np.savez(tmp_path / "coo.npz", row=row, col=col, format=b"coo", **parts)
    np.savez(tmp_path / "csr.npz", indptr=np.array([0, 1, 3]), indices=col, **parts)
    for name in ("coords", "elements", "coo", "csr"):
        np.testing.assert_array_equal(Sparse.from_file(tmp_path / f"{name}.npz").to_dense(), dense)


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("m.mtx", "", "TEIR682", "empty"),
        ("m.mtx", "1 1 1\n", "TEIR682", "line 1"),
        ("m.mtx", HEAD, "TEIR682", "sizes"),
        ("m.mtx", HEAD + "2 x 1\n", "TEIR682", "line 2"),
        ("m.mtx", HEAD.replace("real", "quaternion") + "1 1 0\n", "TEIR682", "line 1"),
        ("m.mtx", SYMMETRIC + "1 2 0\n", "TEIR682", "square"),
        ("m.mtx", HEAD + "2 2 2\n1 1 3\n", "TEIR683", "expected 2 entries"),
        ("m.mtx", HEAD + "2 2 1\n1 1 3\n2 2 2\n", "TEIR683", "line 4"),
        ("m.mtx", HEAD + "2 2 1\n0 1 3\n", "TEIR683", "line 3"),
        ("m.mtx", HEAD + "2 2 1\n1 3 3\n", "TEIR683", "line 3"),
        ("m.mtx", HEAD + "2 2 1\n1 1 NaN\n", "TEIR683", "line 3"),
        ("m.mtx", HEAD + "2 2 1\n1 1.5 2\n", "TEIR683", "line 3"),
        ("m.mtx", HEAD + "2 2 1\n1 1\n", "TEIR683", "line 3"),
        ("m.mtx", HEAD + "2 2 2\n1 1 1 1\n1 1\n", "TEIR683", "line 3"),
        ("m.mtx", SKEW + "2 2 1\n2 2 3\n", "TEIR683", "line 3"),
        ("m.mtx", HERMITIAN + "2 2 2\n2 1 1 4\n2 2 3 1\n", "TEIR683", "a real number"),
        ("m.mtx", SYMMETRIC + "2 2 2\n2 1 3\n1 2 3\n", "TEIR683", "line 4"),
        ("t.tns", "", "TEIR683", "at least one"),
        ("t.tns", "1\n", "TEIR683", "line 1"),
        ("t.tns", "1 1 2\n0 1 2\n", "TEIR683", "line 2"),
        ("t.tns", "1 1 2\n1 1 nan\n", "TEIR683", "line 2"),
        ("t.tns", "1 1 2\n1 1 inf\n", "TEIR683", "line 2"),
        ("t.tns", "1 1 2\n1 1\n", "TEIR683", "line 2"),
        ("t.tns", "1 1 2\na b c\n", "TEIR683", "line 2"),
        ("t.tns", "1 -1 2\n", "TEIR683", "line 1"),
        ("t.tns", "9" * 5000 + "\n", "TEIR681", "4096"),
        ("t.npz", "not an archive", "TEIR680", "archive"),
        ("t.txt", "1 1 1\n", "TEIR680", ".mtx"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, text: str, code: str, said: str) -> None:
    with pytest.raises(TeirError) as caught:
        Sparse.from_file(write(tmp_path, name, text))
    (finding,) = caught.value.findings
    assert finding.code == code
    assert said in str(finding)


def test_a_wrong_shape_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "t.tns", "1 2 3 4.5\n")
    for shape in ((1, 2), (1, 2, 2)):
        with pytest.raises(TeirError) as caught:
            Sparse.from_file(path, shape=shape)
        assert caught.value.findings[0].code == "TEIR683"


def test_a_file_of_another_shape_than_asked_for_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "m.mtx", HEAD + "2 2 1\n1 1 3\n")
    assert Sparse.from_file(path, shape=(2, 2)).shape == (2, 2)
    with pytest.raises(TeirError, match=r"TEIR671 at .*: expected shape \(3, 2\), as asked for"):
        Sparse.from_file(path, shape=(3, 2))


def test_the_upper_side_of_a_symmetric_matrix_will_do(tmp_path: Path) -> None:
    path = write(tmp_path, "m.mtx", SYMMETRIC + "2 2 1\n1 2 3\n")
    np.testing.assert_array_equal(Sparse.from_file(path).to_dense(), [[0, 3], [3, 0]])


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_files, "LEAST_GROWTH_BYTES", 1 << 16)
    lines = write(tmp_path, "lines.tns.gz", "1 1 1\n" * 400_000)
    zeros = tmp_path / "zeros.mtx.gz"
    zeros.write_bytes(gzip.compress(bytes(1 << 22)))
    np.savez_compressed(tmp_path / "zeros.npz", shape=np.array([1]), data=np.zeros(1 << 20))
    for path in (lines, zeros, tmp_path / "zeros.npz"):
        with pytest.raises(TeirError) as caught:
            Sparse.from_file(path)
        assert caught.value.findings[0].code == "TEIR681"


def test_honest_bombs_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse_files, "LEAST_GROWTH_BYTES", 1 << 16)

    def first_chunk(_name: str, chunks: Iterator[bytes], _shape: None) -> bytes:
        return next(chunks)

    monkeypatch.setattr(sparse_files, "read_tns", first_chunk)
    with pytest.raises(TeirError, match="TEIR681"):
        Sparse.from_file(write(tmp_path, "lines.tns.gz", "1 1 1\n" * 400_000))


@pytest.mark.parametrize("size", [0, 3])
def test_archives_too_short_to_be_any_are_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "t.tns.gz").write_bytes(b"\x1f\x8b\x08"[:size])
    with pytest.raises(TeirError, match=r"TEIR68[03]"):
        Sparse.from_file(tmp_path / "t.tns.gz")


@pytest.mark.parametrize(
    "separators", [(" ", "\n"), ("\t", "\n"), ("  ", "\r\n"), (" ", " \r"), ("\v ", "\n\n")]
)
@pytest.mark.parametrize("value", ["2.5", "+2.5", ".25e1", "25.e-1"])
def test_numbers_and_what_stands_between_them(
    tmp_path: Path, separators: tuple[str, str], value: str
) -> None:
    between, after = separators
    text = after.join(between.join(words) for words in (("1", "3", value), ("2", "1", "-1")))
    for end in ("", after):
        read = Sparse.from_file(write(tmp_path, "t.tns", "# say" + after + text + end))
        assert read.to_dense().tolist() == [[0, 0, 2.5], [-1, 0, 0]]


@pytest.mark.parametrize("entry", ["1,1 2", "1-1 2", "1 1,2", "1 1 , 2", "1 1 [2]", "1 1 true"])
def test_other_grammars_are_not_taken(tmp_path: Path, entry: str) -> None:
    with pytest.raises(TeirError, match="line 4: expected 3 finite numbers"):
        Sparse.from_file(write(tmp_path, "t.tns", f"# one\n1 1 1\n# two\n{entry}\n1 1 1\n"))


def test_numbers_are_read_to_the_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**64, 3000, np.uint64).view(np.float64)
    values = values[np.isfinite(values)]
    lines = "".join(f"{place + 1} {value!r}\n" for place, value in enumerate(values.tolist()))
    for between in (" ", "  "):
        path = write(tmp_path, "t.tns", lines.replace(" ", between))
        np.testing.assert_array_equal(Sparse.from_file(path).values, values)


def test_broken_and_irregular_files_are_refused(tmp_path: Path) -> None:
    whole = write(tmp_path, "whole.tns.gz", "1 1 1\n" * 1000).read_bytes()
    (tmp_path / "cut.tns.gz").write_bytes(whole[: len(whole) // 2])
    os.mkfifo(tmp_path / "pipe.tns")
    pickled = np.array([{}], object)
    np.savez(tmp_path / "objects.npz", shape=np.array([1]), data=pickled)
    names = ("cut.tns.gz", "pipe.tns", "objects.npz", "missing.mtx")
    for path in (*(tmp_path / name for name in names), Path("/dev/zero"), tmp_path):
        with pytest.raises(TeirError) as caught:
            Sparse.from_file(path)
        assert caught.value.findings[0].code == "TEIR680"


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 1), (0, 4), (4, 0)])
def test_what_scipy_saves(tmp_path: Path, form: str, shape: tuple[int, int]) -> None:
    made = scipy.sparse.random_array(shape, density=0.4, rng=np.random.default_rng(3)).tocsr()
    blocked = made.tobsr((3, 3)) if form == "bsr" and shape[0] > 1 and shape[1] else None
    scipy.sparse.save_npz(tmp_path / "x.npz", made.asformat(form) if blocked is None else blocked)
    np.testing.assert_array_equal(Sparse.from_file(tmp_path / "x.npz").to_dense(), made.toarray())


@pytest.mark.parametrize("form", ["coo", "gcxs"])
@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 5), (2, 3, 2, 3), (0, 3)])
def test_what_pydata_saves(tmp_path: Path, form: str, shape: tuple[int, ...]) -> None:
    sparse = pytest.importorskip("sparse")
    made = sparse.random(shape, density=0.4, random_state=1) if 0 not in shape else None
    made = sparse.COO.from_numpy(np.zeros(shape)) if made is None else made
    orders = [None] if form == "coo" else [(0,), (1,), (0, len(shape) - 1)[: len(shape) - 1]]
    for axes in orders:
        saved = made if axes is None else sparse.GCXS.from_coo(made, compressed_axes=axes)
        sparse.save_npz(tmp_path / "x.npz", saved)
        read = Sparse.from_file(tmp_path / "x.npz")
        np.testing.assert_array_equal(read.to_dense(), made.todense())


def test_wrong_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    block = {"shape": [2, 1], "indptr": [0, 1], "format": b"bsr"}
    gcxs = {"shape": [2, 1], "indptr": [0, 1, 1], "indices": [0], "data": [1.0]}
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"shape": [2, 2]}, "TEIR684"),
        ({"shape": [2, 2], "data": [1.0]}, "TEIR684"),
        ({"shape": [-2, 2], "data": [1.0], "coords": [[0], [0]]}, "TEIR684"),
        ({"shape": [2, 2], "data": [1.0], "coords": [[0], [2]]}, "TEIR670"),
        ({"shape": [2, 2], "data": [1.0], "indptr": [0, 2, 1], "indices": [0]}, "TEIR672"),
        ({"shape": [2, 2], "data": [1.0], "indptr": [0, 1, 1], "indices": [2]}, "TEIR673"),
        ({**block, "data": [[[1.0], [2.0]]], "indices": [1]}, "TEIR673"),
        ({**block, "data": [[[1.0], [2.0], [3.0]]], "indices": [0]}, "TEIR684"),
        ({**block, "data": [1.0], "indices": [0]}, "TEIR684"),
        ({**block, "data": np.zeros((1, 0, 1)), "indices": [0]}, "TEIR684"),
        ({**block, "data": np.zeros((2, 2, 1)), "indices": [0]}, "TEIR684"),
        ({**block, "format": b"gcxs", "data": [1.0], "indices": [0]}, "TEIR684"),
        ({**gcxs, "compressed_axes": [0, 0]}, "TEIR684"),
        ({**gcxs, "compressed_axes": [0, 1]}, "TEIR684"),
        ({**gcxs, "compressed_axes": [2]}, "TEIR684"),
        ({**gcxs, "compressed_axes": []}, "TEIR684"),
        ({**gcxs, "compressed_axes": [0], "shape": [2, 2**40, 2**40]}, "TEIR684"),
        ({**gcxs, "compressed_axes": [0], "indices": [1]}, "TEIR673"),
        ({**gcxs, "compressed_axes": [0], "indptr": [0, 2, 1]}, "TEIR672"),
        ({"shape": [2], "data": [1.0], "coords": [[0]], "fill_value": 1.0}, "TEIR684"),
        ({"shape": [2, 2], "data": [[1.0, 2.0]], "offsets": [0, 1]}, "TEIR684"),
        ({"shape": [2, 2], "data": [1.0, 2.0], "offsets": [0]}, "TEIR684"),
        ({"shape": [2, 2], "data": [[1.0, 2.0]], "offsets": [0.5]}, "TEIR684"),
    )
    for parts, code in wrong:
        np.savez(path, **{name: np.array(value) for name, value in parts.items()})
        with pytest.raises(TeirError) as caught:
            Sparse.from_file(path)
        assert caught.value.findings[0].code == code


def test_many_lines_that_say_nothing_come_before_the_entries(tmp_path: Path) -> None:
    """Reading them one by one must not move all the following ones each time."""
    path = write(tmp_path, "t.tns", "\n" * 400_000 + "# none\n" + "1 2 3.5\n")
    assert Sparse.from_file(path).to_dense().tolist() == [[0, 3.5]]
    path = write(tmp_path, "late.tns", "\n" * 10 + "1 2 3.5\n1 2\n")
    with pytest.raises(TeirError, match="line 12: expected 3 finite numbers, found '1 2'"):
        Sparse.from_file(path)


@pytest.mark.parametrize("entry", ["1_0 1 2", "1 1 1_0"])
def test_digits_are_not_grouped(tmp_path: Path, entry: str) -> None:
    with pytest.raises(TeirError, match="line 2: expected 3 finite numbers"):
        Sparse.from_file(write(tmp_path, "t.tns", f"1 1 1\n{entry}\n"))


def test_a_path_is_a_path() -> None:
    wrong: Any = 3
    with pytest.raises(TeirError, match="TEIR680 at path: expected the path of a file, found int"):
        Sparse.from_file(wrong)


def test_a_file_of_endless_rows_takes_what_it_stores(tmp_path: Path) -> None:
    path = write(tmp_path, "m.mtx", HEAD + "300000000 3 1\n5 2 1.5\n")
    archive = tmp_path / "m.npz"
    scipy.sparse.save_npz(archive, scipy.sparse.coo_array(([1.5], ([4], [1])), shape=(2**33, 3)))
    for one in (path, archive):
        made = Sparse.from_file(one)
        assert str(made.format) == "ss"
        assert made.to_coo()[0].tolist() == [[4], [1]]
