//! Nomad's JSON.
