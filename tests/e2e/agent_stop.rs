//! Stopping an agent: nothing is left behind, hangs or is lost.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;

use rustix::process::Signal;

use crate::agent_process::{AgentProcess, operator_token, processes_with, program};
use crate::volumes::create;
use crate::wait::{until, until_true};

#[test]
fn a_stopped_agent_leaves_no_process_and_no_socket() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    let socket = agent.socket.clone();
    let state = data.path().to_string_lossy().into_owned();
    assert_eq!(processes_with(&["plugin", "serve", &state]).len(), 1);
    assert!(agent.stop().success());
    assert_eq!(processes_with(&["plugin", "serve", &state]), Vec::<u32>::new());
    assert!(!socket.exists());
    assert!(data.path().join("journal.redb").exists());
}

#[test]
fn a_temporary_directory_is_removed_with_the_agent() {
    let base = tempfile::tempdir().unwrap();
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.env("TMPDIR", base.path());
    let agent = AgentProcess::run(command);
    create(&agent.address, "db").unwrap().json();
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);
    assert!(agent.stop().success());
    let left: Vec<_> = std::fs::read_dir(base.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_blocking_read_ends_when_the_agent_stops() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let first = agent.address.ask("GET", "/v1/volumes?type=csi", None).unwrap();
    let index = first.head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("x-nomad-index: ").map(str::to_owned)
    });
    let path = format!("/v1/volumes?type=csi&index={}&wait=10m", index.unwrap());
    let address = agent.address.clone();
    let waiting = thread::spawn(move || address.ask("GET", &path, None));
    until_connected(&agent, 1);
    let begun = std::time::Instant::now();
    assert!(agent.stop().success());
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
    let answer = waiting.join().unwrap().unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn idle_clients_do_not_block_the_stop() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let address = agent.address.tcp();
    let silent = TcpStream::connect(address).unwrap();
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(b"GET /v1/volumes HTTP/1.1\r\nhost").unwrap();
    until_connected(&agent, 2);
    assert!(agent.stop().success());
    drop((silent, half));
}

#[test]
fn a_second_signal_aborts_and_the_next_start_finds_everything() {
    let data = tempfile::tempdir().unwrap();
    let mut agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    let address = agent.address.tcp();
    // The missing body blocks the request, and with it the orderly stop.
    let mut stuck = TcpStream::connect(address).unwrap();
    let token = operator_token(&data.path().to_string_lossy());
    let head = format!(
        "PUT /v1/volume/csi/x/create HTTP/1.1\r\nhost: localhost\r\nx-nomad-token: {token}\r\ncontent-length: 100\r\n\r\n{{"
    );
    stuck.write_all(head.as_bytes()).unwrap();
    until_connected(&agent, 1);
    agent.signal(Signal::TERM);
    until_true("the agent to be stopping", || {
        agent.log().iter().any(|line| line.contains("stopping"))
    });
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended().code(), Some(130), "{:#?}", agent.log());

    let agent = AgentProcess::start(data.path());
    assert_eq!(crate::volumes::list(&agent.address).len(), 1);
}

/// Waits until the agent has accepted that many connections.
fn until_connected(agent: &AgentProcess, number: usize) {
    let address = agent.address.tcp();
    let port = format!(":{:04X}", address.port());
    until("connections to be accepted", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        // Column 1 is the local address, column 3 the state (01: established), column 4 the queues.
        let established = table.lines().filter(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            columns.len() > 4
                && columns[1].ends_with(&port)
                && columns[3] == "01"
                && columns[4].ends_with(":00000000")
                && columns[9] != "0"
        });
        let found = established.count();
        if found >= number { Ok(()) } else { Err(format!("{found} of {number}")) }
    });
}
