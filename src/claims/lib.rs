//! Owns the decisions of the agent's server: who may use a volume ([`claim`]), what the server knows ([`state`]), and which
//! node takes an allocation ([`place`]).
//!
//! Everything here is pure: no I/O, no clock, no async, no environment.

pub mod claim;
pub mod place;
pub mod state;
