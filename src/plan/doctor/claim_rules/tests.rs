//! Each rule about an agent's claims, present and absent.

use super::super::finding::{Finding, SafeFix};
use super::super::samples::{Facts, claim, findings, problem, rules};
use super::*;

fn with_claim(change: impl FnOnce(&mut VolumeClaim)) -> Facts {
    let mut one = claim();
    change(&mut one);
    Facts::healthy().with(|facts| facts.claims = Some(vec![one]))
}

fn only(facts: &Facts) -> Finding {
    let found = findings(facts);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

fn without_node_plugin(facts: &mut Facts) {
    facts.plugin_mut().nodes.remove(&NodeId::new("n1"));
}

#[test]
fn a_published_claim_is_no_finding() {
    assert_eq!(rules(&with_claim(|_| {})), []);
    let publishing = with_claim(|claim| {
        claim.state = "publishing".into();
        claim.is_published = false;
    });
    assert_eq!(rules(&publishing), []);
}

#[test]
fn a_release_without_an_error_is_running() {
    let finding = only(&with_claim(|claim| claim.state = "unpublishing".into()));
    assert_eq!(finding.rule, Rule::ReleaseRunning);
    assert_eq!(finding.confidence, Confidence::Known);
}

#[test]
fn a_release_is_stuck_because_the_plugin_is_gone_from_the_node() {
    let facts = with_claim(|claim| claim.state = "unpublishing".into()).with(without_node_plugin);
    let finding = only(&facts);
    assert_eq!(finding.rule, Rule::ReleaseStuck);
    assert_eq!(
        finding.verdict,
        "allocation `a1` has ended or gave the volume back; node `worker-1` was not released, because plugin `ebs` has no healthy node there"
    );
    assert_eq!(finding.safe_fix(), None, "the retry cannot succeed");
}

#[test]
fn a_release_that_fails_can_be_tried_again_unless_the_node_is_used() {
    let failing = with_claim(|claim| {
        claim.state = "detaching".into();
        claim.problem = Some(problem(Some("end what uses the target")));
    });
    let finding = only(&failing);
    assert_eq!(finding.rule, Rule::ReleaseStuck);
    assert_eq!(finding.remedies[0].action, "end what uses the target");
    let fix = SafeFix::Detach(NodeId::new("n1"));
    assert_eq!(finding.safe_fix(), Some(&fix));
    let shared = failing.with(|facts| facts.claims.as_mut().unwrap().push(claim()));
    assert_eq!(only(&shared).safe_fix(), None);
}

#[test]
fn a_held_claim_that_fails_is_stuck_in_publishing() {
    let failing = with_claim(|claim| {
        claim.state = "publishing".into();
        claim.is_published = false;
        claim.problem = Some(problem(None));
    });
    let finding = only(&failing);
    assert_eq!(finding.rule, Rule::PublishStuck);
    assert!(!finding.verdict.contains("because"), "{}", finding.verdict);
    let gone = only(&failing.with(without_node_plugin));
    assert_eq!(gone.rule, Rule::PublishStuck);
    assert!(gone.verdict.contains("because plugin `ebs`"), "{}", gone.verdict);
}

/// A sweep undoes the leftovers of an allocation that an older state does not know.
#[test]
fn a_use_that_no_claim_knows_can_be_swept() {
    let command = |error: &str| {
        let failing = with_claim(|claim| {
            claim.state = "publishing".into();
            claim.is_published = false;
            let error = error.to_owned();
            claim.problem = Some(ClaimProblem { error, ..problem(None) });
        });
        let remedies = only(&failing).remedies.into_iter();
        let mut commands = remedies.filter_map(|remedy| remedy.command);
        commands.find(|command| command.contains("fence"))
    };
    let expected =
        "nomad-csi node fence n1 --yes --approve cuts-off:n1 && nomad-csi node unfence n1";
    let error = "FailedPrecondition: volume `v` is already published at `/targets/a/v/mount`";
    assert_eq!(command(error).as_deref(), Some(expected));
    assert_eq!(command("Unavailable: the provider is away"), None);
}

#[test]
fn a_claim_on_a_node_that_is_down_stays_until_the_node_is_fenced() {
    let down = with_claim(|_| {}).with(|facts| {
        facts.nodes.as_mut().unwrap()[0].status = "down".into();
    });
    let finding = only(&down);
    assert_eq!(finding.rule, Rule::NodeDown);
    let last = finding.remedies.last().unwrap();
    assert_eq!(last.command.as_deref(), Some("nomad-csi node fence n1 --powered-off"));
    assert_eq!(last.fix, None, "only a person knows that the node is off");
    let unknown = down.with(|facts| facts.nodes = None);
    assert_eq!(rules(&unknown), []);
}

#[test]
fn a_published_claim_without_a_plugin_on_its_node_is_at_risk() {
    let finding = only(&with_claim(|_| {}).with(without_node_plugin));
    assert_eq!(finding.rule, Rule::NodePluginGone);
}

/// The agent refuses to release a volume under the tasks of a job.
#[test]
fn what_a_job_cannot_use_is_given_up_with_the_job() {
    let failing = |facts: Facts| {
        let facts = facts.with(|facts| {
            let mut one = claim();
            (one.is_published, one.state) = (false, "publishing".into());
            one.problem = Some(problem(None));
            facts.claims = Some(vec![one]);
        });
        let last = only(&facts).remedies.pop();
        last.and_then(|remedy| remedy.command).unwrap_or_default()
    };
    let by_a_client = failing(Facts::healthy());
    assert_eq!(by_a_client, "nomad-csi volume release db --alloc a1 --namespace default");
    let of_a_job = Facts::healthy()
        .claimed(nomad_csi_model::DesiredStatus::Run, nomad_csi_model::ClientStatus::Pending);
    assert_eq!(failing(of_a_job), "nomad-csi job stop web --namespace default");
}
