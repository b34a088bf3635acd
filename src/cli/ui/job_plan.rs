//! The plan of a job: what differs, what happens to its allocations, and what cannot be placed.

use nomad_csi_client::reconcile::workflow::placement_reasons;
use nomad_csi_wire::{
    DesiredUpdatesDocument, FieldDiffDocument, GroupDiffDocument, JobPlanResponse,
    ObjectDiffDocument, TaskDiffDocument,
};

/// Returns the plan of a job as text.
pub(crate) fn job_plan_text(plan: &JobPlanResponse) -> String {
    let mut lines = vec![];
    if let Some(diff) = &plan.diff {
        lines.push(format!("{}job {}", mark(&diff.diff_type), diff.id));
        fields(&mut lines, 1, diff.fields.as_deref());
        objects(&mut lines, 1, diff.objects.as_deref());
        for group in diff.task_groups.iter().flatten() {
            group_lines(&mut lines, group);
        }
    }
    let annotations = plan.annotations.iter();
    for (group, updates) in annotations.flat_map(|all| &all.desired_updates) {
        lines.push(format!("group {group}: {}", update_text(updates)));
    }
    for (group, metrics) in plan.failed_placements.iter().flatten() {
        let count = metrics.coalesced_failures + 1;
        let reasons = placement_reasons(metrics);
        lines.push(format!("group {group}: {count} without a place: {reasons}"));
    }
    lines.extend(next_launch(plan));
    lines.push(format!("job modify index: {}", plan.job_modify_index));
    lines.join("\n") + "\n"
}

/// Returns when a periodic job starts next. Nomad writes the first year for a job that never does.
fn next_launch(plan: &JobPlanResponse) -> Option<String> {
    let next = plan.next_periodic_launch.as_deref()?;
    (!next.starts_with("0001-")).then(|| format!("next launch: {next}"))
}

fn mark(diff_type: &str) -> &'static str {
    match diff_type {
        "Added" => "+ ",
        "Deleted" => "- ",
        "Edited" => "~ ",
        _ => "  ",
    }
}

fn group_lines(lines: &mut Vec<String>, group: &GroupDiffDocument) {
    lines.push(format!("  {}group {}", mark(&group.diff_type), group.name));
    fields(lines, 2, group.fields.as_deref());
    objects(lines, 2, group.objects.as_deref());
    for task in group.tasks.iter().flatten() {
        task_lines(lines, task);
    }
}

fn task_lines(lines: &mut Vec<String>, task: &TaskDiffDocument) {
    let notes = match task.annotations.as_deref() {
        None | Some([]) => String::new(),
        Some(notes) => format!(" ({})", notes.join(", ")),
    };
    let mark = mark(&task.diff_type);
    lines.push(format!("    {mark}task {}{notes}", task.name));
    fields(lines, 3, task.fields.as_deref());
    objects(lines, 3, task.objects.as_deref());
}

fn fields(lines: &mut Vec<String>, depth: usize, fields: Option<&[FieldDiffDocument]>) {
    let changed = fields.into_iter().flatten();
    for field in changed.filter(|field| field.diff_type != "None") {
        let indent = "  ".repeat(depth);
        let value = match field.diff_type.as_str() {
            "Added" => format!("{:?}", field.new),
            "Deleted" => format!("{:?}", field.old),
            _ => format!("{:?} => {:?}", field.old, field.new),
        };
        let mark = mark(&field.diff_type);
        lines.push(format!("{indent}{mark}{}: {value}", field.name));
    }
}

/// Adds the blocks that differ. A block has few levels, which the reader of JSON limits.
fn objects(lines: &mut Vec<String>, depth: usize, objects_of: Option<&[ObjectDiffDocument]>) {
    let changed = objects_of.into_iter().flatten();
    for object in changed.filter(|object| object.diff_type != "None") {
        let indent = "  ".repeat(depth);
        lines.push(format!("{indent}{}{}", mark(&object.diff_type), object.name));
        fields(lines, depth + 1, object.fields.as_deref());
        objects(lines, depth + 1, object.objects.as_deref());
    }
}

fn update_text(updates: &DesiredUpdatesDocument) -> String {
    let counts = [
        (updates.place, "create"),
        (updates.destructive_update, "replace"),
        (updates.in_place_update, "update in place"),
        (updates.migrate, "migrate"),
        (updates.canary, "canary"),
        (updates.stop, "stop"),
        (updates.ignore, "unchanged"),
    ];
    let shown: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match shown.is_empty() {
        true => "no allocations".to_owned(),
        false => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nomad_csi_wire::decode_value;

    #[test]
    fn a_plan_shows_changes_counts_and_what_has_no_place() {
        let plan: JobPlanResponse = decode_value(&json!({
            "JobModifyIndex": 7,
            "Annotations": {"DesiredTGUpdates": {"g": {"Place": 1, "DestructiveUpdate": 2}}},
            "FailedTGAllocs": {"g": {"ConstraintFiltered": {"missing CSI volume(s) db": 1}}},
            "Diff": {"Type": "Edited", "ID": "web", "TaskGroups": [{"Type": "Edited", "Name": "g",
                "Fields": [{"Type": "Edited", "Name": "Count", "Old": "2", "New": "3"}],
                "Objects": [{"Type": "Added", "Name": "Volume", "Fields": [
                    {"Type": "Added", "Name": "Source", "New": "db"}, {"Type": "None", "Name": "Type"}]}],
                "Tasks": [{"Type": "None", "Name": "t", "Annotations": ["forces create"]}]}]},
        }))
        .expect("cannot decode");
        let expected = "~ job web\n  ~ group g\n    ~ Count: \"2\" => \"3\"\n    + Volume\n      + Source: \"db\"\n      task t (forces create)\ngroup g: 1 create, 2 replace\ngroup g: 1 without a place: 1 node refused: missing CSI volume(s) db\njob modify index: 7\n";
        assert_eq!(job_plan_text(&plan), expected);
    }
}
