//! Who waits for a volume, and who does not.

use super::super::samples::{Facts, NOW, claim, findings, problem, rules};
use super::*;
use nomad_csi_claims::claim::ClaimDeniedReason;
use nomad_csi_model::{AccessMode, AttachmentMode, Capability};

#[test]
fn a_job_waits_for_the_volume_only_if_the_scheduler_names_it() {
    let waiting = |reason: &str| {
        let evaluation = BlockedEvaluation {
            id: "e1".into(),
            job_id: "web".into(),
            reasons: vec![reason.into()],
        };
        rules(&Facts::healthy().with(|facts| facts.evaluations = vec![evaluation]))
    };
    assert_eq!(
        waiting("CSI volume db has exhausted its available writer claims"),
        [Rule::JobWaiting]
    );
    for other in ["CSI volume db2 is unschedulable", "missing drivers", ""] {
        assert_eq!(waiting(other), [], "{other}");
    }
}

/// A claim is gone, and only the allocation shows that the volume cannot be used.
#[test]
fn an_allocation_whose_tasks_did_not_start_is_shown_with_its_reason() {
    for (client, age, expected) in [
        (ClientStatus::Failed, 1_000_000_000, true),
        (ClientStatus::Pending, 59_000_000_000, false),
        (ClientStatus::Pending, 60_000_000_000, true),
    ] {
        let facts = Facts::healthy().claimed(DesiredStatus::Run, client);
        let facts = facts.with(|facts| {
            let alloc = facts.volume.allocs.remove(0);
            facts.volume.write_allocs.clear();
            facts.unstarted = vec![UnstartedAlloc {
                alloc,
                report: "csi_hook failed: already published at `/x`".to_owned(),
                reported_at: NOW - age,
            }];
        });
        let found = findings(&facts);
        assert_eq!(!found.is_empty(), expected, "{found:?}");
        if let [one] = &found[..] {
            assert_eq!(one.rule, Rule::TasksNotStarted);
            assert!(one.evidence[0].fact.contains("already published"), "{one:?}");
            assert!(!one.remedies.is_empty());
        }
    }
}

fn agent() -> Facts {
    let used = Facts::healthy().claimed(DesiredStatus::Run, ClientStatus::Running);
    used.with(|facts| facts.claims = Some(vec![claim()]))
}

fn blocked(job: &str, reasons: &[&str]) -> BlockedEvaluation {
    BlockedEvaluation {
        id: "e1".into(),
        job_id: job.into(),
        reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
    }
}

fn texts(finding: &Finding) -> (Vec<&str>, Vec<String>) {
    let facts = finding.evidence.iter().map(|one| one.fact.as_str()).collect();
    (facts, finding.remedies.iter().map(ToString::to_string).collect())
}

#[test]
fn a_job_that_waits_for_a_held_claim_is_found_with_its_holder() {
    let reason = "CSI volume db has exhausted its available writer claims: allocation a1 of job `web` holds it";
    let facts = agent().with(|facts| facts.evaluations = vec![blocked("report", &[reason])]);
    let found = findings(&facts);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].rule, found[0].confidence), (Rule::JobWaiting, Confidence::Known));
    let (evidence, remedies) = texts(&found[0]);
    assert_eq!(evidence[1], "allocation `a1` (job `web`) holds the volume on node `worker-1`");
    assert_eq!(
        remedies,
        [
            "stop job `web`, which holds the volume, if job `report` is to have it instead: `nomad-csi job stop web --namespace default`",
            "only if what holds the volume ends by itself, as a batch job does: wait until the volume is unclaimed: `nomad-csi volume wait db --for unclaimed --namespace default`",
            "check the job: `nomad-csi explain placement report --namespace default`",
        ]
    );
    let own = agent().with(|facts| facts.evaluations = vec![blocked("web", &[reason])]);
    let found = findings(&own);
    let (_, remedies) = texts(&found[0]);
    assert!(remedies[0].contains("per_alloc"), "{remedies:?}");
    assert!(!remedies.iter().any(|one| one.contains("job stop")), "{remedies:?}");
    let released = facts.with(|facts| facts.claims.as_mut().unwrap()[0].state = "detaching".into());
    let stopping = agent().with(|facts| {
        facts.evaluations = vec![blocked("report", &[reason])];
        facts.volume.allocs[0].desired = DesiredStatus::Stop;
    });
    let found = findings(&stopping);
    assert!(!texts(&found[0]).1.iter().any(|one| one.contains("job stop")), "{found:?}");
    let found = findings(&released);
    let waiting = found.iter().find(|one| one.rule == Rule::JobWaiting).unwrap();
    let (evidence, remedies) = texts(waiting);
    assert!(evidence[1].ends_with("is to give it back on node `worker-1`"), "{evidence:?}");
    assert!(remedies[0].starts_with("wait until the volume is unclaimed"), "{remedies:?}");
    assert!(!remedies.iter().any(|one| one.contains("job stop")), "{remedies:?}");
}

#[test]
fn each_reason_that_names_the_volume_has_what_helps_against_it() {
    for (reason, helps) in [
        ("CSI volume db is unschedulable or is read-only", "wait --for schedulable"),
        (
            "CSI volume db is unschedulable or has exhausted its available reader claims: x",
            "wait db --for unclaimed",
        ),
        (
            "CSI volume db: the volume is used on node `n1` with other modes or mount options",
            "wait db --for unclaimed",
        ),
        (
            "did not meet topology requirement: CSI volume db is accessible from `zone=a`, and node `n` is in `zone=b`",
            "in a topology of the volume",
        ),
        (
            "CSI plugin ebs is missing from client n1: CSI volume db needs it",
            "plugin `ebs` on the nodes",
        ),
        (
            "CSI plugin ebs has the maximum number of volumes on client n1: CSI volume db has no room",
            "stop an allocation that uses another volume",
        ),
        (
            "CSI volume db: the plugin has no room for the volume on node `n1`",
            "stop an allocation that uses another volume",
        ),
        (
            "CSI volume db: the volume does not have the capability single-node-writer, block-device",
            "`volume status` lists",
        ),
        ("CSI volume db: node `n1` is lost or not swept yet", "make another node available"),
        (
            "CSI volume db: the volume is still being detached after a forced deregistration",
            "wait db --for unclaimed",
        ),
        ("CSI volume db: a reason of a later version", "explain placement"),
    ] {
        let facts = agent().with(|facts| facts.evaluations = vec![blocked("report", &[reason])]);
        let found = findings(&facts);
        assert_eq!(found.len(), 1, "{reason}");
        let helps = helps.replace("wait --for", "wait db --for");
        let (_, remedies) = texts(&found[0]);
        assert!(remedies.iter().any(|one| one.contains(&helps)), "{reason}: {remedies:?}");
    }
    for other in [
        "CSI volume db2 has exhausted its available writer claims",
        "did not meet topology requirement",
        "did not meet topology requirement: CSI volume d is accessible from `zone=a`",
        "CSI plugin ebs is missing from client n1: CSI volume db2 needs it",
        "missing CSI volume(s) db",
        "node `CSI volume db ` is not eligible",
    ] {
        let facts = agent().with(|facts| facts.evaluations = vec![blocked("report", &[other])]);
        assert_eq!(rules(&facts), [], "{other}");
    }
}

/// An allocation is placed before its claim is granted, and then waits on its node.
#[test]
fn a_placed_allocation_that_waits_for_the_volume_is_found_at_once() {
    let waiting = |report: &str| {
        agent().with(|facts| {
            let mut alloc = facts.volume.allocs[0].clone();
            alloc.id = AllocId::new("a2");
            alloc.job_id = "report".to_owned();
            alloc.client = ClientStatus::Pending;
            facts.unstarted =
                vec![UnstartedAlloc { alloc, report: report.to_owned(), reported_at: NOW - 1 }];
        })
    };
    let report = "Waiting: volume `db` cannot be claimed: volume max claims reached";
    let found = findings(&waiting(report));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].rule, Rule::JobWaiting);
    assert!(!found[0].verdict.contains("running"), "{}", found[0].verdict);
    let (evidence, remedies) = texts(&found[0]);
    assert_eq!(evidence[1], "allocation `a1` (job `web`) holds the volume on node `worker-1`");
    assert!(remedies[0].starts_with("stop job `web`"), "{remedies:?}");
    for other in [
        "Waiting: volume `db2` cannot be claimed: volume max claims reached",
        "volume `db` was mounted",
        "Task received by client",
    ] {
        assert_eq!(rules(&waiting(other)), [], "{other}");
    }
}

/// The claim of an allocation shows more than its report does.
#[test]
fn an_allocation_with_a_published_or_failing_claim_is_not_found_twice() {
    let unstarted = |facts: &mut Facts| {
        let mut alloc = facts.volume.allocs[0].clone();
        alloc.client = ClientStatus::Pending;
        let report = "Task received by client".to_owned();
        facts.unstarted =
            vec![UnstartedAlloc { alloc, report, reported_at: NOW - 2 * PENDING_TIME }];
    };
    assert_eq!(rules(&agent().with(unstarted)), []);
    let publishing = |facts: &mut Facts| {
        let claim = &mut facts.claims.as_mut().unwrap()[0];
        (claim.is_published, claim.state) = (false, "publishing".to_owned());
    };
    let hangs = agent().with(unstarted).with(publishing);
    assert_eq!(rules(&hangs), [Rule::TasksNotStarted]);
    let fails = hangs.with(|facts| {
        facts.claims.as_mut().unwrap()[0].problem = Some(problem(None));
    });
    assert_eq!(rules(&fails), [Rule::PublishStuck]);
}

/// What stands in the way of a claim that is denied for this reason.
fn obstacle(reason: &ClaimDeniedReason) -> Obstacle {
    match reason {
        ClaimDeniedReason::BeingReleased | ClaimDeniedReason::Detaching => Obstacle::Release,
        ClaimDeniedReason::OtherClaim => Obstacle::Other,
        ClaimDeniedReason::NodeLost(_) => Obstacle::NodeLost,
        ClaimDeniedReason::Unschedulable => Obstacle::Unschedulable,
        ClaimDeniedReason::Exhausted(_) | ClaimDeniedReason::NodeFull { .. } => Obstacle::NodeFull,
        ClaimDeniedReason::Capability(_) => Obstacle::Capability,
        ClaimDeniedReason::AttachmentMode
        | ClaimDeniedReason::MaxClaims { .. }
        | ClaimDeniedReason::OtherUsage(_) => Obstacle::Claims,
    }
}

/// The obstacles are found by words, so the words are compared with what the agent says.
#[test]
fn every_reason_of_the_agent_is_the_obstacle_that_it_means() {
    let node = || NodeId::new("n1");
    let mode = AccessMode::SingleNodeWriter;
    for reason in [
        ClaimDeniedReason::BeingReleased,
        ClaimDeniedReason::OtherClaim,
        ClaimDeniedReason::Detaching,
        ClaimDeniedReason::NodeLost(node()),
        ClaimDeniedReason::Unschedulable,
        ClaimDeniedReason::Exhausted(node()),
        ClaimDeniedReason::AttachmentMode,
        ClaimDeniedReason::Capability(Capability {
            access_mode: mode,
            attachment_mode: AttachmentMode::BlockDevice,
        }),
        ClaimDeniedReason::MaxClaims { mode },
        ClaimDeniedReason::OtherUsage(node()),
        ClaimDeniedReason::NodeFull { node: node(), limit: 3 },
    ] {
        for text in [
            reason.to_string(),
            format!("CSI volume db: {reason}"),
            format!("volume `db` cannot be claimed: {reason}"),
        ] {
            assert_eq!(Obstacle::of(&text), obstacle(&reason), "{text}");
        }
    }
}
