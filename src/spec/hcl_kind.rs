//! Tells what an HCL file is by the keys of its top level. A directory of specifications also has files of other programs:
//! configurations of agents, policies, quotas, host volumes.

use super::host_volumes::is_host_volume;
use super::language::is_of_language;
use super::schema;
use super::tree::{Entry, Object, Value};

/// What an HCL file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HclKind {
    /// Volumes, or declarations for them.
    Specification,
    /// A job.
    Job,
    /// Nothing but white space and comments.
    Empty,
    /// A file of another program.
    Other,
}

/// Keys that only a volume has at the top level of a file.
const VOLUME_KEYS: [&str; 9] = [
    "plugin_id",
    "external_id",
    "snapshot_id",
    "clone_id",
    "capacity_min",
    "capacity_max",
    "capability",
    "mount_options",
    "topology_request",
];

/// The blocks of the language that other programs have too.
const SHARED_BLOCKS: [&str; 5] =
    [schema::CLASS, schema::DEFAULTS, schema::VARIABLE, schema::LOCALS, schema::SET];

impl HclKind {
    /// Returns the kind of a document.
    pub(super) fn of(document: &Object<'_>) -> Self {
        let is_any = |is: &dyn Fn(&Entry<'_>) -> bool| document.entries.iter().any(is);
        if document.entries.is_empty() {
            return Self::Empty;
        }
        if is_host_volume(document) {
            return Self::Other;
        }
        if is_any(&|entry| is_key(entry, "job") && entry.value.is_object()) {
            return Self::Job;
        }
        let is_block = |entry: &Entry<'_>| is_key(entry, "volume") && entry.value.is_object();
        let is_of_volume = |entry: &Entry<'_>| VOLUME_KEYS.iter().any(|key| is_key(entry, key));
        let has_type = |entry: &Entry<'_>| is_key(entry, "type") && is_text(entry, "csi");
        let is_declaration = |entry: &Entry<'_>| {
            let is_single = is_key(entry, schema::SET) && !entry.value.is_object();
            is_single || SHARED_BLOCKS.contains(&&*entry.key.text) && entry.value.is_object()
        };
        let is_note = |entry: &Entry<'_>| {
            entry.key.text == "//" || entry.key.text.starts_with(schema::EXTENSION)
        };
        let mut all = document.entries.iter();
        let is_only_of_declarations = all.all(|entry| is_declaration(entry) || is_note(entry))
            && (is_of_language(document) || is_any(&|entry| is_key(entry, schema::SET)));
        match is_any(&is_block) || is_any(&is_of_volume) || is_any(&has_type) {
            true => Self::Specification,
            false if is_only_of_declarations => Self::Specification,
            false => Self::Other,
        }
    }
}

/// Nomad reads the keys of a flat volume in any case.
fn is_key(entry: &Entry<'_>, key: &str) -> bool {
    entry.key.text.eq_ignore_ascii_case(key)
}

fn is_text(entry: &Entry<'_>, text: &str) -> bool {
    match &entry.value.value {
        Value::Scalar(scalar) => scalar.text.eq_ignore_ascii_case(text),
        Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_)
        | Value::Object(_) => false,
    }
}

/// Returns whether a text that does not parse may be a specification or a job: a line begins as one of theirs.
pub(super) fn looks_like_ours(text: &str) -> bool {
    let is_ours = |line: &str| {
        let line = line.trim_start_matches(['\u{feff}', ' ', '\t', '"']);
        let length = line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len());
        let word = line.get(..length).unwrap_or_default();
        let mut words =
            VOLUME_KEYS.iter().chain(&["volume", "class", "defaults", "job", schema::SET]);
        words.any(|known| known.eq_ignore_ascii_case(word))
    };
    text.lines().any(is_ours)
}
