//! Recognizes a file of Nomad's dynamic host volumes, which stands beside CSI volumes in many directories.

use std::sync::Arc;

use super::parse::parse_objects;
use super::syntax::Syntax;
use super::tree::{Object, Value};
use nomad_csi_model::diagnostic::{Diagnostics, SourceId, SourceMap};

/// Returns whether a text declares host volumes and nothing else: each of its documents is a host volume in Nomad's flat
/// form. A withheld text is none, because nothing may be learned of it.
pub fn declares_host_volumes(sources: &SourceMap, source: SourceId, syntax: Syntax) -> bool {
    let text = Arc::clone(sources.text(source));
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(&text) => Syntax::Json,
        syntax => syntax,
    };
    let may_be = text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"host"));
    if sources.is_withheld(source) || !may_be {
        return false;
    }
    let documents = parse_objects(&text, source, syntax, &mut Diagnostics::default());
    documents.is_ok_and(|documents| !documents.is_empty() && documents.iter().all(is_host_volume))
}

/// Returns whether a document is a host volume.
pub(super) fn is_host_volume(document: &Object<'_>) -> bool {
    let is_host = |value: &Value<'_>| match value {
        Value::Scalar(scalar) => scalar.text.eq_ignore_ascii_case("host"),
        Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_)
        | Value::Object(_) => false,
    };
    let mut types =
        document.entries.iter().filter(|entry| entry.key.text.eq_ignore_ascii_case("type"));
    let first = types.next();
    let has_key =
        |word: &str| document.entries.iter().any(|entry| entry.key.text.eq_ignore_ascii_case(word));
    let mut ids = document.entries.iter().filter(|entry| entry.key.text.eq_ignore_ascii_case("id"));
    let has_chosen_id = ids.any(|entry| !is_uuid(&entry.value.value));
    let may_be_csi = CSI_ONLY.iter().any(|word| has_key(word))
        || has_chosen_id && !HOST_ONLY.iter().any(|word| has_key(word));
    !may_be_csi && first.is_some_and(|entry| is_host(&entry.value.value)) && types.next().is_none()
}

/// Keys that no CSI volume has.
const HOST_ONLY: [&str; 4] = ["host_path", "node_id", "node_pool", "constraint"];

/// Returns whether a value has the form of a host volume's ID, which the server makes. Every CSI volume in a flat file has
/// an ID of its author.
fn is_uuid(value: &Value<'_>) -> bool {
    let Value::Scalar(scalar) = value else {
        return false;
    };
    let mut parts = scalar.text.split('-');
    let is_part = |length: usize, part: Option<&str>| {
        part.is_some_and(|part| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    [8, 4, 4, 4, 12].into_iter().all(|length| is_part(length, parts.next()))
        && parts.next().is_none()
}

/// Keys that no host volume has: a file with one of them is a CSI volume with a wrong type, or holds one, and leaving it
/// alone would take it out of its set.
const CSI_ONLY: [&str; 11] = [
    "volume",
    "set",
    "external_id",
    "snapshot_id",
    "clone_id",
    "secrets",
    "context",
    "mount_options",
    "topology_request",
    "protect",
    "ignore",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn declares(text: &str, syntax: Syntax) -> bool {
        let mut sources = SourceMap::default();
        let source = sources.add("file", text);
        declares_host_volumes(&sources, source, syntax)
    }

    #[test]
    fn only_a_text_of_host_volumes_alone_is_one() {
        for (text, syntax, expected) in [
            ("name = \"a\"\ntype = \"host\"\n", Syntax::Hcl, true),
            ("Type = \"HOST\"\n", Syntax::Hcl, true),
            ("{\"type\": \"host\"}", Syntax::Hcl, true),
            ("type: host\n---\ntype: host\n", Syntax::Yaml, true),
            ("type: host\n---\ntype: csi\n", Syntax::Yaml, false),
            ("type = \"csi\"\n", Syntax::Hcl, false),
            ("type = \"host\"\nset = \"a\"\n", Syntax::Hcl, false),
            ("type = \"host\"\nid = \"db\"\n", Syntax::Hcl, false),
            ("{\"ID\": [], \"Type\": \"host\"}", Syntax::Json, false),
            ("type: host\nid: 84124d0e-1111-2222-3333-444455556666\nname: a\n", Syntax::Yaml, true),
            ("type: host\nid: 84124d0e-1111-2222-3333-44445555666\n", Syntax::Yaml, false),
            ("type: host\nid: db\nnode_id: n\n", Syntax::Yaml, true),
            ("type = \"host\"\nvolume \"b\" {\n type = \"csi\"\n}\n", Syntax::Hcl, false),
            ("type: host\nexternal_id: vol-1\n", Syntax::Yaml, false),
            ("type = \"host\"\ntype = \"csi\"\n", Syntax::Hcl, false),
            ("volume \"a\" {\n  type = \"host\"\n}\n", Syntax::Hcl, false),
            ("type = [\"host\"]\n", Syntax::Hcl, false),
            ("type = \"host\n", Syntax::Hcl, false),
            ("", Syntax::Hcl, false),
        ] {
            assert_eq!(declares(text, syntax), expected, "{text}");
        }
    }
}
