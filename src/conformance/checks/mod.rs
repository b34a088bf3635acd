//! The checks themselves, a file per area, and the requests that they are made of.

pub(crate) mod concurrency;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod identity;
mod requests;
