//! [`delay_of()`]: what holds up a claim that is granted and not published, for the allocation that waits for it.
//!
//! A failing step is named with its error. Without one, the step whose call has not ended is named. The time of the next
//! attempt is left out: what is reported is on record, and would be wrong soon and written with every attempt.

use crate::claims::ClaimStatus;
use nomad_csi_claims::claim::{ClaimProgress, Known};
use nomad_csi_ports::MountDelay;

/// Returns what holds up the claim; `None` if it is published or given back.
pub(super) fn delay_of(claim: &ClaimStatus) -> Option<MountDelay> {
    match claim.progress {
        ClaimProgress::Publishing => {}
        ClaimProgress::Published | ClaimProgress::Unpublishing | ClaimProgress::Detaching => {
            return None;
        }
    }
    let volume = claim.volume.quoted();
    let message = match (&claim.problem, called_step(claim)) {
        (Some(problem), _) => {
            let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
            let (step, error) = (&problem.step, &problem.error);
            format!(
                "volume {volume}: {step} fails: {error}{help}; `nomad-csi volume claims ID` shows the next attempt"
            )
        }
        (None, Some(step)) => {
            format!("volume {volume}: {step} was called, and its end is not known yet")
        }
        (None, None) => {
            format!("volume {volume} is claimed, and its next step has not started yet")
        }
    };
    Some(MountDelay { message })
}

/// Returns the step whose call was started and has no recorded end.
fn called_step(claim: &ClaimStatus) -> Option<&'static str> {
    let steps = [
        (claim.attached, "ControllerPublishVolume"),
        (claim.staged, "NodeStageVolume"),
        (claim.published, "NodePublishVolume"),
    ];
    let mut called = steps.into_iter().filter(|(known, _)| *known == Known::Maybe);
    called.next().map(|(_, step)| step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::StepAttempts;
    use nomad_csi_claims::claim::{ClaimKey, StepProblem};
    use nomad_csi_model::{
        AccessMode, AllocId, AttachmentMode, Capability, ExternalId, Namespace, NamespacedId,
        NodeId, PluginId, RemoteVolume, VolumeAlias, VolumeId,
    };

    fn publishing() -> ClaimStatus {
        ClaimStatus {
            remote: RemoteVolume {
                plugin_id: PluginId::new("ebs"),
                external_id: ExternalId::new("vol-1"),
            },
            volume: NamespacedId::new(Namespace::default(), VolumeId::new("db")),
            key: ClaimKey { alloc: AllocId::new("a1"), alias: VolumeAlias::new("db") },
            node: NodeId::new("n1"),
            capability: Capability {
                access_mode: AccessMode::SingleNodeWriter,
                attachment_mode: AttachmentMode::FileSystem,
            },
            read_only: false,
            progress: ClaimProgress::Publishing,
            is_cut_off: false,
            attached: Known::Yes,
            staged: Known::Maybe,
            published: Known::No,
            target: None,
            granted_at: 1,
            problem: None,
            attempts: Some(StepAttempts { failed: 2, next_at: 9 }),
        }
    }

    #[test]
    fn a_failing_step_is_named_alike_for_every_attempt() {
        let problem = StepProblem {
            step: "NodeStageVolume".to_owned(),
            error: "the device is busy".to_owned(),
            help: Some("close it".to_owned()),
            since: 1,
            exhausted: false,
        };
        let failing = ClaimStatus { problem: Some(problem), ..publishing() };
        let delay = MountDelay {
            message: "volume `db`: NodeStageVolume fails: the device is busy; close it; `nomad-csi volume claims ID` shows the next attempt".to_owned(),
        };
        assert_eq!(delay_of(&failing).as_ref(), Some(&delay));
        let attempts = Some(StepAttempts { failed: 3, next_at: 90 });
        assert_eq!(delay_of(&ClaimStatus { attempts, ..failing }), Some(delay));
    }

    #[test]
    fn a_call_that_has_not_ended_is_named() {
        let message = |claim: &ClaimStatus| delay_of(claim).map(|delay| delay.message);
        let called = "volume `db`: NodeStageVolume was called, and its end is not known yet";
        assert_eq!(message(&publishing()).as_deref(), Some(called));
        let idle = ClaimStatus { staged: Known::No, ..publishing() };
        let expected = "volume `db` is claimed, and its next step has not started yet";
        assert_eq!(message(&idle).as_deref(), Some(expected));
    }

    #[test]
    fn a_claim_that_is_published_or_given_back_holds_nothing_up() {
        for progress in
            [ClaimProgress::Published, ClaimProgress::Unpublishing, ClaimProgress::Detaching]
        {
            assert_eq!(delay_of(&ClaimStatus { progress, ..publishing() }), None, "{progress:?}");
        }
    }
}
