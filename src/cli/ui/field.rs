//! A field of a specification as text: its meaning, its values, and what servers answer to a change.

use std::fmt::Write as _;

use nomad_csi_model::{AccessMode, AttachmentMode};
use nomad_csi_plan::update_answers;
use nomad_csi_spec::schema::Field;

/// Returns the explanation of a field. `block` contains it; the file is no block.
pub(crate) fn field_explanation(block: Option<&str>, field: &Field) -> String {
    let place = match block {
        None => "at the top level of a file".to_owned(),
        Some(block) => format!("in `{block}`"),
    };
    let mut text = format!("{} ({place})\n\n{}\n\n", field.key, field.doc);
    let _ = writeln!(text, "Type:    {}", field.kind);
    if let Some(values) = values(field.key) {
        let _ = writeln!(text, "Values:  {}", values.join(", "));
    }
    let _ = writeln!(text, "Default: {}", field.default);
    let _ = writeln!(text, "Change:  {}", field.mutability);
    if let Some(found) = update_answers(field.key) {
        let _ = writeln!(text, "\nAnswers of servers to {}:", found.change);
        for (servers, answer) in found.answers {
            let _ = writeln!(text, "  {servers}: {answer}");
        }
    }
    text
}

fn values(key: &str) -> Option<Vec<&'static str>> {
    match key {
        "access_mode" => Some(AccessMode::ALL.map(AccessMode::as_str).to_vec()),
        "attachment_mode" => Some(AttachmentMode::ALL.map(AttachmentMode::as_str).to_vec()),
        _ => None,
    }
}
