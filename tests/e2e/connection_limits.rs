//! Many clients at once: one address cannot take all places, waiting clients leave room for working
//! ones, and the Unix socket has places of its own.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::agent_process::{AgentProcess, program};
use crate::http::{Address, read_answer};
use crate::wait::until;

const LIMIT: Duration = Duration::from_secs(60);

/// Starts an agent with these limits.
pub(crate) fn limited(data: &Path, limits: &[&str]) -> AgentProcess {
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data);
    for limit in limits {
        command.args(["--limit", limit]);
    }
    AgentProcess::run(command)
}

pub(crate) fn tcp(agent: &AgentProcess) -> SocketAddr {
    agent.address.tcp()
}

/// Connects from another loopback address, as another machine would.
pub(crate) fn connect_from(client: u8, agent: SocketAddr) -> TcpStream {
    let socket: OwnedFd =
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let source = SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, client), 0);
    rustix::net::bind(&socket, &source).unwrap();
    rustix::net::connect(&socket, &agent).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Allows this process to open many connections.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap();
}

const READ: &[u8] = b"GET /v1/status/leader HTTP/1.1\r\nhost: localhost\r\n\r\n";
const WAIT: &[u8] =
    b"GET /v1/volumes?type=csi&index=1000&wait=300s HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Sends a request on a connection that stays open, and returns the start of the response.
fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut answer = vec![0; 16 << 10];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

fn is_answered(agent: &Address) -> bool {
    let answer = agent.ask("GET", "/v1/status/leader", None);
    answer.is_ok_and(|answer| answer.status == 200)
}

/// Nomad's limit and its text.
#[test]
fn one_address_has_a_hundred_connections() {
    let data = tempfile::tempdir().unwrap();
    let agent = limited(data.path(), &[]);
    let address = tcp(&agent);
    let mut held: Vec<TcpStream> = (0..100).map(|_| connect_from(1, address)).collect();
    for stream in &mut held {
        assert!(ask(stream, READ).starts_with("HTTP/1.1 200"));
    }
    let refused = || read_answer(connect_from(1, address)).unwrap();
    let answer = refused();
    assert_eq!(answer.status, 429);
    let expected =
        "Your IP is issuing too many concurrent connections, please rate limit your calls\n";
    assert_eq!(answer.text(), expected);
    // A client that sends at once reads the answer too.
    let mut early = connect_from(1, address);
    early.write_all(READ).unwrap();
    assert_eq!(read_answer(early).unwrap().status, 429);

    assert!(is_answered(&agent.address), "another address");
    assert!(is_answered(&Address::Unix(agent.socket.clone())));
    drop(held.pop());
    until("a place for the address", || {
        let mut again = connect_from(1, address);
        let answer = ask(&mut again, READ);
        answer.starts_with("HTTP/1.1 200").then_some(()).ok_or(answer)
    });
}

#[test]
fn the_limit_of_an_address_can_be_changed_and_removed() {
    for (limit, accepted) in [("connections-per-address=3", 3), ("connections-per-address=0", 300)]
    {
        let data = tempfile::tempdir().unwrap();
        let agent = limited(data.path(), &[limit]);
        let address = tcp(&agent);
        let mut held: Vec<TcpStream> = (0..accepted).map(|_| connect_from(1, address)).collect();
        for stream in &mut held {
            assert!(ask(stream, READ).starts_with("HTTP/1.1 200"));
        }
        let mut next = connect_from(1, address);
        let expected = if accepted == 3 { "HTTP/1.1 429" } else { "HTTP/1.1 200" };
        assert!(ask(&mut next, READ).starts_with(expected), "{limit}");
    }
}

#[test]
fn waiting_queries_leave_the_places_of_working_ones() {
    let data = tempfile::tempdir().unwrap();
    let limits = ["connections=5", "waiting-queries=20", "connections-per-address=0"];
    let agent = limited(data.path(), &limits);
    let address = tcp(&agent);
    // Each connection gives its working place back before the next ones need it.
    let mut waiting: Vec<TcpStream> = (0..21).map(|_| connect_from(1, address)).collect();
    for stream in &mut waiting {
        stream.write_all(WAIT).unwrap();
        stream.set_nonblocking(true).unwrap();
    }
    let (at, refused) = until("one more than the waiting places to be refused", || {
        let mut answer = [0; 4096];
        let answered = |stream: &TcpStream, answer: &mut [u8]| stream.peek(answer).ok();
        let mut streams = waiting.iter().enumerate();
        let found = streams.find_map(|(at, stream)| Some((at, answered(stream, &mut answer)?)));
        let (at, length) = found.ok_or("all wait")?;
        Ok((at, String::from_utf8_lossy(&answer[..length]).into_owned()))
    });
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    assert!(refused.contains("(limit `waiting-queries`)"), "{refused}");
    drop(waiting.remove(at));
    let others = waiting.iter().filter(|stream| stream.peek(&mut [0]).is_ok());
    assert_eq!(others.count(), 0, "the others wait");
    let mut working: Vec<TcpStream> = (0..5).map(|_| connect_from(1, address)).collect();
    for stream in &mut working {
        assert!(ask(stream, READ).starts_with("HTTP/1.1 200"));
    }
    assert!(is_answered(&Address::Unix(agent.socket.clone())));
    drop(working);
    assert!(is_answered(&agent.address));
}

/// The attack: every place of the TCP address is taken by a client that waits.
#[test]
fn four_thousand_waiting_clients_stop_neither_the_socket_nor_other_clients() {
    raise_open_files();
    let data = tempfile::tempdir().unwrap();
    let agent = limited(data.path(), &[]);
    let address = tcp(&agent);
    let mut waiting = vec![];
    for client in 1..=41 {
        for _ in 0..100 {
            let mut stream = connect_from(client, address);
            stream.write_all(WAIT).unwrap();
            waiting.push(stream);
        }
    }
    assert_eq!(waiting.len(), 4100);
    let socket = Address::Unix(agent.socket.clone());
    assert!(is_answered(&socket));
    crate::volumes::create(&socket, "db").unwrap().json();
    assert!(is_answered(&agent.address));
}

/// Idle and half-sent connections take every TCP place. The socket still answers.
#[test]
fn idle_connections_do_not_block_the_socket() {
    let data = tempfile::tempdir().unwrap();
    let agent = limited(data.path(), &["connections=3", "connections-per-address=0"]);
    let address = tcp(&agent);
    let mut held: Vec<TcpStream> = (0..3).map(|_| connect_from(1, address)).collect();
    for stream in &mut held {
        assert!(ask(stream, READ).starts_with("HTTP/1.1 200"));
    }
    let mut fourth = connect_from(1, address);
    fourth.write_all(READ).unwrap();
    assert!(is_answered(&Address::Unix(agent.socket.clone())));
    drop(held);
    let mut answer = [0; 12];
    fourth.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
