//! The checks themselves, a file per area, and the requests that they are made of.

pub(crate) mod attach;
pub(crate) mod block;
pub(crate) mod concurrency;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod expand;
pub(crate) mod group;
pub(crate) mod identity;
pub(crate) mod list;
pub(crate) mod manners;
pub(crate) mod metadata;
pub(crate) mod modify;
pub(crate) mod node;
mod requests;
pub(crate) mod snapshot;
mod using;
pub(crate) mod validate;
