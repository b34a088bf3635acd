//! The checks themselves, a file per area, and the requests that they are made of.

pub(super) mod concurrency;
pub(super) mod create;
pub(super) mod delete;
pub(super) mod identity;
mod requests;
