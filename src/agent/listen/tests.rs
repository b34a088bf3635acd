use std::os::unix::fs::PermissionsExt as _;

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn first(problems: Diagnostics) -> Diagnostic {
    problems.into_iter().next().unwrap()
}

struct Running {
    address: SocketAddr,
    socket: std::path::PathBuf,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
    _directory: tempfile::TempDir,
}

async fn serve_router(router: Router) -> Running {
    serve_limited(router, Limits::default()).await
}

async fn serve_limited(router: Router, limits: Limits) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let listeners = Listeners::open(Some(loopback), &socket).await.unwrap();
    let stop = CancellationToken::new();
    Running {
        address: listeners.address().unwrap(),
        socket,
        served: tokio::spawn(listeners.serve(router, limits, stop.clone())),
        stop,
        _directory: directory,
    }
}

/// Sends one request and returns the whole response.
async fn fetch(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LONG, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

#[tokio::test]
async fn both_sockets_are_served_and_the_unix_socket_is_private() {
    let running = serve_router(hello()).await;
    let tcp = TcpStream::connect(running.address).await.unwrap();
    let unix = UnixStream::connect(&running.socket).await.unwrap();
    assert!(fetch(tcp, "/").await.ends_with("hello"));
    assert!(fetch(unix, "/").await.ends_with("hello"));
    let mode = std::fs::metadata(&running.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_stop_completes_running_requests_and_accepts_no_connections() {
    let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (entered, go_on) = (entered.clone(), go_on.clone());
        move || async move {
            entered.notify_one();
            go_on.notified().await;
            "finished"
        }
    };
    let running = serve_router(Router::new().route("/slow", get(slow))).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let asked = tokio::spawn(fetch(stream, "/slow"));
    timeout(LONG, entered.notified()).await.unwrap();
    running.stop.cancel();
    let refused = async {
        while TcpStream::connect(running.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, refused).await.unwrap();
    assert!(!running.served.is_finished());
    go_on.notify_one();
    assert!(asked.await.unwrap().ends_with("finished"));
    timeout(LONG, running.served).await.unwrap().unwrap();
}

/// Only timers run, so the paused clock advances by itself.
#[tokio::test(start_paused = true)]
async fn a_request_without_an_end_does_not_block_the_stop() {
    let entered = Arc::new(Notify::new());
    let stuck = {
        let entered = entered.clone();
        move || async move {
            entered.notify_one();
            std::future::pending::<()>().await;
        }
    };
    let running = serve_router(Router::new().route("/stuck", get(stuck))).await;
    let mut stream = UnixStream::connect(&running.socket).await.unwrap();
    stream.write_all(b"GET /stuck HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    entered.notified().await;
    let asked = tokio::time::Instant::now();
    running.stop.cancel();
    running.served.await.unwrap();
    assert!(asked.elapsed() >= DRAIN_LIMIT && asked.elapsed() < DRAIN_LIMIT * 2);
}

/// Also a client that keeps its connection after a request.
#[tokio::test(start_paused = true)]
async fn an_idle_client_is_disconnected() {
    let running = serve_router(hello()).await;
    for first in ["", "GET / HTTP/1.1\r\nhost: a\r\n\r\n"] {
        let mut stream = UnixStream::connect(&running.socket).await.unwrap();
        stream.write_all(first.as_bytes()).await.unwrap();
        let begun = tokio::time::Instant::now();
        let mut rest = vec![];
        timeout(HEAD_LIMIT * 3, stream.read_to_end(&mut rest))
            .await
            .expect("the connection is closed")
            .unwrap();
        assert!(begun.elapsed() >= HEAD_LIMIT, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported_with_help() {
    let running = serve_router(hello()).await;
    let other = running.socket.with_file_name("other.sock");
    let problem = Listeners::open(Some(running.address), &other).await.err().map(first).unwrap();
    assert_eq!(problem.code, Code::AgentPortInUse);
    let expected = format!("cannot listen on `{}`: the address is in use", running.address);
    assert_eq!(problem.message, expected);
    assert!(problem.help[0].contains("--http ADDR:PORT"));
}

#[tokio::test]
async fn an_old_socket_is_replaced_and_a_file_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    drop(Listeners::open(None, &socket).await.unwrap());
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "precious").unwrap();
    let problem = Listeners::open(None, &socket).await.err().map(first).unwrap();
    assert_eq!(problem.code, Code::AgentCannotListen);
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
}

#[tokio::test]
async fn an_address_of_another_machine_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 0));
    let problem = Listeners::open(Some(elsewhere), &directory.path().join("s"))
        .await
        .err()
        .map(first)
        .unwrap();
    assert_eq!(problem.code, Code::AgentCannotListen);
    assert!(
        problem.message.ends_with("this machine does not have that address"),
        "{}",
        problem.message
    );
}
