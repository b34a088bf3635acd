//! The journal in an embedded database.
