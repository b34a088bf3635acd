//! Writes a specification with a comment above each field, in each syntax.
//!
//! Control characters of a comment are replaced, so a comment never becomes a field. JSON has no
//! comments: they and the examples are the texts of a key `//`, which the reader of specifications skips.

use serde_json::{Map, Value};

use super::encode::{hcl, one_line, yaml_fields};
use super::syntax::Syntax;
use nomad_csi_model::escape_json;

/// Some fields, and what a person should know about them.
pub(super) struct Section {
    /// Lines of a comment above the fields.
    pub(super) comments: Vec<String>,
    /// The fields, in the shape of the syntax.
    pub(super) fields: Map<String, Value>,
    /// True if the fields are an example, and so part of the comment.
    pub(super) is_example: bool,
}

/// Writes the sections as one file.
pub(super) fn annotated(sections: &[Section], syntax: Syntax) -> String {
    let write = match syntax {
        Syntax::Json => return json(sections),
        Syntax::Hcl => hcl,
        Syntax::Yaml => yaml_fields,
    };
    let paragraphs: Vec<_> =
        sections.iter().map(|section| paragraph(section, &write(&section.fields))).collect();
    paragraphs.join("\n")
}

/// Returns the comments of a section, and its fields as `text`.
fn paragraph(section: &Section, text: &str) -> String {
    let comment = |line: &str| format!("# {}", one_line(line)).trim_end().to_owned();
    let comments = section.comments.iter().map(|line| comment(line));
    let fields = text.lines().map(|line| match section.is_example {
        true => comment(line),
        false => line.to_owned(),
    });
    let lines = comments.chain(fields).map(|line| line + "\n");
    lines.collect()
}

fn json(sections: &[Section]) -> String {
    let mut comments: Vec<String> = vec![];
    let mut document = Map::new();
    for section in sections {
        comments.extend(section.comments.iter().cloned());
        for (key, value) in &section.fields {
            match section.is_example {
                true => comments.push(format!("  {}: {value}", Value::from(key.as_str()))),
                false => drop(document.insert(key.clone(), value.clone())),
            }
        }
    }
    let mut file = Map::new();
    file.insert("//".to_owned(), comments.into());
    file.extend(document);
    escape_json(&format!("{:#}\n", Value::from(file)))
}
