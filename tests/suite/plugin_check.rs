//! `plugin check` against a plugin that is right, and against one with each thing wrong in turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nomad_csi::conformance::{
    Case, Level, Outcome, Profile, Report, Selection, Setup, Verdict, Watch, cases, run,
};
use nomad_csi::csi::RawClient;
use nomad_csi::model::Secrets;
use tokio_util::sync::CancellationToken;

use crate::support::exemplar::{Deviation, Exemplar};

use Deviation as D;

/// What is wrong, and the check that finds it.
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
    (D::AnyPlace, "create/no-place"),
    (D::OtherPlace, "create/place"),
    (D::DeleteNothing, "delete/no-id"),
    (D::DeleteOnce, "delete/twice"),
    (D::NameStaysTaken, "delete/frees-name"),
    (D::ConfirmsAnything, "validate/impossible"),
    (D::ConfirmsUnknown, "validate/unknown"),
    (D::EchoesNothing, "validate/own"),
    (D::LongPages, "list/pages"),
    (D::SamePage, "list/pages"),
    (D::MissingEntries, "list/pages"),
    (D::AnyToken, "list/bad-token"),
    (D::TokenDies, "list/changing"),
    (D::DeletedListed, "list/presence"),
    (D::NegativeLimit, "list/negative-limit"),
    (D::NegativeCapacity, "list/capacity"),
    (D::UnknownShown, "list/get-unknown"),
    (D::OtherVolumeShown, "list/get"),
    (D::NoCondition, "list/get"),
    (D::SnapshotOfOther, "snapshot/other-volume"),
    (D::SnapshotEachTime, "snapshot/same-again"),
    (D::SnapshotUnknownVolume, "snapshot/unknown-volume"),
    (D::OneSnapshot, "snapshot/several"),
    (D::SnapshotDies, "snapshot/outlives-volume"),
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
    (D::TargetsApart, "node/multi-writer"),
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
    (D::PaperExpansion, "expand/sees"),
    (D::PaperExpansion, "expand/online"),
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
    (D::DiesOfToken, "list/bad-token"),
    (D::SilentRefusals, "manners/refusals"),
    (D::TellsSecrets, "manners/refusals"),
    (D::LogsSecrets, "manners/log"),
];

/// Nobody looks.
struct Unwatched;

impl Watch for Unwatched {
    fn starts(&self, _: &Profile, _: usize) {}
    fn began(&self, _: usize, _: &Case) {}
    fn ended(&self, _: usize, _: &Outcome) {}
}

fn setup() -> Setup {
    Setup {
        parameters: [("kind".to_owned(), "fast".to_owned())].into(),
        mutable: [("speed".to_owned(), "2".to_owned())].into(),
        secrets: Secrets::from_iter([("password", "hunter2")]),
        size: 1 << 20,
        prefix: "nomad-csi-check-test".to_owned(),
        staging: PathBuf::from("/exemplar/staging"),
        target: PathBuf::from("/exemplar/target"),
        block: true,
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

async fn check(plugin: &Exemplar, socket: &Path, selection: &Selection) -> Report {
    let client = RawClient::new(socket, Duration::from_secs(20));
    let stop = CancellationToken::new();
    let files = Arc::new(plugin.files());
    let running = run(client, setup(), selection, files, &Unwatched, &stop);
    running.await.expect("the plugin answers")
}

fn told(report: &Report) -> String {
    let mut lines: Vec<String> = vec![];
    for outcome in &report.outcomes {
        if outcome.verdict != Verdict::Passed || !outcome.findings.is_empty() {
            lines.push(format!("{}: {:?}", outcome.case.id, outcome.verdict));
            lines.extend(
                outcome
                    .findings
                    .iter()
                    .map(|finding| format!("  {finding:?}")),
            );
        }
    }
    lines.extend(report.leftovers.iter().map(|left| format!("{left:?}")));
    lines.join("\n")
}

/// Every check is carried out, and finds nothing, not even advice.
#[tokio::test]
async fn a_plugin_that_is_right_passes_every_check_and_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let plugin = Exemplar::start(&socket, None);
    let report = check(&plugin, &socket, &selection(&[])).await;
    assert_eq!(told(&report), "");
    assert_eq!(report.tally().passed, cases().len());
    assert!(report.is_clean());
    assert_eq!(plugin.remains(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_created_unless_that_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    // Whatever a request says, this one makes a volume of it.
    let plugin = Exemplar::start(&socket, Some(D::NamelessVolume));
    let asking = Selection::default();
    let report = check(&plugin, &socket, &asking).await;
    assert!(report.tally().passed > 10);
    assert!(report.outcomes.iter().any(|outcome| {
        outcome.verdict
            == Verdict::Skipped("it may change something: add `--destructive`".to_owned())
    }));
    assert!(!plugin.has_made_anything());
}

/// One thing wrong, one check that finds it: `csi-sanity` section 7 and what is beside it.
#[tokio::test]
async fn everything_that_can_be_wrong_is_found() {
    let mut missed = vec![];
    for (deviation, id) in FOUND {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let plugin = Exemplar::start(&socket, Some(*deviation));
        // What holds for every call is looked at once there were some.
        let only: &[&str] = match id.strip_prefix("manners/") {
            Some(_) => &["create/volume", "create/no-name", id],
            None => &[id],
        };
        let report = check(&plugin, &socket, &selection(only)).await;
        let outcome = report
            .outcomes
            .iter()
            .find(|outcome| outcome.case.id == *id);
        let outcome = outcome.expect("the check exists");
        let must = |finding: &nomad_csi::conformance::Finding| finding.level == Level::Must;
        if outcome.verdict != Verdict::Failed || !outcome.findings.iter().any(must) {
            missed.push(format!(
                "{deviation:?}: {id} {:?}\n{}",
                outcome.verdict,
                told(&report)
            ));
        }
    }
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

#[test]
fn every_deviation_has_a_check_that_finds_it() {
    for deviation in Deviation::ALL {
        let listed = FOUND.iter().any(|(one, _)| one == deviation);
        assert!(listed, "{deviation:?} is not in the table");
    }
}

/// What a plugin shows of secrets is in no report.
#[tokio::test]
async fn a_secret_that_a_plugin_tells_is_not_told_on() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    for deviation in [D::TellsSecrets, D::LogsSecrets] {
        drop(std::fs::remove_file(&socket));
        let plugin = Exemplar::start(&socket, Some(deviation));
        let report = check(&plugin, &socket, &selection(&["create", "manners"])).await;
        assert!(report.tally().failed > 0);
        assert!(!format!("{report:?}").contains("hunter2"));
    }
}

/// Ctrl-C in the middle of any creation: the answer is lost, and what was made is gone all the same.
#[tokio::test]
async fn an_interrupt_at_any_creation_leaves_nothing_behind() {
    for count in [1, 2, 5, 9, 14, 30, 60] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let plugin = Exemplar::start(&socket, None);
        let stop = CancellationToken::new();
        plugin.interrupt_at(count, stop.clone());
        let client = RawClient::new(&socket, Duration::from_secs(20));
        let all = selection(&[]);
        let files = Arc::new(plugin.files());
        let running = run(client, setup(), &all, files, &Unwatched, &stop);
        let report = running.await.expect("the plugin answers");
        assert!(report.interrupted);
        assert_eq!(report.leftovers, []);
        assert_eq!(
            plugin.remains(),
            Vec::<String>::new(),
            "at creation {count}"
        );
        let interrupted = Verdict::Untried("the run was interrupted".to_owned());
        let cut_off = report
            .outcomes
            .iter()
            .filter(|one| one.verdict == interrupted);
        assert_eq!(cut_off.count(), 1);
    }
}

/// Nothing is held against checks that a dead plugin cannot pass.
#[tokio::test]
async fn a_plugin_that_dies_fails_the_check_that_it_died_of_and_the_others_are_untried() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let plugin = Exemplar::start(&socket, Some(D::DiesOfToken));
    let report = check(
        &plugin,
        &socket,
        &selection(&["list/bad-token", "snapshot"]),
    )
    .await;
    let reason = "the plugin does not listen any more, since list/bad-token".to_owned();
    for outcome in &report.outcomes {
        let expected = match outcome.case.id {
            "list/bad-token" => Verdict::Failed,
            _ => Verdict::Untried(reason.clone()),
        };
        assert_eq!(outcome.verdict, expected, "{}", outcome.case.id);
    }
    assert_eq!(report.leftovers, []);
}

/// What cannot be removed is said.
#[tokio::test]
async fn what_stays_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let plugin = Exemplar::start(&socket, Some(D::NoVolumeId));
    let report = check(&plugin, &socket, &selection(&["create/volume"])).await;
    assert_eq!(plugin.remains().len(), 1, "it has no ID to delete it by");
    let told: Vec<&str> = report
        .leftovers
        .iter()
        .map(|left| left.what.as_str())
        .collect();
    assert_eq!(told, ["volume of the name \"nomad-csi-check-test-1\""]);
}
