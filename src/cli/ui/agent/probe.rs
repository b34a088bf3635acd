//! The result of `plugin probe`, as text and as JSON.

use serde_json::{Value, json};

use crate::cli::ui::printer::one_line;
use crate::cli::ui::table::{heading, key_values, table};
use nomad_csi_conformance::{
    ModeAnswer, ProbedPlugin, broken_rules, controller_capability_name, group_capability_name,
    node_capability_name, plugin_service_name,
};
use nomad_csi_csi::CallFailure;
use nomad_csi_proto::plugin_capability::volume_expansion::Type as Expansion;
use nomad_csi_proto::{NodeGetInfoResponse, Topology};

/// Returns the result as text.
pub(crate) fn probe_text(profile: &ProbedPlugin, modes: Option<&[ModeAnswer]>) -> String {
    let mut sections = vec![key_values([
        ("Name", profile.info.name.clone()),
        ("Version", profile.info.vendor_version.clone()),
        ("Ready", readiness(profile)),
        ("Volume Expansion", expansion(profile).join(", ")),
    ])];
    if !profile.info.manifest.is_empty() {
        let manifest = profile.info.manifest.iter();
        let manifest = manifest.map(|(key, value)| (key.as_str(), value.clone()));
        sections.push(heading("Manifest") + &key_values(manifest));
    }
    let lists = [
        ("Services", Some(&profile.services), plugin_service_name as fn(i32) -> String),
        ("Controller Capabilities", profile.controller.as_ref(), controller_capability_name),
        ("Group Controller Capabilities", profile.group.as_ref(), group_capability_name),
        ("Node Capabilities", profile.node.as_ref(), node_capability_name),
    ];
    for (title, answer, name) in lists {
        sections.extend(answer.map(|answer| heading(title) + &lines(answer, name)));
    }
    sections.extend(profile.node_info.as_ref().map(node_text));
    sections.extend(modes.map(modes_text));
    let problems = broken_rules(profile);
    if !problems.is_empty() {
        let lines: String =
            problems.iter().map(|problem| format!("{}\n", one_line(problem))).collect();
        sections.push(heading("Violations of the Specification") + &lines);
    }
    sections.join("\n")
}

fn lines(answer: &Result<Vec<i32>, CallFailure>, name: fn(i32) -> String) -> String {
    match answer {
        Err(failure) => format!("{}\n", one_line(&failure.to_string())),
        Ok(kinds) if kinds.is_empty() => "<none>\n".to_owned(),
        Ok(kinds) => kinds.iter().map(|kind| name(*kind) + "\n").collect(),
    }
}

fn readiness(profile: &ProbedPlugin) -> String {
    match &profile.ready {
        Ok(Some(true)) => "yes".to_owned(),
        Ok(None) => "yes (by default)".to_owned(),
        Ok(Some(false)) => "no: still initializing".to_owned(),
        Err(failure) => format!("no: {failure}"),
    }
}

fn expansion(profile: &ProbedPlugin) -> Vec<String> {
    let name = |kind: &i32| {
        Expansion::try_from(*kind).map_or_else(
            |_| format!("{kind}, not defined in CSI 1.13"),
            |kind| kind.as_str_name().to_owned(),
        )
    };
    profile.expansion.iter().map(name).collect()
}

fn node_text(answer: &Result<NodeGetInfoResponse, CallFailure>) -> String {
    let node = match answer {
        Err(failure) => return heading("Node") + &one_line(&failure.to_string()) + "\n",
        Ok(node) => node,
    };
    let max_volumes = match node.max_volumes_per_node {
        0 => "no limit".to_owned(),
        max_volumes => max_volumes.to_string(),
    };
    let place = node.accessible_topology.as_ref().map(place).unwrap_or_default();
    heading("Node")
        + &key_values([
            ("Node ID", node.node_id.clone()),
            ("Max Volumes", max_volumes),
            ("Topology", place),
        ])
}

fn place(topology: &Topology) -> String {
    let segments = topology.segments.iter();
    let segments: Vec<String> = segments.map(|(key, value)| format!("{key}={value}")).collect();
    segments.join(", ")
}

fn modes_text(modes: &[ModeAnswer]) -> String {
    let rows = modes.iter().map(|mode| {
        let is_confirmed = if mode.refusal.is_none() { "yes" } else { "no" };
        [
            mode.access_mode.to_owned(),
            mode.attachment_mode.as_str().to_owned(),
            is_confirmed.to_owned(),
            mode.refusal.clone().unwrap_or_default(),
        ]
    });
    let headings = ["Access Mode", "Attachment Mode", "Confirmed", "Reason"];
    heading("Modes of the Volume") + &table(headings, rows)
}

fn modes_json(modes: &[ModeAnswer]) -> Value {
    let modes = modes.iter().map(|mode| {
        json!({
            "access_mode": mode.access_mode,
            "attachment_mode": mode.attachment_mode.as_str(),
            "is_confirmed": mode.refusal.is_none(),
            "reason": mode.refusal,
        })
    });
    modes.collect()
}

/// Returns the result as JSON, with the modes of a volume if they were asked for.
pub(crate) fn probe_json(profile: &ProbedPlugin, modes: Option<&[ModeAnswer]>) -> Value {
    let ready = match &profile.ready {
        Ok(ready) => json!(ready.unwrap_or(true)),
        Err(failure) => json!({"error": failure.to_string()}),
    };
    let mut document = json!({
        "version": 1,
        "name": profile.info.name,
        "vendor_version": profile.info.vendor_version,
        "manifest": profile.info.manifest,
        "ready": ready,
        "services": kinds_json(Some(&profile.services), plugin_service_name),
        "volume_expansion": expansion(profile),
        "controller_capabilities": kinds_json(profile.controller.as_ref(), controller_capability_name),
        "group_controller_capabilities": kinds_json(profile.group.as_ref(), group_capability_name),
        "node_capabilities": kinds_json(profile.node.as_ref(), node_capability_name),
        "node": profile.node_info.as_ref().map(node_json),
        "problems": broken_rules(profile),
    });
    if let Some(modes) = modes {
        document["volume_modes"] = modes_json(modes);
    }
    document
}

fn kinds_json(answer: Option<&Result<Vec<i32>, CallFailure>>, name: fn(i32) -> String) -> Value {
    match answer {
        None => Value::Null,
        Some(Err(failure)) => json!({"error": failure.to_string()}),
        Some(Ok(kinds)) => kinds.iter().map(|kind| name(*kind)).collect(),
    }
}

fn node_json(answer: &Result<NodeGetInfoResponse, CallFailure>) -> Value {
    match answer {
        Err(failure) => json!({"error": failure.to_string()}),
        Ok(node) => json!({
            "node_id": node.node_id,
            "max_volumes_per_node": node.max_volumes_per_node,
            "accessible_topology": node.accessible_topology.as_ref().map(|place| &place.segments),
        }),
    }
}
