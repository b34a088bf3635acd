//! Measures the start of the program, plans of 10,000 volumes without and with a set, the creation of 1,000
//! volumes, and what the ledger of a set costs.
//!
//! Each result is compared with a baseline. The baseline of a plan is the same GET requests over as
//! many connections, with the program's HTTP library and with plain sockets. The baseline of an apply
//! is the same volumes created by direct calls of the plugin. That of a ledger is the same apply without
//! one. No result is asserted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark panics on failure and prints its results"
)]

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use nomad_csi_proto as proto;

#[path = "../tests/support/load.rs"]
#[expect(dead_code, reason = "the agent's benchmark uses the rest")]
mod load;
#[path = "../tests/support/plugin_client.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod plugin_client;
#[path = "../tests/support/plugin_process.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod plugin_process;
#[path = "../tests/support/wait.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod wait;

use load::filled_journal::fill;
use load::{Agent, milliseconds, request, run};
use plugin_client::named;
use plugin_process::{PluginProcess, plugin_command, socket_in};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nomad-csi");
const PLANNED: usize = 10_000;
const CREATED: usize = 1_000;
/// The sizes of sets with a ledger.
const OWNED: [usize; 2] = [2_000, 20_000];
/// The program's default.
const PARALLELISM: usize = 16;

fn main() {
    start_up();
    plan();
    plan_unchanged_set();
    apply();
    OWNED.into_iter().for_each(ledger);
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn start_up() {
    let mut times: Vec<Duration> =
        (0..50).map(|_| finish(Command::new(PROGRAM).arg("--version")).time).collect();
    times.sort_unstable();
    println!(
        "--version: best {:.1} ms, median {:.1} ms",
        milliseconds(times[0]),
        milliseconds(times[times.len() / 2])
    );
}

/// Plans unchanged volumes: each one is read and compared, and little is printed.
///
/// The volumes are only in the journal, so a plan that asked the plugin would report their data as gone.
fn plan() {
    let data = directory();
    fill(data.path(), PLANNED);
    let agent = Agent::start(data.path());
    let file = data.path().join("volumes.hcl");
    std::fs::write(&file, specification(PLANNED, PLANNED_VOLUME)).unwrap();
    for _ in 0..3 {
        let sockets = bare_sockets(&agent);
        let library = bare_library(&agent);
        let Used { time, memory, .. } =
            finish(client(&agent).args(["plan", "--no-provider", "-f"]).arg(&file));
        let ratio = |floor: Duration| time.as_secs_f64() / floor.as_secs_f64();
        println!(
            "plan of {PLANNED}: {:.0} ms, {memory}; bare GETs with the same library {:.0} ms, ratio {:.2}; with sockets {:.0} ms, ratio {:.2}",
            milliseconds(time),
            milliseconds(library),
            ratio(library),
            milliseconds(sockets),
            ratio(sockets)
        );
    }
    let Used { time, .. } = finish(Command::new(PROGRAM).args(["validate", "-f"]).arg(&file));
    println!("  of that, reading and validating the file: {:.0} ms", milliseconds(time));
}

/// Plans a set of which nothing has changed: its volumes are listed, and none is read.
fn plan_unchanged_set() {
    let data = directory();
    fill(data.path(), PLANNED);
    let agent = Agent::start(data.path());
    let file = data.path().join("volumes.hcl");
    std::fs::write(&file, specification(PLANNED, PLANNED_VOLUME)).unwrap();
    let set = ["--set", "bench", "--no-provider"];
    let mut apply = client(&agent);
    finish(apply.args(["apply", "--yes", "-f"]).arg(&file).args(set));
    for _ in 0..3 {
        let list = bare_list(&agent);
        let mut plan = client(&agent);
        let Used { time, processor, memory } =
            finish(plan.args(["plan", "-f"]).arg(&file).args(set));
        println!(
            "plan of an unchanged set of {PLANNED}: {:.0} ms, processor time {:.0} ms, {memory}; bare list {:.0} ms, ratio {:.2}",
            milliseconds(time),
            milliseconds(processor),
            milliseconds(list),
            time.as_secs_f64() / list.as_secs_f64()
        );
    }
}

/// Reads every page of the list of volumes, and ignores what they contain.
fn bare_list(agent: &Agent) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let http = library();
        let started = Instant::now();
        let list =
            format!("http://{}/v1/volumes?type=csi&namespace=default&per_page=2000", agent.address);
        let mut next = String::new();
        loop {
            let page = http.get(format!("{list}{next}")).send().await.unwrap();
            let token = page.headers().get("x-nomad-nexttoken");
            let token =
                token.and_then(|token| Some(format!("&next_token={}", token.to_str().ok()?)));
            assert!(page.bytes().await.unwrap().len() > PLANNED);
            match token {
                Some(token) => next = token,
                None => return started.elapsed(),
            }
        }
    })
}

fn path_of(at: usize) -> String {
    format!("/v1/volume/csi/v{at}?namespace=default")
}

/// Uses one thread per connection and parses only the end of each response.
fn bare_sockets(agent: &Agent) -> Duration {
    let get = |at: usize| request("GET", &path_of(at), None);
    let started = Instant::now();
    run(agent.address, PARALLELISM, PLANNED, &get);
    started.elapsed()
}

/// Uses the program's HTTP library and ignores the responses.
fn bare_library(agent: &Agent) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let http = library();
        let started = Instant::now();
        let gets = (0..PLANNED).map(|at| {
            let get = http.get(format!("http://{}{}", agent.address, path_of(at)));
            async move { get.send().await.unwrap().bytes().await.unwrap().len() }
        });
        let lengths = stream::iter(gets).buffer_unordered(PARALLELISM);
        let received: usize = lengths.fold(0, async |sum, length| sum + length).await;
        assert!(received > PLANNED, "the responses contain no volumes");
        started.elapsed()
    })
}

/// The program's HTTP library.
fn library() -> reqwest::Client {
    let builder = reqwest::Client::builder().tls_backend_preconfigured(no_tls());
    builder.gzip(true).build().unwrap()
}

/// The library requires a TLS configuration even for plain HTTP.
fn no_tls() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

fn apply() {
    let data = directory();
    let agent = Agent::start(data.path());
    let file = data.path().join("volumes.hcl");
    std::fs::write(&file, specification(CREATED, CREATED_VOLUME)).unwrap();
    let Used { time, memory, .. } =
        finish(client(&agent).args(["apply", "--yes", "-f"]).arg(&file));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let floor = runtime.block_on(plugin_alone());
    println!(
        "apply of {CREATED}: {:.0} ms, {memory}; the plugin alone {:.0} ms; ratio {:.2}",
        milliseconds(time),
        milliseconds(floor),
        time.as_secs_f64() / floor.as_secs_f64()
    );
}

/// Creates the volumes of a set with its ledger and without one.
fn ledger(number: usize) {
    let [with, without] = [None, Some("none")].map(|ledger| {
        let data = directory();
        let agent = Agent::start(data.path());
        let file = data.path().join("volumes.hcl");
        std::fs::write(&file, specification(number, CREATED_VOLUME)).unwrap();
        let mut command = client(&agent);
        command.args(["apply", "--yes", "-f"]).arg(&file);
        match ledger {
            None => command.args(["--set", "bench"]),
            Some(ledger) => command.args(["--ledger", ledger]),
        };
        finish(&mut command).processor
    });
    println!(
        "apply of a set of {number}: processor time {:.0} ms; without a ledger {:.0} ms; ratio {:.2}",
        milliseconds(with),
        milliseconds(without),
        with.as_secs_f64() / without.as_secs_f64()
    );
}

/// Creates the same volumes with the same number of concurrent calls.
async fn plugin_alone() -> Duration {
    let data = directory();
    let command = plugin_command(data.path(), &[]);
    let plugin = PluginProcess::run(command, data.path(), &socket_in(data.path())).await;
    let started = Instant::now();
    let callers = (0..PARALLELISM).map(|caller| {
        let mut client = plugin.client.clone();
        tokio::spawn(async move {
            for at in (caller..CREATED).step_by(PARALLELISM) {
                let volume = proto::CreateVolumeRequest {
                    parameters: [("backing".to_owned(), "directory".to_owned())].into(),
                    ..named(&format!("v{at}"))
                };
                client.try_create(volume).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    started.elapsed()
}

fn client(agent: &Agent) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("NOMAD_ADDR", format!("http://{}", agent.address)).stdin(Stdio::null());
    command
}

/// The resources that a command used.
#[derive(Default)]
struct Used {
    time: Duration,
    processor: Duration,
    memory: String,
}

/// Runs a command and returns what it used.
fn finish(command: &mut Command) -> Used {
    let started = Instant::now();
    let output = (Stdio::null(), Stdio::null());
    let mut child = command.stdout(output.0).stderr(output.1).spawn().unwrap();
    let mut used = Used::default();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{command:?}: {status}");
            used.time = started.elapsed();
            return used;
        }
        used.memory = peak_memory(&child).unwrap_or(used.memory);
        used.processor = processor_time(&child).unwrap_or(used.processor);
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn peak_memory(child: &Child) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Linux counts in hundredths of a second.
fn processor_time(child: &Child) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

/// The fields of the volumes that [`fill`] registers.
const PLANNED_VOLUME: &str = r#"
  capacity_min = "1GiB"
  capacity_max = "2GiB"
  snapshot_id  = "snap-1"
  topology_request {
    required {
      topology {
        segments {
          zone = "a"
        }
      }
    }
  }
  mount_options {
    fs_type = "ext4"
  }
  parameters {
    type = "fast"
  }
"#;

const CREATED_VOLUME: &str = r#"
  parameters {
    backing = "directory"
  }
"#;

fn specification(number: usize, rest: &str) -> String {
    let mut text = String::new();
    for at in 0..number {
        write!(
            text,
            "volume \"v{at}\" {{
  type      = \"csi\"
  name      = \"v{at} of default\"
  plugin_id = \"hostpath\"
  capability {{
    access_mode     = \"single-node-writer\"
    attachment_mode = \"file-system\"
  }}
{rest}}}
"
        )
        .unwrap();
    }
    text
}
