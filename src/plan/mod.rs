//! Wanted against observed.
