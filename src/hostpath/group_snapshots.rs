//! Snapshots of several volumes at one moment: all of them or none (`csi-spec` 5.23).
//!
//! All are brought to rest first, then all are copied, then all go on; the group and its members are
//! there by one change of the catalogue. What fails on the way is undone, and what a crash leaves is
//! undone at the next start.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::catalog::{GroupRecord, SnapshotRecord, Stage};
use super::cutting::{Cut, NotCut, freeze_all};
use super::error::{
    CutSnapshotError, DeleteSnapshotError, GetSnapshotError, Invalid, Machine, NoGroup,
    SnapshotNameTaken,
};
use super::plugin::{Plugin, Subject};
use super::recovery;
use super::snapshots;
use super::volume::Volume;

/// A group with its members.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) record: GroupRecord,
    pub(super) members: Vec<SnapshotRecord>,
}

/// CreateVolumeGroupSnapshot: of one name there is one group.
pub(super) async fn cut(
    plugin: Arc<Plugin>,
    name: String,
    sources: BTreeSet<String>,
) -> Result<Group, CutSnapshotError> {
    let _operation = plugin.begin(Subject::SnapshotName(format!("group {name}")))?;
    let wanted = name.clone();
    let known = plugin
        .blocking(move |plugin| {
            let known = plugin.catalog.group_named(&wanted).map_err(Machine::from)?;
            let known = known.map(|record| with_members(plugin, record)).transpose();
            Ok::<_, CutSnapshotError>(known?)
        })
        .await?;
    if let Some(known) = known {
        let what = "a group of snapshots";
        match known.record.stage {
            _ if known.record.sources != sources => {
                return Err(SnapshotNameTaken { name, what }.into());
            }
            Stage::Ready => return Ok(known),
            Stage::Creating | Stage::Deleting => {
                for source in &known.record.sources {
                    // Who cuts it now has it frozen himself.
                    let _operation = plugin.begin(Subject::Volume(source.clone()))?;
                    recovery::thaw(&plugin, source.clone()).await?;
                }
                undo(&plugin, known).await?;
            }
        }
    }
    cut_new(&plugin, name, sources).await
}

async fn cut_new(
    plugin: &Arc<Plugin>,
    name: String,
    sources: BTreeSet<String>,
) -> Result<Group, CutSnapshotError> {
    let id = plugin.host.ids.uuid();
    let mut cuts = vec![];
    for source in &sources {
        let volume = Volume::open::<CutSnapshotError>(plugin, source.clone()).await?;
        let cut = Cut::look(volume).await?;
        cut.is_possible(sources.len())?;
        cuts.push(cut);
    }
    let members: Vec<_> = cuts
        .iter()
        .map(|cut| snapshots::begun(plugin, cut, String::new(), Some(id.clone())))
        .collect();
    let group = Group {
        record: GroupRecord {
            id,
            name,
            stage: Stage::Creating,
            sources,
            members: members.iter().map(|member| member.id.clone()).collect(),
            cut_at: 0,
        },
        members,
    };
    put(plugin, group.clone()).await?;
    let made = match freeze_all(&cuts).await {
        Ok(frozen) => {
            let pairs: Vec<_> = cuts.into_iter().zip(group.members.clone()).collect();
            snapshots::copy_all(plugin, &pairs, frozen).await
        }
        Err(not_cut) => Err(not_cut),
    };
    let cut_at = match made {
        Ok(cut_at) => cut_at,
        Err(NotCut { error, is_frozen }) => {
            if !is_frozen {
                undo(plugin, group).await?;
            }
            return Err(error.into());
        }
    };
    let ready = group.at(Stage::Ready, cut_at);
    put(plugin, ready.clone()).await?;
    tracing::info!(group.id = %ready.record.id, members = ready.members.len(),
        "cut a group of snapshots");
    Ok(ready)
}

impl Group {
    fn at(mut self, stage: Stage, cut_at: i64) -> Self {
        self.record.stage = stage;
        self.record.cut_at = cut_at;
        for member in &mut self.members {
            member.stage = stage;
            member.cut_at = cut_at;
        }
        self
    }
}

async fn put(plugin: &Arc<Plugin>, group: Group) -> Result<(), Machine> {
    plugin
        .blocking(move |plugin| {
            let Group { record, members } = group;
            Ok(plugin.catalog.put_snapshots(&members, Some(&record))?)
        })
        .await
}

async fn undo(plugin: &Arc<Plugin>, group: Group) -> Result<(), Machine> {
    plugin
        .blocking(move |plugin| remove_now(plugin, &group))
        .await
}

/// Removes the data of all members, and then all records.
pub(super) fn remove_now(plugin: &Plugin, group: &Group) -> Result<(), Machine> {
    for member in &group.members {
        snapshots::remove_data(plugin, member)?;
    }
    let Group { record, members } = group;
    Ok(plugin.catalog.forget_snapshots(members, Some(record))?)
}

/// DeleteVolumeGroupSnapshot: what is not there is deleted.
pub(super) async fn delete(
    plugin: Arc<Plugin>,
    id: String,
    members: Vec<String>,
) -> Result<(), DeleteSnapshotError> {
    let _operation = plugin.begin(Subject::Snapshot(id.clone()))?;
    plugin
        .blocking(move |plugin| {
            let found = plugin.catalog.group(&id).map_err(Machine::from)?;
            let Some(record) = found.filter(|found| found.stage != Stage::Creating) else {
                return Ok(());
            };
            has_members(&record, &members)?;
            // A member that is being restored is not taken away meanwhile.
            let held = record.members.iter();
            let held = held.map(|member| plugin.begin(Subject::Snapshot(member.clone())));
            let _members = held.collect::<Result<Vec<_>, _>>()?;
            let group = with_members(plugin, record)?.at_stage(Stage::Deleting);
            let Group { record, members } = &group;
            plugin
                .catalog
                .put_snapshots(members, Some(record))
                .map_err(Machine::from)?;
            remove_now(plugin, &group)?;
            tracing::info!(group.id = %id, "deleted a group of snapshots");
            Ok(())
        })
        .await
}

impl Group {
    fn at_stage(self, stage: Stage) -> Self {
        let cut_at = self.record.cut_at;
        self.at(stage, cut_at)
    }
}

/// GetVolumeGroupSnapshot. Whether it is there comes before whether the members are named rightly
/// (`csi-sanity` 6, 70).
pub(super) fn get(
    plugin: &Plugin,
    id: &str,
    members: &[String],
) -> Result<Group, GetSnapshotError> {
    let found = plugin.catalog.group(id).map_err(Machine::from)?;
    let ready = found.filter(|found| found.stage == Stage::Ready);
    let record = ready.ok_or_else(|| NoGroup(id.to_owned()))?;
    has_members(&record, members)?;
    Ok(with_members(plugin, record)?)
}

/// The caller names the members, and they are those of the group. Nobody has to name them.
fn has_members(record: &GroupRecord, named: &[String]) -> Result<(), Invalid> {
    let named: BTreeSet<_> = named.iter().collect();
    if named.is_empty() || named == record.members.iter().collect() {
        return Ok(());
    }
    Invalid::because(format!(
        "the snapshots named are not those of the group {}: it has {}",
        record.id,
        record.members.join(", ")
    ))
}

/// A group with the records of its members.
pub(super) fn with_members(plugin: &Plugin, record: GroupRecord) -> Result<Group, Machine> {
    let mut members = vec![];
    for id in &record.members {
        members.extend(plugin.catalog.snapshot(id)?);
    }
    Ok(Group { record, members })
}
