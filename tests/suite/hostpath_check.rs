//! `plugin check` against the embedded plugin, in process: whole and of every kind it passes, and of
//! every fault that it can be told to have something is found. The cases of csi-sanity are among the
//! checks, so nothing outside this repository is needed to know that they hold.
//!
//! Mounts and devices are a table in memory, files are real; `tests/e2e/plugin_check.rs` has the
//! same with real mounts, and the faults that end the process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use nomad_csi::conformance::{
    Case, Level, Outcome, Profile, Report, Selection, Setup, Unusable, Verdict, Watch, run,
};
use nomad_csi::csi::RawClient;
use nomad_csi::hostpath::PlayOptions;
use nomad_csi::model::Secrets;
use nomad_csi::ports::BlockStorage as _;
use nomad_csi::ports::fake::{FakeBlockStorage, FakeMounter};
use tokio_util::sync::CancellationToken;

use crate::support::hostpath::{Machine, Running};
use crate::support::hostpath_files::MountedFiles;

/// What can be told to fail, and the check that finds it.
const FINDS: [(&str, &str); 31] = [
    ("GetPluginCapabilities", "identity/capabilities"),
    ("Probe", "identity/probe"),
    ("CreateVolume", "create/volume"),
    ("DeleteVolume", "delete/twice"),
    ("ControllerPublishVolume", "attach/again"),
    ("ControllerUnpublishVolume", "attach/again"),
    ("ValidateVolumeCapabilities", "validate/own"),
    ("ListVolumes", "list/volumes"),
    ("GetCapacity", "list/capacity"),
    ("ControllerGetCapabilities", "identity/controller"),
    ("CreateSnapshot", "snapshot/create"),
    ("DeleteSnapshot", "snapshot/several"),
    ("ListSnapshots", "snapshot/list"),
    ("GetSnapshot", "snapshot/get"),
    ("ControllerExpandVolume", "expand/controller"),
    ("ControllerGetVolume", "list/get"),
    ("ControllerModifyVolume", "modify/volume"),
    ("GroupControllerGetCapabilities", "identity/controller"),
    ("CreateVolumeGroupSnapshot", "group/create"),
    ("DeleteVolumeGroupSnapshot", "group/delete"),
    ("GetVolumeGroupSnapshot", "group/get"),
    ("GetMetadataAllocated", "metadata/allocated"),
    ("GetMetadataDelta", "metadata/delta"),
    ("NodeStageVolume", "node/lifecycle"),
    ("NodeUnstageVolume", "node/lifecycle"),
    ("NodePublishVolume", "node/lifecycle"),
    ("NodeUnpublishVolume", "node/lifecycle"),
    ("NodeGetVolumeStats", "node/stats"),
    ("NodeExpandVolume", "expand/online"),
    ("NodeGetCapabilities", "identity/node"),
    ("NodeGetInfo", "identity/node-info"),
];

/// How each of them can fail. Of crashes see `tests/e2e/plugin_check.rs`: they end the process.
///
/// What no check can find by nature: a delay below the caller's deadline, since CSI sets no time for
/// any call; and a plugin that does not have what it does not advertise, which is a kind of plugin
/// and no fault ([`KINDS`]).
const HARMS: [&str; 6] = [
    "INTERNAL",
    "NOT_FOUND",
    "UNAVAILABLE:1",
    "lose-reply:1",
    "hang:1",
    "delay=60s:1",
];

/// How long a call may take where one is made to take for ever.
const IMPATIENT: Duration = Duration::from_secs(2);
const PATIENT: Duration = Duration::from_secs(60);

struct Unwatched;

impl Watch for Unwatched {
    fn starts(&self, _: &Profile, _: usize) {}
    fn began(&self, _: usize, _: &Case) {}
    fn ended(&self, _: usize, _: &Outcome) {}
}

/// What can be asked of the plugin's volumes, on that machine.
fn setup(directory: &Path, machine: &Machine, options: &PlayOptions) -> Setup {
    let block = machine.storage.offers().no_loop_devices.is_none();
    // Directories have no devices, which these are for; without a size a volume is one.
    let has_devices = options.backing.as_deref() == Some("image");
    let parameter = |key: &str, value: &str| {
        let pair = has_devices.then(|| (key.to_owned(), value.to_owned()));
        pair.into_iter().collect()
    };
    Setup {
        parameters: parameter("direct_io", "false"),
        mutable: parameter("read_ahead_kib", "256"),
        secrets: Secrets::from_iter([("password", "hunter2")]),
        size: 1 << 20,
        prefix: "nomad-csi-check-test".to_owned(),
        staging: directory.join("staging"),
        target: directory.join("target"),
        block,
        log: None,
    }
}

/// The plugin on that machine, playing that, checked.
async fn check(
    machine: Machine,
    options: PlayOptions,
    only: &[&str],
    patience: Duration,
) -> Result<Report, Unusable> {
    // What is checked is the order of things, not the disk: where there is memory it is kept there.
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = memory.unwrap();
    let path = directory.path().canonicalize().unwrap();
    let setup = setup(&path, &machine, &options);
    let files = Arc::new(MountedFiles(machine.clone()));
    let running = Running::start_on(&path, machine, options).await;
    let client = RawClient::new(&running.socket, patience);
    let selection = Selection {
        only: only.iter().map(ToString::to_string).collect(),
        skip: vec![],
        destructive: true,
    };
    let stop = CancellationToken::new();
    run(client, setup, &selection, files, &Unwatched, &stop).await
}

fn told(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for outcome in &report.outcomes {
        let is_silent = outcome.findings.is_empty();
        let is_tried = !matches!(outcome.verdict, Verdict::Untried(_));
        if is_silent && is_tried {
            continue;
        }
        lines.push(format!("{}: {:?}", outcome.case.id, outcome.verdict));
        let findings = outcome.findings.iter();
        lines.extend(findings.map(|finding| format!("  {finding:?}")));
    }
    lines.extend(report.leftovers.iter().map(|left| format!("{left:?}")));
    lines
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// Everything that can be advertised.
fn whole() -> PlayOptions {
    PlayOptions {
        backing: Some("image".to_owned()),
        attach: true,
        attach_limit: Some(3),
        topology: texts(&["t.example/zone=a", "t.example/rack=b"]),
        ..PlayOptions::default()
    }
}

/// Whether something that the specification demands was found by that check.
fn finds(report: &Report, id: &str) -> bool {
    let is_it = |outcome: &&Outcome| outcome.case.id == id;
    let outcome = report.outcomes.iter().find(is_it);
    let outcome = outcome.unwrap_or_else(|| panic!("there is no check {id}"));
    let must = outcome.findings.iter().any(|one| one.level == Level::Must);
    outcome.verdict == Verdict::Failed && must
}

/// Every RPC, failing in every way, has a check that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_fault_that_can_be_asked_for_is_found() {
    let rows = FINDS.iter().flat_map(|(rpc, id)| {
        let harms = HARMS.iter();
        harms.map(move |harm| (format!("{rpc}:{harm}"), *id))
    });
    let checked = rows.map(async |(fault, id)| {
        let options = PlayOptions {
            fault: vec![fault.clone()],
            ..whole()
        };
        let report = check(Machine::with_devices(), options, &[id], IMPATIENT).await;
        match report {
            Ok(report) if finds(&report, id) => None,
            Ok(report) => Some(format!("{fault}: {id} {:#?}", told(&report))),
            Err(unusable) => Some(format!("{fault}: {unusable:?}")),
        }
    });
    let missed: Vec<_> = futures_util::stream::iter(checked)
        .buffer_unordered(16)
        .filter_map(async |missed| missed)
        .collect()
        .await;
    assert!(missed.is_empty(), "{}\n{}", missed.len(), missed.join("\n"));
}

/// Nothing can be said of a plugin that does not say what it is; that is said.
#[tokio::test]
async fn a_plugin_that_does_not_say_what_it_is_is_not_checked() {
    for (harm, expected) in [("INTERNAL:1", "Refused"), ("hang:1", "Silent")] {
        let options = PlayOptions {
            fault: vec![format!("GetPluginInfo:{harm}")],
            ..whole()
        };
        let checked = check(Machine::with_devices(), options, &[], IMPATIENT).await;
        let unusable = checked.expect_err("it does not say");
        assert!(
            format!("{unusable:?}").starts_with(expected),
            "{unusable:?}"
        );
    }
}

/// The table has every RPC that there is.
#[test]
fn every_rpc_has_a_check_that_finds_that_it_fails() {
    let proto = std::fs::read_to_string("proto/csi/v1/csi.proto").unwrap();
    let lines = proto.lines().map(str::trim_start);
    let rpcs = lines.filter_map(|line| line.strip_prefix("rpc "));
    let mut rpcs: Vec<_> = rpcs
        .filter_map(|rest| rest.split([' ', '(']).next())
        .filter(|rpc| *rpc != "GetPluginInfo")
        .collect();
    let mut listed: Vec<_> = FINDS.iter().map(|(rpc, _)| *rpc).collect();
    rpcs.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, rpcs);
}

/// What is taken away is no fault: nothing is found, and nothing is demanded that is not there.
/// Only who never confirms is advised to.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_plugin_of_every_kind_passes_what_is_demanded_of_it() {
    let none = || Machine::plain(FakeMounter::new());
    let unmounted = || {
        let mounter = FakeMounter::new();
        let storage = FakeBlockStorage::growing_unmounted(mounter.clone());
        Machine {
            storage,
            ..Machine::plain(mounter)
        }
    };
    let with = |change: &dyn Fn(&mut PlayOptions)| {
        let mut options = PlayOptions::default();
        change(&mut options);
        options
    };
    let mut kinds = vec![
        (Machine::with_devices(), PlayOptions::default()),
        (Machine::with_devices(), with(&|it| it.attach = true)),
        (
            Machine::with_devices(),
            with(&|it| it.fault = texts(&["*:delay=3ms"])),
        ),
        (
            Machine::with_devices(),
            with(&|it| it.backing = Some("directory".to_owned())),
        ),
        (
            Machine::with_devices(),
            with(&|it| it.topology = texts(&["t.example/zone=a"])),
        ),
        (unmounted(), PlayOptions::default()),
        (
            none(),
            with(&|it| it.backing = Some("directory".to_owned())),
        ),
    ];
    for names in TAKEN_AWAY {
        let options = PlayOptions {
            without: texts(names),
            ..whole()
        };
        kinds.push((Machine::with_devices(), options));
    }
    let checked = kinds.into_iter().map(async |(machine, options)| {
        let report = check(machine, options.clone(), &[], PATIENT).await;
        let told = told(&report.expect("it says what it is"));
        let never_confirms = options.without == ["CONFIRMED"];
        let is_known = |line: &&String| never_confirms && line.starts_with("validate/own: Passed");
        let is_right = match told.first() {
            None => !never_confirms,
            Some(first) => told.len() == 2 && is_known(&first),
        };
        (!is_right).then(|| format!("{options:?}\n  {}", told.join("\n  ")))
    });
    let wrong: Vec<_> = futures_util::stream::iter(checked)
        .buffer_unordered(8)
        .filter_map(async |wrong| wrong)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Everything that can be taken away, together where the one does not hide the other.
const TAKEN_AWAY: [&[&str]; 7] = [
    &["CONTROLLER_SERVICE"],
    &["NODE_SERVICE"],
    &["CREATE_DELETE_VOLUME"],
    &[
        "CREATE_DELETE_SNAPSHOT",
        "LIST_VOLUMES",
        "VOLUME_CONDITION",
        "PUBLISH_READONLY",
        "GET_VOLUME_STATS",
        "NODE_EXPAND_VOLUME",
    ],
    &[
        "LIST_SNAPSHOTS",
        "GET_SNAPSHOT",
        "CLONE_VOLUME",
        "LIST_VOLUMES_PUBLISHED_NODES",
        "SINGLE_NODE_MULTI_WRITER",
        "VOLUME_MOUNT_GROUP",
    ],
    &[
        "EXPAND_VOLUME",
        "GET_VOLUME",
        "MODIFY_VOLUME",
        "GET_CAPACITY",
        "GROUP_CONTROLLER_SERVICE",
        "SNAPSHOT_METADATA_SERVICE",
        "STAGE_UNSTAGE_VOLUME",
    ],
    &["CONFIRMED"],
];

/// csi-sanity's 95 cases that run (the 96th is switched off upstream), by its number: the check that
/// has it, the RPC that is sent, and what comes back (`csi-sanity` 6).
#[rustfmt::skip]
const SANITY: [(u32, &str, &str, &str); 95] = [
    (1, "identity/capabilities", "GetPluginCapabilities", "OK"),
    (2, "identity/probe", "Probe", "OK"),
    (3, "identity/info", "GetPluginInfo", "OK"),
    (4, "identity/controller", "ControllerGetCapabilities", "OK"),
    (5, "list/capacity", "GetCapacity", "OK"),
    (6, "list/volumes", "ListVolumes", "OK"),
    (7, "list/bad-token", "ListVolumes", "ABORTED"),
    (8, "list/presence", "ListVolumes", "OK"),
    (10, "create/no-name", "CreateVolume", "INVALID_ARGUMENT"),
    (11, "create/no-capabilities", "CreateVolume", "INVALID_ARGUMENT"),
    (12, "create/no-size", "CreateVolume", "OK"),
    (13, "create/volume", "CreateVolume", "OK"),
    (14, "create/same-again", "CreateVolume", "OK"),
    (15, "create/other-size", "CreateVolume", "ALREADY_EXISTS"),
    (16, "create/longest-name", "CreateVolume", "OK"),
    (17, "copy/restore", "CreateVolume", "OK"),
    (18, "copy/unknown-snapshot", "CreateVolume", "NOT_FOUND"),
    (19, "copy/clone", "CreateVolume", "OK"),
    (20, "copy/unknown-volume", "CreateVolume", "NOT_FOUND"),
    (21, "modify/create-with", "CreateVolume", "OK"),
    (22, "modify/create", "CreateVolume", "INVALID_ARGUMENT"),
    (23, "delete/no-id", "DeleteVolume", "INVALID_ARGUMENT"),
    (24, "delete/unknown", "DeleteVolume", "OK"),
    (25, "delete/twice", "DeleteVolume", "OK"),
    (26, "validate/no-id", "ValidateVolumeCapabilities", "INVALID_ARGUMENT"),
    (27, "validate/no-capabilities", "ValidateVolumeCapabilities", "INVALID_ARGUMENT"),
    (28, "validate/own", "ValidateVolumeCapabilities", "OK"),
    (29, "validate/unknown", "ValidateVolumeCapabilities", "NOT_FOUND"),
    (30, "attach/arguments", "ControllerPublishVolume", "INVALID_ARGUMENT"),
    (31, "attach/arguments", "ControllerPublishVolume", "INVALID_ARGUMENT"),
    (32, "attach/arguments", "ControllerPublishVolume", "INVALID_ARGUMENT"),
    (33, "attach/limit", "ControllerPublishVolume", "RESOURCE_EXHAUSTED"),
    (34, "attach/unknown", "ControllerPublishVolume", "NOT_FOUND"),
    (35, "attach/unknown", "ControllerPublishVolume", "NOT_FOUND"),
    (36, "attach/read-only", "ControllerPublishVolume", "ALREADY_EXISTS"),
    (37, "attach/again", "ControllerUnpublishVolume", "OK"),
    (38, "attach/again", "ControllerPublishVolume", "OK"),
    (39, "attach/arguments", "ControllerUnpublishVolume", "INVALID_ARGUMENT"),
    (40, "snapshot/arguments", "CreateSnapshot", "INVALID_ARGUMENT"),
    (41, "snapshot/arguments", "CreateSnapshot", "INVALID_ARGUMENT"),
    (42, "snapshot/same-again", "CreateSnapshot", "OK"),
    (43, "snapshot/other-volume", "CreateSnapshot", "ALREADY_EXISTS"),
    (44, "snapshot/longest-name", "CreateSnapshot", "OK"),
    (45, "snapshot/delete", "DeleteSnapshot", "INVALID_ARGUMENT"),
    (46, "snapshot/delete", "DeleteSnapshot", "OK"),
    (47, "snapshot/delete", "DeleteSnapshot", "OK"),
    (48, "snapshot/list", "ListSnapshots", "OK"),
    (49, "snapshot/list", "ListSnapshots", "OK"),
    (50, "snapshot/list", "ListSnapshots", "OK"),
    (51, "snapshot/list", "ListSnapshots", "OK"),
    (52, "snapshot/list", "ListSnapshots", "OK"),
    (53, "snapshot/several", "ListSnapshots", "OK"),
    (54, "snapshot/pages", "ListSnapshots", "OK"),
    (55, "snapshot/get-unknown", "GetSnapshot", "INVALID_ARGUMENT"),
    (56, "snapshot/get", "GetSnapshot", "OK"),
    (57, "snapshot/get-unknown", "GetSnapshot", "NOT_FOUND"),
    (58, "expand/arguments", "ControllerExpandVolume", "INVALID_ARGUMENT"),
    (59, "expand/arguments", "ControllerExpandVolume", "INVALID_ARGUMENT"),
    (60, "expand/controller", "ControllerExpandVolume", "OK"),
    (61, "modify/arguments", "ControllerModifyVolume", "INVALID_ARGUMENT"),
    (62, "modify/unknown", "ControllerModifyVolume", "NOT_FOUND"),
    (63, "modify/arguments", "ControllerModifyVolume", "INVALID_ARGUMENT"),
    (64, "modify/volume", "ControllerModifyVolume", "OK"),
    (65, "modify/create-with", "ControllerModifyVolume", "OK"),
    (66, "modify/create-with", "ControllerModifyVolume", "INVALID_ARGUMENT"),
    (67, "identity/controller", "GroupControllerGetCapabilities", "OK"),
    (68, "group/arguments", "CreateVolumeGroupSnapshot", "INVALID_ARGUMENT"),
    (69, "group/get", "GetVolumeGroupSnapshot", "INVALID_ARGUMENT"),
    (70, "group/get", "GetVolumeGroupSnapshot", "NOT_FOUND"),
    (71, "group/delete", "DeleteVolumeGroupSnapshot", "INVALID_ARGUMENT"),
    (72, "group/delete", "DeleteVolumeGroupSnapshot", "OK"),
    (73, "identity/node", "NodeGetCapabilities", "OK"),
    (74, "identity/node-info", "NodeGetInfo", "OK"),
    (75, "node/publish-arguments", "NodePublishVolume", "INVALID_ARGUMENT"),
    (76, "node/publish-arguments", "NodePublishVolume", "INVALID_ARGUMENT"),
    (77, "node/publish-arguments", "NodePublishVolume", "INVALID_ARGUMENT"),
    (78, "node/single-writer", "NodePublishVolume", "FAILED_PRECONDITION"),
    (79, "node/unpublish-arguments", "NodeUnpublishVolume", "INVALID_ARGUMENT"),
    (80, "node/unpublish-arguments", "NodeUnpublishVolume", "INVALID_ARGUMENT"),
    (81, "node/lifecycle", "NodeUnpublishVolume", "OK"),
    (82, "node/stage-arguments", "NodeStageVolume", "INVALID_ARGUMENT"),
    (83, "node/stage-arguments", "NodeStageVolume", "INVALID_ARGUMENT"),
    (84, "node/stage-arguments", "NodeStageVolume", "INVALID_ARGUMENT"),
    (85, "node/stage-arguments", "NodeUnstageVolume", "INVALID_ARGUMENT"),
    (86, "node/stage-arguments", "NodeUnstageVolume", "INVALID_ARGUMENT"),
    (87, "node/stats-elsewhere", "NodeGetVolumeStats", "INVALID_ARGUMENT"),
    (88, "node/stats-elsewhere", "NodeGetVolumeStats", "INVALID_ARGUMENT"),
    (89, "node/stats-elsewhere", "NodeGetVolumeStats", "NOT_FOUND"),
    (90, "node/stats-elsewhere", "NodeGetVolumeStats", "NOT_FOUND"),
    (91, "expand/node-arguments", "NodeExpandVolume", "INVALID_ARGUMENT"),
    (92, "expand/node-arguments", "NodeExpandVolume", "INVALID_ARGUMENT"),
    (93, "expand/node-arguments", "NodeExpandVolume", "NOT_FOUND"),
    (94, "expand/online", "NodeExpandVolume", "OK"),
    (95, "node/stats", "NodeGetVolumeStats", "OK"),
    (96, "node/again", "NodeStageVolume", "OK"),
];

/// Several cases of one RPC and one answer in one check are as many exchanges.
fn exchanges(report: &Report, id: &str, rpc: &str, code: &str) -> usize {
    let outcomes = report.outcomes.iter();
    let of_check = outcomes.filter(|outcome| outcome.case.id == id);
    let exchanges = of_check.flat_map(|outcome| &outcome.exchanges);
    let is_word = |text: &str, word: &str| {
        let rest = text.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    exchanges
        .filter(|one| is_word(&one.sent, rpc) && is_word(&one.got, code))
        .count()
}

/// Every check passes, is carried out if it can be, and has the cases of csi-sanity that it is
/// listed for.
#[tokio::test(flavor = "multi_thread")]
async fn the_whole_plugin_passes_everything_and_with_it_every_case_of_csi_sanity() {
    let report = check(Machine::with_devices(), whole(), &[], PATIENT).await;
    let report = report.expect("it says what it is");
    assert_eq!(told(&report), Vec::<String>::new());
    let skipped = report.outcomes.iter().filter_map(|outcome| {
        let is_skipped = matches!(outcome.verdict, Verdict::Skipped(_));
        is_skipped.then_some(outcome.case.id)
    });
    assert_eq!(skipped.collect::<Vec<_>>(), ["manners/log"]);
    let mut missing = vec![];
    for (number, id, rpc, code) in SANITY {
        let alike = SANITY
            .iter()
            .filter(|row| (row.1, row.2, row.3) == (id, rpc, code));
        let found = exchanges(&report, id, rpc, code);
        if found < alike.count() {
            missing.push(format!("{number}: {id} has {found} of {rpc} with {code}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
