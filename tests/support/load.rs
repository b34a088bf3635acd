//! An agent process and a fast HTTP client for benchmarks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "filled_journal.rs"]
pub(crate) mod filled_journal;

/// A running agent.
pub(crate) struct Agent {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Agent {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// Starts an agent with more arguments.
    pub(crate) fn start_with(data: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
            .args(["agent", "--dev", "--http", "127.0.0.1:0", "--log-format", "json", "--data-dir"])
            .arg(data)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let event: Value = serde_json::from_str(&line.unwrap()).ok()?;
            event["address"].as_str()?.strip_prefix("http://")?.parse().ok()
        });
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.unwrap() }
    }
}

impl Drop for Agent {
    /// Stops the agent in order, so that its tasks end too.
    fn drop(&mut self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) median: Duration,
    pub(crate) slow: Duration,
}

/// Sends `changes` requests over `clients` persistent connections, each after the last response.
pub(crate) fn run(
    address: SocketAddr,
    clients: usize,
    changes: usize,
    of: &(impl Fn(usize) -> Vec<u8> + Sync),
) -> Measured {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let client = || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut times = vec![];
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= changes {
                    return times;
                }
                let request = of(at);
                let sent = Instant::now();
                exchange(&mut stream, &request);
                times.push(sent.elapsed());
            }
        };
        let running: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        running.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let per_second = changes as f64 / begun.elapsed().as_secs_f64();
    times.sort_unstable();
    Measured { per_second, median: times[times.len() / 2], slow: times[times.len() * 99 / 100] }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub(crate) fn request(method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Sends a request and returns the whole response, headers and body.
pub(crate) fn exchange(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    try_exchange(stream, request).unwrap()
}

/// Like [`exchange`]; `None` if the connection was closed.
pub(crate) fn try_exchange(stream: &mut TcpStream, request: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(request).ok()?;
    let mut answer = vec![];
    let mut part = vec![0; 64 << 10];
    loop {
        let length = stream.read(&mut part).ok().filter(|length| *length > 0)?;
        answer.extend_from_slice(&part[..length]);
        if is_complete(&answer) {
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
            return Some(answer);
        }
    }
}

fn is_complete(answer: &[u8]) -> bool {
    let Some(end) = head_end(answer) else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    match length {
        Some(length) => answer.len() >= end + 4 + length,
        None => answer.ends_with(b"0\r\n\r\n"),
    }
}

fn head_end(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|window| window == b"\r\n\r\n")
}

pub(crate) fn body(answer: &[u8]) -> &[u8] {
    &answer[head_end(answer).unwrap() + 4..]
}

/// Starts a server that reads requests of that length and answers 200 with a body of that length.
pub(crate) fn echo(request: usize, answer: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.saturating_sub(45));
    let answer: Arc<[u8]> =
        [head.as_bytes(), &vec![b' '; answer.saturating_sub(45)]].concat().into();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let mut buffer = vec![0; request * 2];
                let mut missing = request;
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    missing = missing.saturating_sub(length);
                    if missing == 0 {
                        stream.write_all(&answer).unwrap();
                        missing = request;
                    }
                }
            });
        }
    });
    address
}
