//! Tests of the plane.
