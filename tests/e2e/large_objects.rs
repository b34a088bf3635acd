//! Requests that are too large: the agent refuses them, and its memory stays within 200 MB of what it
//! needs. Each limit is found at its edge from both sides.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use flate2::bufread::GzDecoder;
use serde_json::{Value, json};

use crate::agent_process::AgentProcess;
use crate::connection_limits::{connect_from, limited, raise_open_files, tcp};
use crate::filled_journal::fill;
use crate::http::{Address, Answer, read_answer};
use crate::wait::until;

/// The memory that clients may add to that of the agent.
const ROOM: u64 = 200 << 20;

/// A value of `/proc/PID/status` in bytes.
fn memory(agent: &AgentProcess, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.unwrap().trim_start_matches(':').trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

/// An agent whose memory is compared with its memory after the start.
struct Measured {
    agent: AgentProcess,
    before: u64,
    _data: tempfile::TempDir,
}

impl Measured {
    fn start(limits: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let agent = limited(data.path(), limits);
        crate::volumes::create(&agent.address, "first").unwrap().json();
        Self { before: memory(&agent, "VmHWM"), agent, _data: data }
    }

    /// Asserts that the agent works, and that its memory never grew too much.
    fn assert_small(&self) {
        let added = memory(&self.agent, "VmHWM") - self.before;
        assert!(added < ROOM, "{} MB were added", added >> 20);
        let listed = crate::volumes::list(&Address::Unix(self.agent.socket.clone()));
        assert_eq!(listed.len(), 1, "{listed:?}");
        eprintln!("{} MB before, {} MB added", self.before >> 20, added >> 20);
    }

    /// Asserts that the memory goes back to the system.
    fn assert_returned(&self) {
        if !cfg!(feature = "jemalloc") {
            eprintln!("skipped: this build's allocator keeps memory");
            return;
        }
        until("the memory to be returned", || {
            let now = memory(&self.agent, "VmRSS");
            let left = now.saturating_sub(self.before);
            (left < 40 << 20).then_some(()).ok_or(format!("{} MB are left", left >> 20))
        });
    }
}

fn put(agent: &Address, path: &str, body: &[u8]) -> Answer {
    let length = body.len();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    agent.send(&[head.as_bytes(), body]).unwrap()
}

fn repeated(before: &str, element: &str, number: usize, after: &str) -> Vec<u8> {
    let mut body = before.to_owned();
    for at in 0..number {
        if at > 0 {
            body.push(',');
        }
        body.push_str(element);
    }
    body.push_str(after);
    body.into_bytes()
}

#[test]
fn millions_of_empty_volumes_are_refused_while_they_are_decoded() {
    let measured = Measured::start(&["body-bytes=64MiB"]);
    let body = repeated(r#"{"Volumes":["#, "{}", 9_000_000, "]}");
    assert!(body.len() >= 27_000_000);
    for path in ["/v1/volumes", "/v1/volume/csi/x", "/v1/volume/csi/x/create"] {
        let answer = put(&measured.agent.address, path, &body);
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.text().contains("(limit `list-elements`)"), "{}", answer.text());
    }
    measured.assert_small();
    measured.assert_returned();
}

#[test]
fn by_default_a_body_of_that_size_is_not_read() {
    let measured = Measured::start(&[]);
    let answer = put(&measured.agent.address, "/v1/volumes", &vec![b' '; (8 << 20) + 1]);
    assert_eq!(answer.status, 413);
    assert_eq!(answer.text(), "the request body is larger than 8 MiB (limit `body-bytes`)");
    let answer = put(&measured.agent.address, "/v1/volumes", &vec![b' '; 8 << 20]);
    assert_eq!((answer.status, answer.text().as_str()), (400, "EOF"));
    measured.assert_small();
}

#[test]
fn an_error_lists_the_first_problems_and_counts_the_rest() {
    let measured = Measured::start(&[]);
    let capabilities = |number: usize| {
        let before =
            r#"{"Volumes":[{"ID":"x","Name":"x","PluginID":"hostpath","RequestedCapabilities":["#;
        repeated(before, "{}", number, "]}]}")
    };
    let answer = put(&measured.agent.address, "/v1/volumes", &capabilities(1_300_000));
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("list-elements"), "{}", answer.text());
    let answer = put(&measured.agent.address, "/v1/volumes", &capabilities(10_001));
    assert!(answer.text().contains("list-elements"), "{}", answer.text());
    // Within the limits, each has two problems.
    let answer = put(&measured.agent.address, "/v1/volumes", &capabilities(10_000));
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("and 19900 more"), "{}", answer.text());
    assert!(answer.body.len() < 16 << 10, "{} bytes", answer.body.len());
    measured.assert_small();
}

#[test]
fn a_body_has_at_most_its_limit_of_values() {
    let measured = Measured::start(&[]);
    let document = |keys: usize| {
        let keys: Vec<String> = (0..keys).map(|at| format!(r#""k{at}":1"#)).collect();
        format!(r#"{{"Items":{{}},"X":{{{}}}}}"#, keys.join(","))
    };
    // The document, two keys and two objects; then two values per key.
    for (keys, is_accepted) in [(49_997, true), (49_998, false)] {
        let answer = put(&measured.agent.address, "/v1/var/x", document(keys).as_bytes());
        assert_eq!(
            answer.text().contains("(limit `json-values`)"),
            !is_accepted,
            "{}",
            answer.text()
        );
        assert_eq!(answer.status, 400);
    }
    measured.assert_small();
}

/// Every request is valid in form and as large as allowed, and they come at the same time.
#[test]
fn large_requests_at_the_same_time_stay_within_the_budget() {
    let measured = Measured::start(&[]);
    let word = "w".repeat((8 << 20) - 200);
    let body = json!({"Volumes": [{"ID": "x", "Name": "x", "PluginID": "hostpath",
        "RequestedCapabilities": [{"AccessMode": word}]}]});
    let body = body.to_string().into_bytes();
    let full = repeated(r#"{"Volumes":["#, r#"{"Parameters":{"a":"b"}}"#, 10_000, "]}");
    std::thread::scope(|scope| {
        for at in 0..16 {
            let (agent, body, full) = (&measured.agent.address, &body, &full);
            scope.spawn(move || {
                let body = if at % 2 == 0 { body } else { full };
                let answer = put(agent, "/v1/volumes", body);
                assert!([500, 429].contains(&answer.status), "{}", answer.text());
                assert!(answer.body.len() < 1 << 20);
            });
        }
    });
    measured.assert_small();
    measured.assert_returned();
}

/// The head of a write of the operator; without that right the body is not read.
fn head(agent: &AgentProcess, length: usize) -> String {
    let token = agent.address.token().unwrap_or_default();
    format!(
        "PUT /v1/volumes HTTP/1.1\r\nhost: localhost\r\nx-nomad-token: {token}\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Sends as much as the agent takes.
fn send_some(mut stream: &TcpStream, bytes: &[u8]) {
    stream.set_nonblocking(true).unwrap();
    // What the agent does not read stays in the kernel, which is not the agent's memory.
    let mut rest = bytes;
    while let Ok(length @ 1..) = stream.write(rest) {
        rest = &rest[length..];
    }
    stream.set_nonblocking(false).unwrap();
}

/// Waits until the agent has accepted all connections and read everything that was sent.
fn until_read(address: SocketAddr) {
    let port = format!(":{:04X}", address.port());
    until("the agent to read everything", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let columns = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let of_agent = columns.filter(|columns| columns.len() > 9 && columns[1].ends_with(&port));
        // Column 3 is the state (01: established), column 4 the queues, column 9 the inode.
        let open = of_agent.filter(|columns| columns[3] == "01");
        let is_unread =
            |columns: &Vec<&str>| !columns[4].ends_with(":00000000") || columns[9] == "0";
        match open.filter(is_unread).count() {
            0 => Ok(()),
            left => Err(format!("{left} connections have unread bytes")),
        }
    });
}

#[test]
fn forty_unfinished_bodies_hold_no_more_than_the_budget() {
    let measured =
        Measured::start(&["body-bytes=64MiB", "total-body-bytes=64MiB", "body-seconds=5"]);
    let (address, part) = (tcp(&measured.agent), vec![b' '; 60 << 20]);
    let unfinished = || {
        let mut stream = connect_from(1, address);
        stream.write_all(head(&measured.agent, 64 << 20).as_bytes()).unwrap();
        // The agent may refuse it before everything is sent.
        drop(stream.write_all(&part));
        read_answer(stream).map(|answer| answer.status)
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..40).map(|_| scope.spawn(unfinished)).collect();
        until("a body to arrive", || {
            let now = memory(&measured.agent, "VmRSS");
            (now > measured.before + (30 << 20)).then_some(()).ok_or(format!("{now} bytes"))
        });
        // A small request needs no part of the budget.
        let small = json!({"Items": {"a": "b"}});
        let put = measured.agent.address.ask("PUT", "/v1/var/x", Some(&small));
        assert_eq!(put.unwrap().status, 200);
        let ended = clients.into_iter().map(|client| client.join().unwrap());
        ended.filter_map(Result::ok).collect()
    });
    assert!(!statuses.is_empty(), "no client got an answer");
    assert!(statuses.iter().all(|status| [408, 429].contains(status)), "{statuses:?}");
    measured.assert_small();
    measured.assert_returned();
}

/// Each sends as much as it may without a reservation, and then nothing.
#[test]
fn four_thousand_slow_bodies_stay_within_the_room() {
    raise_open_files();
    let measured = Measured::start(&["body-seconds=60"]);
    let address = tcp(&measured.agent);
    let mut connections = vec![];
    let free = vec![b' '; 8 << 10];
    for client in 1..=40 {
        for _ in 0..100 {
            let mut stream = connect_from(client, address);
            stream.write_all(head(&measured.agent, 8 << 20).as_bytes()).unwrap();
            stream.write_all(&free).unwrap();
            connections.push(stream);
        }
    }
    assert_eq!(connections.len(), 4000);
    until_read(address);
    measured.assert_small();
    drop(connections);
    measured.assert_returned();
}

/// Each sends as much of a request line as is allowed, and then nothing.
#[test]
fn four_thousand_long_heads_stay_within_the_room() {
    raise_open_files();
    let measured = Measured::start(&[]);
    let address = tcp(&measured.agent);
    let long = format!("GET /{}", "a".repeat(15 << 10));
    let mut connections = vec![];
    for client in 1..=40 {
        for _ in 0..100 {
            let stream = connect_from(client, address);
            send_some(&stream, long.as_bytes());
            connections.push(stream);
        }
    }
    until_read(address);
    measured.assert_small();
    drop(connections);
    measured.assert_returned();
}

#[test]
fn a_head_has_at_most_its_limit_of_bytes() {
    let measured = Measured::start(&[]);
    let ask = |length: usize| {
        let path = "a".repeat(length);
        let request =
            format!("GET /{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        measured.agent.address.send(&[request.as_bytes()]).unwrap().status
    };
    assert_eq!(ask(15 << 10), 404);
    assert!([414, 431].contains(&ask(17 << 10)));
    measured.assert_small();
}

/// Creates volumes with long names.
fn create_many(agent: &Address, number: usize) {
    let volumes: Vec<Value> = (0..number)
        .map(|at| {
            json!({"ID": format!("v{at}"), "Name": format!("{at:0100}"), "PluginID": "hostpath",
                "RequestedCapabilities": [
                    {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}]})
        })
        .collect();
    let volumes = json!({ "Volumes": volumes });
    let answer = agent.ask("PUT", "/v1/volume/csi/v0/create", Some(&volumes));
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Clients that ask for a list and do not read it.
#[test]
fn lists_that_no_client_reads_take_a_bounded_memory() {
    raise_open_files();
    for number in [200, 500] {
        let data = tempfile::tempdir().unwrap();
        let agent = limited(data.path(), &["write-seconds=2"]);
        create_many(&agent.address, number);
        let before = memory(&agent, "VmHWM");
        let mut connections = vec![];
        for client in 1..=20 {
            for _ in 0..100 {
                let mut stream = connect_from(client, tcp(&agent));
                stream
                    .write_all(b"GET /v1/volumes?type=csi HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    .unwrap();
                stream
                    .write_all(b"GET /v1/volumes?type=csi HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    .unwrap();
                connections.push(stream);
            }
        }
        let is_answered = |stream: &&TcpStream| {
            stream.set_nonblocking(true).unwrap();
            stream.peek(&mut [0]).is_ok()
        };
        until("many clients to be answered", || {
            let answered = connections.iter().filter(is_answered).count();
            (answered > 300).then_some(()).ok_or(format!("{answered} are answered"))
        });
        let added = memory(&agent, "VmHWM") - before;
        eprintln!("{number} volumes: {} MB before, {} MB added", before >> 20, added >> 20);
        assert!(added < ROOM, "{} MB were added", added >> 20);
        drop(connections);
        until("the list to be answered", || {
            let answer = agent.address.ask("GET", "/v1/volumes?type=csi", None);
            let answer = answer.map_err(|error| error.to_string())?;
            (answer.status == 200).then_some(()).ok_or(answer.text())
        });
    }
}

/// A list of 100,000 volumes, compressed for clients that read it and for some that do not. The JSON of the
/// volumes belongs to the state, so the memory is compared with that after a plain list.
#[test]
fn compressed_lists_of_many_volumes_take_a_bounded_memory() {
    let data = tempfile::tempdir().unwrap();
    fill(data.path(), 100_000);
    let agent = limited(data.path(), &[]);
    let list = |accepted: &str| {
        format!(
            "GET /v1/volumes?type=csi HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             accept-encoding: {accepted}\r\n\r\n"
        )
    };
    let plain = agent.address.send(&[list("gzip").as_bytes()]).unwrap();
    assert_eq!((plain.status, plain.head.contains("gzip")), (200, false));
    let before = memory(&agent, "VmHWM");
    let compressed = list("gzip, identity;q=0");
    let idle: Vec<TcpStream> = (1..=6)
        .map(|client| {
            let mut stream = connect_from(client, tcp(&agent));
            stream.write_all(compressed.as_bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let packed = agent.address.send(&[compressed.as_bytes()]).unwrap();
                assert_eq!(packed.status, 200, "{}", packed.text());
                let mut list = vec![];
                let mut decoder = GzDecoder::new(&packed.body[..]);
                decoder.read_to_end(&mut list).unwrap();
                assert!(list == plain.body, "{} bytes", list.len());
            });
        }
    });
    let added = memory(&agent, "VmHWM") - before;
    eprintln!("{} MB before, {} MB added", before >> 20, added >> 20);
    assert!(added < ROOM, "{} MB were added", added >> 20);
    drop(idle);
}
