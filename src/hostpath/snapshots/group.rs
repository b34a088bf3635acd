//! Snapshots of several volumes at the same moment: all of them, or none (CSI,
//! CreateVolumeGroupSnapshot).
//!
//! The plugin freezes all volumes, copies them, then thaws them. One transaction makes the group
//! and its members `Ready`. A failure is undone immediately, and a crash at the next start.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::snapshot;
use crate::catalog::{GroupRecord, RecordState, SnapshotRecord};
use crate::error::{
    CreateSnapshotError, DeleteSnapshotError, GetSnapshotError, GroupNotFound, HostError,
    InvalidArgument, SnapshotNameTaken,
};
use crate::plugin::{OperationKey, Plugin};
use crate::volumes::{self, CopyError, CopySource, Volume, freeze_all};

/// A group with its members.
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) record: GroupRecord,
    pub(crate) members: Vec<SnapshotRecord>,
}

/// Implements CreateVolumeGroupSnapshot. A name identifies one group.
pub(crate) fn create(
    plugin: &Arc<Plugin>,
    name: String,
    sources: BTreeSet<String>,
) -> Result<Group, CreateSnapshotError> {
    let _operation = plugin.begin_operation(OperationKey::SnapshotName(format!("group {name}")))?;
    let known = plugin.catalog.group_by_name(&name);
    let known = known.map_err(HostError::from)?;
    let known = known.map(|record| with_members(plugin, record)).transpose()?;
    if let Some(known) = known {
        let what = "group snapshot";
        match known.record.state {
            _ if known.record.sources != sources => {
                return Err(SnapshotNameTaken { name, what }.into());
            }
            RecordState::Ready => return Ok(known),
            RecordState::Creating | RecordState::Deleting => {
                for source in &known.record.sources {
                    // The lock prevents thawing a volume that another call has frozen.
                    let _operation =
                        plugin.begin_operation(OperationKey::Volume(source.clone()))?;
                    volumes::thaw(plugin, source.clone())?;
                }
                remove_data_and_records(plugin, &known)?;
            }
        }
    }
    create_new(plugin, name, sources)
}

fn create_new(
    plugin: &Arc<Plugin>,
    name: String,
    sources: BTreeSet<String>,
) -> Result<Group, CreateSnapshotError> {
    let id = plugin.host.ids.uuid();
    let mut copy_sources = vec![];
    for source in &sources {
        let volume = Volume::open::<CreateSnapshotError>(plugin, source.clone())?;
        let copy_source = CopySource::inspect(volume)?;
        copy_source.check_consistent_copy(sources.len())?;
        copy_sources.push(copy_source);
    }
    let members: Vec<_> = copy_sources
        .iter()
        .map(|copy_source| {
            snapshot::new_record(plugin, copy_source, String::new(), Some(id.clone()))
        })
        .collect();
    let group = Group {
        record: GroupRecord {
            id,
            name,
            state: RecordState::Creating,
            sources,
            members: members.iter().map(|member| member.id.clone()).collect(),
            created_at: 0,
        },
        members,
    };
    put(plugin, &group)?;
    let copied = match freeze_all(&copy_sources) {
        Ok(frozen) => {
            let pairs: Vec<_> = copy_sources.into_iter().zip(group.members.clone()).collect();
            snapshot::copy_all(plugin, &pairs, frozen)
        }
        Err(error) => Err(error),
    };
    let created_at = match copied {
        Ok(created_at) => created_at,
        Err(CopyError { error, is_frozen }) => {
            if !is_frozen {
                remove_data_and_records(plugin, &group)?;
            }
            return Err(error.into());
        }
    };
    let ready = group.with_state_and_time(RecordState::Ready, created_at);
    put(plugin, &ready)?;
    tracing::info!(group.id = %ready.record.id, members = ready.members.len(),
        "created a group snapshot");
    Ok(ready)
}

impl Group {
    fn with_state_and_time(mut self, state: RecordState, created_at: i64) -> Self {
        self.record.state = state;
        self.record.created_at = created_at;
        for member in &mut self.members {
            member.state = state;
            member.created_at = created_at;
        }
        self
    }
}

fn put(plugin: &Plugin, group: &Group) -> Result<(), HostError> {
    let Group { record, members } = group;
    Ok(plugin.catalog.put_snapshots(members, Some(record))?)
}

/// Removes the data of all members, then all records.
pub(crate) fn remove_data_and_records(plugin: &Plugin, group: &Group) -> Result<(), HostError> {
    for member in &group.members {
        snapshot::remove_data(plugin, member)?;
    }
    let Group { record, members } = group;
    Ok(plugin.catalog.remove_snapshots(members, Some(record))?)
}

/// Implements DeleteVolumeGroupSnapshot. Deleting an unknown group succeeds.
pub(crate) fn delete(
    plugin: &Plugin,
    id: &str,
    members: &[String],
) -> Result<(), DeleteSnapshotError> {
    let _operation = plugin.begin_operation(OperationKey::Snapshot(id.to_owned()))?;
    let found = plugin.catalog.group(id).map_err(HostError::from)?;
    let Some(record) = found.filter(|found| found.state != RecordState::Creating) else {
        return Ok(());
    };
    check_members(&record, members)?;
    // A member that is being restored cannot be deleted.
    let held = record.members.iter();
    let held = held.map(|member| plugin.begin_operation(OperationKey::Snapshot(member.clone())));
    let _members = held.collect::<Result<Vec<_>, _>>()?;
    let group = with_members(plugin, record)?.with_state(RecordState::Deleting);
    put(plugin, &group)?;
    remove_data_and_records(plugin, &group)?;
    tracing::info!(group.id = %id, "deleted a group snapshot");
    Ok(())
}

impl Group {
    fn with_state(self, state: RecordState) -> Self {
        let created_at = self.record.created_at;
        self.with_state_and_time(state, created_at)
    }
}

/// Implements GetVolumeGroupSnapshot. An unknown group is reported before wrong members, as
/// csi-sanity requires.
pub(crate) fn get(
    plugin: &Plugin,
    id: &str,
    members: &[String],
) -> Result<Group, GetSnapshotError> {
    let found = plugin.catalog.group(id).map_err(HostError::from)?;
    let ready = found.filter(|found| found.state == RecordState::Ready);
    let record = ready.ok_or_else(|| GroupNotFound(id.to_owned()))?;
    check_members(&record, members)?;
    Ok(with_members(plugin, record)?)
}

/// Checks that the named snapshots are the members of the group. A caller may name none.
fn check_members(record: &GroupRecord, named: &[String]) -> Result<(), InvalidArgument> {
    let named: BTreeSet<_> = named.iter().collect();
    if named.is_empty() || named == record.members.iter().collect() {
        return Ok(());
    }
    InvalidArgument::err(format!(
        "the given snapshots are not the members of group `{}`, which are {}",
        record.id,
        record.members.join(", ")
    ))
}

/// Returns a group with the records of its members.
pub(crate) fn with_members(plugin: &Plugin, record: GroupRecord) -> Result<Group, HostError> {
    let mut members = vec![];
    for id in &record.members {
        members.extend(plugin.catalog.snapshot(id)?);
    }
    Ok(Group { record, members })
}
