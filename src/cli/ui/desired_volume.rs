//! The request that a plan makes for a volume, as text and as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use nomad_csi_model::{Bytes, ExternalId, Topology, UnresolvedRequest};

/// Returns what a request asks for, one line each. Secrets and mount flags never appear.
pub(super) fn desired(request: &UnresolvedRequest) -> Vec<String> {
    let mut details = vec![format!("plugin {}", request.plugin_id)];
    if let Some(external_id) = &request.external_id {
        details.push(format!("external ID {external_id}"));
    }
    let (min, max) = (request.capacity.min, request.capacity.max);
    match (min.is_zero(), max.is_zero()) {
        (true, true) => {}
        (false, true) => details.push(format!("at least {}", size(min))),
        (true, false) => details.push(format!("at most {}", size(max))),
        (false, false) => details.push(format!("from {} to {}", size(min), size(max))),
    }
    for (source, what) in [(&request.snapshot_id, "snapshot"), (&request.clone_id, "volume")] {
        if let Some(source) = source {
            details.push(format!("copied from {what} {source}"));
        }
    }
    details.extend(request.capabilities.iter().map(ToString::to_string));
    details.extend(options(request));
    details.extend(topologies(request));
    for (what, map) in [("parameters", &request.parameters), ("context", &request.context)] {
        if let Some(map) = map.as_ref().filter(|map| !map.is_empty()) {
            details.push(format!("{what} {{{}}}", pairs(map)));
        }
    }
    details
}

/// Returns the file system and whether there are mount flags, which are never shown.
fn options(request: &UnresolvedRequest) -> Vec<String> {
    let Some(options) = &request.mount_options else {
        return vec![];
    };
    let file_system = match options.fs_type.as_str() {
        "" => None,
        fs_type => Some(format!("file system {fs_type}")),
    };
    let flags = (!options.mount_flags.is_empty()).then(|| "mount flags (not shown)".to_owned());
    file_system.into_iter().chain(flags).collect()
}

fn topologies(request: &UnresolvedRequest) -> Vec<String> {
    let Some(desired) = &request.topology_request else {
        return vec![];
    };
    let kinds =
        [("one of the topologies", &desired.required), ("preferably in", &desired.preferred)];
    let kinds = kinds.iter().filter(|(_, places)| !places.is_empty());
    let line = |(what, places): &(&str, &Vec<Topology>)| {
        let places: Vec<String> = places.iter().map(|place| format!("({place})")).collect();
        format!("{what} {}", places.join(" "))
    };
    kinds.map(line).collect()
}

/// Returns the same as JSON.
pub(super) fn desired_json(request: &UnresolvedRequest) -> Value {
    let bytes = |size: Bytes| (!size.is_zero()).then(|| size.get());
    let options = request.mount_options.as_ref();
    let places = |places: &[Topology]| -> Vec<Value> {
        let segments = places.iter().map(|place| json!(place.segments));
        segments.collect()
    };
    json!({
        "name": request.name,
        "plugin_id": request.plugin_id.as_str(),
        "external_id": request.external_id.as_ref().map(ExternalId::as_str),
        "capacity_min": bytes(request.capacity.min),
        "capacity_max": bytes(request.capacity.max),
        "snapshot_id": request.snapshot_id,
        "clone_id": request.clone_id,
        "capabilities": request.capabilities,
        "fs_type": options.map(|options| &options.fs_type).filter(|text| !text.is_empty()),
        "mount_flags": options
            .filter(|options| !options.mount_flags.is_empty())
            .map(|_| json!({"hidden": true})),
        "topology_request": request.topology_request.as_ref().map(|desired| json!({
            "required": places(&desired.required),
            "preferred": places(&desired.preferred),
        })),
        "parameters": request.parameters.clone().unwrap_or_default(),
        "context": request.context.clone().unwrap_or_default(),
    })
}

/// Returns a size with its exact bytes.
pub(super) fn size(bytes: Bytes) -> String {
    format!("{bytes} ({} bytes)", bytes.get())
}

/// Returns the pairs of a map.
pub(super) fn pairs(map: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    pairs.join(", ")
}
