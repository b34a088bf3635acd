//! Snapshots in parts, which earlier versions wrote.
//!
//! The first part has everything except volumes and variables. Parts with volumes follow, then parts
//! with variables, each with one JSON document per line. This program only reads them; its first
//! snapshot replaces them with one row per object.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::codec::{CodecError, RowKey, check_envelope, decode};
use nomad_csi_claims::state::{
    PluginRecord, State, StateNumbers, StateSnapshot, StoredRecord, VariableRecord, VolumeRecord,
};
use nomad_csi_model::{Node, PluginId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotHead {
    origin: String,
    volumes_index: u64,
    plugins_index: u64,
    plugins: Vec<(PluginId, PluginRecord)>,
    nodes: Vec<Node>,
    volumes: usize,
    #[serde(default = "first_index")]
    variables_index: u64,
    #[serde(default)]
    variables: usize,
}

/// The variables index of a snapshot from before version 2.
fn first_index() -> u64 {
    State::FIRST_INDEX
}

/// Decodes the parts of the snapshot at `index`.
pub(super) fn decode_parts<R: AsRef<[u8]>>(
    index: u64,
    parts: impl IntoIterator<Item = R>,
) -> Result<StateSnapshot, CodecError> {
    let mut parts = (0..).zip(parts);
    let place = |part| RowKey::SnapshotPart { index, part };
    let (_, first) = parts.next().ok_or(CodecError::Incomplete { index })?;
    let head: SnapshotHead = decode(&place(0), first.as_ref())?;
    let mut volumes: Vec<Arc<VolumeRecord>> = Vec::new();
    let mut variables: Vec<Arc<VariableRecord>> = Vec::new();
    for (part, row) in parts {
        let what = place(part);
        let payload = check_envelope(&what, row.as_ref())?;
        if volumes.len() < head.volumes {
            decode_records(&what, payload, &mut volumes)?;
        } else {
            decode_records(&what, payload, &mut variables)?;
        }
    }
    if volumes.len() != head.volumes || variables.len() != head.variables {
        return Err(CodecError::Incomplete { index });
    }
    let nodes = head.nodes.into_iter();
    let nodes = nodes.map(|node| StoredRecord::Node(Box::new(node.into())));
    let plugins = head.plugins.into_iter();
    let plugins = plugins.map(|(id, plugin)| StoredRecord::Plugin(id, plugin));
    let variables = variables.into_iter().map(StoredRecord::Variable);
    let volumes = volumes.into_iter().map(StoredRecord::Volume);
    Ok(StateSnapshot {
        numbers: StateNumbers {
            index,
            origin: head.origin,
            volumes_index: head.volumes_index,
            plugins_index: head.plugins_index,
            variables_index: head.variables_index,
            nodes_index: State::FIRST_INDEX,
            claims_index: State::FIRST_INDEX,
            allocs_index: State::FIRST_INDEX,
            leaders: Default::default(),
            jobs_index: State::FIRST_INDEX,
            namespaces_index: State::FIRST_INDEX,
            acl_index: State::FIRST_INDEX,
        },
        records: nodes.chain(plugins).chain(variables).chain(volumes).collect(),
    })
}

fn decode_records<T: DeserializeOwned>(
    what: &RowKey,
    payload: &[u8],
    records: &mut Vec<Arc<T>>,
) -> Result<(), CodecError> {
    for record in serde_json::Deserializer::from_slice(payload).into_iter::<T>() {
        let record =
            record.map_err(|source| CodecError::Undecodable { what: what.clone(), source })?;
        records.push(Arc::new(record));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
