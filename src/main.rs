//! Process entry.

fn main() {}
