//! Lists of allocations as messages.
//!
//! A list is split by allocation, and counts only with all its parts. On one stream, an allocation that is as it was in the
//! list before is only named. A job that its reader does not know, as of a later version, makes its own allocation unreadable and no other one.

use std::collections::{BTreeSet, HashMap};

use prost::Message as _;

use super::convert::{InvalidMessage, from_json, position_message, position_of, to_json};
use super::messages::{
    AllocsItem, AllocsPart, Assigned, LeftPlugin, Position, Unreadable, allocs_item::Item,
};
use nomad_csi_model::{AllocId, PluginId, VolumeAlias};
use nomad_csi_ports::{AssignedAlloc, AssignedAllocs, ClusterPosition, UnreadableAlloc};

/// The size at which a part ends.
const PART_BYTES: usize = 4 << 20;
/// The largest allocation that is sent. A message is at most 16 MiB.
const MAX_ITEM_BYTES: usize = 15 << 20;
/// The most objects of a list that the node takes.
const MAX_ITEMS: usize = 500_000;
/// The most bytes of a list that the node takes.
const MAX_LIST_BYTES: usize = 512 << 20;

/// The sender's end of one stream.
#[derive(Default)]
pub(super) struct ListEncoder {
    sent: HashMap<AllocId, AssignedAlloc>,
}

impl ListEncoder {
    /// Returns the parts of a list.
    pub(super) fn encode(
        &mut self,
        list: AssignedAllocs,
        position: &ClusterPosition,
    ) -> Vec<AllocsPart> {
        let AssignedAllocs { revision, allocs, unreadable, ended, left_plugins } = list;
        let mut parts = Parts::new(position_message(position), revision);
        let mut sent = HashMap::with_capacity(allocs.len());
        for alloc in allocs {
            if self.sent.get(&alloc.id) == Some(&alloc) {
                parts.add(Item::Unchanged(alloc.id.as_str().to_owned()));
                sent.insert(alloc.id.clone(), alloc);
                continue;
            }
            match assigned_message(&alloc) {
                Ok(message) => {
                    parts.add(Item::Assigned(message));
                    sent.insert(alloc.id.clone(), alloc);
                }
                Err(reason) => parts.add(Item::Unreadable(without_job(&alloc, reason))),
            }
        }
        for alloc in unreadable {
            parts.add(Item::Unreadable(Unreadable {
                id: alloc.id.as_str().to_owned(),
                wants_stop: alloc.wants_stop,
                cut_off: texts(&alloc.cut_off, VolumeAlias::as_str),
                plugins: texts(&alloc.plugins, PluginId::as_str),
                reason: alloc.reason,
            }));
        }
        for alloc in ended {
            parts.add(Item::Ended(alloc.as_str().to_owned()));
        }
        for (alloc, plugin) in left_plugins {
            let (alloc, plugin) = (alloc.as_str().to_owned(), plugin.as_str().to_owned());
            parts.add(Item::LeftPlugin(LeftPlugin { alloc, plugin }));
        }
        self.sent = sent;
        parts.finish()
    }
}

fn texts<'a, T: 'a>(
    values: impl IntoIterator<Item = &'a T>,
    text: impl Fn(&'a T) -> &'a str,
) -> Vec<String> {
    values.into_iter().map(|value| text(value).to_owned()).collect()
}

/// Returns the message of an allocation, or why it has none.
fn assigned_message(alloc: &AssignedAlloc) -> Result<Assigned, String> {
    let report = alloc.report.as_ref().map(|report| to_json(report, "report")).transpose();
    let report = report.map_err(|error| error.to_string())?;
    let message = Assigned {
        id: alloc.id.as_str().to_owned(),
        job: to_json(alloc.job.as_ref(), "job").map_err(|error| error.to_string())?,
        group: alloc.group.clone(),
        index: alloc.index,
        wants_stop: alloc.wants_stop,
        cut_off: texts(&alloc.cut_off, VolumeAlias::as_str),
        report: report.unwrap_or_default(),
        plugins: texts(alloc.plugins(), PluginId::as_str),
    };
    let bytes = message.encoded_len();
    if bytes > MAX_ITEM_BYTES {
        return Err(format!(
            "its job and its last report have {bytes} bytes, and a server sends {MAX_ITEM_BYTES} at most"
        ));
    }
    Ok(message)
}

fn without_job(alloc: &AssignedAlloc, reason: String) -> Unreadable {
    Unreadable {
        id: alloc.id.as_str().to_owned(),
        wants_stop: alloc.wants_stop,
        cut_off: texts(&alloc.cut_off, VolumeAlias::as_str),
        plugins: texts(alloc.plugins(), PluginId::as_str),
        reason,
    }
}

/// A list that is being split.
struct Parts {
    done: Vec<AllocsPart>,
    part: AllocsPart,
    bytes: usize,
}

impl Parts {
    fn new(position: Position, revision: u64) -> Self {
        let part = AllocsPart {
            position: Some(position),
            revision,
            is_first: true,
            is_last: false,
            items: vec![],
        };
        Self { done: vec![], part, bytes: 0 }
    }

    fn add(&mut self, item: Item) {
        let item = AllocsItem { item: Some(item) };
        let bytes = item.encoded_len();
        if !self.part.items.is_empty() && self.bytes + bytes > PART_BYTES {
            let position = self.part.position.clone();
            let next = AllocsPart { position, is_first: false, items: vec![], ..self.part };
            self.done.push(std::mem::replace(&mut self.part, next));
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.part.items.push(item);
    }

    fn finish(mut self) -> Vec<AllocsPart> {
        self.part.is_last = true;
        self.done.push(self.part);
        self.done
    }
}

/// A stream does not keep the rules of a list, so nothing that it says counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidList {
    #[error("a part of the list does not belong to the part before")]
    OtherList,
    #[error("the list names an allocation that the list before does not have")]
    UnknownAlloc,
    #[error("the list has more than {MAX_ITEMS} objects or {MAX_LIST_BYTES} bytes")]
    TooLarge,
    #[error(transparent)]
    Message(#[from] InvalidMessage),
}

/// The receiver's end of one stream.
#[derive(Default)]
pub(super) struct ListDecoder {
    before: HashMap<AllocId, AssignedAlloc>,
    partial: Option<Partial>,
}

struct Partial {
    position: ClusterPosition,
    list: AssignedAllocs,
    items: usize,
    bytes: usize,
}

impl ListDecoder {
    /// Adds a part. Returns the list with its last one.
    pub(super) fn add(
        &mut self,
        part: AllocsPart,
    ) -> Result<Option<(ClusterPosition, AssignedAllocs)>, InvalidList> {
        let bytes = part.encoded_len();
        let position = position_of(part.position)?;
        let mut partial = match (self.partial.take(), part.is_first) {
            (None, true) => {
                let list = AssignedAllocs { revision: part.revision, ..AssignedAllocs::default() };
                Partial { position, list, items: 0, bytes: 0 }
            }
            (Some(partial), false)
                if partial.position == position && partial.list.revision == part.revision =>
            {
                partial
            }
            (Some(_), _) | (None, false) => return Err(InvalidList::OtherList),
        };
        partial.items += part.items.len();
        partial.bytes += bytes;
        if partial.items > MAX_ITEMS || partial.bytes > MAX_LIST_BYTES {
            return Err(InvalidList::TooLarge);
        }
        for item in part.items {
            self.add_item(&mut partial.list, item.item.ok_or(InvalidMessage("item"))?)?;
        }
        if !part.is_last {
            self.partial = Some(partial);
            return Ok(None);
        }
        let known = partial.list.allocs.iter();
        self.before = known.map(|alloc| (alloc.id.clone(), alloc.clone())).collect();
        Ok(Some((partial.position, partial.list)))
    }

    fn add_item(&self, list: &mut AssignedAllocs, item: Item) -> Result<(), InvalidList> {
        match item {
            Item::Assigned(message) => match assigned_of(message) {
                Ok(alloc) => list.allocs.push(alloc),
                Err(unreadable) => list.unreadable.push(unreadable),
            },
            Item::Unchanged(id) => {
                let known = self.before.get(&AllocId::new(id));
                list.allocs.push(known.ok_or(InvalidList::UnknownAlloc)?.clone());
            }
            Item::Unreadable(message) => list.unreadable.push(UnreadableAlloc {
                id: AllocId::new(message.id),
                wants_stop: message.wants_stop,
                cut_off: aliases_of(message.cut_off),
                plugins: plugins_of(message.plugins),
                reason: message.reason,
            }),
            Item::Ended(id) => list.ended.push(AllocId::new(id)),
            Item::LeftPlugin(LeftPlugin { alloc, plugin }) => {
                list.left_plugins.push((AllocId::new(alloc), PluginId::new(plugin)));
            }
        }
        Ok(())
    }
}

fn aliases_of(texts: Vec<String>) -> BTreeSet<VolumeAlias> {
    texts.into_iter().map(VolumeAlias::new).collect()
}

fn plugins_of(texts: Vec<String>) -> BTreeSet<PluginId> {
    texts.into_iter().map(PluginId::new).collect()
}

/// Reads an allocation. One with a job or a report that this version cannot read is unreadable: it must not look as if it
/// were gone.
fn assigned_of(message: Assigned) -> Result<AssignedAlloc, UnreadableAlloc> {
    let id = AllocId::new(message.id);
    let cut_off = aliases_of(message.cut_off);
    let job = from_json(&message.job, "job");
    let report = (!message.report.is_empty()).then(|| from_json(&message.report, "report"));
    match (job, report.transpose()) {
        (Ok(job), Ok(report)) => Ok(AssignedAlloc {
            id,
            job: std::sync::Arc::new(job),
            group: message.group,
            index: message.index,
            wants_stop: message.wants_stop,
            cut_off,
            report,
        }),
        (Err(invalid), _) | (_, Err(invalid)) => Err(UnreadableAlloc {
            id,
            wants_stop: message.wants_stop,
            cut_off,
            plugins: plugins_of(message.plugins),
            reason: format!("{invalid} that this version reads; upgrade this node"),
        }),
    }
}
