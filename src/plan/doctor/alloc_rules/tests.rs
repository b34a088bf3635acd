//! Each rule about claims that the server hides, present and absent.

use super::super::finding::SafeFix;
use super::super::samples::{Facts, NOW, findings, rules};
use super::*;
use crate::{DetachRule, PluginState};
use nomad_csi_model::{AllocId, BlockedEvaluation, Health, HealthCount, NodeId};

fn claimed(desired: DesiredStatus, client: ClientStatus) -> Facts {
    Facts::healthy().claimed(desired, client)
}

fn stopped() -> Facts {
    claimed(DesiredStatus::Stop, ClientStatus::Complete)
}

fn first(facts: &Facts) -> Finding {
    findings(facts).into_iter().next().expect("a finding")
}

#[test]
fn a_running_allocation_is_no_finding() {
    assert_eq!(rules(&claimed(DesiredStatus::Run, ClientStatus::Running)), []);
    assert_eq!(rules(&claimed(DesiredStatus::Run, ClientStatus::Pending)), []);
}

/// Changes healthy facts into those of a case.
type Change = fn(&mut Facts);

#[test]
fn the_release_of_an_ended_allocation_is_explained_by_its_cause() {
    let n1 = NodeId::new("n1");
    let cases: [(Change, &str); 6] = [
        (
            |facts| drop(facts.plugin_mut().nodes.remove(&NodeId::new("n1"))),
            "because plugin `ebs` has no healthy node there",
        ),
        (
            |facts| {
                let instance = facts.plugin_mut().nodes.get_mut(&NodeId::new("n1"));
                instance.unwrap().health =
                    Health { healthy: false, description: "probe failed".into() };
            },
            "because plugin `ebs` is not healthy there",
        ),
        (
            |facts| facts.nodes.as_mut().unwrap()[0].status = "down".into(),
            "because the node is down",
        ),
        (
            |facts| drop(facts.nodes.as_mut().unwrap().remove(0)),
            "because the server does not have the node any more",
        ),
        (
            |facts| facts.plugin_mut().summary.controllers = HealthCount::default(),
            "because plugin `ebs` has no healthy controller",
        ),
        (
            |facts| facts.plugin = PluginState::Missing,
            "because the server does not know plugin `ebs`",
        ),
    ];
    for (change, because) in cases {
        let facts = stopped().with(change);
        let found = findings(&facts);
        let stuck = found.iter().find(|one| one.rule == Rule::ReleaseStuck);
        let stuck = stuck.expect("a stuck release");
        assert!(stuck.verdict.ends_with(because), "{}", stuck.verdict);
        assert_eq!(stuck.confidence, Confidence::Inferred);
        assert_eq!(stuck.safe_fix(), None, "{because}");
    }
    let plain = first(&stopped());
    assert_eq!(
        plain.verdict,
        "allocation `a1` (job `web`) has ended; node `worker-1` was not released, and no reason is visible"
    );
    assert_eq!(plain.safe_fix(), Some(&SafeFix::Detach(n1)));
}

#[test]
fn the_job_of_the_plugin_is_named_if_the_server_shows_it() {
    let facts = stopped().with(|facts| {
        let mut alloc = facts.volume.allocs[0].clone();
        alloc.id = AllocId::new("p1");
        alloc.job_id = "plugin-ebs".into();
        facts.plugin_mut().allocs = vec![alloc];
        let instance = facts.plugin_mut().nodes.get_mut(&NodeId::new("n1"));
        instance.unwrap().health.healthy = false;
    });
    let remedies = first(&facts).remedies;
    assert_eq!(
        remedies[0].action,
        "start job `plugin-ebs` again, which runs plugin `ebs` on node `worker-1`"
    );
    let elsewhere = facts.with(|facts| {
        let alloc = &mut facts.plugin_mut().allocs[0];
        alloc.node_id = NodeId::new("n2");
        alloc.id = AllocId::new("p2");
    });
    assert_eq!(
        first(&elsewhere).remedies[0].action,
        "start the job that runs plugin `ebs` on node `worker-1`, then check the plugin"
    );
}

#[test]
fn a_recent_end_is_a_release_under_way() {
    let recent = stopped().with(|facts| facts.volume.allocs[0].modify_time = NOW - 1_000_000_000);
    assert_eq!(rules(&recent), [Rule::ReleaseRunning]);
}

#[test]
fn a_node_that_another_allocation_uses_is_not_detached() {
    let shared = stopped().with(|facts| {
        let mut other = facts.volume.allocs[0].clone();
        other.id = AllocId::new("a2");
        other.client = ClientStatus::Running;
        other.desired = DesiredStatus::Run;
        facts.volume.write_allocs.insert(other.id.clone());
        facts.volume.allocs.push(other);
    });
    let finding = first(&shared);
    assert_eq!((finding.rule, finding.safe_fix()), (Rule::ReleaseStuck, None));
}

#[test]
fn a_claim_of_an_allocation_that_the_server_does_not_have_is_found() {
    let gone = Facts::healthy().with(|facts| {
        facts.volume.read_allocs.insert(AllocId::new("gone"));
    });
    let finding = first(&gone);
    assert_eq!(finding.rule, Rule::ClaimWithoutAllocation);
    let last = finding.remedies.last().unwrap();
    let command =
        "nomad-csi volume deregister db --force --approve cuts-off:gone --namespace default";
    assert_eq!(last.command.as_deref(), Some(command));
}

#[test]
fn an_allocation_that_must_stop_or_is_disconnected_holds_the_volume() {
    let stopping = claimed(DesiredStatus::Stop, ClientStatus::Running);
    assert_eq!(rules(&stopping), [Rule::AllocationStopping]);
    let disconnected = claimed(DesiredStatus::Run, ClientStatus::Unknown);
    assert_eq!(rules(&disconnected), [Rule::NodeDown]);
}

#[test]
fn a_running_allocation_without_its_node_plugin_is_at_risk() {
    let gone = claimed(DesiredStatus::Run, ClientStatus::Running).with(|facts| {
        facts.plugin_mut().nodes.remove(&NodeId::new("n1"));
    });
    assert_eq!(rules(&gone), [Rule::NodePluginGone]);
}

/// All commands of the remedies, in one text.
fn commands(finding: &Finding) -> String {
    let commands = finding.remedies.iter().filter_map(|one| one.command.clone());
    commands.collect::<Vec<_>>().join("\n")
}

fn with_node(status: Option<&str>, facts: Facts) -> Facts {
    facts.with(|facts| match status {
        Some(status) => facts.nodes.as_mut().unwrap()[0].status = status.into(),
        None => drop(facts.nodes.as_mut().unwrap().remove(0)),
    })
}

/// `lost` and `unknown` are the server's words for a node that it does not hear.
#[test]
fn a_lost_or_unknown_allocation_may_still_write() {
    for client in [ClientStatus::Lost, ClientStatus::Unknown] {
        for desired in [DesiredStatus::Run, DesiredStatus::Stop, DesiredStatus::Evict] {
            let claimed = || claimed(desired.clone(), client.clone());
            let unread = claimed().with(|facts| facts.nodes = None);
            for (facts, may_drop) in [
                (with_node(Some("ready"), claimed()), false),
                (with_node(Some("down"), claimed()), false),
                (with_node(Some("disconnected"), claimed()), false),
                (with_node(Some("initializing"), claimed()), false),
                (unread, false),
                (with_node(None, claimed()), true),
            ] {
                let found = findings(&facts);
                let finding = found.iter().find(|one| one.rule == Rule::NodeDown).unwrap();
                assert!(finding.verdict.contains("may still write"), "{finding:?}");
                assert!(!finding.verdict.contains("has ended"), "{finding:?}");
                assert_eq!(finding.safe_fix(), None);
                let commands = commands(finding);
                assert!(!commands.contains("detach"), "{commands}");
                assert!(!commands.contains("system gc"), "{commands}");
                let drops = commands.contains("deregister db --force --approve cuts-off:a1");
                assert_eq!(drops, may_drop, "{commands}");
                assert_eq!(commands.contains("deregister"), may_drop, "{commands}");
            }
        }
    }
}

/// A claim is dropped only where `volume deregister --force` would not refuse it.
#[test]
fn a_forced_deregistration_is_offered_only_where_it_is_not_refused() {
    let offers = |facts: &Facts| {
        let found = findings(facts);
        found.iter().any(|one| commands(one).contains("deregister"))
    };
    assert!(offers(&stopped()));
    assert!(!offers(&with_node(Some("down"), stopped())));
    assert!(!offers(&stopped().with(|facts| facts.nodes = None)));
    let shared = stopped().with(|facts| {
        let mut other = facts.volume.allocs[0].clone();
        other.id = AllocId::new("a2");
        other.client = ClientStatus::Running;
        facts.volume.write_allocs.insert(other.id.clone());
        facts.volume.allocs.push(other);
    });
    assert!(!offers(&shared));
    let gone = |facts: Facts| {
        facts.with(|facts| {
            facts.volume.read_allocs.insert(AllocId::new("gone"));
        })
    };
    assert!(offers(&gone(Facts::healthy())));
    assert!(!offers(&gone(with_node(Some("down"), Facts::healthy()))));
    assert!(!offers(&gone(Facts::healthy().with(|facts| facts.nodes = None))));
}

/// Most versions of Nomad detach nothing on request, and collecting makes everything worse.
#[test]
fn only_what_releases_on_the_server_is_offered() {
    for (detach, is_up, expected) in [
        (DetachRule::Releases, true, "volume detach db n1"),
        (DetachRule::NeverWorks, true, "volume wait db --for unclaimed --timeout 15m"),
        (DetachRule::Unknown, true, "volume wait db --for unclaimed --timeout 15m"),
        (DetachRule::NeverWorks, false, "volume wait db --for unclaimed --timeout 15m"),
    ] {
        let facts = stopped().with(|facts| {
            facts.detach = detach;
            if !is_up {
                facts.nodes.as_mut().unwrap()[1].status = "down".into();
            }
        });
        let finding = first(&facts);
        let commands = commands(&finding);
        assert!(commands.contains(expected), "{detach:?}: {commands}");
        let detaches = commands.contains("detach");
        assert_eq!(detaches, detach == DetachRule::Releases, "{commands}");
        assert_eq!(finding.safe_fix().is_some(), detaches);
        assert!(!commands.contains("system gc"), "{commands}");
    }
}

#[test]
fn a_writer_without_a_claim_is_found_and_ended_before_anything_is_detached() {
    let facts = |nodes: Option<&str>| {
        let writer = claimed(DesiredStatus::Stop, ClientStatus::Running).volume.allocs;
        with_node(nodes, Facts::healthy()).with(|facts| {
            facts.unclaimed = Some(writer);
            facts.listed_mut().published_nodes = vec![nomad_csi_model::ExternalNodeId::new("i-1")];
        })
    };
    for node in [Some("ready"), Some("down"), None] {
        let facts = facts(node);
        assert_eq!(
            rules(&facts),
            [Rule::WritesWithoutClaim, Rule::AttachedWithoutClaim],
            "{node:?}"
        );
        let found = findings(&facts);
        assert!(found[0].verdict.contains("allocation `a1` (job `web`) may still write"));
        let remedies: Vec<_> = found[1].remedies.iter().map(ToString::to_string).collect();
        assert_eq!(remedies.len(), 1);
        assert!(remedies[0].starts_with("first end allocation `a1`"), "{remedies:?}");
    }
    let unread = facts(Some("ready")).with(|facts| facts.unclaimed = None);
    let found = findings(&unread);
    assert!(found[0].remedies[0].action.starts_with("look for allocations"));
}

/// A person who follows the remedies in their order never makes the second writer.
#[test]
fn what_may_get_the_volume_is_stopped_before_a_node_is_started() {
    let waiting = |facts: &mut Facts| {
        facts.evaluations = vec![BlockedEvaluation {
            id: "e1".into(),
            job_id: "late".into(),
            reasons: vec!["CSI volume db has exhausted its available writer claims".into()],
        }];
    };
    let lost = || claimed(DesiredStatus::Run, ClientStatus::Unknown).with(waiting);
    let unclaimed = || {
        let writers = lost().volume.allocs;
        Facts::healthy().with(waiting).with(|facts| {
            facts.unclaimed = Some(writers);
        })
    };
    for (facts, rule) in [(lost(), Rule::NodeDown), (unclaimed(), Rule::WritesWithoutClaim)] {
        let found = findings(&with_node(Some("down"), facts));
        let finding = found.iter().find(|one| one.rule == rule).unwrap();
        let commands: Vec<_> = finding.remedies[..2]
            .iter()
            .map(|remedy| remedy.command.as_deref().unwrap_or_default())
            .collect();
        assert_eq!(
            commands,
            ["nomad job stop -namespace default web", "nomad job stop -namespace default late"]
        );
        let starts = |remedy: &Remedy| remedy.action.starts_with("start node");
        let start = finding.remedies.iter().position(starts);
        assert!(start.is_some_and(|at| at > 0), "{finding:?}");
        let promises = |remedy: &Remedy| remedy.action.contains("stops the tasks and reports");
        assert!(!finding.remedies.iter().any(promises), "{finding:?}");
    }
    let both = unclaimed().with(|facts| {
        let mut second = facts.unclaimed.clone().unwrap().remove(0);
        second.id = AllocId::new("a2");
        second.job_id = "second".to_owned();
        second.node_id = NodeId::new("n2");
        facts.volume.write_allocs.insert(second.id.clone());
        second.client = ClientStatus::Running;
        facts.volume.allocs.push(second);
    });
    let found = findings(&with_node(Some("down"), both));
    let finding = found.iter().find(|one| one.rule == Rule::WritesWithoutClaim).unwrap();
    let says = "allocation `a2` (job `second`) uses it on node `worker-2` now: they may write";
    assert!(finding.verdict.contains(says), "{}", finding.verdict);
    let first = finding.remedies[0].command.as_deref();
    assert_eq!(first, Some("nomad job stop -namespace default second"));
}
