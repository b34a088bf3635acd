//! `plugin check` against the embedded plugin in this process.
//!
//! The plugin passes with every profile, and the checks find every fault that it can inject. The
//! checks include the cases of csi-sanity, so this repository alone shows that the plugin passes
//! them.
//!
//! Mounts and devices are simulated in memory; files are real. `tests/e2e/plugin_check.rs` repeats
//! this with real mounts, and with faults that end the process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use nomad_csi_conformance::{
    Case, CheckObserver, CheckOptions, CheckOutcome, Level, ProbeError, ProbedPlugin, Report,
    Selection, Verdict, run_checks,
};
use nomad_csi_csi::RawClient;
use nomad_csi_hostpath::ProfileOptions;
use nomad_csi_model::Secrets;
use nomad_csi_ports::BlockStorage as _;
use nomad_csi_testing::{FakeBlockStorage, FakeMounter};
use tokio_util::sync::CancellationToken;

use crate::support::hostpath::{RunningPlugin, TestHost};
use crate::support::hostpath_files::MountedFiles;

/// Every RPC that can fail, and the check that finds its failure.
const CHECK_OF_RPC: [(&str, &str); 35] = [
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
    ("ControllerGetVolumeHealth", "health/get"),
    ("ControllerListVolumeHealth", "health/list"),
    ("NodeGetVolumeHealth", "health/node"),
    ("NodeGetStorageHealth", "health/storage"),
];

/// The injected faults. `tests/e2e/plugin_check.rs` covers crashes, which end the process.
///
/// No check can find a delay below the caller's deadline, because CSI sets no time limits. A
/// capability that is not advertised is no fault ([`REMOVED_CAPABILITIES`]).
const FAULTS: [&str; 6] =
    ["INTERNAL", "NOT_FOUND", "UNAVAILABLE:1", "lose-reply:1", "hang:1", "delay=60s:1"];

/// The timeout of a call in a test with a fault that never answers.
const SHORT_TIMEOUT: Duration = Duration::from_secs(2);
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

struct NoProgress;

impl CheckObserver for NoProgress {
    fn run_started(&self, _: &ProbedPlugin, _: usize) {}
    fn check_started(&self, _: usize, _: &Case) {}
    fn check_finished(&self, _: usize, _: &CheckOutcome) {}
}

/// The options of the check for this host.
fn setup(directory: &Path, host: &TestHost, options: &ProfileOptions) -> CheckOptions {
    let block = host.storage.features().loop_devices_unavailable.is_none();
    // The mutable parameters require devices. Directories have none, and a volume without a size is
    // a directory.
    let has_devices = options.backing.as_deref() == Some("image");
    let parameter = |key: &str, value: &str| {
        let pair = has_devices.then(|| (key.to_owned(), value.to_owned()));
        pair.into_iter().collect()
    };
    CheckOptions {
        parameters: parameter("direct_io", "false"),
        mutable_parameters: parameter("read_ahead_kib", "256"),
        secrets: Secrets::from_iter([("password", "hunter2")]),
        size: 1 << 20,
        name_prefix: "nomad-csi-check-test".to_owned(),
        staging_directory: directory.join("staging"),
        target_directory: directory.join("target"),
        block_volumes: block,
        log: None,
    }
}

/// Runs the check against a plugin on this host with these options.
async fn check(
    host: TestHost,
    options: ProfileOptions,
    only: &[&str],
    timeout: Duration,
) -> Result<Report, ProbeError> {
    // The test covers the order of calls, not the disk, so it uses memory where possible.
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = memory.unwrap();
    let path = directory.path().canonicalize().unwrap();
    let setup = setup(&path, &host, &options);
    let files = Arc::new(MountedFiles(host.clone()));
    let plugin = RunningPlugin::start_on_host(&path, host, options).await;
    let client = RawClient::new(&plugin.socket, timeout);
    let selection = Selection {
        only: only.iter().map(ToString::to_string).collect(),
        skip: vec![],
        destructive: true,
    };
    let stop = CancellationToken::new();
    run_checks(client, setup, &selection, files, &NoProgress, &stop).await
}

fn report_lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for outcome in &report.outcomes {
        let has_no_findings = outcome.findings.is_empty();
        let was_tried = !matches!(outcome.verdict, Verdict::NotRun(_));
        if has_no_findings && was_tried {
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

/// The options of a plugin that advertises everything.
fn full_options() -> ProfileOptions {
    ProfileOptions {
        backing: Some("image".to_owned()),
        attach: true,
        attach_limit: Some(3),
        topology: texts(&["t.example/zone=a", "t.example/rack=b"]),
        ..ProfileOptions::default()
    }
}

/// Returns whether this check found a violation of a MUST.
fn finds(report: &Report, id: &str) -> bool {
    let is_it = |outcome: &&CheckOutcome| outcome.case.id == id;
    let outcome = report.outcomes.iter().find(is_it);
    let outcome = outcome.unwrap_or_else(|| panic!("check {id} does not exist"));
    let must = outcome.findings.iter().any(|one| one.level == Level::Must);
    outcome.verdict == Verdict::Failed && must
}

/// Each fault of each RPC fails the check that covers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_injected_fault_is_found() {
    let rows = CHECK_OF_RPC.iter().flat_map(|(rpc, id)| {
        let faults = FAULTS.iter();
        faults.map(move |fault| (format!("{rpc}:{fault}"), *id))
    });
    let checked = rows.map(async |(fault, id)| {
        let options = ProfileOptions { fault: vec![fault.clone()], ..full_options() };
        let report = check(TestHost::with_devices(), options, &[id], SHORT_TIMEOUT).await;
        match report {
            Ok(report) if finds(&report, id) => None,
            Ok(report) => Some(format!("{fault}: {id} {:#?}", report_lines(&report))),
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

/// A plugin that cannot be identified is not checked, and the report gives the reason.
#[tokio::test]
async fn a_plugin_that_cannot_be_identified_is_not_checked() {
    for (fault, expected) in [("INTERNAL:1", "Refused"), ("hang:1", "NoAnswer")] {
        let options =
            ProfileOptions { fault: vec![format!("GetPluginInfo:{fault}")], ..full_options() };
        let checked = check(TestHost::with_devices(), options, &[], SHORT_TIMEOUT).await;
        let unusable = checked.expect_err("the plugin cannot be identified");
        assert!(format!("{unusable:?}").starts_with(expected), "{unusable:?}");
    }
}

/// The table contains every RPC.
#[test]
fn every_rpc_has_a_check_that_finds_its_failure() {
    let proto = std::fs::read_to_string("proto/csi/v1/csi.proto").unwrap();
    let lines = proto.lines().map(str::trim_start);
    let rpcs = lines.filter_map(|line| line.strip_prefix("rpc "));
    let mut rpcs: Vec<_> = rpcs
        .filter_map(|rest| rest.split([' ', '(']).next())
        .filter(|rpc| *rpc != "GetPluginInfo")
        .collect();
    let mut listed: Vec<_> = CHECK_OF_RPC.iter().map(|(rpc, _)| *rpc).collect();
    rpcs.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, rpcs);
}

/// A missing capability is no fault: the checks find nothing. The only advice goes to a plugin that
/// never confirms capabilities.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_plugin_with_any_profile_passes() {
    let none = || TestHost::without_devices(FakeMounter::new());
    let unmounted = || {
        let mounter = FakeMounter::new();
        let storage = FakeBlockStorage::with_offline_growth(mounter.clone());
        TestHost { storage, ..TestHost::without_devices(mounter) }
    };
    let with = |change: &dyn Fn(&mut ProfileOptions)| {
        let mut options = ProfileOptions::default();
        change(&mut options);
        options
    };
    let mut kinds = vec![
        (TestHost::with_devices(), ProfileOptions::default()),
        (TestHost::with_devices(), with(&|options| options.attach = true)),
        (TestHost::with_devices(), with(&|options| options.fault = texts(&["*:delay=3ms"]))),
        (TestHost::with_devices(), with(&|options| options.backing = Some("directory".to_owned()))),
        (
            TestHost::with_devices(),
            with(&|options| options.topology = texts(&["t.example/zone=a"])),
        ),
        (unmounted(), ProfileOptions::default()),
        (none(), with(&|options| options.backing = Some("directory".to_owned()))),
    ];
    for names in REMOVED_CAPABILITIES {
        let options = ProfileOptions { without: texts(names), ..full_options() };
        kinds.push((TestHost::with_devices(), options));
    }
    let checked = kinds.into_iter().map(async |(host, options)| {
        let report = check(host, options.clone(), &[], LONG_TIMEOUT).await;
        let report_lines = report_lines(&report.expect("the plugin can be identified"));
        let never_confirms = options.without == ["CONFIRMED"];
        let is_known = |line: &&String| never_confirms && line.starts_with("validate/own: Passed");
        let is_right = match report_lines.first() {
            None => !never_confirms,
            Some(first) => report_lines.len() == 2 && is_known(&first),
        };
        (!is_right).then(|| format!("{options:?}\n  {}", report_lines.join("\n  ")))
    });
    let wrong: Vec<_> = futures_util::stream::iter(checked)
        .buffer_unordered(8)
        .filter_map(async |wrong| wrong)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every capability that can be removed. Capabilities in one group do not hide each other.
const REMOVED_CAPABILITIES: [&[&str]; 7] = [
    &["CONTROLLER_SERVICE"],
    &["NODE_SERVICE"],
    &["CREATE_DELETE_VOLUME"],
    &[
        "CREATE_DELETE_SNAPSHOT",
        "LIST_VOLUMES",
        "LIST_VOLUME_HEALTH",
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

/// The 95 cases of csi-sanity by number (the 96th is disabled upstream): the check that covers the
/// case, the RPC, and the expected code.
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

/// Counts the exchanges of a check with this RPC and code. Several cases may belong to one check.
fn exchanges(report: &Report, id: &str, rpc: &str, code: &str) -> usize {
    let outcomes = report.outcomes.iter();
    let of_check = outcomes.filter(|outcome| outcome.case.id == id);
    let exchanges = of_check.flat_map(|outcome| &outcome.exchanges);
    let is_word = |text: &str, word: &str| {
        let rest = text.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    exchanges.filter(|one| is_word(&one.sent, rpc) && is_word(&one.got, code)).count()
}

/// Every check runs where it can, passes, and covers its cases of csi-sanity.
#[tokio::test(flavor = "multi_thread")]
async fn the_full_plugin_passes_every_check_and_every_case_of_csi_sanity() {
    let report = check(TestHost::with_devices(), full_options(), &[], LONG_TIMEOUT).await;
    let report = report.expect("the plugin can be identified");
    assert_eq!(report_lines(&report), Vec::<String>::new());
    let skipped = report.outcomes.iter().filter_map(|outcome| {
        let is_skipped = matches!(outcome.verdict, Verdict::Skipped(_));
        is_skipped.then_some(outcome.case.id)
    });
    assert_eq!(skipped.collect::<Vec<_>>(), ["manners/log"]);
    let mut missing = vec![];
    for (number, id, rpc, code) in SANITY {
        let alike = SANITY.iter().filter(|row| (row.1, row.2, row.3) == (id, rpc, code));
        let found = exchanges(&report, id, rpc, code);
        if found < alike.count() {
            missing.push(format!("{number}: {id} has {found} of {rpc} with {code}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
