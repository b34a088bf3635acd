//! mount(2).
