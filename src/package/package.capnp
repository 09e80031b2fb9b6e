# Metadata of a package file (docs/package-format.md). Fields are only ever added, with new numbers; a change of
# meaning raises kVersion of package.h.
@0xd3a1f6b2c94e7058;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("tw::package::wire");

struct Metadata {
  family @0 :Text;        # instruction set of the tiles, "ipu21"
  target @1 :Text;        # Device::name
  memoryBase @2 :UInt32;
  memoryEnd @3 :UInt32;
  stepLimit @4 :UInt64;   # cycles
  tiles @5 :List(Tile);   # index = physical tile
  bindings @6 :List(Binding);
  initialize @7 :List(Batch);
  inputs @8 :List(Batch);
  outputs @9 :List(Batch);
  # Side section: nothing below is needed to run.
  summaryJson @10 :Text;
  recipeJson @11 :Text;
  planText @12 :Text;
  names @13 :List(Text);  # what Symbol.name and TensorPlace.tensor index
  symbols @14 :List(Symbol);
  tensors @15 :List(TensorPlace);
  stepNames @16 :List(Text);
  stepKinds @17 :Data;         # one byte per step, StepKind of package.h
  stepCounts @18 :List(UInt32);
}

struct Tile {
  entry @0 :UInt32;
  segments @1 :List(Segment);
}

struct Segment {
  address @0 :UInt32;
  memorySize @1 :UInt32;
  blob @2 :UInt32;        # index of the payload section of kind blob
  flags @3 :UInt8;
}

struct Binding {
  name @0 :Text;
  kind @1 :UInt8;         # 0 weight, 1 input, 2 output
  dtype @2 :Text;
  scale @3 :Int32;
  shape @4 :List(UInt32);
  bytes @5 :UInt64;
  slices @6 :List(Slice);
}

struct Slice {
  tile @0 :UInt32;
  address @1 :UInt32;
  offset @2 :UInt64;
  bytes @3 :UInt32;
}

struct Batch {
  toDevice @0 :Bool;
  pieces @1 :List(Piece);
}

struct Piece {
  tile @0 :UInt32;
  address @1 :UInt32;
  bytes @2 :UInt32;
  binding @3 :UInt32;
  offset @4 :UInt64;
}

struct Symbol {
  tile @0 :UInt32;        # 0xffffffff: every tile
  address @1 :UInt32;
  bytes @2 :UInt32;
  name @3 :UInt32;
}

struct TensorPlace {
  tensor @0 :UInt32;
  tile @1 :UInt32;
  address @2 :UInt32;
  bytes @3 :UInt32;
  firstStep @4 :UInt32;
  lastStep @5 :UInt32;
  taken @6 :UInt32;
  interleaved @7 :Bool;
}
