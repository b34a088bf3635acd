//! Writes content as YAML, with comments, and as JSON, in which a comment is a key `//` of a file or of a block.

use serde_json::{Map, Value, json};

use super::content::{Content, LABELLED, Member, template};
use crate::encode::literal_text;
use crate::schema::{DEFAULTS, LOCALS};
use crate::tree::ScalarKind;
use crate::words::UNKNOWN;
use nomad_csi_model::{escape_json, escape_json_for_yaml};

/// Writes a document as JSON.
pub(super) fn json_text(content: &Content, is_language: bool) -> String {
    escape_json(&format!("{:#}\n", value(content, is_language, &[])))
}

/// Writes a document as YAML.
pub(super) fn yaml_text(content: &Content, is_language: bool) -> String {
    let mut out = String::new();
    if let Content::Map(members) = content {
        fields(members, is_language, 0, &[], &mut out);
    }
    out
}

/// Returns whether a map may have a comment as a key.
fn has_room_for_comment(path: &[&str]) -> bool {
    match path {
        [] | [DEFAULTS | LOCALS] => true,
        [first, _] => LABELLED.contains(first),
        _ => false,
    }
}

/// Returns a value as JSON. The comments of a map that has no room for them go to the map above.
fn value(content: &Content, is_language: bool, path: &[&str]) -> Value {
    match content {
        Content::Map(members) => {
            let mut map = Map::new();
            if has_room_for_comment(path) {
                let mut lines = vec![];
                collect_comments(members, path, &mut lines);
                match &lines[..] {
                    [] => {}
                    [line] => drop(map.insert("//".to_owned(), line.as_str().into())),
                    lines => drop(map.insert("//".to_owned(), json!(lines))),
                }
            }
            for member in members {
                let mut inner = path.to_vec();
                inner.push(&member.key);
                let written = match inner[..] {
                    ["variable", _, "type"] => plain(&member.value),
                    _ => value(&member.value, is_language, &inner),
                };
                map.insert(member.key.clone(), written);
            }
            Value::Object(map)
        }
        Content::List(items) => items.iter().map(|item| value(item, is_language, path)).collect(),
        other => scalar(other, is_language),
    }
}

/// Adds the comments of members, and of maps in them that have no room of their own.
fn collect_comments(members: &[Member], path: &[&str], lines: &mut Vec<String>) {
    for member in members {
        lines.extend(member.comments.iter().cloned());
        let mut inner = path.to_vec();
        inner.push(&member.key);
        if has_room_for_comment(&inner) {
            continue;
        }
        if let [only] = inner[..]
            && LABELLED.contains(&only)
            && let Content::Map(blocks) = &member.value
        {
            // Each block has room, but not the map of blocks.
            lines.extend(blocks.iter().flat_map(|block| block.comments.iter().cloned()));
            continue;
        }
        for map in maps_of(&member.value) {
            collect_comments(map, &inner, lines);
        }
    }
}

fn maps_of(content: &Content) -> Vec<&[Member]> {
    match content {
        Content::Map(members) => vec![members],
        Content::List(items) => items.iter().flat_map(maps_of).collect(),
        Content::Null
        | Content::Unknown
        | Content::Scalar(..)
        | Content::Expression(_)
        | Content::Template(_)
        | Content::Reference(..) => vec![],
    }
}

/// Returns a text that is no template.
fn plain(content: &Content) -> Value {
    match content {
        Content::Scalar(_, text) => text.as_str().into(),
        other => scalar(other, false),
    }
}

fn scalar(content: &Content, is_language: bool) -> Value {
    match content {
        Content::Null | Content::Map(_) | Content::List(_) => Value::Null,
        Content::Unknown => json!({UNKNOWN: true}),
        Content::Scalar(ScalarKind::Text, text) if is_language => literal_text(text).into(),
        Content::Scalar(ScalarKind::Text, text) => text.as_str().into(),
        Content::Scalar(ScalarKind::Number | ScalarKind::Boolean, text) => {
            serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
        }
        Content::Expression(source) => format!("${{{source}}}").into(),
        Content::Template(parts) => template(parts, literal_text).into(),
        Content::Reference(source, arguments) => {
            let literal = |text: &String| match is_language {
                true => literal_text(text),
                false => text.clone(),
            };
            let written: Vec<String> = arguments.iter().map(literal).collect();
            match &written[..] {
                [only] => json!({source.as_str(): only}),
                several => json!({source.as_str(): several}),
            }
        }
    }
}

/// Writes the fields of a map, one or more lines each.
fn fields(members: &[Member], is_language: bool, level: usize, path: &[&str], out: &mut String) {
    for member in members {
        let is_type = matches!(path, ["variable", _]) && member.key == "type";
        let mut inner = path.to_vec();
        inner.push(&member.key);
        for line in &member.comments {
            indent(level, out);
            out.extend(["#", if line.is_empty() { "" } else { " " }, line, "\n"]);
        }
        indent(level, out);
        out.push_str(&inline(&member.key.as_str().into()));
        match &member.value {
            Content::Map(map) if !map.is_empty() => {
                out.push_str(":\n");
                fields(map, is_language, level + 1, &inner, out);
            }
            Content::List(items) if !items.is_empty() && items.iter().all(is_full_map) => {
                out.push_str(":\n");
                for item in items {
                    let mut lines = String::new();
                    if let Content::Map(map) = item {
                        fields(map, is_language, level + 2, &inner, &mut lines);
                    }
                    // The dash is before the first line that is no comment; YAML allows comments before it.
                    let mut is_first = true;
                    for line in lines.lines() {
                        let content = line.trim_start();
                        if is_first && !content.starts_with('#') {
                            is_first = false;
                            indent(level + 1, out);
                            out.extend(["- ", content, "\n"]);
                        } else {
                            out.extend([line, "\n"]);
                        }
                    }
                }
            }
            other if is_type => out.extend([": ", &inline(&plain(other)), "\n"]),
            other => {
                let written = value(other, is_language, &["", "", ""]);
                out.extend([": ", &inline(&written), "\n"]);
            }
        }
    }
}

fn is_full_map(content: &Content) -> bool {
    matches!(content, Content::Map(members) if !members.is_empty())
}

fn indent(level: usize, out: &mut String) {
    (0..level).for_each(|_| out.push_str("  "));
}

/// Returns a value on one line: a plain word where YAML reads it as a text, else as JSON.
fn inline(value: &Value) -> String {
    escape_json_for_yaml(&spaced(value))
}

/// Returns JSON with spaces behind commas and colons and with plain words, as YAML reads it.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", word(key), spaced(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::String(text) => word(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Returns a text as a plain word, else in quotes.
fn word(text: &str) -> String {
    match is_plain(text) {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "y"];
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_word)
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
        && !matches!(text, "n" | "N")
}
