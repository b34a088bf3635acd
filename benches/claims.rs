//! Claims of an agent process against the bare calls of the same plugin, the release of a lost node, and
//! what claims cost while nothing happens.
//!
//! The bare calls are stage, publish, unpublish and unstage over gRPC, so each ratio is independent of the
//! machine. Run it as root in its own mount namespace: `unshare --mount cargo bench --bench claims`.
//! Words after `--` select parts (`rate`, `lost`, `idle`). Nothing is asserted.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a failing benchmark panics, and prints its figures"
)]
#![allow(dead_code, reason = "the support has more than this benchmark needs")]

use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nomad_csi_claims::claim::PluginSteps;
use nomad_csi_claims::state::{State, Table, Topic};
use nomad_csi_model::{AllocId, NodeId};
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{MountRequest, VolumeSubmission};
use nomad_csi_testing::PluginSettings;
use serde_json::json;

#[path = "../tests/support/load.rs"]
mod load;
#[path = "../tests/support/plugin_client.rs"]
mod plugin_client;
#[path = "../tests/support/plugin_process.rs"]
mod plugin_process;
#[path = "../tests/support/wait.rs"]
mod wait;

use load::filled_journal::fill;
use load::{Agent, exchange, milliseconds, request};
use plugin_client::{Client, Publish, mount};
use plugin_process::{PluginProcess, plugin_command, socket_in};

const CLIENTS: [usize; 3] = [1, 8, 64];
/// Claims of each measurement.
const CLAIMS: usize = 640;
const LOST: usize = 1000;
const FILLED: usize = 100_000;
const IDLE_CLAIMS: usize = 500;
const IDLE: Duration = Duration::from_secs(30);
/// The clock ticks per second of the kernel's CPU times.
const TICKS: f64 = 100.0;

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = |part: &str| {
        let mut words = parts.iter().filter(|word| !word.starts_with("--"));
        words.clone().next().is_none() || words.any(|word| word == part)
    };
    if is_chosen("rate") {
        rate();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if is_chosen("lost") {
        runtime.block_on(lost());
    }
    if is_chosen("idle") {
        idle();
    }
}

/// The rate of claims with their releases, and the median time to a target path.
struct Rate {
    per_second: f64,
    median: Duration,
}

impl Rate {
    fn of(mut times: Vec<Duration>, begun: Instant) -> Self {
        let per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
        times.sort_unstable();
        let median = times[times.len() / 2];
        Self { per_second, median }
    }
}

fn rate() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let data = tempfile::tempdir().unwrap();
    let agent = Agent::start_with(data.path(), &["--limit", "connections-per-address=0"]);
    create(&agent, CLIENTS[2]);
    let bare = tempfile::tempdir().unwrap();
    let command = plugin_command(bare.path(), &[]);
    let plugin =
        runtime.block_on(PluginProcess::run(command, bare.path(), &socket_in(bare.path())));
    let ids = runtime.block_on(created(plugin.client.clone()));
    println!("claims and releases per second, and the median from claim to target path");
    for clients in CLIENTS {
        let claimed = claim_and_release(&agent, clients);
        let floor = runtime.block_on(bare_calls(&plugin.client, &ids[..clients], bare.path()));
        println!(
            "  {clients:2} clients: {:6.0}/s  {:7.2} ms   bare calls {:6.0}/s  {:7.2} ms   ratio {:.2}, {:.2}",
            claimed.per_second,
            milliseconds(claimed.median),
            floor.per_second,
            milliseconds(floor.median),
            claimed.per_second / floor.per_second,
            claimed.median.as_secs_f64() / floor.median.as_secs_f64(),
        );
    }
}

fn create(agent: &Agent, volumes: usize) {
    let mut stream = TcpStream::connect(agent.address).unwrap();
    for at in 0..volumes {
        let volume = json!({
            "ID": format!("c{at}"),
            "Name": format!("c{at}"),
            "PluginID": "hostpath",
            "RequestedCapabilities": [{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}],
        });
        let body = json!({ "Volumes": [volume] });
        let path = format!("/v1/volume/csi/c{at}/create");
        exchange(&mut stream, &request("PUT", &path, Some(&body)));
    }
}

fn claim(stream: &mut TcpStream, volume: usize) {
    let path = format!("/v1/volume/csi/c{volume}/claim");
    let body = json!({"AllocID": format!("a{volume}")});
    exchange(stream, &request("PUT", &path, Some(&body)));
}

fn release(stream: &mut TcpStream, volume: usize) {
    let path = format!("/v1/volume/csi/c{volume}/claim?alloc=a{volume}");
    exchange(stream, &request("DELETE", &path, None));
}

/// Each client claims and releases a volume of its own.
fn claim_and_release(agent: &Agent, clients: usize) -> Rate {
    let begun = Instant::now();
    let client = |volume: usize| {
        let mut stream = TcpStream::connect(agent.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let once = |_| {
            let sent = Instant::now();
            claim(&mut stream, volume);
            let time = sent.elapsed();
            release(&mut stream, volume);
            time
        };
        (0..CLAIMS / clients).map(once).collect::<Vec<_>>()
    };
    let times = std::thread::scope(|scope| {
        let start = |volume| scope.spawn(move || client(volume));
        let running: Vec<_> = (0..clients).map(start).collect();
        let ended = running.into_iter().flat_map(|client| client.join().unwrap());
        ended.collect()
    });
    Rate::of(times, begun)
}

async fn created(mut client: Client) -> Vec<String> {
    let mut ids = vec![];
    for at in 0..CLIENTS[2] {
        ids.push(client.create(&format!("c{at}")).await);
    }
    ids
}

/// The calls that the agent makes for the same claims, without the agent.
async fn bare_calls(client: &Client, ids: &[String], directory: &Path) -> Rate {
    let begun = Instant::now();
    let running = ids.iter().map(|id| {
        let (client, id, directory) = (client.clone(), id.clone(), directory.join(id));
        tokio::spawn(bare_client(client, id, directory, CLAIMS / ids.len()))
    });
    let running: Vec<_> = running.collect();
    let mut times = vec![];
    for client in running {
        times.extend(client.await.unwrap());
    }
    Rate::of(times, begun)
}

async fn bare_client(
    mut client: Client,
    id: String,
    directory: std::path::PathBuf,
    rounds: usize,
) -> Vec<Duration> {
    let (staging, target) = (directory.join("staging"), directory.join("target"));
    std::fs::create_dir_all(&staging).unwrap();
    let capability = mount(Mode::SingleNodeWriter, &[]);
    let mut times = vec![];
    for _ in 0..rounds {
        let sent = Instant::now();
        client.stage(&id, &staging, capability.clone()).await.unwrap();
        let publish = Publish {
            id: &id,
            staging: &staging,
            target: &target,
            capability: capability.clone(),
            read_only: false,
        };
        client.publish(publish).await.unwrap();
        times.push(sent.elapsed());
        client.unpublish(&id, &target).await.unwrap();
        client.unstage(&id, &staging).await.unwrap();
    }
    times
}

/// In process with the fake plugin: what the server does when a node with many claims is lost.
async fn lost() {
    let mut settings = PluginSettings::default();
    let steps = PluginSteps { attach: true, stage: true };
    settings.controller.as_mut().unwrap().publish_unpublish_volume = steps.attach;
    settings.node.as_mut().unwrap().stage_unstage_volume = steps.stage;
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.record_start().await;
    agent.add_node().await;
    let node = NodeId::new(FakeAgent::SECOND_NODE);
    let begun = Instant::now();
    for at in 0..LOST {
        let request = FakeAgent::request(&format!("v{at}"));
        let problems = vec![];
        let submission = VolumeSubmission { request, problems };
        agent.volumes.create(vec![submission]).await.unwrap();
        let mount = MountRequest {
            volume: FakeAgent::key(&format!("v{at}")),
            alloc: AllocId::new(format!("a{at}")),
            node: Some(node.clone()),
            alias: None,
            read_only: false,
            access_mode: None,
            attachment_mode: None,
            mount_options: None,
        };
        let claimed = agent.services.claims.claim(&mount, IDLE).await.unwrap();
        assert!(claimed.claim.unwrap().target.is_some());
    }
    println!("{LOST} volumes created and claimed in {:.2?}", begun.elapsed());
    let begun = Instant::now();
    agent.backend.lose_node(FakeAgent::second_external_node());
    agent.services.claims.fence(&node, None).await.unwrap();
    let topics = |_: &State| vec![Topic::all(Table::Claims)];
    let is_empty = |state: &State| state.all_claims().len() == 0;
    agent.cell.wait_until(topics, is_empty).await.unwrap();
    println!("  released after their node was declared lost in {:.2?}", begun.elapsed());
}

fn idle() {
    let data = tempfile::tempdir().unwrap();
    fill(data.path(), FILLED);
    let agent = Agent::start(data.path());
    let report = |what: &str| {
        println!("  {what:26} {}", memory(&agent));
    };
    println!("{FILLED} volumes and {IDLE_CLAIMS} claims");
    report("before the claims:");
    create(&agent, IDLE_CLAIMS);
    let mut stream = TcpStream::connect(agent.address).unwrap();
    (0..IDLE_CLAIMS).for_each(|at| claim(&mut stream, at));
    report("with the claims:");
    std::thread::sleep(Duration::from_secs(5));
    let before = processor_time(&agent);
    std::thread::sleep(IDLE);
    let used = processor_time(&agent) - before;
    report("idle:");
    println!("  processor time in {IDLE:?}: {used:.2} s");
    // The agent closes a connection that is idle for so long.
    let mut stream = TcpStream::connect(agent.address).unwrap();
    (0..IDLE_CLAIMS).for_each(|at| release(&mut stream, at));
}

fn about(agent: &Agent, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{}/{file}", agent.child.id())).unwrap()
}

fn memory(agent: &Agent) -> String {
    let status = about(agent, "status");
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    value("VmRSS:").unwrap().trim().to_owned()
}

/// User and system time of the agent in seconds.
fn processor_time(agent: &Agent) -> f64 {
    let stat = about(agent, "stat");
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks = fields.skip(11).take(2).map(|ticks| ticks.parse::<u32>().unwrap());
    f64::from(ticks.sum::<u32>()) / TICKS
}
