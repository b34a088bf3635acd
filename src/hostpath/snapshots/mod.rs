//! Snapshots of one volume, and groups of snapshots of several volumes.

mod group;
mod snapshot;

pub(super) use group::{
    Group, create as create_group, delete as delete_group, get as get_group,
    remove_data_and_records as remove_group, with_members,
};
pub(super) use snapshot::{
    check_topology, create as create_snapshot, delete as delete_snapshot, delete_ready,
    find as find_snapshot, remove_data, timestamp, to_proto,
};
