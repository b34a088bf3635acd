//! Sets in the ledger, as text and as JSON. Hashes are not shown.

use serde_json::{Value, json};

use super::allocs::TimeReference;
use super::table::{heading, key_values, table};
use super::time::ago;
use nomad_csi_client::ports::Document;
use nomad_csi_plan::LedgerSet;

/// Returns a table of sets.
pub(crate) fn set_list(sets: &[LedgerSet]) -> String {
    let rows = sets.iter().map(|set| {
        [
            set.name().to_string(),
            set.owned().count().to_string(),
            protected(set).to_string(),
            set.intents().count().to_string(),
        ]
    });
    table(["Set", "Volumes", "Protected", "Interrupted"], rows)
}

/// Returns the summary of a set as JSON.
pub(crate) fn set_summary(set: &LedgerSet) -> Document {
    Document::of(&json!({
        "ID": set.name().as_str(),
        "Protected": protected(set),
        "Interrupted": set.intents().count(),
        "Volumes": set.owned().count(),
    }))
}

fn protected(set: &LedgerSet) -> usize {
    set.owned().filter(|(_, owned)| owned.protect).count()
}

/// Returns the details of one set.
pub(crate) fn set_detail(set: &LedgerSet, now: &TimeReference) -> String {
    let mut sections = vec![key_values([
        ("Set", set.name().to_string()),
        ("Volumes", set.owned().count().to_string()),
        ("Protected", protected(set).to_string()),
    ])];
    let mut volumes = set.owned().peekable();
    if volumes.peek().is_some() {
        let rows = volumes.map(|(key, owned)| {
            let seen = owned.last_verified.map(|seen| ago(seen.at, now.now));
            [
                key.id.to_string(),
                key.namespace.to_string(),
                if owned.protect { "yes" } else { "no" }.to_owned(),
                owned.generation.to_string(),
                seen.unwrap_or_default(),
            ]
        });
        let headings = ["ID", "Namespace", "Protected", "Replaced", "Last Verified"];
        sections.push(heading("Volumes") + &table(headings, rows));
    }
    let mut intents = set.intents().peekable();
    if intents.peek().is_some() {
        let rows = intents.map(|(key, intent)| {
            [
                key.id.to_string(),
                key.namespace.to_string(),
                intent.step.as_str().to_owned(),
                ago(intent.since, now.now),
                intent.by.to_string(),
            ]
        });
        let headings = ["ID", "Namespace", "Step", "Started", "By"];
        sections.push(heading("Interrupted") + &table(headings, rows));
    }
    sections.join("\n")
}

/// Returns the details of one set as JSON.
pub(crate) fn set_document(set: &LedgerSet) -> Document {
    let volumes: Value = set
        .owned()
        .map(|(key, owned)| {
            json!({
                "ExternalID": owned.data.identity().map(|data| data.external_id.as_str()),
                "Fields": owned.applied.keys().collect::<Vec<_>>(),
                "Generation": owned.generation,
                "ID": key.id.as_str(),
                "Namespace": key.namespace.as_str(),
                "PluginID": owned.data.identity().map(|data| data.plugin_id.as_str()),
                "Protected": owned.protect,
                "LastVerified": owned.last_verified.map(|seen| json!({
                    "Index": seen.spec_index,
                    "Time": seen.at,
                })),
            })
        })
        .collect();
    let interrupted: Value = set
        .intents()
        .map(|(key, intent)| {
            json!({
                "By": intent.by.to_string(),
                "ID": key.id.as_str(),
                "Namespace": key.namespace.as_str(),
                "Since": intent.since,
                "Step": intent.step.as_str(),
            })
        })
        .collect();
    Document::of(&json!({
        "ID": set.name().as_str(),
        "Interrupted": interrupted,
        "Volumes": volumes,
    }))
}
