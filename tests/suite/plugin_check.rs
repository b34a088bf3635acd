//! `plugin check` against a conforming plugin, and against one with each deviation in turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nomad_csi_conformance::{
    Case, CheckObserver, CheckOptions, CheckOutcome, Level, ModesUnknown, ProbedPlugin, Report,
    Selection, Verdict, cases, confirmed_modes, run_checks,
};
use nomad_csi_csi::RawClient;
use nomad_csi_model::{AttachmentMode, Secrets};
use nomad_csi_proto as proto;
use tokio_util::sync::CancellationToken;

use crate::support::reference_plugin::{Deviation, ReferencePlugin};

use Deviation as D;

/// Each deviation, and the check that finds it.
const FOUND: &[(Deviation, &str)] = &[
    (D::BadPluginName, "identity/info"),
    (D::NoVersion, "identity/info"),
    (D::UnknownService, "identity/capabilities"),
    (D::NotReady, "identity/probe"),
    (D::PublishedNodesWithoutAttach, "identity/controller"),
    (D::NoNodeId, "identity/node-info"),
    (D::ChangingNodeId, "identity/node-info"),
    (D::NamelessVolume, "create/no-name"),
    (D::NoCapabilities, "create/no-capabilities"),
    (D::HalfCapability, "create/half-a-capability"),
    (D::NewVolumeEachTime, "create/same-again"),
    (D::ChangingContext, "create/same-again"),
    (D::TooSmall, "create/volume"),
    (D::NoVolumeId, "create/volume"),
    (D::TooLarge, "create/exact-size"),
    (D::EndlessSize, "create/endless-size"),
    (D::NegativeSize, "create/impossible-size"),
    (D::OtherSize, "create/other-size"),
    (D::WrongCode, "create/other-size"),
    (D::OtherParameters, "create/other-parameters"),
    (D::OtherCapability, "create/other-capability"),
    (D::ShortNames, "create/longest-name"),
    (D::AsciiNames, "create/any-name"),
    (D::AnyTopology, "create/no-place"),
    (D::OtherTopology, "create/place"),
    (D::DeleteNothing, "delete/no-id"),
    (D::DeleteOnce, "delete/twice"),
    (D::NameStaysReserved, "delete/frees-name"),
    (D::ConfirmsAnything, "validate/impossible"),
    (D::ConfirmsUnknown, "validate/unknown"),
    (D::EchoesNothing, "validate/own"),
    (D::LongPages, "list/pages"),
    (D::SamePage, "list/pages"),
    (D::MissingEntries, "list/pages"),
    (D::AnyToken, "list/bad-token"),
    (D::TokenExpires, "list/changing"),
    (D::DeletedListed, "list/presence"),
    (D::NegativeLimit, "list/negative-limit"),
    (D::NegativeCapacity, "list/capacity"),
    (D::UnknownShown, "list/get-unknown"),
    (D::OtherVolumeShown, "list/get"),
    (D::NoCondition, "list/get"),
    (D::HealthOfOther, "health/get"),
    (D::NoHealthReason, "health/get"),
    (D::HealthTwice, "health/list"),
    (D::HealthOfUnknown, "health/get-unknown"),
    (D::LongHealthPages, "health/list"),
    (D::AnyHealthToken, "health/bad-token"),
    (D::ListHealthOnly, "identity/controller"),
    (D::NodeHealthOfOther, "health/node"),
    (D::NoNodeHealth, "health/node"),
    (D::NodeHealthOfUnknown, "health/node-unknown"),
    (D::StorageTwice, "health/storage"),
    (D::SnapshotElsewhere, "snapshot/place"),
    (D::SnapshotOfOther, "snapshot/other-volume"),
    (D::SnapshotEachTime, "snapshot/same-again"),
    (D::SnapshotUnknownVolume, "snapshot/unknown-volume"),
    (D::OneSnapshot, "snapshot/several"),
    (D::SnapshotDeletedWithVolume, "snapshot/outlives-volume"),
    (D::FilterIgnored, "snapshot/list"),
    (D::FilterFails, "snapshot/list"),
    (D::SnapshotPages, "snapshot/pages"),
    (D::NoCreationTime, "snapshot/create"),
    (D::AnyNode, "attach/unknown"),
    (D::CountedAttach, "attach/again"),
    (D::DeletesAttached, "attach/in-use"),
    (D::NoAttachLimit, "attach/limit"),
    (D::AttachHidden, "attach/listed"),
    (D::AttachReadOnly, "attach/read-only"),
    (D::TargetStays, "node/lifecycle"),
    (D::LosesData, "node/lifecycle"),
    (D::StackedTargets, "node/again"),
    (D::UnpublishOnce, "node/again"),
    (D::WritableReadOnly, "node/read-only"),
    (D::SecondTarget, "node/second-target"),
    (D::SecondTarget, "node/single-writer"),
    (D::OtherUse, "node/other-use"),
    (D::Unstaged, "node/without-staging"),
    (D::AnyFs, "node/no-such-fs"),
    (D::DeletesPublished, "node/delete-in-use"),
    (D::SmallFs, "node/size"),
    (D::Abnormal, "node/stats"),
    (D::StatsAnywhere, "node/stats-elsewhere"),
    (D::TargetsSeparate, "node/multi-writer"),
    (D::StageUnknown, "node/unknown"),
    (D::WritableBlock, "block/read-only"),
    (D::BlockIsFile, "block/lifecycle"),
    (D::BlockTooSmall, "block/size"),
    (D::StackedTargets, "block/repeat"),
    (D::EmptyClone, "copy/clone-data"),
    (D::SharedClone, "copy/clone-data"),
    (D::LateRestore, "copy/restore-data"),
    (D::LateRestore, "copy/block-data"),
    (D::CopyEachTime, "copy/clone"),
    (D::CopyEachTime, "copy/restore"),
    (D::OtherSource, "copy/other-source"),
    (D::SmallerCopy, "copy/smaller"),
    (D::UnknownSource, "copy/unknown-volume"),
    (D::SizelessCopy, "copy/no-size"),
    (D::SmallFsCopy, "copy/larger"),
    (D::ExpansionInvisible, "expand/sees"),
    (D::ExpansionInvisible, "expand/online"),
    (D::Shrinks, "expand/controller"),
    (D::ExpansionEmpties, "expand/sees"),
    (D::ExpandUnknown, "expand/unknown"),
    (D::EndlessSize, "expand/endless"),
    (D::NeverOnline, "expand/online"),
    (D::AnyMutable, "modify/arguments"),
    (D::AnyMutable, "modify/create"),
    (D::AnyMutable, "modify/volume"),
    (D::NeverModifies, "modify/volume"),
    (D::NeverModifies, "modify/create-with"),
    (D::ShortSnapshotNames, "snapshot/longest-name"),
    (D::GroupLeaks, "group/nothing"),
    (D::GroupPartial, "group/create"),
    (D::GroupMemberDeletes, "group/member"),
    (D::GroupOfOthers, "group/other-volumes"),
    (D::GroupStays, "group/delete"),
    (D::BlocksOfNothing, "metadata/arguments"),
    (D::BlocksBackwards, "metadata/allocated"),
    (D::BlocksMissing, "metadata/allocated"),
    (D::BlocksBeyond, "metadata/allocated"),
    (D::DeltaMissing, "metadata/delta"),
    (D::Racing, "concurrency/same-name"),
    (D::CrashesOnToken, "list/bad-token"),
    (D::EmptyErrorMessages, "manners/refusals"),
    (D::RevealsSecrets, "manners/refusals"),
    (D::LogsSecrets, "manners/log"),
];

/// An observer that ignores everything.
struct SilentObserver;

impl CheckObserver for SilentObserver {
    fn run_started(&self, _: &ProbedPlugin, _: usize) {}
    fn check_started(&self, _: usize, _: &Case) {}
    fn check_finished(&self, _: usize, _: &CheckOutcome) {}
}

fn options() -> CheckOptions {
    CheckOptions {
        parameters: [("kind".to_owned(), "fast".to_owned())].into(),
        mutable_parameters: [("speed".to_owned(), "2".to_owned())].into(),
        secrets: Secrets::from_iter([("password", "hunter2")]),
        size: 1 << 20,
        name_prefix: "nomad-csi-check-test".to_owned(),
        staging_directory: PathBuf::from("/exemplar/staging"),
        target_directory: PathBuf::from("/exemplar/target"),
        block_volumes: true,
        log: Some(PathBuf::from("/exemplar/log")),
    }
}

fn selection(only: &[&str]) -> Selection {
    Selection {
        only: only.iter().map(ToString::to_string).collect(),
        skip: vec![],
        destructive: true,
    }
}

async fn check(plugin: &ReferencePlugin, socket: &Path, selection: &Selection) -> Report {
    let client = RawClient::new(socket, Duration::from_secs(20));
    let stop = CancellationToken::new();
    let files = Arc::new(plugin.files());
    let running = run_checks(client, options(), selection, files, &SilentObserver, &stop);
    running.await.expect("the plugin answers")
}

fn summary(report: &Report) -> String {
    let mut lines: Vec<String> = vec![];
    for outcome in &report.outcomes {
        if outcome.verdict != Verdict::Passed || !outcome.findings.is_empty() {
            lines.push(format!("{}: {:?}", outcome.case.id, outcome.verdict));
            lines.extend(outcome.findings.iter().map(|finding| format!("  {finding:?}")));
        }
    }
    lines.extend(report.leftovers.iter().map(|left| format!("{left:?}")));
    lines.join("\n")
}

/// Every check runs and finds nothing, not even advice.
#[tokio::test]
async fn a_conforming_plugin_passes_every_check_and_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let plugin = ReferencePlugin::start(&socket, None);
    let report = check(&plugin, &socket, &selection(&[])).await;
    assert_eq!(summary(&report), "");
    assert_eq!(report.tally().passed, cases().len());
    assert!(report.is_clean());
    assert_eq!(plugin.remaining(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_created_without_destructive() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    // This plugin creates a volume even for an invalid request.
    let plugin = ReferencePlugin::start(&socket, Some(D::NamelessVolume));
    let read_only = Selection::default();
    let report = check(&plugin, &socket, &read_only).await;
    assert!(report.tally().passed > 10);
    assert!(report.outcomes.iter().any(|outcome| {
        outcome.verdict
            == Verdict::Skipped("the check may change data: add `--destructive`".to_owned())
    }));
    assert!(!plugin.has_created_anything());
}

/// Each deviation fails its check, including those that csi-sanity does not find.
#[tokio::test]
async fn every_deviation_is_found_by_its_check() {
    let mut missed = vec![];
    for (deviation, id) in FOUND {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let plugin = ReferencePlugin::start(&socket, Some(*deviation));
        // The rules for every call need some earlier calls.
        let only: &[&str] = match id.strip_prefix("manners/") {
            Some(_) => &["create/volume", "create/no-name", id],
            None => &[id],
        };
        let report = check(&plugin, &socket, &selection(only)).await;
        let outcome = report.outcomes.iter().find(|outcome| outcome.case.id == *id);
        let outcome = outcome.expect("the check exists");
        let must = |finding: &nomad_csi_conformance::Finding| finding.level == Level::Must;
        if outcome.verdict != Verdict::Failed || !outcome.findings.iter().any(must) {
            missed.push(format!("{deviation:?}: {id} {:?}\n{}", outcome.verdict, summary(&report)));
        }
    }
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

#[test]
fn every_deviation_is_in_the_table() {
    for deviation in Deviation::ALL {
        let listed = FOUND.iter().any(|(one, _)| one == deviation);
        assert!(listed, "{deviation:?} is not in the table");
    }
}

/// A secret that the plugin reveals does not appear in the report.
#[tokio::test]
async fn a_revealed_secret_is_not_in_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    for deviation in [D::RevealsSecrets, D::LogsSecrets] {
        drop(std::fs::remove_file(&socket));
        let plugin = ReferencePlugin::start(&socket, Some(deviation));
        let report = check(&plugin, &socket, &selection(&["create", "manners"])).await;
        assert!(report.tally().failed > 0);
        assert!(!format!("{report:?}").contains("hunter2"));
    }
}

/// After Ctrl-C during a creation the response is lost, and the clean-up still removes the volume.
#[tokio::test]
async fn an_interrupt_at_any_creation_leaves_nothing_behind() {
    for count in [1, 2, 5, 9, 14, 30, 60] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let plugin = ReferencePlugin::start(&socket, None);
        let stop = CancellationToken::new();
        plugin.interrupt_at(count, stop.clone());
        let client = RawClient::new(&socket, Duration::from_secs(20));
        let all = selection(&[]);
        let files = Arc::new(plugin.files());
        let running = run_checks(client, options(), &all, files, &SilentObserver, &stop);
        let report = running.await.expect("the plugin answers");
        assert!(report.interrupted);
        assert_eq!(report.leftovers, []);
        assert_eq!(plugin.remaining(), Vec::<String>::new(), "at creation {count}");
        let interrupted = Verdict::NotRun("the run was interrupted".to_owned());
        let interrupted_checks = report.outcomes.iter().filter(|one| one.verdict == interrupted);
        assert_eq!(interrupted_checks.count(), 1);
    }
}

/// Checks after a crash of the plugin are reported as not run, not as failed.
#[tokio::test]
async fn a_plugin_that_crashes_fails_one_check_and_the_others_are_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let plugin = ReferencePlugin::start(&socket, Some(D::CrashesOnToken));
    let report = check(&plugin, &socket, &selection(&["list/bad-token", "snapshot"])).await;
    let reason = "the plugin stopped listening during check `list/bad-token`".to_owned();
    for outcome in &report.outcomes {
        let expected = match outcome.case.id {
            "list/bad-token" => Verdict::Failed,
            _ => Verdict::NotRun(reason.clone()),
        };
        assert_eq!(outcome.verdict, expected, "{}", outcome.case.id);
    }
    assert_eq!(report.leftovers, []);
}

/// A plugin that refuses every volume may lack parameters, but not if some were given or a volume exists.
#[tokio::test]
async fn missing_parameters_are_reported() {
    for (required, given, is_reported) in [
        (Some("pool"), None, true),
        (Some("pool"), Some("kind"), false),
        (Some("pool"), Some("pool"), false),
        (None, None, false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let plugin = ReferencePlugin::start(&socket, None);
        if let Some(required) = required {
            plugin.require_parameter(required);
        }
        let given = given.map(|name: &str| (name.to_owned(), "fast".to_owned()));
        let options = CheckOptions { parameters: given.into_iter().collect(), ..options() };
        let client = RawClient::new(&socket, Duration::from_secs(20));
        let files = Arc::new(plugin.files());
        let create = selection(&["create", "delete/twice"]);
        let stop = CancellationToken::new();
        let running = run_checks(client, options, &create, files, &SilentObserver, &stop);
        let report = running.await.expect("the plugin answers");
        let reported = report.missing_parameters.as_deref();
        assert_eq!(reported.is_some(), is_reported, "{required:?}: {reported:?}");
        if let Some(error) = reported {
            assert!(error.contains("a parameter is missing"), "{error}");
        }
    }
}

/// Each mode is asked alone, with the volume's own context. The reference_plugin confirms what a volume was
/// created with.
#[tokio::test]
async fn the_confirmed_modes_of_a_volume_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let _plugin = ReferencePlugin::start(&socket, None);
    let client = RawClient::new(&socket, Duration::from_secs(20));
    let profile = ProbedPlugin::probe(&client).await.unwrap();
    let secrets = Secrets::default();
    let missing = confirmed_modes(&client, &profile, "nothing", &secrets).await;
    assert_eq!(missing, Err(ModesUnknown::NoSuchVolume));
    let created = client.call(minimal_volume()).await.unwrap();
    let id = created.volume.unwrap().volume_id;
    let modes = confirmed_modes(&client, &profile, &id, &secrets).await;
    let modes = modes.unwrap();
    assert_eq!(modes.len(), 14);
    let (confirmed, refused): (Vec<_>, Vec<_>) =
        modes.iter().partition(|mode| mode.refusal.is_none());
    assert_eq!(confirmed.len(), 1, "{confirmed:?}");
    assert_eq!(confirmed[0].access_mode, "SINGLE_NODE_WRITER");
    assert_eq!(confirmed[0].attachment_mode, AttachmentMode::FileSystem);
    let reason = Some("the volume has other capabilities".to_owned());
    assert!(refused.iter().all(|mode| mode.refusal == reason));
}

fn minimal_volume() -> proto::CreateVolumeRequest {
    use proto::volume_capability::{AccessMode, AccessType, MountVolume, access_mode::Mode};
    let mode = Mode::SingleNodeWriter.into();
    proto::CreateVolumeRequest {
        name: "v".to_owned(),
        volume_capabilities: vec![proto::VolumeCapability {
            access_mode: Some(AccessMode { mode }),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }],
        ..Default::default()
    }
}

/// The report lists what the clean-up could not remove.
#[tokio::test]
async fn leftovers_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let plugin = ReferencePlugin::start(&socket, Some(D::NoVolumeId));
    let report = check(&plugin, &socket, &selection(&["create/volume"])).await;
    assert_eq!(plugin.remaining().len(), 1, "a volume without an ID cannot be deleted");
    let leftovers: Vec<&str> = report.leftovers.iter().map(|left| left.what.as_str()).collect();
    assert_eq!(leftovers, ["volume with the name \"nomad-csi-check-test-1\""]);
}
