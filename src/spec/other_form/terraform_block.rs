//! Blocks of a Terraform configuration at the top level of a specification.

use std::collections::BTreeSet;

use super::translation::written;
use crate::schema::{self, Field};
use crate::syntax::Syntax;
use crate::tree::{Entry, Object, Value};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// The types of resources that are volumes.
const VOLUMES: [&str; 3] = ["nomad_csi_volume", "nomad_csi_volume_registration", "nomad_volume"];

const STATE_HELP: &str =
    "for volumes in Terraform's state, run `nomad-csi import --from-tfstate FILE`";

/// Removes the blocks of Terraform from the documents of a text, and reports them. Returns whether nothing else is left
/// that could be a specification. Any value in a block may be secret: `hide` is called for each of those that are removed.
pub(crate) fn refuse_terraform(
    documents: &mut [Object<'_>],
    syntax: Syntax,
    diagnostics: &mut Diagnostics,
    hide: &mut impl FnMut(Span),
) -> bool {
    let mut is_found = false;
    for document in documents.iter_mut() {
        if let Some(place) = state_place(document) {
            let message = "this is the state of Terraform, not a specification";
            let problem = Diagnostic::error(Code::SpecOtherForm, message);
            diagnostics.push(problem.label(place, "a key of the state").help(STATE_HELP));
            return true;
        }
        let (blocks, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut document.entries).into_iter().partition(is_terraform);
        document.entries = others;
        let repeated = document.duplicates.iter().filter(|entry| is_terraform(entry));
        blocks.iter().chain(repeated).for_each(|entry| entry.value.for_each_scalar(hide));
        is_found |= !blocks.is_empty();
        report(&blocks, syntax, diagnostics);
    }
    let is_declaration =
        |entry: &Entry<'_>| matches!(&*entry.key.text, schema::VARIABLE | schema::LOCALS | "//");
    is_found && documents.iter().all(|document| document.entries.iter().all(is_declaration))
}

/// Returns the position of a key that shows that a document is a state.
fn state_place(document: &Object<'_>) -> Option<Span> {
    let key = |name: &str| document.entries.iter().find(|entry| entry.key.text == name);
    let place = key("terraform_version")?.key.span;
    (key("resources").is_some() || key("lineage").is_some()).then_some(place)
}

/// Returns whether an entry is a block of Terraform: with as many labels as Terraform wants, or with blocks under its key.
fn is_terraform(entry: &Entry<'_>) -> bool {
    let (is_object, labels) = (entry.value.is_object(), entry.labels.len());
    match &*entry.key.text {
        "resource" | "data" | "ephemeral" => {
            labels == 2 || is_object && labels == 0 && has_types(entry)
        }
        "provider" | "module" | "output" | "check" => labels == 1 || is_object,
        "terraform" | "import" | "moved" | "removed" => is_object && labels == 0,
        _ => false,
    }
}

/// Returns whether each value under a key is an object, as in Terraform's JSON: the types of its resources.
fn has_types(entry: &Entry<'_>) -> bool {
    match &entry.value.value {
        Value::Object(types) => types.entries.iter().all(|entry| entry.value.is_object()),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_) => false,
    }
}

/// Reports the blocks: each volume, and the others by their kinds.
fn report(blocks: &[Entry<'_>], syntax: Syntax, diagnostics: &mut Diagnostics) {
    let (volumes, others): (Vec<_>, Vec<_>) = blocks.iter().partition(|entry| is_volume(entry));
    if let Some(first) = volumes.first() {
        let objects: Vec<&Object<'_>> = volumes.iter().flat_map(|entry| bodies(entry)).collect();
        let message = "this is a volume of Terraform, not a specification";
        let problem = Diagnostic::error(Code::SpecOtherForm, message);
        diagnostics.push(
            problem.label(header(first), "a resource of Terraform").help(STATE_HELP).block(
                format!("for a new volume, write this:\n{}", written(&objects, syntax, key_of)),
            ),
        );
    }
    // Beside a volume of Terraform, the other blocks of its configuration say nothing new.
    if !volumes.is_empty() {
        return;
    }
    let mut reported = BTreeSet::new();
    for entry in others {
        let key = &*entry.key.text;
        if !reported.insert(key) {
            continue;
        }
        let message = format!("`{key}` is a block of Terraform, not of a specification");
        let problem = Diagnostic::error(Code::SpecOtherForm, message);
        diagnostics.push(problem.label(header(entry), "a block of Terraform").help(help(key)));
    }
}

fn help(key: &str) -> &'static str {
    match key {
        "data" => "remove it, and write the value itself, such as `plugin_id = \"PLUGIN\"`",
        "provider" | "terraform" => {
            "remove it: `--address`, NOMAD_ADDR or a context names the server"
        }
        "module" => {
            "remove it: `class` gives several volumes the same fields, and the command takes several files"
        }
        "output" => "remove it: `nomad-csi render` prints the volumes with their values",
        "import" => "remove it, and run `nomad-csi import ID`",
        "moved" => "remove it: a volume keeps its ID with `source = \"ID\"`",
        "removed" => {
            "remove it: `nomad-csi forget --set NAME ID` releases a volume and changes nothing"
        }
        "check" => "remove it: a `variable` has `validation` blocks",
        _ => "remove it: a specification declares volumes only",
    }
}

fn header(entry: &Entry<'_>) -> Span {
    entry.labels.last().map_or(entry.key.span, |label| entry.key.span.to(label.span))
}

/// Returns whether a `resource` is one of volumes, in HCL or in Terraform's JSON.
fn is_volume(entry: &&Entry<'_>) -> bool {
    let is_type = |name: &str| VOLUMES.contains(&name);
    entry.key.text == "resource"
        && match entry.labels.first() {
            Some(label) => is_type(&label.text),
            None => match &entry.value.value {
                Value::Object(types) => types.entries.iter().any(|entry| is_type(&entry.key.text)),
                Value::Null
                | Value::Invalid
                | Value::Scalar(_)
                | Value::Reference(_)
                | Value::Unknown
                | Value::Expression(_)
                | Value::List(_) => false,
            },
        }
}

/// Returns the bodies of the volumes of a `resource`.
fn bodies<'t, 'a>(entry: &'t Entry<'a>) -> Vec<&'t Object<'a>> {
    let inner = |entry: &'t Entry<'a>| match &entry.value.value {
        Value::Object(object) => Some(object),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_) => None,
    };
    let Some(object) = inner(entry) else {
        return vec![];
    };
    if !entry.labels.is_empty() {
        return vec![object];
    }
    let types = object.entries.iter().filter(|entry| VOLUMES.contains(&&*entry.key.text));
    types.filter_map(inner).flat_map(|named| named.entries.iter().filter_map(inner)).collect()
}

/// Returns the key of a specification for an argument of a resource.
fn key_of(table: &'static [Field], key: &str) -> Option<&'static str> {
    if key == "volume_id" {
        return Some("id");
    }
    table.iter().map(|field| field.key).find(|known| *known == key)
}
