//! Injects every fault into every request of an apply, and checks the result of a second apply.
//!
//! The first apply may fail, but must not report a success that it did not reach. The second apply
//! must succeed: one provider volume for each registration, none left over or created twice (W05),
//! exactly the volumes of the set in its ledger, no open intent, and an empty plan afterwards. The
//! client is a process that is killed with `kill -9`. The agent is real and uses the strict fake
//! plugin.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use nomad_csi_claims::state::{Phase, violations};
use nomad_csi_client::nomad::{ClientSettings, NomadClient, NomadLedger};
use nomad_csi_client::ports::Ledger as _;
use nomad_csi_client::reconcile::SetLedger;
use nomad_csi_model::{
    Bytes, CapacityRange, ControllerCapabilities, ExternalId, Namespace, SetName, VolumeRequest,
};
use nomad_csi_plan::{DataIdentity, LedgerKey, LedgerSet, Ownership, RecordedData};
use nomad_csi_ports::RandomIds;
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::http::{HttpSettings, operator_router};
use nomad_csi_testing::PluginSettings;

use crate::support::client_process::{ProcessResult, run_client};
use crate::support::faulty_proxy::{FaultyProxy, RequestFault, RequestName};

/// The number of concurrent client processes, which mostly wait.
const CONCURRENCY: usize = 16;
/// Longer than the lock of a killed client lives.
const LOCK_EXPIRY: Duration = Duration::from_secs(60);

/// The volumes before an apply, its specification and the expected result.
struct Scenario {
    name: &'static str,
    /// The volumes that exist before.
    existing: &'static [&'static str],
    /// An existing volume that the set owns and no file names; its data stays.
    pruned: Option<&'static str>,
    /// What happened to volume `old`, which the set owns then.
    lost: Option<Lost>,
    specification: &'static str,
    /// The additional arguments of the first and the second apply.
    arguments: [&'static [&'static str]; 2],
    /// The registered volumes afterwards.
    expected: &'static [&'static str],
    /// The requests that change a volume, without a fault.
    writes: &'static [&'static str],
    /// The size of volume `old` afterwards, in bytes; 0 if it is not known.
    size: u64,
}

/// What happened to a volume of the set before the apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// Its registration was removed, and the provider lists its data.
    Listed,
    /// Its registration was removed, and the plugin does not list volumes.
    Unlisted,
    /// Other data was registered under its name, and the provider lists the old data.
    Exchanged,
}

const OLD: &str = r#"
volume "old" {
  type         = "csi"
  name         = "old-name"
  plugin_id    = "fake"
  capacity_min = "1MiB"
  capacity_max = "4MiB"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#;

const REGISTERING_AGAIN: Scenario = Scenario {
    name: "register again",
    existing: &["old"],
    pruned: None,
    lost: Some(Lost::Listed),
    specification: OLD,
    arguments: [&[], &[]],
    expected: &["old"],
    writes: &["PUT /v1/volume/csi/old?namespace=default"],
    size: 0,
};

const REGISTERING_IN_PLACE: Scenario = Scenario {
    name: "register again in the place of other data",
    lost: Some(Lost::Exchanged),
    arguments: [&["--approve", "needs-downtime:old"], &["--approve", "needs-downtime:old"]],
    writes: &[
        "DELETE /v1/volume/csi/old?force=false&namespace=default",
        "PUT /v1/volume/csi/old?namespace=default",
    ],
    ..REGISTERING_AGAIN
};

const RECREATING: Scenario = Scenario {
    name: "recreate, empty",
    lost: Some(Lost::Unlisted),
    arguments: [&["--approve", "destroys-data:old"], &["--approve", "destroys-data:old"]],
    writes: &["PUT /v1/volume/csi/old/create?namespace=default"],
    size: 1 << 20,
    ..REGISTERING_AGAIN
};

const GROWING: Scenario = Scenario {
    name: "create, register, expand",
    existing: &["old"],
    pruned: None,
    lost: None,
    specification: r#"
volume "new" {
  type      = "csi"
  name      = "new"
  plugin_id = "fake"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
volume "found" {
  type        = "csi"
  name        = "found"
  plugin_id   = "fake"
  external_id = "vol-1"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
volume "old" {
  type         = "csi"
  name         = "old-name"
  plugin_id    = "fake"
  capacity_min = "2MiB"
  capacity_max = "4MiB"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#,
    arguments: [&[], &[]],
    expected: &["found", "new", "old"],
    writes: &[
        "PUT /v1/volume/csi/new/create?namespace=default",
        "PUT /v1/volume/csi/found?namespace=default",
        "PUT /v1/volume/csi/old?namespace=default",
    ],
    size: 2 << 20,
};

const REPLACING: Scenario = Scenario {
    name: "replace after a snapshot, delete, prune",
    existing: &["dropped", "old", "unwanted"],
    pruned: Some("dropped"),
    lost: None,
    specification: OLD,
    arguments: [
        &[
            "--replace",
            "old",
            "--snapshot-first",
            "--delete-data",
            "unwanted",
            "--prune",
            "--max-risk",
            "destroys-data",
        ],
        &["--delete-data", "unwanted", "--prune", "--max-risk", "destroys-data"],
    ],
    expected: &["old"],
    writes: &[
        "PUT /v1/volumes/snapshot?namespace=default",
        "DELETE /v1/volume/csi/old/delete?namespace=default",
        "PUT /v1/volume/csi/old/create?namespace=default",
        "DELETE /v1/volume/csi/dropped?force=false&namespace=default",
        "DELETE /v1/volume/csi/unwanted/delete?namespace=default",
    ],
    size: 1 << 20,
};

/// The agent, the proxy in front of it and the directory of the client.
struct TestBed {
    agent: FakeAgent,
    proxy: FaultyProxy,
    directory: tempfile::TempDir,
    /// The provider volume that stays without a registration.
    left: Option<String>,
    /// The data that volume `old` has afterwards, as before.
    kept: Option<ExternalId>,
}

impl TestBed {
    async fn start(scenario: &Scenario) -> Self {
        let agent = FakeAgent::start(PluginSettings {
            controller: Some(ControllerCapabilities {
                create_delete_volume: true,
                create_delete_snapshot: true,
                expand_volume: true,
                list_volumes: matches!(scenario.lost, Some(Lost::Listed | Lost::Exchanged)),
                ..ControllerCapabilities::default()
            }),
            ..PluginSettings::default()
        });
        let agent = agent.await.unwrap();
        for id in scenario.existing {
            let request = VolumeRequest {
                capacity: CapacityRange {
                    min: Bytes::new(1 << 20).unwrap(),
                    max: Bytes::new(4 << 20).unwrap(),
                },
                ..FakeAgent::request(id)
            };
            agent.volumes.create(vec![request.into()]).await.unwrap();
        }
        let found = scenario.expected.contains(&"found");
        if found {
            let id = ExternalId::new("vol-1");
            agent.backend.add_volume(id, Default::default());
        }
        let proxy = FaultyProxy::start(
            operator_router(agent.services.clone(), HttpSettings::default()).await,
        )
        .await;
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("volumes.hcl"), scenario.specification).unwrap();
        let mut test_bed = Self { agent, proxy, directory, left: None, kept: None };
        if let Some(id) = scenario.pruned {
            let id = test_bed.own(id).await;
            test_bed.left = Some(id.to_string());
        }
        if let Some(lost) = scenario.lost {
            let id = test_bed.own("old").await;
            test_bed.lose(lost, id).await;
        }
        test_bed
    }

    /// Records that the set owns a volume with its data. Returns its external ID.
    async fn own(&mut self, id: &str) -> ExternalId {
        let name = SetName::parse("web").unwrap();
        let ledger = Arc::new(self.ledger());
        let opened = SetLedger::open(ledger, name, Arc::new(RandomIds)).await;
        let key = FakeAgent::key(id);
        let state = self.agent.state();
        let external = state.record(&key).unwrap().provided.external_id.clone();
        let data = DataIdentity {
            plugin_id: FakeAgent::PLUGIN.into(),
            external_id: external.clone().unwrap(),
        };
        let ownership = Ownership { data: RecordedData::Stored(data), ..Ownership::default() };
        let own = |set: &mut LedgerSet| set.own(key.clone(), ownership.clone());
        opened.unwrap().update(own).await.unwrap();
        external.unwrap()
    }

    /// Removes the registration of volume `old`, and registers other data under its name.
    async fn lose(&mut self, lost: Lost, id: ExternalId) {
        let key = FakeAgent::key("old");
        self.agent.volumes.deregister(key, false).await.unwrap();
        match lost {
            Lost::Listed => self.kept = Some(id),
            Lost::Unlisted => self.left = Some(id.to_string()),
            Lost::Exchanged => {
                self.kept = Some(id);
                let other = ExternalId::new("vol-1");
                self.agent.backend.add_volume(other.clone(), Default::default());
                let request =
                    VolumeRequest { external_id: Some(other), ..FakeAgent::request("old") };
                self.agent.volumes.register(vec![request.into()]).await.unwrap();
                self.left = Some("vol-1".to_owned());
            }
        }
    }

    fn ledger(&self) -> NomadLedger {
        let client = NomadClient::new(&ClientSettings::new(self.proxy.url())).unwrap();
        client.ledger(Namespace::default())
    }

    async fn client(
        &self,
        arguments: &[&str],
        fault: Option<(RequestName, RequestFault)>,
    ) -> ProcessResult {
        let directory: &Path = self.directory.path();
        let kill = self.proxy.inject(fault);
        run_client(self.proxy.url(), directory, arguments, &kill).await
    }

    async fn apply(
        &self,
        scenario: &Scenario,
        time: usize,
        fault: Option<(RequestName, RequestFault)>,
    ) -> ProcessResult {
        let apply = ["apply", "-f", "volumes.hcl", "--set", "web", "--yes", "--parallelism", "1"];
        let arguments = [&apply[..], scenario.arguments[time]].concat();
        self.client(&arguments, fault).await
    }

    /// Returns the errors in the ledger.
    async fn ledger_errors(&self, scenario: &Scenario) -> Vec<String> {
        let name = SetName::parse("web").unwrap();
        let stored = self.ledger().read(&name).await;
        let set = LedgerSet::read(name, &stored.unwrap(), LedgerKey::new([1; 32])).unwrap();
        let owned: Vec<_> = set.owned().map(|(key, _)| key.id.as_str()).collect();
        let open = set.intents().map(|(key, intent)| format!("{key}: {intent:?}"));
        let open: Vec<_> = open.collect();
        let mut errors = vec![];
        if owned != scenario.expected {
            errors.push(format!("owned: {owned:?}"));
        }
        if !open.is_empty() {
            errors.push(format!("open intents: {open:?}"));
        }
        let state = self.agent.state();
        for (key, owned) in set.owned() {
            let now = state.record(key).map(|record| record.provided.external_id.clone());
            let recorded = owned.data.identity().map(|data| data.external_id.clone());
            if now != Some(recorded.clone()) {
                errors.push(format!("{key}: data {now:?}, recorded {recorded:?}"));
            }
        }
        errors
    }

    /// Returns the errors in the agent and at the provider.
    fn errors(&self, scenario: &Scenario) -> Vec<String> {
        let state = self.agent.state();
        let mut errors = violations(&state);
        let ids: Vec<_> = state.records().map(|record| record.key().id.as_str()).collect();
        if ids != scenario.expected {
            errors.push(format!("registered: {ids:?}"));
        }
        if state.records().any(|record| record.phase != Phase::Registered) {
            errors.push("a volume is in an intermediate phase".to_owned());
        }
        let remote = |id: Option<&ExternalId>| id.map(ToString::to_string);
        let registered: BTreeSet<_> = state
            .records()
            .filter_map(|record| remote(record.provided.external_id.as_ref()))
            .chain(self.left.clone())
            .collect();
        let provided = self.agent.backend.volumes();
        let provided: BTreeSet<_> = provided.iter().map(|v| v.external_id.to_string()).collect();
        let expected = scenario.expected.len() + usize::from(self.left.is_some());
        if registered != provided || provided.len() != expected {
            errors.push(format!("registered: {registered:?}; at the provider: {provided:?}"));
        }
        let old = state.record(&FakeAgent::key("old"));
        let external = old.and_then(|old| old.provided.external_id.as_ref());
        if self.kept.is_some() && external != self.kept.as_ref() {
            errors.push(format!("data of `old`: {external:?}, before: {:?}", self.kept));
        }
        let snapshots = self.agent.backend.snapshots();
        if snapshots.len() > 1 {
            errors.push(format!("snapshots: {snapshots:?}"));
        }
        let sizes = state.records().filter(|record| record.key().id.as_str() == "old");
        let sizes: Vec<_> = sizes.map(|record| record.provided.capacity.get()).collect();
        if sizes != [scenario.size] {
            errors.push(format!("sizes of `old`: {sizes:?}"));
        }
        errors
    }
}

/// Returns the requests of an apply without a fault.
async fn requests(scenario: &Scenario) -> Vec<String> {
    let test_bed = TestBed::start(scenario).await;
    let ended = test_bed.apply(scenario, 0, None).await;
    assert_eq!(ended.code, Some(0), "{}: {}", scenario.name, ended.output);
    let requests = test_bed.proxy.requests();
    assert_eq!(test_bed.errors(scenario), Vec::<String>::new(), "{}", scenario.name);
    let is_write = |line: &&String| !line.starts_with("GET") && line.contains("/v1/volume");
    let writes = requests.iter().filter(is_write);
    assert_eq!(writes.collect::<Vec<_>>(), scenario.writes, "{}", scenario.name);
    requests
}

/// Returns the errors after a fault in this request.
async fn errors_after_fault(
    scenario: &Scenario,
    request: RequestName,
    fault: RequestFault,
) -> Vec<String> {
    let test_bed = TestBed::start(scenario).await;
    // The ledger may write the same with a request fewer.
    let may_lack = request.line.contains("/v1/var/");
    let first = test_bed.apply(scenario, 0, Some((request, fault))).await;
    let was_disturbed = test_bed.proxy.was_disturbed();
    test_bed.proxy.deliver_delayed().await;
    test_bed.agent.clock.advance(LOCK_EXPIRY);
    let mut errors = vec![];
    if !was_disturbed && !may_lack {
        errors.push("the request was not sent".to_owned());
    }
    let dies = was_disturbed
        && matches!(fault, RequestFault::ClientKilledBefore | RequestFault::ClientKilledAfter);
    if dies != first.code.is_none() {
        errors.push(format!("exit after the kill: {:?}", first.code));
    }
    if first.code == Some(0) {
        errors.extend(test_bed.errors(scenario));
    }
    let second = test_bed.apply(scenario, 1, None).await;
    if second.code != Some(0) {
        errors.push(format!("the second apply: {:?}: {}", second.code, second.output));
    }
    errors.extend(test_bed.errors(scenario));
    errors.extend(test_bed.ledger_errors(scenario).await);
    let plan = ["plan", "-f", "volumes.hcl", "--set", "web"];
    let plan = test_bed.client(&plan, None).await;
    if plan.code != Some(0) {
        errors.push(format!("the plan: {:?}: {}", plan.code, plan.output));
    }
    if !errors.is_empty() {
        errors.push(format!("the first apply: {:?}: {}", first.code, first.output));
    }
    errors
}

async fn inject_every_fault(scenario: &Scenario) {
    let requests = requests(scenario).await;
    let names = RequestName::of_all(&requests);
    let cases = names.iter().flat_map(|name| {
        let faults = RequestFault::applicable_to(&name.line).iter();
        faults.map(move |fault| (name.clone(), *fault))
    });
    let outcomes = stream::iter(cases)
        .map(async |(name, fault)| {
            (format!("{fault:?} of {name:?}"), errors_after_fault(scenario, name, fault).await)
        })
        .buffer_unordered(CONCURRENCY);
    let bad: Vec<_> =
        outcomes.filter(|(_, errors)| std::future::ready(!errors.is_empty())).collect().await;
    assert!(
        bad.is_empty(),
        "{}: {} cases fail: {bad:#?}\nall requests: {requests:#?}",
        scenario.name,
        bad.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_leaves_a_duplicate_or_orphaned_volume() {
    inject_every_fault(&GROWING).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_prevents_removals_and_replacements() {
    inject_every_fault(&REPLACING).await;
}

/// The data is registered once, and is the data from before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_registering_again_loses_or_exchanges_data() {
    inject_every_fault(&REGISTERING_AGAIN).await;
    inject_every_fault(&REGISTERING_IN_PLACE).await;
}

/// The new volume is created once, and the set records its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_recreating_makes_two_volumes_or_records_the_old_data() {
    inject_every_fault(&RECREATING).await;
}
