//! Blocking queries of an agent process: from the request that changes a variable to the response of
//! the reader that waits for it.
//!
//! A time contains the durable write of the change, so it is an upper bound of the wake-up. The aim is
//! under 50 ms for each on a quiet machine. Nothing is asserted; `src/server/http/tests/blocking.rs`
//! asserts that no change is missed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a failing benchmark panics, and prints its figures"
)]
#![allow(dead_code, reason = "the support has more than this benchmark needs")]

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

#[path = "../tests/support/load.rs"]
mod load;

use load::{Agent, exchange, milliseconds, request, try_exchange};

const READERS: usize = 1000;
const CHANGES: usize = 1000;
/// 100 changes a second.
const PAUSE: Duration = Duration::from_millis(10);
const STACK: usize = 256 << 10;

fn main() {
    raise_open_files();
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let limits = ["--limit", "connections-per-address=0"];
    let agent = Agent::start_with(data.path(), &limits);
    for path in (0..READERS).map(own).chain([common(), other()]) {
        write(agent.address, &path);
    }
    println!("{READERS} readers, {CHANGES} changes, 100 a second: from change to response");
    report("each reads its own", &measure(agent.address, own, CHANGES, |at| own(at % READERS), 1));
    report("all read one", &measure(agent.address, |_| common(), 10, |_| common(), READERS));
    let idle = measure(agent.address, own, CHANGES, |_| other(), 0);
    println!("  changes of something else woke {} readers", idle.len());
}

fn own(at: usize) -> String {
    format!("/v1/var/app/{at}")
}

fn common() -> String {
    "/v1/var/common".to_owned()
}

fn other() -> String {
    "/v1/var/other".to_owned()
}

/// Changes variables while readers wait. Returns the times of all responses, which are `answers` for
/// each change.
fn measure(
    address: SocketAddr,
    read: impl Fn(usize) -> String,
    changes: usize,
    change: impl Fn(usize) -> String,
    answers: usize,
) -> Vec<Duration> {
    let (seen, responses) = mpsc::channel();
    for path in (0..READERS).map(read) {
        let seen = seen.clone();
        let mut stream = TcpStream::connect(address).unwrap();
        let first = exchange(&mut stream, &request("GET", &path, None));
        let mut index = index(&first);
        let follow = move || loop {
            let uri = format!("{path}?index={index}&wait=300s");
            let Some(answer) = try_exchange(&mut stream, &request("GET", &uri, None)) else {
                return;
            };
            index = self::index(&answer);
            if seen.send(Instant::now()).is_err() {
                return;
            }
        };
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(follow).unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut times = vec![];
    for at in 0..changes {
        let begun = Instant::now();
        write(address, &change(at));
        for _ in 0..answers {
            times.push(responses.recv().unwrap() - begun);
        }
        std::thread::sleep(PAUSE.saturating_sub(begun.elapsed()));
    }
    times.extend(responses.try_iter().map(|_| Duration::ZERO));
    times
}

fn write(address: SocketAddr, path: &str) {
    let name = path.strip_prefix("/v1/var/").unwrap();
    let body = json!({"Path": name, "Items": {"at": format!("{:?}", Instant::now())}});
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    exchange(&mut stream, &request("PUT", path, Some(&body)));
}

fn index(answer: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let index = text.lines().find_map(|line| line.strip_prefix("x-nomad-index: "));
    index.unwrap().trim().parse().unwrap()
}

fn report(what: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |part: usize| milliseconds(times[(times.len() - 1) * part / 100]);
    println!(
        "  {what:20} median {:6.2} ms   99th {:6.2} ms   longest {:6.2} ms",
        at(50),
        at(99),
        at(100),
    );
}

fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap();
}
