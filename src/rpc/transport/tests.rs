//! Tests of the connections.
