//! Findings about the plugin: without it, the volume can neither be used nor released.

use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Rule};
use super::remedies::{Service, plugin_status, start_plugin};
use crate::PluginState;
use nomad_csi_model::HealthCount;

/// Returns what is wrong with the volume's plugin as a whole.
pub(super) fn plugin_findings(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let plugin = &facts.volume.plugin_id;
    if matches!(facts.plugin, PluginState::Missing) {
        let verdict = format!("the server does not know plugin `{plugin}` of the volume");
        let evidence =
            Evidence::new(FactSource::Plugin, format!("the server has no plugin `{plugin}`"));
        return vec![finding(facts, Rule::PluginMissing, verdict, evidence)];
    }
    // The volume shows the plugin's health also to a token that cannot read plugins.
    let (controllers, nodes) = match facts.known_plugin() {
        Some(known) => (known.summary.controllers, known.summary.nodes),
        None => (facts.volume.controllers, facts.volume.nodes),
    };
    let is_required = facts
        .known_plugin()
        .map_or(facts.volume.controller_required, |known| known.summary.controller_required);
    let mut findings = vec![];
    if is_required && controllers.healthy == 0 {
        let verdict = format!(
            "plugin `{plugin}` has no healthy controller, so the volume cannot be attached or detached"
        );
        let evidence = counted(facts, controllers, "controllers");
        findings.push(finding(facts, Rule::ControllerUnhealthy, verdict, evidence));
    }
    if nodes.healthy == 0 {
        let verdict =
            format!("plugin `{plugin}` has no healthy node, so the volume cannot be mounted");
        let evidence = counted(facts, nodes, "nodes");
        findings.push(finding(facts, Rule::NodesUnhealthy, verdict, evidence));
    }
    findings
}

fn counted(facts: &VolumeFacts<'_>, count: HealthCount, what: &str) -> Evidence {
    let source = match facts.known_plugin() {
        Some(_) => FactSource::Plugin,
        None => FactSource::Volume,
    };
    let plugin = &facts.volume.plugin_id;
    let HealthCount { healthy, expected } = count;
    Evidence::new(source, format!("plugin `{plugin}` has {healthy} of {expected} healthy {what}"))
}

fn finding(facts: &VolumeFacts<'_>, rule: Rule, verdict: String, evidence: Evidence) -> Finding {
    let service = match rule {
        Rule::ControllerUnhealthy => Service::Controller,
        Rule::NodesUnhealthy => Service::Nodes,
        _ => Service::All,
    };
    let start = start_plugin(facts, service);
    let status = plugin_status(facts);
    let mut remedies = vec![status, start];
    remedies.dedup_by(|b, a| a.command == b.command);
    Finding { rule, verdict, confidence: Confidence::Known, evidence: vec![evidence], remedies }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Facts, findings, rules};
    use super::*;
    use nomad_csi_model::{Alloc, AllocId, ClientStatus, DesiredStatus};
    use nomad_csi_testing::alloc_samples::alloc;

    fn unhealthy(change: impl FnOnce(&mut Facts)) -> Vec<Rule> {
        rules(&Facts::healthy().with(change))
    }

    #[test]
    fn a_healthy_plugin_is_no_finding() {
        assert_eq!(unhealthy(|_| {}), []);
    }

    #[test]
    fn a_missing_plugin_is_found_and_an_unreadable_one_is_not() {
        assert_eq!(unhealthy(|facts| facts.plugin = PluginState::Missing), [Rule::PluginMissing]);
        assert_eq!(unhealthy(|facts| facts.plugin = PluginState::Unknown), []);
    }

    #[test]
    fn a_controller_is_missed_only_where_it_is_required() {
        let without = |is_required: bool| {
            unhealthy(|facts| {
                let summary = &mut facts.plugin_mut().summary;
                summary.controllers = HealthCount::default();
                summary.controller_required = is_required;
            })
        };
        assert_eq!(without(true), [Rule::ControllerUnhealthy]);
        assert_eq!(without(false), []);
    }

    /// The server forgets the instance, and still lists the allocations of the plugin.
    #[test]
    fn the_job_of_a_controller_that_is_gone_is_named() {
        let named = |change: fn(&mut Facts)| {
            let facts = Facts::healthy().with(|facts| {
                let plugin = facts.plugin_mut();
                plugin.summary.controllers = HealthCount::default();
                plugin.controllers.clear();
                let node = plugin.nodes.values().next().unwrap().alloc_id.clone();
                let of_job = |id: AllocId, job: &str| Alloc {
                    job_id: job.to_owned(),
                    id,
                    ..alloc("x", "n1", DesiredStatus::Run, ClientStatus::Running)
                };
                plugin.allocs = vec![
                    of_job(node, "ebs-nodes"),
                    of_job(AllocId::new("other"), "ebs-nodes"),
                    of_job(AllocId::new("c1"), "ebs-controller"),
                ];
            });
            let found = findings(&facts.with(change));
            found[0].remedies.iter().map(|one| one.action.clone()).collect::<Vec<_>>()
        };
        let start = "start job `ebs-controller` again, which runs the controller of plugin `ebs`";
        let actions = named(|_| {});
        assert!(actions.iter().any(|action| action == start), "{actions:?}");
        let actions = named(|facts| drop(facts.plugin_mut().allocs.pop()));
        assert!(!actions.iter().any(|action| action.contains("ebs-nodes")), "{actions:?}");
    }

    #[test]
    fn no_healthy_node_is_found_from_the_plugin_or_else_from_the_volume() {
        let none = HealthCount { healthy: 0, expected: 2 };
        assert_eq!(
            unhealthy(|facts| facts.plugin_mut().summary.nodes = none),
            [Rule::NodesUnhealthy]
        );
        let from_volume = unhealthy(|facts| {
            facts.plugin = PluginState::Unknown;
            facts.volume.nodes = none;
        });
        assert_eq!(from_volume, [Rule::NodesUnhealthy]);
    }
}
