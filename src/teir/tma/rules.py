"""The rules of tile loads: the domain algebra, inference, the descriptor, shared memory, step 5."""

from __future__ import annotations

from teir.errors import Rule

_PAGE = "documentation, tile loads"
_DRIVER = "CUDA driver API, cuTensorMapEncodeTiled"
_PTX = "PTX ISA, cp.async.bulk"


def _rule(number: int, sentence: str, source: str) -> Rule:
    return Rule(code=f"TEIR{number}", sentence=sentence, source=source)


TRANSFER_FORM = _rule(900, "A transfer has the fields of its form, each of its kind.", _PAGE)
AXIS_POSITION = _rule(901, "A verb names positions its domain has, each once.", _PAGE)
FACTOR = _rule(
    902,
    "A split's factor is at least 1, a resized extent too; domains stay below 2^62 positions.",
    _PAGE,
)
XOR_EXTENTS = _rule(903, "A swizzle joins two IterDomains of one power-of-two extent.", _PAGE)
TEXT_FORM = _rule(904, "A transfer's text follows its grammar.", _PAGE)

VIEW_ONLY = _rule(
    905,
    "Between the global allocation domain and the TMA domain there are only splits and merges.",
    _PAGE,
)
VIEW_DIVIDES = _rule(906, "A split that defines no box is a view: it divides its extent.", _PAGE)
VIEW_CONTIGUOUS = _rule(
    907, "Only neighbouring, mutually contiguous IterDomains are merged.", _PAGE
)
VIEW_PATH = _rule(
    908, "The TMA domain is equivalent to the allocation domain of the global tensor.", _PAGE
)
FOUR_KINDS = _rule(
    909,
    "Every IterDomain of the TMA domain is partitioned, a coordinate, a box or a strided box.",
    _PAGE,
)
INNERMOST_CONTIGUOUS = _rule(910, "The innermost IterDomain of the TMA domain has stride 1.", _PAGE)
INNERMOST_DENSE = _rule(911, "The innermost dimension has element stride 1.", _DRIVER)

RANK = _rule(912, "A tensor map has 1 to 5 dimensions, 3 to 5 where it interleaves.", _DRIVER)
GLOBAL_ADDRESS = _rule(
    913, "The global address is 16-byte aligned, 32-byte aligned for 32-byte interleave.", _DRIVER
)
GLOBAL_DIM = _rule(914, "Every size is 1 to 2^32.", _DRIVER)
GLOBAL_STRIDE = _rule(
    915, "Strides are multiples of 16 bytes (32 for 32-byte interleave) below 2^40.", _DRIVER
)
STRIDE_ORDER = _rule(
    916, "Each stride covers the dimension below it, where the driver demands it.", _DRIVER
)
BOX_DIM = _rule(917, "Every box extent is 1 to 256.", _DRIVER)
INNER_BOX = _rule(918, "The innermost box spans a multiple of 16 bytes.", _DRIVER)
ELEMENT_STRIDE = _rule(919, "Every element stride is 1 to 8.", _DRIVER)
SWIZZLE_WIDTH = _rule(
    920, "The innermost box spans at most the bytes of the swizzle, 0, 32, 64 or 128.", _DRIVER
)
INTERLEAVE = _rule(921, "Interleave of 32 bytes goes with a swizzle of 32 bytes.", _DRIVER)
FILL = _rule(922, "Not-a-number fills only floating-point tensors.", _DRIVER)
TRANSACTION = _rule(923, "One barrier phase expects fewer than 2^20 bytes.", "PTX ISA, mbarrier")

TILE_CONTIGUOUS = _rule(
    930, "The elements of a tile lie side by side in shared memory, in the tile's order.", _PAGE
)
WHOLE_TILES = _rule(931, "An allocation in shared memory is a whole number of tiles.", _PAGE)
TILE_ALIGNED = _rule(
    932,
    "A tile begins at a whole tile, at 128 bytes, and at its pattern's period where it swizzles.",
    _PAGE,
)
CAPACITY = _rule(933, "A block has at most 232,448 bytes of shared memory.", "CUDA, Hopper")

BULK_OFF_TMA = _rule(940, "Bulk belongs to operations of the tensor memory accelerator.", _PAGE)
BULK_ON_BROADCAST = _rule(
    941, "Bulk belongs to iterated IterDomains, not to broadcast ones.", _PAGE
)
VECTORIZE_ON_TMA = _rule(
    942, "The accelerator's consumer is neither vectorised nor unrolled.", _PAGE
)
CIRCULAR_THREADS = _rule(
    943, "Under circular buffering one thread issues the copies: no thread parallelisation.", _PAGE
)
ELECTION = _rule(944, "Electing one issuing thread needs 32 threads or more.", _PAGE)
ONE_AXIS_EACH = _rule(945, "Each block and thread index runs one IterDomain.", _PAGE)
MIXED = _rule(
    946, "Tile and non-tile IterDomains are transformed separately, not merged or swizzled.", _PAGE
)

BULK_ONE = _rule(950, "A bulk copy without a tensor map has exactly one Bulk IterDomain.", _PAGE)
BULK_DIVIDES = _rule(
    951, "A bulk copy without a tensor map checks no bounds: splits divide.", _PAGE
)
BULK_BYTES = _rule(952, "A bulk copy moves a multiple of 16 bytes.", _PTX)
BULK_CONTIGUOUS = _rule(953, "A bulk copy moves contiguous elements.", _PTX)
BULK_PIPELINE = _rule(
    954, "A bulk copy without a tensor map stands in a warp-specialised circular buffer.", _PAGE
)
BULK_ADDRESS = _rule(955, "Every address of a bulk copy is 16-byte aligned.", _PTX)

STRONG = _rule(
    960,
    "Strong correctness is impossible where an element stride e and a box B of a dimension of size "
    "S have e < B < S and e does not divide B.",
    "fundamental theorem of TMA correctness",
)

SHARED_ADDRESS = _rule(970, "Tiles are copied to and from 128-byte aligned shared memory.", _PTX)
IN_BUFFER = _rule(971, "Every byte a copy touches lies in its buffer.", _PAGE)
REDUCTION_TYPE = _rule(972, "A reduction is one the accelerator has for the element type.", _PTX)
BARRIER_COUNT = _rule(973, "A phase gets the arrivals and the bytes it was told to expect.", _PTX)
BARRIER_WAIT = _rule(974, "Every wait ends: its phase completes.", _PTX)
BUFFER_HAZARD = _rule(975, "A buffer is read when it is full and written when it is free.", _PAGE)
PROXY_FENCE = _rule(
    976, "A fence stands between ordinary and asynchronous accesses to the same bytes.", _PTX
)
WGMMA_SHAPE = _rule(
    977, "A product has 64 rows, 8 to 256 columns in steps of 8, 32 bytes of K.", _PTX
)
WGMMA_OPERAND = _rule(978, "TF32 operands are K-major; operand starts are 16-byte aligned.", _PTX)
REGISTERS = _rule(979, "The registers of all warps of a block fit in 65,536.", "CUDA, Hopper")
