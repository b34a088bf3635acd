//! The parts of a job that this program ignores: no volume depends on them.
//!
//! Only what a person wrote is named. Nomad's clients fill in the defaults of some parts, such as `EphemeralDisk` and
//! `LogConfig`, for every job; those are ignored without a word.

use std::collections::BTreeSet;

use super::document::{JobDocument, TaskGroupDocument};
use super::task::TaskDocument;
use super::unsupported::Unsupported;

/// Returns a warning that names the parts of a job that are ignored, in the words of a job file; `None` without any.
pub fn ignored_parts(job: &JobDocument) -> Option<String> {
    let JobDocument { affinities, spreads, task_groups, .. } = job;
    let mut parts = BTreeSet::new();
    note(&mut parts, &[("affinity", affinities), ("spread", spreads)]);
    for group in task_groups {
        let TaskGroupDocument {
            affinities,
            consul,
            ephemeral_disk,
            networks,
            scaling,
            services,
            shutdown_delay,
            spreads,
            tasks,
            ..
        } = group;
        let of_group = [
            ("affinity", affinities),
            ("consul", consul),
            ("ephemeral_disk", ephemeral_disk),
            ("network", networks),
            ("scaling", scaling),
            ("service", services),
            ("shutdown_delay", shutdown_delay),
            ("spread", spreads),
        ];
        note(&mut parts, &of_group);
        for task in tasks {
            let TaskDocument {
                actions,
                affinities,
                consul,
                scaling_policies,
                services,
                shutdown_delay,
                ..
            } = task;
            let of_task = [
                ("action", actions),
                ("affinity", affinities),
                ("consul", consul),
                ("scaling", scaling_policies),
                ("service", services),
                ("shutdown_delay", shutdown_delay),
            ];
            note(&mut parts, &of_task);
        }
    }
    let parts: Vec<_> = parts.iter().map(|part| format!("`{part}`")).collect();
    match &parts[..] {
        [] => None,
        [part] => Some(format!("{part} is ignored: it does not concern volumes")),
        [others @ .., last] => Some(format!(
            "{} and {last} are ignored: they do not concern volumes",
            others.join(", ")
        )),
    }
}

fn note(parts: &mut BTreeSet<&'static str>, of_object: &[(&'static str, &Unsupported)]) {
    let present = of_object.iter().filter(|(_, part)| !part.is_absent());
    parts.extend(present.map(|(name, _)| *name));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn what_a_person_wrote_is_named_and_what_a_client_fills_in_is_not() {
        let ignored = |job: &serde_json::Value| {
            let document: JobDocument = decode_value(job).expect("cannot decode");
            ignored_parts(&document)
        };
        let plain = json!({"ID": "j", "Affinities": null, "Spreads": [], "TaskGroups": [{
            "Name": "g", "Networks": null, "EphemeralDisk": {"SizeMB": 300}, "ShutdownDelay": null,
            "Migrate": {"MaxParallel": 1},
            "Tasks": [{"Name": "t", "Services": null, "LogConfig": {"MaxFiles": 10}, "ShutdownDelay": 0,
                "ScalingPolicies": null, "Actions": []}]}]});
        assert_eq!(ignored(&plain), None);
        for (part, of_group, of_task) in [
            ("consul", json!({"Consul": {}}), json!({})),
            ("consul", json!({}), json!({"Consul": {}})),
            ("ephemeral_disk", json!({"EphemeralDisk": {"Migrate": true}}), json!({})),
        ] {
            let mut group = of_group;
            group["Tasks"] = json!([of_task]);
            let expected = format!("`{part}` is ignored: it does not concern volumes");
            let found = ignored(&json!({"ID": "j", "TaskGroups": [group]}));
            assert_eq!(found, Some(expected));
        }
        let one = json!({"ID": "j", "TaskGroups": [{"Networks": [{"Mode": "bridge"}]}]});
        let expected = "`network` is ignored: it does not concern volumes";
        assert_eq!(ignored(&one).as_deref(), Some(expected));
        let several = json!({"ID": "j", "Spreads": [{"Attribute": "${node.datacenter}"}], "TaskGroups": [
            {"Services": [{"Name": "a"}], "Scaling": {"Max": 3},
                "Tasks": [{"Services": [{"Name": "b"}], "Actions": [{"Name": "x"}]}]}]});
        let expected =
            "`action`, `scaling`, `service` and `spread` are ignored: they do not concern volumes";
        assert_eq!(ignored(&several).as_deref(), Some(expected));
    }
}
