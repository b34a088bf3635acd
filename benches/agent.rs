//! An agent process: durable changes per second over HTTP, and the list of many volumes.
//!
//! Each figure has a floor: the same bytes through a plain TCP connection. The ratio is therefore
//! independent of the machine, the loopback and the client. `benches/journal.rs` measures the disk.
//! Nothing is asserted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a failing benchmark panics, and prints its figures"
)]

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "../tests/support/load.rs"]
mod load;

use load::{Agent, body, echo, exchange, fill, milliseconds, request, run};

const CLIENTS: [usize; 2] = [1, 64];
const CHANGES: [usize; 2] = [1_000, 8_000];
const LISTED: usize = 100_000;

fn main() {
    println!(
        "durable changes over HTTP, per second (clients: changes/s, median, 99th; floor; ratio)"
    );
    for (clients, changes) in CLIENTS.into_iter().zip(CHANGES) {
        let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let agent = Agent::start(data.path());
        change(&agent, "create", clients, changes, creation);
        let external = external_ids(&agent);
        run(agent.address, clients, changes, &|at| {
            request("DELETE", &format!("/v1/volume/csi/v{at}"), None)
        });
        change(&agent, "register", clients, changes, move |at| {
            registration(at, &external[at % external.len()])
        });
    }
    list();
}

/// Lists many volumes, whole and in pages; the floor is the same bytes from a plain server.
fn list() {
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fill(data.path(), LISTED);
    let started = Instant::now();
    let agent = Agent::start(data.path());
    println!("\n{LISTED} volumes");
    println!("  start    {:8.0} ms", milliseconds(started.elapsed()));
    let whole = request("GET", "/v1/volumes?type=csi", None);
    let (time, bytes) = best_of(5, agent.address, &whole);
    let (floor, _) = best_of(5, echo(whole.len(), bytes), &whole);
    println!(
        "  list     {:8.0} ms   {:.1} MB   floor {:.0} ms   ratio {:.1}",
        milliseconds(time),
        bytes as f64 / 1e6,
        milliseconds(floor),
        time.as_secs_f64() / floor.as_secs_f64(),
    );
    let page = request("GET", "/v1/volumes?type=csi&per_page=100", None);
    let (time, bytes) = best_of(20, agent.address, &page);
    println!("  page 100 {:8.2} ms   {bytes} bytes", milliseconds(time));
}

/// The shortest time of several requests over one connection, and the length of the response.
fn best_of(times: usize, address: SocketAddr, request: &[u8]) -> (Duration, usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    let answers = (0..times).map(|_| {
        let sent = Instant::now();
        let bytes = exchange(&mut stream, request).len();
        (sent.elapsed(), bytes)
    });
    answers.min().unwrap()
}

fn change(
    agent: &Agent,
    what: &str,
    clients: usize,
    changes: usize,
    of: impl Fn(usize) -> Vec<u8> + Sync,
) {
    let measured = run(agent.address, clients, changes, &of);
    let answer = exchange(
        &mut TcpStream::connect(agent.address).unwrap(),
        &of(changes),
    );
    let floor = run(echo(of(0).len(), answer.len()), clients, changes, &of);
    println!(
        "  {what:8} {clients:3}: {:7.0}/s  {:6.2} ms  {:6.2} ms   floor {:7.0}/s   ratio {:.3}",
        measured.per_second,
        milliseconds(measured.median),
        milliseconds(measured.slow),
        floor.per_second,
        measured.per_second / floor.per_second,
    );
}

fn creation(at: usize) -> Vec<u8> {
    request(
        "PUT",
        &format!("/v1/volume/csi/v{at}/create"),
        Some(&volume(at, None)),
    )
}

fn registration(at: usize, external: &str) -> Vec<u8> {
    request(
        "PUT",
        &format!("/v1/volume/csi/v{at}"),
        Some(&volume(at, Some(external))),
    )
}

fn volume(at: usize, external: Option<&str>) -> Value {
    let mut volume = json!({
        "ID": format!("v{at}"),
        "Name": format!("volume {at}"),
        "PluginID": "hostpath",
        "RequestedCapabilities": [{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}],
    });
    if let Some(external) = external {
        volume["ExternalID"] = external.into();
    }
    json!({ "Volumes": [volume] })
}

/// External IDs in the order of the volume numbers; the list is sorted by ID as text.
fn external_ids(agent: &Agent) -> Vec<String> {
    let mut stream = TcpStream::connect(agent.address).unwrap();
    let answer = exchange(&mut stream, &request("GET", "/v1/volumes?type=csi", None));
    let volumes: Vec<Value> = serde_json::from_slice(body(&answer)).unwrap();
    let text = |volume: &Value, key: &str| volume[key].as_str().unwrap().to_owned();
    let mut ids: Vec<(usize, String)> = volumes
        .iter()
        .map(|volume| {
            let number = text(volume, "ID")[1..].parse().unwrap();
            (number, text(volume, "ExternalID"))
        })
        .collect();
    ids.sort_unstable();
    ids.into_iter().map(|(_, external)| external).collect()
}
