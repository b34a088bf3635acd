//! What a plan of a set reads: the volumes that may have changed, and no others.
//!
//! The client is the program, and the agent is real with the strict fake plugin. A proxy counts the
//! requests.

use std::fmt::Write as _;

use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, ControllerCapabilities, VolumeRequest,
};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::http::{HttpSettings, operator_router};
use nomad_csi_testing::PluginSettings;

use crate::support::client_process::{ProcessResult, run_client};
use crate::support::faulty_proxy::FaultyProxy;

/// Enough that a list is cheaper than the reads.
const VOLUMES: usize = 60;

struct TestBed {
    agent: FakeAgent,
    proxy: FaultyProxy,
    directory: tempfile::TempDir,
}

impl TestBed {
    async fn start() -> Self {
        let agent = FakeAgent::start(PluginSettings {
            controller: Some(ControllerCapabilities {
                create_delete_volume: true,
                ..ControllerCapabilities::default()
            }),
            ..PluginSettings::default()
        });
        let agent = agent.await.unwrap();
        let router = operator_router(agent.services.clone(), HttpSettings::default()).await;
        let test_bed = Self {
            proxy: FaultyProxy::start(router).await,
            agent,
            directory: tempfile::tempdir().unwrap(),
        };
        test_bed.write("");
        test_bed
    }

    /// Writes the files. Volume `v7` has this line, too.
    fn write(&self, line_of_v7: &str) {
        let mut text = String::new();
        for at in 0..VOLUMES {
            let line = if at == 7 { line_of_v7 } else { "" };
            write!(
                text,
                r#"
volume "v{at}" {{
  type      = "csi"
  name      = "v{at}"
  plugin_id = "fake"
  capability {{
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }}
  {line}
}}
"#
            )
            .unwrap();
        }
        std::fs::write(self.directory.path().join("volumes.hcl"), text).unwrap();
    }

    async fn run(&self, arguments: &[&str]) -> ProcessResult {
        let kill = self.proxy.inject(None);
        run_client(self.proxy.url(), self.directory.path(), arguments, &kill).await
    }

    /// Plans the set, and returns the output and the volumes that were read.
    async fn plan(&self, arguments: &[&str]) -> (ProcessResult, Vec<String>) {
        let plan = ["plan", "volumes.hcl", "--no-provider"];
        let planned = self.run(&[&plan[..], arguments].concat()).await;
        let requests = self.proxy.requests();
        let volume = |line: &String| {
            let rest = line.strip_prefix("GET /v1/volume/csi/")?;
            Some(rest.split('?').next()?.to_owned())
        };
        (planned, requests.iter().filter_map(volume).collect())
    }

    /// Applies the set, and returns the shards of its ledger that were written.
    async fn apply(&self) -> Vec<String> {
        let apply = ["apply", "volumes.hcl", "--set", "web", "--yes"];
        let applied = self.run(&apply).await;
        assert_eq!(applied.code, Some(0), "{}", applied.output);
        let requests = self.proxy.requests();
        let written = requests.iter().filter_map(|line| {
            let rest = line.strip_prefix("PUT /v1/var/nomad-csi/sets/web/")?;
            Some(rest.split('?').next()?.to_owned())
        });
        written.filter(|shard| shard != "lock").collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_reads_what_may_have_changed() {
    let test_bed = TestBed::start().await;
    test_bed.apply().await;
    let set = ["--set", "web"];
    let (unchanged, read) = test_bed.plan(&set).await;
    assert_eq!((unchanged.code, &*read), (Some(0), &[][..]), "{}", unchanged.output);
    let (refreshed, read) = test_bed.plan(&["--set", "web", "--refresh"]).await;
    assert_eq!((refreshed.code, read.len()), (Some(0), VOLUMES));
    assert_eq!(refreshed.output, unchanged.output);
    let (without_set, read) = test_bed.plan(&[]).await;
    assert_eq!((without_set.code, read.len()), (Some(0), VOLUMES));

    // The file of one volume changes.
    test_bed.write(r#"parameters { tier = "fast" }"#);
    let (changed, read) = test_bed.plan(&set).await;
    assert_eq!(read, ["v7"], "{}", changed.output);
    test_bed.write("");

    // Another client changes one volume and removes another one.
    let request = VolumeRequest {
        name: Some("v3".to_owned()),
        capabilities: vec![Capability {
            access_mode: AccessMode::MultiNodeReaderOnly,
            attachment_mode: AttachmentMode::FileSystem,
        }],
        ..FakeAgent::request("v3")
    };
    test_bed.agent.volumes.register(vec![request.into()]).await.unwrap();
    let key = FakeAgent::key("v5");
    test_bed.agent.volumes.deregister(key, false).await.unwrap();
    let (planned, mut read) = test_bed.plan(&set).await;
    read.sort();
    assert_eq!(
        (planned.code, &*read),
        (Some(2), &["v3".to_owned(), "v5".to_owned()][..]),
        "{}",
        planned.output
    );
    for volume in ["v3", "v5"] {
        assert!(planned.output.contains(volume), "{}", planned.output);
    }
}

/// The ledger has noted within a day that the volumes are as they were applied.
#[tokio::test(flavor = "multi_thread")]
async fn an_apply_of_unchanged_volumes_writes_no_ledger() {
    let test_bed = TestBed::start().await;
    assert!(!test_bed.apply().await.is_empty());
    assert_eq!(test_bed.apply().await, [""; 0]);
    test_bed.write("capacity_max = \"1GiB\"");
    assert_eq!(test_bed.apply().await.first().unwrap(), "head");
    assert_eq!(test_bed.apply().await, [""; 0]);
}

/// A ledger in a file may belong to another server, whose indexes mean nothing here.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_in_a_file_has_every_volume_read() {
    let test_bed = TestBed::start().await;
    let ledger = ["--set", "web", "--ledger", "file:ledger.json"];
    let apply = ["apply", "volumes.hcl", "--yes"];
    let applied = test_bed.run(&[&apply[..], &ledger].concat()).await;
    assert_eq!(applied.code, Some(0), "{}", applied.output);
    let (planned, read) = test_bed.plan(&ledger).await;
    assert_eq!((planned.code, read.len()), (Some(0), VOLUMES), "{}", planned.output);
}
