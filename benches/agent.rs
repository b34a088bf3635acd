//! An agent process: durable changes per second over HTTP, and lists of volumes.
//!
//! Each figure has a floor: the same bytes through a plain TCP connection. The ratio is therefore
//! independent of the machine, the loopback and the client. `benches/journal.rs` measures the disk.
//! Nothing is asserted.
//!
//! Lists are also read from a Nomad server if `NOMAD_CSI_BENCH_NOMAD` is its address and port, in turn with the
//! agent's. There, namespace `lists-N` has to have N volumes, for each N in [`LISTED`].
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a failing benchmark panics, and prints its figures"
)]

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "../tests/support/load.rs"]
mod load;

use load::filled_journal::fill;
use load::{Agent, body, echo, exchange, milliseconds, request, run};

const CLIENTS: [usize; 2] = [1, 64];
const CHANGES: [usize; 2] = [1_000, 8_000];
const LISTED: [usize; 2] = [1_000, 100_000];

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
    LISTED.into_iter().for_each(list);
}

/// Lists volumes, plain and compressed, whole and in pages; the floor is the same bytes from a plain server.
fn list(volumes: usize) {
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fill(data.path(), volumes);
    let started = Instant::now();
    let agent = Agent::start(data.path());
    println!("\n{volumes} volumes");
    println!("  start       {:8.0} ms", milliseconds(started.elapsed()));
    let times = (2_000_000 / volumes).clamp(20, 200);
    let peer = std::env::var("NOMAD_CSI_BENCH_NOMAD").ok();
    let peer: Option<SocketAddr> = peer.map(|address| address.parse().unwrap());
    for (name, encoding) in [("plain", ""), ("compressed", COMPRESSED)] {
        let whole = get("/v1/volumes?type=csi", encoding);
        let mut lists = vec![List::new("agent", agent.address, whole.clone())];
        if let Some(address) = peer {
            let path = format!("/v1/volumes?type=csi&namespace=lists-{volumes}");
            lists.push(List::new("Nomad", address, get(&path, encoding)));
        }
        measure(&mut lists, times);
        let bytes = lists[0].bytes;
        let mut floor = [List::new("floor", echo(whole.len(), bytes), whole)];
        measure(&mut floor, times);
        for list in lists.iter_mut().chain(&mut floor) {
            list.print(name);
        }
    }
    let page = get("/v1/volumes?type=csi&per_page=100", "");
    let mut page = [List::new("agent", agent.address, page)];
    measure(&mut page, times);
    page[0].print("page of 100");
}

/// Also a client of this machine gets a compressed response, because it refuses every other.
const COMPRESSED: &str = "accept-encoding: gzip, identity;q=0\r\n";

fn get(path: &str, encoding: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{encoding}\r\n").into_bytes()
}

/// Repeated requests for a list over one connection.
struct List {
    server: &'static str,
    stream: TcpStream,
    request: Vec<u8>,
    times: Vec<Duration>,
    bytes: usize,
}

impl List {
    fn new(server: &'static str, address: SocketAddr, request: Vec<u8>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { server, stream, request, times: vec![], bytes: 0 }
    }

    fn print(&mut self, what: &str) {
        self.times.sort_unstable();
        println!(
            "  {what:11} {:5}  least {:8.2} ms  median {:8.2} ms  {:.3} MB",
            self.server,
            milliseconds(self.times[0]),
            milliseconds(self.times[self.times.len() / 2]),
            self.bytes as f64 / 1e6,
        );
    }
}

/// Requests each list so often, in turn.
fn measure(lists: &mut [List], times: usize) {
    for _ in 0..times {
        for list in &mut *lists {
            let sent = Instant::now();
            list.bytes = exchange(&mut list.stream, &list.request).len();
            list.times.push(sent.elapsed());
        }
    }
}

fn change(
    agent: &Agent,
    what: &str,
    clients: usize,
    changes: usize,
    of: impl Fn(usize) -> Vec<u8> + Sync,
) {
    let measured = run(agent.address, clients, changes, &of);
    let answer = exchange(&mut TcpStream::connect(agent.address).unwrap(), &of(changes));
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
    request("PUT", &format!("/v1/volume/csi/v{at}/create"), Some(&volume(at, None)))
}

fn registration(at: usize, external: &str) -> Vec<u8> {
    request("PUT", &format!("/v1/volume/csi/v{at}"), Some(&volume(at, Some(external))))
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
