"""The cost model: every price and threshold by which passes and schedules decide.

Roofline prices, latencies in cycles, and what computing again may cost; what has to be counted is
counted in `passes/costs.py` (nodes) and `codegen/kernel_costs.py` (statements). None of it differs
between machines: caches and registers are in `codegen/target.py`. Only proportions matter.
"""

from __future__ import annotations

# ---------------------------------------------------------------- nodes, in picoseconds of a core

PER_BYTE_READ = 30
PER_BYTE_WRITTEN = 60
PER_BYTE_AGAIN = 15  # of what is read in each iteration, and so stays in cache
PER_FLOP = 20  # element by element; what is not arithmetic comes with reading and writing
PER_FLOP_OF_PRODUCT = 5
PER_ELEMENT_REDUCED = 50
PER_COMPARISON = 200  # of an element that is sorted, or looked for
FOREIGN_CALL = 100_000_000  # of a function of which nothing is known
LIKELY_TRIPS = 8  # of a loop without a bound
FEW_ELEMENTS = 8  # of each tensor of a body that waits for its operations one after another
LIKELY_SIZE = 128  # of an axis whose size is unknown, to choose an order of contraction

# ---------------------------------------------------------------------------------------- flops

FLOPS_OF_MULTIPLY_ADD = 2
LEAST_LOOKED_UP = 64  # elements of a row, each found by an index, that are worth a kernel
CHEAP_FLOPS = 4  # computing this much again costs less than one trip through memory
FEW_OF_MANY = 8  # a tensor so many times smaller than what is made of it is read for nothing
FEW_OF_MEMORY = 64  # the share of what is in memory that is not worth drafting all kernels anew
FEW_BYTES_MADE = 4096  # a kernel that makes no more than it frees, and this, saves memory early
COSTLY_FLOPS = 10  # a scalar operation of so many is a function, with as much again around it

# ------------------------------------------------------------------ kernels, in cycles of a core

FLOPS_A_CYCLE = 32  # what vector code of a nominal core reaches, as of bytes
BYTES_A_CYCLE = 16
CYCLES_A_COMPARISON = 0.5  # of sorting, and of looking for an element among sorted ones
CALL_CYCLES = 4  # of a call, or of going round a loop, however little is done
BRIEF_CYCLES = 200_000  # about 50 us: longer steps give up Python's global lock, for some 100 ns
POLL_PERIOD = 4_000_000  # about 1 ms of a core: loops that take less at the most need not poll
# Sharing pays from about 15 us of a core: fork and join cost 1 us, or some 10 if threads sleep.
SHARING_CYCLES = 50_000
SHARE_OF_LOOP = 0.5  # so much of that for a loop of a kernel which takes as much as a whole
# Of the time that as many threads could save, what a loop must save to be taken before others.
EVEN = 0.85
LEAST_SPEED_UP, LEAST_EVENED = 1.3, 1.02  # what an uneven cut, and one in a panel, must bring
UNCUT = 64  # iterations of a vector loop that are not cut: whole cache lines of any dtype
# Of a long fold with few results, which is cut by its shape alone: so the order of its sum, too.
# Rows that are added up come in fewer pieces, of so many rows at least: each has sums of its own,
# which are cleared, stored and read again.
PIECES, LEAST_PIECES, ROWS_OF_A_PIECE = 32, 8, 32
PIECE_MULTIPLE = 64  # elements: the vectors of a piece lie on whole cache lines
ENOUGH_RESULTS = 32  # from here on threads share these; neighbours in vectors count as one
RESULTS_TOGETHER = 64

# ------------------------------------------------- elements side by side, in vector instructions

LEAST_NARROWED = 64  # constants of int64 that are as many fill cache lines, and are read as fewer
LEAST_FLOATS_NARROWED = 512  # of float64, a page: each vector takes one more instruction then
WORTH_NARROW = 16  # vectors for each iteration left over: beyond, those are a small share of all
UNIFORM_ACCESS = 0.25  # one load for all lanes, out of the loop if nothing else moves it
EVEN_ACCESS = 1.0
REVERSED_ACCESS = 1.5
LONGEST_ROW = 4  # elements side by side that one iteration reaches: vectors of them are shuffled
ROW_SHUFFLE = 1.0  # two vectors to one
LEAST_SPREAD_FLOPS = 12  # an element of a row that an index finds: vectors are then of many rows
LEAST_ROWS = 16  # of so few elements that they are written out: fewer fill no vector
LONGEST_STACKED = 16  # a row of pieces that are written beside each other in one loop
LONGEST_JOINED = 64  # a row of pieces that have loops in one loop over rows: they share cache lines
MOST_SCALAR_FLOPS = 10  # of an element computed alone beside each of joined rows: less than an exp
MOST_WRITTEN_OUT = 384  # statements of a kernel whose rows are written out
LANE_ACCESS = 1.25  # one element of a vector, loaded and inserted on its own
DIVIDED_ACCESS = 2.0  # the same, with an index that takes a division
SEARCH_STEP = 4  # of a binary search: a gather, a comparison and a new place
# The order of a sum depends on these, so they are of a nominal machine.
VECTOR_BYTES = 64
CAUSAL_BLOCK_ROWS = 64  # of queries that are compared with the keys up to them: products stay large
CAUSAL_BLOCKS = 8  # more compute little less, and take as much longer to compile
# Scores are scaled, and not queries, where these have so many keys for each number, or are causal:
# blocks would read their parts of scaled queries, and the gradient of all be scaled at last.
KEYS_SCALED = 4
MOST_SCORES_BYTES = 1 << 28  # of attention in memory: more are computed in parts
SCORES_OF_PART_BYTES = 1 << 25  # at a time: products of so many rows lose little, and caches gain
LEAST_ROW_PLACED = 64  # bytes: rows that are written apart still fill cache lines
LANE_BYTES = 128  # of partial results a fold keeps: two AVX-512 registers, four of AVX2
OUTER_VECTORS = 4  # vectors beside each other where each carries a sum or a search: hides latency
LIGHT_FOLD = 3  # statements of one that does little more than read
MOST_CARRIED = 18  # vectors of sums in all of these loops: what registers hold

# Vectors beside each other hide the latency of long chains. Nominal cycles worth so much code:
VECTORS_IN_FLIGHT = {2: 10_000, 4: 1_000_000}
LEAST_INTERLEAVED_FLOPS = 12
FEW_APART = 8  # one in so many of the elements that are reached is loaded or stored on its own
LIVE_A_REGISTER = 4  # values, of all vectors: what is spilled meanwhile costs less than waiting
# Two rows are computed at once where that saves loads: of at least so many an element at most this
# share is left, in loops of so many nominal cycles.
MANY_LOADS, SHARED_LOADS, LEAST_SHARED_CYCLES = 8, 2 / 3, 10_000
OPERATIONS_OF_A_MATCH = 4  # to compare a vector of indices with a number, and to choose by that
LEAST_SPLIT_CYCLES = 10_000  # of all rows together, for which code of one row is written twice
# Rows of a stage at most, and times the rows that the first one waits for; the share of registers.
ROWS_A_STAGE, LEAST_PIPELINED, SHARE_HELD = 8, 8, 0.75
SHARE_OF_ROWS_APART, MOST_ROWS_ON_THEIR_WAY = 0.75, 2  # of L1: what stages 2 rows or 1 apart reach
SHARE_OF_ROWS_TOGETHER = 0.625  # of L1: what all stages reach at once of more rows than it has ways
SHARE_OF_COLUMN_SUMS, SHARE_OF_ROWS_PREFETCHED = 0.5, 0.25  # of L1; of L2, by next rows of windows
LEAST_DISTRIBUTED_FLOPS = 12  # of what is computed once a row: as much as of a vector of rows

# Channels and filters from which a convolution transposes operands whose channels come first; with
# fewer filters than that, positions are side by side, half of that or more of them.
LEAST_CHANNELS_LAST = 16
ROWS_OF_GROUPED_BLOCK = 64  # multiplied at once: the last block of a group is half empty
MAX_SHORT_SUM = 4  # terms, as of coordinates: no product of matrices, how operands lie counts
# A transpose is done in tiles: so many elements across the rows of a buffer, a vector, since rows
# of a power of two share few sets of the L1 cache, and so many of the other axis.
TILE_OF_TRANSPOSE = 16
ROWS_OF_TRANSPOSE = 64
# Squares of so many rows and columns are transposed in registers, where an element of a body takes
# few operations: it is written out once for each row.
SQUARES = (4, 8, 16)
MOST_OF_SQUARE = 24  # statements and operations of an element
LEAST_STACK_SUMMED = 1 << 20  # bytes: fewer are in a near cache when the loop has made them
LEAST_SLICE_STREAMED = 1 << 14  # bytes of a stack: a fence behind fewer takes a share of the time
LEAST_IN_SQUARES = 1024  # elements: fewer take no time
FEW_SETS = 4  # one set in so many: lines that share them push each other out
LEAST_TRANSPOSED = 48  # elements across rows: fewer stay in the second-level cache

# Batched products whose operands lie within one another's rows are taken in blocks of rows that
# stay in cache, of so many bytes and a multiple of so many rows, where all rows are too many: four
# arrays of them leave half of a second-level cache to others. Sums over rows are for as many parts
# as other sums are, if all these come to so small a share of the rows.
BYTES_OF_BLOCK = 1 << 17
BLOCK_MULTIPLE = 16
LEAST_BYTES_IN_BLOCKS = 1 << 21
SHARE_OF_SUMS = 8

# The gradient to the kernel of a convolution that is no product adds up in memory from so many
# channels on: of fewer, all are in registers at once. What is summed in registers in between walks
# through at most so many bytes, and at most so many parts of a batch have sums of their own.
LEAST_SUMS_IN_MEMORY = 48
BYTES_IN_REGISTERS = 1 << 18
PARTS_OF_SUMS = 8

# --------------------------------------------------------------------------------- size of code

MOST_INTERLEAVED_FLOPS = 4096  # of all vectors together

# Rows of a fold that are added at a time to sums in memory, if all rows are more than a near cache
# holds, each is longer than what a column of vectors reads of it, and few begin on a page.
ROWS_TOGETHER = 8
LEAST_ROWS_APART = 64
BYTES_OF_ROWS_APART = 256 << 10
BYTES_OF_SHORT_ROW = 512
BYTES_BETWEEN_ROWS = 1000
MOST_UNROLLED = 32  # operations with an element of each of so few rows, without a loop over these
BYTES_OF_BLOCKED_ROW = 4096

# Two kernels that sweep over the same rows are fused if these are more than the first cache holds,
# and those that are read again at a time are less than the next one does: up to so many statements.
BYTES_SWEPT, STATEMENTS_SWEPT = 256 << 10, 512
# Bytes of a row from which on another is prefetched while this is swept several times; fewer where
# they are of one array, and so far ahead. Lines of a matrix with each row, its terms for each byte.
LEAST_ROW_PREFETCHED, LEAST_ONLY_ROW_PREFETCHED, BYTES_PREFETCHED_AHEAD = 1 << 10, 256, 2 << 10
BYTES_WRITTEN_AHEAD = 1 << 10  # of results of rows that are prefetched, which soon are in the way
# Rows that blocks sweep over are prefetched so far ahead, which stays in the nearest cache until it
# is read, where they are so many times what a core may take of a shared cache: of fewer a processor
# is in time by itself.
BYTES_OF_BLOCKS_AHEAD, SHARES_OF_BLOCKS = 16 << 10, 4
LINES_PREFETCHED, TERMS_OF_BYTE, BYTES_OF_ROWS_AGAIN = 32, 40, 512 << 10
# Of matrices that are prefetched, the share of results from which on scratch memory has to have
# room beside them: forward it is a quarter, and prefetching gains 5 to 8 % at 128; of gradients
# half, and there it took 3 to 8 % more.
MOST_RESULTS_PREFETCHED = 1 / 3
# Products prefetch a line of them in so many steps of k, the most that leave time for all: a line
# comes in 17 cycles or more, and a step of a tile of 6 by 64 takes 12.
STEPS_OF_LINE = (2, 4, 8)
# Products and what is done with their rows are fused by blocks of rows, of so many bytes. Sums over
# rows are so many at least, that threads can share them, who take so many parts each at the most.
# Without such sums there are so many blocks for each, if all of them read no more beside. What is
# more, and comes from a slow shared cache, blocks of so many rows read: 256 queries take 11 of 12
# parts of the time that 64 take with 2,048 keys, or 4,096.
BYTES_OF_PRODUCTS = 128 << 10  # that one makes: fewer are in a near cache as well
MUCH_MADE = 2  # results for each element that a product reads, again for each row and column
LONG_ROW = 4  # times as many results in a row as terms in each, where there is one matrix
FOLDED_OF_ROW = 4  # times as long as what a loop makes of it, a row is folded
BYTES_OF_ROW_BLOCK = 1 << 19
BLOCKS_WITHOUT_SUMS, BYTES_READ_AGAIN = 2, 1 << 20
ROWS_READING_FAR = 256
LEAST_ROW_BLOCK = 64
LEAST_SUMS_APART = 4
PARTS_A_THREAD = 4
INSTRS_OF_PRODUCTS = 128
# What the last of such products make of longer rows is in memory for so many columns at a time.
BYTES_OF_ROW_CHUNK = 1 << 18
COLUMNS_OF_CHUNK = 256
# In one kernel. What is done with a matrix are loops behind each other: LLVM takes as long for them
# as for kernels of their own. Causal attention of 1,024 queries has 857 with its gradients.
MOST_STATEMENTS_OF_BATCH = 1024
MOST_STATEMENTS_OF_BLOCK = 352
# Rows that a product reaches a piece of are prefetched if further apart: no processor follows that.
BYTES_BETWEEN_PIECES = 512
LEAST_REUSED = 32 << 10  # bytes of a temporary that is put in the memory of a result
# Operations for an element up to which an elementwise op goes with a loop over parts of a batch: of
# what takes more, threads share the elements.
MOST_FLOPS_IN_PARTS = 4
MOST_TERMS_IN_PARTS = 16  # of a product of matrices, likewise
LEAST_PART_BYTES = 1 << 10  # of what goes with such a loop: for less, a kernel a part costs more
INSTRS_BETWEEN = 32  # of a program: launches further apart are not brought together
# Elementwise kernels over as many rows are fused, and short loops around and inside written out.
LEAST_FUSED_ROWS = 256
MOST_ROWS_AROUND = 4
MOST_INSIDE = 32
MOST_FUSED = 768  # statements: what is spilled is in the first cache, where else it is in none
STATEMENTS_AN_ACCESS = 24  # of the smaller kernel, for each load of what the first one stores
STATEMENTS_A_SHARED_LOAD = 2  # likewise, of what both load: no store and no memory is saved
MOST_FUSED_STREAMS = 32  # buffers of a fused kernel, of which some may be read by rows
MOST_STREAMS_BETWEEN = 64  # on the way to one of few buffers

MAX_NODES = 96  # in a group: LLVM's register allocation grows faster than the code it is given
MAX_STREAMS = 24  # buffers a kernel reads and writes: more thrash the ways of the L1 cache
MIN_PRODUCTS = 512  # multiplications below which a plain fold is as fast and far less code
LEAST_MULTIPLIED_BYTES = 1 << 10  # of a matrix that sums nothing: smaller ones stay products
MOST_MULTIPLIED_BYTES = 1 << 20  # and larger ones are faster as products
MAX_TAPS = 32  # places in a window that are written out: more than 5 by 5, and 3 by 3 by 3
MAX_TAPS_OF_PIECES = 96  # of all pieces that borders cut a result into: 3 by 3 padded on all sides
MAX_INLINE_CALLS = 48  # of math functions in a kernel: beyond, code grows and speed does not
SHORT_RUNS, MAX_CALLS_OF_SHORT = 8, 8  # so short a loop takes nanoseconds, inlining a call a ms
MAX_CALLS_OF_CHAIN = 4  # each of which waits for the one before: more are not worth being inlined
LEAST_EMITTED_ONCE = 48  # statements: as long a loop has no copy for what it leaves over, if that
ONE_REPEATED_OF = 50  # adds no more than one of so many vectors
MOST_COPIES_BEHIND_FOLDS = 48  # of statements, one for each register of a vector: beyond, a loop
SMALL_FUNCTION, FUNCTION_GROWTH = 8, 64  # ops: always inlined, and what all calls of one may add
MIN_DECIDED, SHARE_DECIDED = 32, 5  # selects, of so many statements each, to have a body without
CALLS_IN_FUNCTION = 32  # of a step that is cut: LLVM's time grows faster than what only calls
# Of a step that is cut, so many calls of a kernel with so many arguments are emitted once.
LEAST_CALLS_OF_THUNK, LEAST_ARGUMENTS_OF_THUNK = 4, 8
MIN_SIMILAR_KERNELS = 16  # that differ in sizes only: fewer are compiled each for its sizes
MAX_SIZES_TAKEN = 8  # by a function for similar kernels: more would be on the stack
MAX_LIFTED = 12  # what calls pass to a kernel besides buffers: most of it is on the stack
LEAST_KEPT = 64  # groups of a program: of fewer, lowering takes less than to keep them for others
MAX_GROUPS = 64  # in a body whose groups are compared with each other
FUSED_FUNCTION = 256  # ops: what is fused in one kernel at most, to inline it wherever it is called
MAX_KERNEL_INSTRUCTIONS = 512  # if it is written out: beyond, a call costs nothing
MAX_PROGRAM_INSTRUCTIONS = 8192  # of all different loops: they take time to compile

# ---------------------------------------------------------------------------------------- memory

# Vectors that begin within a cache line, as those of shifted arrays do, are in two lines. Where
# they are stored a line takes some cycles more than where they are loaded: of an ode in the second
# cache what stores them took 1.2 -> 0.6 ms within lines, and what loaded others then 0.29 -> 0.45.
CYCLES_OF_SPLIT_STORE, CYCLES_OF_SPLIT_LOAD = 4, 1
LEAST_BYTES_IN_PHASE = 1 << 10
# Of arrays that begin at one place of pages the same took 1.36 and 0.96, else 0.9 to 1.2 and 0.6.
BYTES_APART = 256  # an odd number of times: sixteen arrays of one size begin at other places
LEAST_BYTES_APART = 16 << 10
SPARE_OF_ARENA = 1 / 64  # of what pieces take side by side: causal attention would take a 20th more
SMALL_CONSTANT = 4096  # elements: a constant of that many is no burden
MAX_FOLDED = 2**22  # elements that folding reads, so that compiling does not become computing
LEAST_INVERTED = 16  # elements that are added up in known places: of fewer a scatter takes no time
LEAST_PLACES_INVERTED = 4  # fewer fill no vector
MOST_KEPT = 64  # results of calls that a function gives for its gradient
SEGMENT_TRIPS = 1024  # between two checkpoints of a loop without a bound
FIRST_TAPE_BYTES = 4096  # of a tape, which at least doubles when it is full
STACK_RATIO = 8  # of the memory for new stacks to that for those a loop scans
STACK_BYTES = 1 << 26  # a loop may take so much for new stacks at all times
ROWS_SHARE = 2  # a table has at least so many times the rows that are used, or all of it is moved
ADDED_PER_STACKED = 2  # bytes of a sum, added to in each iteration, that pay for a byte stacked
COPIED_BYTES = 1 << 16  # of a loop variable: what is larger stays where it has to end up
