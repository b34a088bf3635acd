//! Every field of a volume in every form, in a file and on a server, for the tests of this crate.

use std::collections::BTreeMap;

use super::ledger::MOUNT_FLAGS;
use super::rules::MergeRules;
use super::samples::{READERS, WRITER, bytes, desired, existing, place};
use nomad_csi_model::{
    Bytes, CapacityRange, ExternalId, MountOptions, ServerVersion, TopologyRequest,
    UnresolvedRequest, Volume,
};

/// The form of a value in a file, in a ledger's hash or on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Absent,
    Empty,
    Given,
    /// A value that neither the file nor the ledger has.
    Other,
}

pub(super) const WRITTEN: [Form; 3] = [Form::Absent, Form::Empty, Form::Given];
pub(super) const SHOWN: [Form; 4] = [Form::Absent, Form::Empty, Form::Given, Form::Other];

/// A field, how a file gives it, and how a server shows it.
pub(super) struct Field {
    pub(super) key: &'static str,
    pub(super) write: fn(&mut UnresolvedRequest, Form),
    pub(super) show: fn(&mut Volume, Form),
}

fn text(form: Form) -> Option<String> {
    match form {
        Form::Absent => None,
        Form::Empty => Some(String::new()),
        Form::Given => Some("given".into()),
        Form::Other => Some("other".into()),
    }
}

fn map(form: Form) -> Option<BTreeMap<String, String>> {
    let pair = |value: &str| [("key".to_owned(), value.to_owned())].into();
    match form {
        Form::Absent => None,
        Form::Empty => Some(BTreeMap::new()),
        Form::Given => Some(pair("given")),
        Form::Other => Some(pair("other")),
    }
}

fn size(form: Form, given: u64) -> Bytes {
    match form {
        Form::Absent | Form::Empty => bytes(0),
        Form::Given => bytes(given),
        Form::Other => bytes(given + 500),
    }
}

fn options(form: Form, value: fn(&mut MountOptions, &str)) -> Option<MountOptions> {
    let mut options = MountOptions::default();
    match form {
        Form::Absent => return None,
        Form::Empty => {}
        Form::Given => value(&mut options, "given"),
        Form::Other => value(&mut options, "other"),
    }
    Some(options)
}

fn fs_type(options: &mut MountOptions, value: &str) {
    options.fs_type = value.to_owned();
}

fn flags(options: &mut MountOptions, value: &str) {
    options.mount_flags = vec![value.to_owned()];
}

fn topology(form: Form, into: fn(&mut TopologyRequest, &str)) -> Option<TopologyRequest> {
    let mut request = TopologyRequest::default();
    match form {
        Form::Absent => return None,
        Form::Empty => {}
        Form::Given => into(&mut request, "given"),
        Form::Other => into(&mut request, "other"),
    }
    Some(request)
}

fn required(request: &mut TopologyRequest, zone: &str) {
    request.required = vec![place(zone)];
}

fn preferred(request: &mut TopologyRequest, zone: &str) {
    request.preferred = vec![place(zone)];
}

pub(super) fn fields() -> Vec<Field> {
    let field = |key, write, show| Field { key, write, show };
    vec![
        field(
            "name",
            |file, form| file.name = text(form),
            |volume, form| volume.name = text(form).unwrap_or_default(),
        ),
        field(
            "external_id",
            |file, form| file.external_id = text(form).map(ExternalId::new),
            |volume, form| volume.external_id = text(form).map(ExternalId::new),
        ),
        field(
            "snapshot_id",
            |file, form| file.snapshot_id = text(form),
            |volume, form| volume.snapshot_id = text(form),
        ),
        field(
            "clone_id",
            |file, form| file.clone_id = text(form),
            |volume, form| volume.clone_id = text(form),
        ),
        field(
            "capacity_min",
            |file, form| file.capacity.min = size(form, 1000),
            |volume, form| volume.requested_capacity.min = size(form, 1000),
        ),
        field(
            "capacity_max",
            |file, form| file.capacity.max = size(form, 2000),
            |volume, form| volume.requested_capacity.max = size(form, 2000),
        ),
        field(
            "mount_options.fs_type",
            |file, form| file.mount_options = options(form, fs_type),
            |volume, form| volume.mount_options = options(form, fs_type),
        ),
        field(
            MOUNT_FLAGS,
            |file, form| file.mount_options = options(form, flags),
            |volume, form| volume.mount_options = options(form, flags),
        ),
        // The same flags on a server that redacts them, with another file system than the file has.
        field(
            MOUNT_FLAGS,
            |file, form| file.mount_options = options(form, flags),
            |volume, form| {
                volume.mount_options = options(form, |options, value| {
                    options.mount_flags = vec![MountOptions::REDACTED.into()];
                    if value == "other" {
                        options.fs_type = value.into();
                    }
                });
            },
        ),
        field(
            "topology_request.required",
            |file, form| file.topology_request = topology(form, required),
            |volume, form| volume.topology_request = topology(form, required),
        ),
        field(
            "topology_request.preferred",
            |file, form| file.topology_request = topology(form, preferred),
            |volume, form| volume.topology_request = topology(form, preferred),
        ),
        field(
            "parameters",
            |file, form| file.parameters = map(form),
            |volume, form| volume.parameters = map(form).unwrap_or_default(),
        ),
        field(
            "context",
            |file, form| file.context = map(form),
            |volume, form| volume.context = map(form).unwrap_or_default(),
        ),
        field(
            "capability",
            |file, form| {
                file.capabilities = match form {
                    Form::Absent | Form::Empty => vec![WRITER],
                    Form::Given | Form::Other => vec![WRITER, READERS],
                };
            },
            |volume, form| {
                volume.capabilities = match form {
                    Form::Absent | Form::Empty => vec![WRITER],
                    Form::Given => vec![READERS, WRITER],
                    Form::Other => vec![READERS],
                };
            },
        ),
    ]
}

/// A file with only its required fields.
pub(super) fn minimal() -> UnresolvedRequest {
    UnresolvedRequest {
        name: None,
        capacity: CapacityRange::default(),
        topology_request: None,
        ..desired()
    }
}

/// The volume that [`minimal`] makes.
pub(super) fn bare() -> Volume {
    Volume {
        name: String::new(),
        external_id: None,
        requested_capacity: CapacityRange::default(),
        topology_request: None,
        mount_options: None,
        capabilities: minimal().capabilities,
        ..existing()
    }
}

pub(super) fn rules() -> Vec<MergeRules> {
    let version = |text: &str| MergeRules::of_nomad(&text.parse::<ServerVersion>().unwrap());
    let versions = ["1.1.18", "1.2.0", "1.3.16", "1.6.10", "1.7.7", "1.9.5", "2.0.5"];
    let named = [MergeRules::AGENT, MergeRules::NOMAD, MergeRules::STRICTEST];
    named.into_iter().chain(versions.map(version)).collect()
}
