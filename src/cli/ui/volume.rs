//! Volumes with the columns and fields of Nomad's CLI.
//!
//! Two differences: topologies are numbered without the null entries that Nomad puts before them, and
//! claims of allocations that the server no longer knows are listed. Such claims block a volume while
//! Nomad's CLI prints "No allocations placed".

use std::collections::BTreeMap;

use super::allocs::{TimeReference, allocations};
use super::table::{heading, key_values, table};
use super::time::ago;
use nomad_csi_model::{
    AllocId, Bytes, MountOptions, NamespacedId, Volume, VolumeCreation, VolumeHealth, VolumeStatus,
    VolumeSummary, one_line, shell_quoted, until,
};

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

/// Returns the creations as a section below a list of volumes.
pub(crate) fn creation_list(creations: &[VolumeCreation], now: &TimeReference) -> String {
    let rows = creations.iter().map(|creation| {
        [
            creation.volume.id.to_string(),
            creation.volume.namespace.to_string(),
            creation.plugin_id.to_string(),
            ago(creation.since, now.now),
            next_attempt(creation, now),
            one_line(creation.problem.as_deref().unwrap_or("-")),
        ]
    });
    let headings = ["ID", "Namespace", "Plugin ID", "Began", "Continued", "Problem"];
    format!("\n{}{}", heading("Creations that did not end"), table(headings, rows))
}

/// Returns one creation in detail.
pub(crate) fn creation_detail(creation: &VolumeCreation, now: &TimeReference) -> String {
    let mut fields = vec![
        ("ID", creation.volume.id.to_string()),
        ("Namespace", creation.volume.namespace.to_string()),
        ("Plugin ID", creation.plugin_id.to_string()),
        ("State", "being created".to_owned()),
        ("Name at Provider", creation.provider_name.clone()),
        ("Requests", creation.requests.to_string()),
        ("Began", ago(creation.since, now.now)),
        ("Failed Attempts", creation.failed_attempts.to_string()),
        ("Continued", next_attempt(creation, now)),
    ];
    fields.extend(creation.problem.clone().map(|problem| ("Problem", problem)));
    key_values(fields)
}

fn next_attempt(creation: &VolumeCreation, now: &TimeReference) -> String {
    match creation.next_attempt {
        Some(next) => until(next, now.now),
        None if creation.problem.is_some() => "when the plugin changes".to_owned(),
        None => "now".to_owned(),
    }
}

/// Returns the mutable parameters in force.
pub(crate) fn mutable_parameters(parameters: &BTreeMap<String, String>) -> String {
    let rows = parameters.iter().map(|(key, value)| [key.clone(), value.clone()]);
    heading("Mutable Parameters") + &table(["Parameter", "Value"], rows)
}

/// Returns what a volume has of mutable parameters, and the change that did not end; nothing if there is neither.
pub(crate) fn parameters_of_volume(
    volume: &NamespacedId,
    in_force: &BTreeMap<String, String>,
    pending: Option<&BTreeMap<String, String>>,
) -> String {
    let shown = (!in_force.is_empty()).then(|| format!("\n{}", mutable_parameters(in_force)));
    let pending = pending.map(|pending| {
        let words = pending.iter().map(|(key, value)| format!("{key}={value}"));
        let words: Vec<_> = words.map(|word| shell_quoted(&word)).collect();
        let (key, words) = (volume.command_words(), words.join(" "));
        let command = format!("nomad-csi volume modify {key} {words}");
        format!(
            "\nnote: a change of mutable parameters did not end, and the plugin may have carried it out\n\
             help: continue it with `{}`\n",
            one_line(&command)
        )
    });
    shown.unwrap_or_default() + &pending.unwrap_or_default()
}

/// Returns the conditions of a volume, and what could not be read.
pub(crate) fn volume_health(health: &VolumeHealth) -> String {
    let mut text = format!("\n{}", heading("Health"));
    if health.statuses.is_empty() && health.unknown.is_empty() {
        text.push_str("No adverse condition is known\n");
    }
    if !health.statuses.is_empty() {
        let rows = health.statuses.iter().map(|(node, status)| {
            let node = node.as_ref();
            [
                node.map_or_else(|| "controller".to_owned(), ToString::to_string),
                status.kind.to_string(),
                status.reason.clone(),
                status.message.clone(),
            ]
        });
        text += &table(["Reported By", "Status", "Reason", "Message"], rows);
    }
    let notes = health.unknown.iter().map(|reason| {
        let reason = one_line(reason);
        format!("note: the health is not complete: {reason}\n")
    });
    text.extend(notes);
    text
}

/// Returns the conditions in one cell of a table.
pub(crate) fn statuses_text(statuses: &[VolumeStatus]) -> String {
    let texts: Vec<String> = statuses.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
