//! Nomad's HTTP API, client side.
