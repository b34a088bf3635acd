//! Compiles the protobuf definitions.

fn main() {}
