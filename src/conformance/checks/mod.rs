//! The checks, with one file per area, and the requests that they send.

pub(crate) mod attach;
pub(crate) mod block;
pub(crate) mod concurrency;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod every_call;
pub(crate) mod expand;
pub(crate) mod group;
pub(crate) mod health;
pub(crate) mod identity;
pub(crate) mod list;
pub(crate) mod metadata;
pub(crate) mod modify;
pub(crate) mod node;
mod requests;
pub(crate) mod snapshot;
pub(crate) mod validate;
mod volume_use;
