//! Where the allocations of a job run or would run, as text.

use super::allocs::short_id;
use super::printer::one_line;
use nomad_csi_model::shell_quoted;
use nomad_csi_wire::{NodeRefusalDocument, PlacementDocument, PlacementSlotDocument};

/// Returns one line for each allocation, with the reasons of each node below it.
pub(crate) fn placement_text(placement: &PlacementDocument) -> String {
    let waiting = placement.slots.iter().filter(|slot| slot.outcome == "wait");
    let count = match placement.slots.len() {
        1 => "1 allocation".to_owned(),
        count => format!("{count} allocations"),
    };
    let job = one_line(&placement.job_id);
    let mut text = format!("Job {job}: {count}, {} without a place\n", waiting.count());
    for slot in &placement.slots {
        text.push_str(&slot_text(slot));
    }
    text
}

fn slot_text(slot: &PlacementSlotDocument) -> String {
    let node = node_text(&slot.node_id, &slot.node_name);
    let outcome = match slot.outcome.as_str() {
        "runs" => existing(slot, &node),
        "place" => format!("would be placed on node {node}"),
        "wait" if slot.refusals.is_empty() => "waits: there is no node".to_owned(),
        "wait" => "waits: no node can take it".to_owned(),
        "pause" => "waits after a failure, and is then placed again".to_owned(),
        "ended" => "has ended, and is not placed again".to_owned(),
        other => one_line(other),
    };
    let name = one_line(&slot.task_group);
    let refusals = slot.refusals.iter().map(refusal_text);
    let refusals: String = refusals.collect();
    format!("\n{name}[{}]: {outcome}\n{refusals}", slot.index)
}

/// A server that does not say the status shows only allocations that it wants to run.
fn existing(slot: &PlacementSlotDocument, node: &str) -> String {
    let alloc = short_id(&slot.alloc_id);
    match slot.client_status.as_str() {
        "" | "running" => format!("allocation {alloc} runs on node {node}"),
        "pending" => format!(
            "allocation {alloc} is pending on node {node}; `nomad-csi alloc status {}` shows what it waits for",
            shell_quoted(&alloc)
        ),
        status => format!("allocation {alloc} is {} on node {node}", one_line(status)),
    }
}

fn refusal_text(refusal: &NodeRefusalDocument) -> String {
    let node = node_text(&refusal.node_id, &refusal.node_name);
    let reasons = refusal.reasons.iter();
    let reasons: String = reasons.map(|reason| format!("    - {}\n", one_line(reason))).collect();
    format!("  not on node {node}:\n{reasons}")
}

fn node_text(id: &str, name: &str) -> String {
    match name {
        "" => short_id(id),
        name => format!("{} ({})", one_line(name), short_id(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_allocation_is_not_called_running() {
        let text = |status: &str| {
            let slot = PlacementSlotDocument {
                alloc_id: "3761b601-2222".to_owned(),
                client_status: status.to_owned(),
                node_name: "worker-1".to_owned(),
                node_id: "11111111-2222".to_owned(),
                outcome: "runs".to_owned(),
                task_group: "g".to_owned(),
                ..PlacementSlotDocument::default()
            };
            slot_text(&slot)
        };
        let runs = "\ng[0]: allocation 3761b601 runs on node worker-1 (11111111)\n";
        assert_eq!(text("running"), runs);
        assert_eq!(text(""), runs);
        let pending = text("pending");
        assert!(
            pending.contains("is pending on node worker-1 (11111111); `nomad-csi alloc"),
            "{pending}"
        );
        assert!(!text("unknown").contains("runs"), "{}", text("unknown"));
    }

    #[test]
    fn each_allocation_has_its_outcome_and_each_node_its_reasons() {
        let refusal = NodeRefusalDocument {
            node_id: "11111111-2222".to_owned(),
            node_name: "worker-1".to_owned(),
            reasons: vec!["missing CSI volume(s) db".to_owned()],
        };
        let slot = |index, outcome: &str, refusals| PlacementSlotDocument {
            index,
            outcome: outcome.to_owned(),
            refusals,
            task_group: "g".to_owned(),
            ..PlacementSlotDocument::default()
        };
        let placement = PlacementDocument {
            job_id: "web".to_owned(),
            slots: vec![slot(0, "wait", vec![refusal]), slot(1, "wait", vec![])],
            ..PlacementDocument::default()
        };
        assert_eq!(
            placement_text(&placement),
            "Job web: 2 allocations, 2 without a place\n\n\
             g[0]: waits: no node can take it\n  not on node worker-1 (11111111):\n    - missing CSI volume(s) db\n\n\
             g[1]: waits: there is no node\n"
        );
    }
}
