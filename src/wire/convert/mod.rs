//! Between Nomad's documents and the model's nouns.
//!
//! Out of a document nothing fails: what a server stores must be readable, whatever its version.
//! Into the model only what a user may set is taken of a request (W22), and what it says that has
//! no meaning is reported, never dropped (`RequestProblem`).

mod external;
mod plugin;
mod request;
mod volume;

pub use external::{
    external_volume_from_wire, external_volume_to_wire, snapshot_from_wire, snapshot_to_wire,
};
pub use plugin::{
    node_to_wire, plugin_from_wire, plugin_summary_from_wire, plugin_summary_to_wire,
    plugin_to_wire,
};
pub use request::{RedactedValue, RequestProblem, WriteKind, request_from_wire, request_to_wire};
pub use volume::{
    allocation_to_wire, stub_to_wire, summary_from_wire, volume_from_wire, volume_to_wire,
};

#[cfg(test)]
mod tests;
