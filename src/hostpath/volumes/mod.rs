//! The work behind the Controller and Node RPCs for volumes.

mod attach;
mod attach_shared;
mod compatibility;
mod content;
mod create;
mod cut;
mod delete;
mod expand;
mod freeze;
mod health;
mod modify;
mod mount_source;
mod parameters;
mod publish;
mod space;
mod stage;
mod volume;

pub(super) use attach::{attach, detach};
pub(super) use create::{create, undo_creation};
pub(super) use cut::cut_detached;
pub(super) use delete::delete;
pub(super) use expand::{expand, expand_on_node};
pub(super) use freeze::{CopyError, CopySource, FrozenVolumes, freeze_all, thaw};
pub(super) use health::{controller_health, list_health, node_health, storage_health};
pub(super) use modify::modify;
pub use mount_source::first_mount_using;
pub(super) use parameters::{check_known as check_parameter_names, tuning as device_tuning};
pub(super) use publish::{publish, unpublish};
pub(super) use space::available_space;
pub(super) use stage::{stage, stats, unstage};
pub(super) use volume::Volume;

#[cfg(test)]
mod tests;
