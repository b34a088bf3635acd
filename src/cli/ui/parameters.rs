//! The mutable parameters of a volume, as text.

use std::collections::BTreeMap;

use super::table::{heading, table};
use nomad_csi_model::{NamespacedId, one_line, shell_quoted};

/// Returns the mutable parameters in force.
pub(crate) fn mutable_parameters(parameters: &BTreeMap<String, String>) -> String {
    let rows = parameters.iter().map(|(key, value)| [key.clone(), value.clone()]);
    heading("Mutable Parameters") + &table(["Parameter", "Value"], rows)
}

/// Returns what a volume has of mutable parameters, and the change that did not end; nothing if there is neither.
pub(crate) fn parameters_of_volume(
    volume: &NamespacedId,
    in_force: &BTreeMap<String, String>,
    pending: Option<&BTreeMap<String, String>>,
) -> String {
    let shown = (!in_force.is_empty()).then(|| format!("\n{}", mutable_parameters(in_force)));
    let pending = pending.map(|pending| {
        let words = pending.iter().map(|(key, value)| format!("{key}={value}"));
        let words: Vec<_> = words.map(|word| shell_quoted(&word)).collect();
        let (key, words) = (volume.command_words(), words.join(" "));
        let command = format!("nomad-csi volume modify {key} {words}");
        format!(
            "\nnote: a change of mutable parameters did not end, and the plugin may have carried it out\n\
             help: continue it with `{}`\n",
            one_line(&command)
        )
    });
    shown.unwrap_or_default() + &pending.unwrap_or_default()
}
