"""Small programs as text: what parsers read, verifiers pass, and tests break in one place."""

DOUBLE = """\
kernel @k0(in b0: f32[4], out b1: f32[4]) {
  for i0 in 0..4 {
    t0: f32 = b0[i0]
    t1: f32 = add(t0, t0)
    b1[i0] = t1
  }
}

"""

# Doubles four numbers in a routine, and then as often as an input says.
WHOLE = (
    DOUBLE
    + """\
kernel @k1(in b0: i64[1], in b1: i64[1], out b2: bool[1]) {
  t0: i64 = b0[0]
  t1: i64 = b1[0]
  t2: bool = lt(t0, t1)
  b2[0] = t2
}

kernel @k2(inout b0: i64[1], inout b1: f32[4]) {
  t0: i64 = b0[0]
  t1: i64 = add(t0, 1)
  b0[0] = t1
  for i0 in 0..4 {
    t2: f32 = b1[i0]
    t3: f32 = add(t2, t2)
    b1[i0] = t3
  }
}

kernel @k3(out b0: i64[1]) {
  b0[0] = 0
}

program @"two words" arena(192) {
  input0: f32[4]
  input1: i64[]
  output0: f32[4]
  variable0: f32[2, 2] {name = "w", trainable = false}
  constant0: f32[2] = [0.5, -inf]
  temporary0: u8[64] at 0 alive 0 to 0
  temporary2: i64[] at 64 alive 1 to 5
  temporary3: bool[] at 128 alive 3 to 3

  routine @f.0 scratch(temporary0) {
    input0: f32[4]
    output0: f32[4]
    temporary1: f32[4] at 0

    launch @k0(input0, temporary1)  // f: double
    launch @k0(temporary1, output0)  // f: double again
  }

  call @f.0(input0) -> (output0)
  launch @k3(temporary2)
  while loop 0 registers(inout temporary2, local temporary3) -> temporary2 {
    launch @k1(temporary2, input1, temporary3)  // less
  } temporary3 {
    launch @k2(temporary2, output0)  // add
  }
}
"""
)

# Doubles the rows of an array, as many of them as an input says, and records what they were.
ROWS = (
    DOUBLE
    + """\
kernel @k1(in b0: i64[1], in b1: f32[40], out b2: f32[1]) {
  t0: i64 = b0[0]
  check r0 = t0 in 40 else 1
  t1: f32 = b1[r0]
  b2[0] = t1
}

program @rows arena(0) {
  input0: f32[3, 4]
  input1: i64[]
  input2: f32[40]
  output0: f32[3, 4]
  output1: f32[]
  tape0: slices of f32[4]

  launch @k1(input1, input2, output1) else (3)  // take
  scan loop 0 input1 at most 3 tapes(tape0[iteration of loop 0]) {
    launch @k0(input0[iteration of loop 0], output0[iteration of loop 0])  // add
    launch @k0(input0[iteration of loop 0], tape0[iteration of loop 0])  // add
  }
}
"""
)
