//! Changing mutable parameters.

use std::collections::BTreeMap;

use super::*;
use crate::volumes::VolumeLimits;
use crate::volumes::modify::{MAX_BYTES, MAX_PARAMETERS};
use nomad_csi_model::{ControllerCapabilities, Secrets};
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::Fault;

const RPC: Rpc = Rpc::ControllerModifyVolume;

type Parameters = BTreeMap<String, String>;

fn modifying() -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            modify_volume: true,
            ..ControllerCapabilities::default()
        }),
        secrets: Secrets::from_iter([("token", "hunter2")]),
        ..PluginSettings::default()
    }
}

fn parameters(pairs: &[(&str, &str)]) -> Parameters {
    let pairs = pairs.iter();
    pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn with_volume(mut settings: PluginSettings) -> FakeAgent {
    let secrets = std::mem::take(&mut settings.secrets);
    let agent = FakeAgent::start(settings).await.unwrap();
    let mut request = FakeAgent::request("db");
    request.secrets = Some(secrets.clone());
    agent.create(request).await.unwrap();
    agent.backend.update_settings(|settings| settings.secrets = secrets);
    agent
}

impl FakeAgent {
    async fn modify(&self, pairs: &[(&str, &str)]) -> Result<Parameters, ServerError> {
        let modified = self.volumes.modify(Self::key("db"), parameters(pairs));
        let modified = modified.await;
        self.assert_consistent();
        modified.map(|modified| modified.parameters)
    }

    /// The parameters in force on record and at the provider, and those of a pending change.
    fn parameters(&self) -> (Parameters, Parameters, Option<Parameters>) {
        let record = self.record("db").expect("the volume has a record");
        let provided = self.backend.volumes()[0].mutable_parameters.clone();
        (record.mutable_parameters, provided, record.modifying)
    }
}

/// W56: the named parameters change and the others stay, also after a restart; secrets are sent.
#[tokio::test(start_paused = true)]
async fn named_parameters_change_and_the_others_stay() {
    let agent = with_volume(modifying()).await;
    let first = agent.modify(&[("iops", "100"), ("tier", "a")]).await;
    assert_eq!(first.unwrap(), parameters(&[("iops", "100"), ("tier", "a")]));
    let second = agent.modify(&[("iops", "200"), ("note", "")]).await;
    let all = parameters(&[("iops", "200"), ("note", ""), ("tier", "a")]);
    assert_eq!(second.unwrap(), all);
    assert_eq!(agent.backend.count(RPC), 2);
    let agent = agent.restart(VolumeLimits::default()).await.unwrap();
    assert_eq!(agent.parameters(), (all.clone(), all, None));
}

/// W56: a change that the plugin refuses as invalid changes nothing, and nothing is pending.
#[tokio::test(start_paused = true)]
async fn a_refused_change_leaves_everything_as_it_was() {
    let agent = with_volume(modifying()).await;
    agent.modify(&[("iops", "100")]).await.unwrap();
    let before = agent.parameters();
    let refused = agent.modify(&[("tier", "b"), ("iops", "wrong")]).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code_and_status().0.as_str(), "plugin/refused");
    assert_eq!(
        refused.message(),
        "plugin `fake` did not modify volume `db`: a value is wrong (InvalidArgument)"
    );
    assert_eq!(agent.parameters(), before);
    let sent = agent.backend.count(RPC);
    let long = "x".repeat(MAX_BYTES);
    let many: Vec<String> = (0..=MAX_PARAMETERS).map(|at| at.to_string()).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
    for wrong in [&[][..], &[("", "a")], &[("a\0", "a")], &[("a", "\0")], &[("big", &long)], &many]
    {
        let error = agent.modify(wrong).await.unwrap_err();
        assert!(matches!(error, ServerError::Invalid { .. }), "{error:?}");
    }
    assert_eq!(agent.backend.count(RPC), sent, "nothing was sent");
    assert_eq!(agent.parameters(), before);
    let most: Vec<_> = many.iter().copied().skip(2).collect();
    agent.modify(&most).await.unwrap();
    let missing = agent.volumes.modify(FakeAgent::key("no"), parameters(&[("a", "b")]));
    assert!(matches!(missing.await, Err(ServerError::NoVolumeToRead)));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_cannot_modify_is_not_asked_to() {
    let agent = with_volume(PluginSettings::default()).await;
    let error = agent.modify(&[("iops", "100")]).await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "plugin/unsupported");
    assert_eq!(agent.backend.count(RPC), 0);
    assert_eq!(agent.parameters(), Default::default());
}

/// W56: an unknown effect stays on record and is shown; the next request, here or after a restart, sends the identical call
/// first, whatever it wants itself.
#[tokio::test(start_paused = true)]
async fn every_fault_of_a_change_is_resolved_by_the_next_request() {
    for (fault, is_open) in [
        (Fault::Fail(StatusCode::Internal), true),
        (Fault::Fail(StatusCode::PermissionDenied), false),
        (Fault::FailAfterEffect(StatusCode::Unknown), true),
        (Fault::Hang, true),
        (Fault::Crash, true),
        (Fault::CrashAfterEffect, true),
    ] {
        for is_restarted in [false, true] {
            for next in [("iops", "100"), ("tier", "b")] {
                let mut agent = with_volume(modifying()).await;
                agent.backend.inject_faults(RPC, [fault]);
                let failed = agent.modify(&[("iops", "100")]).await;
                let what = format!("{fault:?} {is_restarted} {next:?}");
                let error = failed.expect_err(&what);
                let pending = agent.parameters().2;
                let open = is_open.then(|| parameters(&[("iops", "100")]));
                assert_eq!(pending, open, "{what}");
                let code = error.code_and_status().0.as_str();
                assert_eq!(code == "volume/pending", is_open, "{what}: {error:?}");
                agent.backend.crash();
                agent.backend.restart();
                if is_restarted {
                    agent = agent.restart(VolumeLimits::default()).await.unwrap();
                }
                agent.backend.wait_until_idle().await;
                agent.modify(&[next]).await.expect(&what);
                let mut all = parameters(&[next]);
                if is_open {
                    all.extend(parameters(&[("iops", "100")]));
                }
                assert_eq!(agent.parameters(), (all.clone(), all, None), "{what}");
            }
        }
    }
}

/// A pending change that turns out to be invalid does not stand in the way of the next one.
#[tokio::test(start_paused = true)]
async fn a_pending_change_that_is_refused_ends() {
    let agent = with_volume(modifying()).await;
    agent.backend.inject_faults(RPC, [Fault::Fail(StatusCode::Internal)]);
    agent.modify(&[("iops", "wrong")]).await.unwrap_err();
    assert!(agent.parameters().2.is_some());
    agent.modify(&[("tier", "b")]).await.unwrap();
    let tier = parameters(&[("tier", "b")]);
    assert_eq!(agent.parameters(), (tier.clone(), tier, None));
    // While its effect stays unknown, it does.
    let unknown = [Fault::Fail(StatusCode::Internal); 2];
    agent.backend.inject_faults(RPC, unknown);
    agent.modify(&[("iops", "100")]).await.unwrap_err();
    let error = agent.modify(&[("tier", "c")]).await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "volume/pending");
    let open = Some(parameters(&[("iops", "100")]));
    assert_eq!(agent.parameters().2, open);
    assert!(error.help().iter().any(|help| help.contains("takes its place")), "{error:?}");
    // One that takes its place and is refused leaves it open: it may have had its effect.
    agent.backend.inject_faults(RPC, [Fault::Fail(StatusCode::InvalidArgument)]);
    let error = agent.modify(&[("iops", "999")]).await.unwrap_err();
    assert!(error.help().iter().any(|help| help.contains("did not end")), "{error:?}");
    assert_eq!(agent.parameters().2, open);
    // One that sets the same parameters takes its place: the earlier call is not sent again.
    let sent = agent.backend.count(RPC);
    agent.modify(&[("iops", "50"), ("tier", "c")]).await.unwrap();
    assert_eq!(agent.backend.count(RPC), sent + 1);
    let all = parameters(&[("iops", "50"), ("tier", "c")]);
    assert_eq!(agent.parameters(), (all.clone(), all, None));
}
