"""The audit passes our kernels and stops at everything outside the allowed set."""

from __future__ import annotations

import pytest

from teir.backends.llvm.compile_ir import compile_object, machine_for, module_text
from teir.soak.code_audit import audit
from teir.soak.code_object import Function, object_functions
from teir.soak.kernel_corpus import audit_items, audit_one
from teir.target import Isa

pytest.importorskip("capstone")

HEAD = "define void @f(ptr %node, ptr %frame, ptr %A, ptr %B, ptr %C) nounwind {\n"


def audited(body: str, isa: Isa = Isa.AVX2) -> list[str]:
    text = module_text([HEAD + body + "\n}\n"], isa)
    functions = object_functions(compile_object(text, isa, ("f",)))
    assert [function.name for function in functions] == ["f"]
    return audit(functions[0])


def bytes_audited(code: str) -> list[str]:
    return audit(Function(name="f", code=bytes.fromhex(code), relocated=frozenset()))


@pytest.mark.parametrize("item", range(1, audit_items(), audit_items() // 9))
def test_kernels_are_clean(item: int) -> None:
    result = audit_one(item, remainders=3)
    assert result["wrong"] == []
    assert result["runs"] >= 1


def test_a_copy_is_clean() -> None:
    assert (
        audited(
            "%at = load i64, ptr %node\n%from = getelementptr i8, ptr %A, i64 %at\n"
            "%x = load <8 x float>, ptr %from\nstore <8 x float> %x, ptr %B\nret void"
        )
        == []
    )


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("store i64 1, ptr %node\nret void", "writes to an address made of node"),
        ("store i64 1, ptr %frame\nret void", "writes to an address made of frame"),
        (
            "%at = load i64, ptr %A\n%p = inttoptr i64 %at to ptr\nstore i8 1, ptr %p\nret void",
            "writes to an address made of number",
        ),
        (
            "%at = load i64, ptr %A\n%p = inttoptr i64 %at to ptr\n%x = load i64, ptr %p\n"
            "store i64 %x, ptr %B\nret void",
            "reads from an address made of number",
        ),
        (
            "%b = ptrtoint ptr %B to i64\n%p = getelementptr i8, ptr %A, i64 %b\n"
            "store i8 1, ptr %p\nret void",
            "two pointers",
        ),
        ("%g = load ptr, ptr %node\ncall void %g(ptr %A)\nret void", "is not allowed"),
        ('call void asm sideeffect "syscall", ""()\nret void', "syscall"),
        ('call void asm sideeffect "int3", ""()\nret void', "int3"),
    ],
)
def test_what_is_outside_the_set_is_found(body: str, found: str) -> None:
    assert any(found in text for text in audited(body))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("53c3", "leaves the stack moved"),
        ("ffe7", "jumps to an address in a register"),
        ("48890424c3", "touches the stack of the caller"),
        ("0f05c3", "syscall"),
    ],
)
def test_bytes_outside_the_set_are_found(code: str, found: str) -> None:
    assert any(found in text for text in bytes_audited(code))


def test_products_of_bf16_are_read() -> None:
    """VDPBF16PS, from registers and through the operand in rdx, and through a number in rax."""
    assert bytes_audited("62f26e4852c3c3") == []
    assert bytes_audited("62f26e485202c3") == []
    assert "reads from an address made of number" in bytes_audited("31c062f26e485200c3")[0]
    assert bytes_audited("62f27e4872c0c3") == []  # VCVTNEPS2BF16
    assert bytes_audited("62f26f4872c3c3") == []  # VCVTNE2PS2BF16
    assert any("no instructions" in text for text in bytes_audited("62f2ee4852c3c3"))


def test_tiles_are_read_and_written_through_operands() -> None:
    """LDTILECFG, TILELOADD, TDPBF16PS, TILEZERO, TILESTORED and TILERELEASE through rdx and rax."""
    works = ("c4e2784902", "c4e27b4b0402", "c4e24a5ce5", "c4e27b49c0", "c4e27a4b0402", "c4e27849c0")
    assert bytes_audited("31c0" + "".join(works) + "c3") == []
    assert "reads from an address" in bytes_audited("31c0c4e27b4b0400c3")[0]
    assert "writes to an address" in bytes_audited("31c0c4e27a4b0400c3")[0]


def test_addresses_spilled_from_vectors_are_addresses() -> None:
    """vmovq xmm0, rdx; vpextrq [rsp - 16], xmm0, 1; mov rax, [rsp - 16]; mov byte [rax], 1; ret."""
    assert bytes_audited("c4e1f96ec2c4e3f9164424f001488b4424f0c60001c3") == []


def test_balanced_code_is_clean() -> None:
    assert bytes_audited("535bc3") == []


def test_only_elf_objects_are_read() -> None:
    assert machine_for(Isa.AVX2).triple
    with pytest.raises(ValueError, match="ELF"):
        object_functions(b"MZ")
