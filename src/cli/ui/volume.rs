//! Volumes with the columns and fields of Nomad's CLI.
//!
//! Two differences: topologies are numbered without the null entries that Nomad puts before them, and
//! claims of allocations that the server no longer knows are listed. Such claims block a volume while
//! Nomad's CLI prints "No allocations placed".

use std::collections::BTreeMap;

use super::allocs::{TimeReference, allocations};
use super::table::{heading, key_values, table};
use nomad_csi_model::{AllocId, Bytes, MountOptions, Volume, VolumeSummary};

/// Returns a table of volumes.
pub(crate) fn volume_list(volumes: &[VolumeSummary], wide: bool) -> String {
    let short = |volume: &VolumeSummary| {
        [
            volume.id.to_string(),
            volume.name.clone(),
            volume.namespace.to_string(),
            volume.plugin_id.to_string(),
            volume.schedulable.to_string(),
            mode(volume.access_mode),
        ]
    };
    if !wide {
        let headings = ["ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Access Mode"];
        return table(headings, volumes.iter().map(short));
    }
    let headings = [
        "ID",
        "Name",
        "Namespace",
        "Plugin ID",
        "Schedulable",
        "Access Mode",
        "Attachment Mode",
        "Readers",
        "Writers",
        "External ID",
        "Provider",
    ];
    let rows = volumes.iter().map(|volume| {
        let [id, name, namespace, plugin, schedulable, access] = short(volume);
        [
            id,
            name,
            namespace,
            plugin,
            schedulable,
            access,
            mode(volume.attachment_mode),
            volume.readers.to_string(),
            volume.writers.to_string(),
            volume.external_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            volume.provider.clone(),
        ]
    });
    table(headings, rows)
}

/// Returns the details of one volume.
pub(crate) fn volume_detail(volume: &Volume, now: &TimeReference, wide: bool) -> String {
    let mut sections = vec![key_values(fields(volume, wide))];
    if !volume.topologies.is_empty() {
        sections.push(topologies(volume));
    }
    if !volume.capabilities.is_empty() {
        sections.push(capabilities(volume));
    }
    let unknown = claims_without_allocation(volume);
    if !unknown.is_empty() {
        sections.push(unknown_claims(&unknown));
    }
    sections.push(allocations(&volume.allocs, now, wide));
    sections.join("\n")
}

fn fields(volume: &Volume, wide: bool) -> Vec<(&'static str, String)> {
    let text = |text: Option<String>| text.unwrap_or_default();
    let mut fields = vec![
        ("ID", volume.id.to_string()),
        ("Name", volume.name.clone()),
        ("Namespace", volume.namespace.to_string()),
        ("External ID", text(volume.external_id.as_ref().map(ToString::to_string))),
        ("Plugin ID", volume.plugin_id.to_string()),
        ("Provider", volume.provider.clone()),
        ("Version", volume.provider_version.clone()),
        ("Capacity", capacity(volume.capacity)),
        ("Schedulable", volume.schedulable.to_string()),
        ("Controllers Healthy", volume.controllers.healthy.to_string()),
        ("Controllers Expected", volume.controllers.expected.to_string()),
        ("Nodes Healthy", volume.nodes.healthy.to_string()),
        ("Nodes Expected", volume.nodes.expected.to_string()),
        ("Access Mode", mode(volume.access_mode)),
        ("Attachment Mode", mode(volume.attachment_mode)),
        ("Mount Options", text(volume.mount_options.as_ref().map(mount_options))),
    ];
    // Data that is not in the volume.
    let kept = volume.kept_files.iter();
    fields.extend(kept.map(|kept| ("Files Beside", format!("{} on {}", kept.path, kept.node))));
    if wide {
        fields.extend([
            ("Requested Min", size(volume.requested_capacity.min)),
            ("Requested Max", size(volume.requested_capacity.max)),
            ("Snapshot ID", text(volume.snapshot_id.clone())),
            ("Clone ID", text(volume.clone_id.clone())),
            ("Parameters", pairs(&volume.parameters)),
            ("Context", pairs(&volume.context)),
            ("Create Index", volume.create_index.to_string()),
            ("Modify Index", volume.modify_index.to_string()),
        ]);
    }
    fields
}

fn mode(mode: Option<impl ToString>) -> String {
    mode.map(|mode| mode.to_string()).unwrap_or_default()
}

/// Returns the capacity, or `unknown` if the provider does not report it. Nomad's CLI shows 0 B.
fn capacity(bytes: Bytes) -> String {
    if bytes.is_zero() {
        return "unknown".to_owned();
    }
    bytes.binary()
}

/// Returns the size in binary units and in bytes, or an empty text if none was requested.
fn size(bytes: Bytes) -> String {
    if bytes.is_zero() {
        return String::new();
    }
    format!("{} ({} bytes)", bytes.binary(), bytes.get())
}

/// Returns the mount options. Mount flags are always redacted.
fn mount_options(options: &MountOptions) -> String {
    let mut parts = vec![];
    if !options.fs_type.is_empty() {
        parts.push(format!("fs_type: {}", options.fs_type));
    }
    if !options.mount_flags.is_empty() {
        parts.push(format!("flags: {}", MountOptions::REDACTED));
    }
    parts.join(" ")
}

/// Returns text such as `k=v, l=w`.
fn pairs(map: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(", ")
}

fn topologies(volume: &Volume) -> String {
    let rows = volume
        .topologies
        .iter()
        .enumerate()
        .map(|(position, topology)| [format!("{position:02}"), topology.to_string()]);
    heading("Topologies") + &table(["Topology", "Segments"], rows)
}

fn capabilities(volume: &Volume) -> String {
    let rows = volume.capabilities.iter().map(|capability| {
        [capability.access_mode.to_string(), capability.attachment_mode.to_string()]
    });
    heading("Capabilities") + &table(["Access Mode", "Attachment Mode"], rows)
}

/// Returns the claims whose allocation the server no longer knows, and their mode.
fn claims_without_allocation(volume: &Volume) -> Vec<(&AllocId, &'static str)> {
    let is_known = |id: &AllocId| volume.allocs.iter().any(|alloc| alloc.id == *id);
    let writers = volume.write_allocs.iter().map(|id| (id, "write"));
    let readers = volume.read_allocs.iter().map(|id| (id, "read"));
    writers.chain(readers).filter(|(id, _)| !is_known(id)).collect()
}

fn unknown_claims(claims: &[(&AllocId, &'static str)]) -> String {
    let rows = claims.iter().map(|(id, kind)| [id.to_string(), (*kind).to_owned()]);
    heading("Claims of allocations that the server no longer knows")
        + &table(["Allocation ID", "Claim"], rows)
}
