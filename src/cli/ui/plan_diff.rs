//! What a change of a plan removes and adds, as the lines of a `diff` block.
//!
//! A line has the sign of a diff, so that code hosts colour it. Values that are never shown have `!`. What a change does
//! beside its values, such as its risk, stays a detail in words.

use super::desired_volume::desired;
use super::plan::{change, value_text};
use nomad_csi_plan::{Action, Change, FieldValue, PlannedVolume};

/// The diff of one change.
#[derive(Debug, Default)]
pub(super) struct PlanDiff {
    /// Its lines.
    pub lines: Vec<String>,
    /// The details that say the same.
    replaced: Vec<String>,
}

impl PlanDiff {
    /// Returns whether the diff says the same as this detail.
    pub(super) fn replaces(&self, detail: &str) -> bool {
        self.replaced.iter().any(|replaced| replaced == detail)
    }

    fn added(lines: Vec<String>) -> Self {
        Self { lines: lines.iter().map(|line| format!("+ {line}")).collect(), replaced: lines }
    }

    fn changed(changes: &[Change]) -> Self {
        Self {
            lines: changes.iter().flat_map(lines).collect(),
            replaced: changes.iter().map(change).collect(),
        }
    }

    fn removed(what: &str) -> Self {
        Self { lines: vec![format!("- {what}")], replaced: vec![] }
    }
}

/// Returns the diff of a change; empty without one.
pub(super) fn diff_of(planned: &PlannedVolume) -> PlanDiff {
    match &planned.action {
        Action::Create(request) | Action::Register(request) => PlanDiff::added(desired(request)),
        Action::RegisterAgain(again) => PlanDiff::added(desired(&again.request)),
        Action::Recreate(recreate) => PlanDiff::added(desired(&recreate.request)),
        Action::Update(update) | Action::Expand(update) => PlanDiff::changed(&update.changes),
        Action::Replace(replace) => {
            let mut diff = PlanDiff::added(desired(&replace.request));
            diff.lines.insert(0, "- the volume as it is".to_owned());
            diff
        }
        Action::Deregister => PlanDiff::removed("the registration"),
        Action::DeleteData => PlanDiff::removed("the registration and the data"),
        Action::Unchanged | Action::WaitingForClaims(_) | Action::Blocked(_) => PlanDiff::default(),
    }
}

fn lines(change: &Change) -> Vec<String> {
    let field = change.field;
    if change.old == FieldValue::Hidden && change.new == FieldValue::Hidden {
        return vec![format!("! {field}: changed, not shown")];
    }
    let of = |sign: char, value: &FieldValue| match value {
        FieldValue::Absent => None,
        value => Some(format!("{sign} {field}: {}", value_text(value))),
    };
    of('-', &change.old).into_iter().chain(of('+', &change.new)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_line_for_each_value_that_is_there() {
        let text = |text: &str| FieldValue::Text(text.to_owned());
        for (old, new, expected) in [
            (text("a"), text("b"), vec!["- name: \"a\"", "+ name: \"b\""]),
            (FieldValue::Absent, text("b"), vec!["+ name: \"b\""]),
            (text("a"), FieldValue::Absent, vec!["- name: \"a\""]),
            (FieldValue::Hidden, FieldValue::Hidden, vec!["! name: changed, not shown"]),
            (FieldValue::Hidden, FieldValue::Absent, vec!["- name: (not shown)"]),
        ] {
            let changed = Change { field: "name", old, new };
            assert_eq!(lines(&changed), expected);
            let diff = PlanDiff::changed(std::slice::from_ref(&changed));
            assert!(diff.replaces(&change(&changed)));
            assert!(!diff.replaces("the provider expands the volume"));
        }
    }
}
