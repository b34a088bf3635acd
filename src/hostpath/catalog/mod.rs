//! The plugin's catalogue: its volumes, the paths where they are staged and published, and its
//! snapshots.
//!
//! Each change is durable when its call returns; concurrent changes share a transaction
//! (`group_write`). A record moves from `Creating` to `Ready` to `Deleting`, and is then removed. It
//! exists before its data and after it, so a crash between two steps leaves a record to complete or
//! undo ([`Catalog::unfinished_volumes`]). A volume without data of its own begins as `Ready`. Callers
//! see only `Ready` volumes. A name belongs to a volume until its deletion begins.
//!
//! The catalogue records the purpose of a staging or target path. The mount table decides whether
//! it is mounted: after a reboot the records exist and the mounts do not. The cost of a call does
//! not depend on the number of volumes.

mod database;
mod group_write;
mod records;
mod snapshots;
mod store;
mod tables;
mod volumes;

pub(super) use database::Catalog;
pub(super) use records::{
    Attachment, Backing, CatalogVolume, Content, ContentSource, DeviceNumber, GroupRecord,
    PathRecord, RecordState, RequestedVolume, SnapshotRecord,
};
pub(super) use store::CatalogError;
pub(super) use volumes::CatalogLimits;

#[cfg(test)]
mod power_loss_tests;
#[cfg(test)]
mod tests;
