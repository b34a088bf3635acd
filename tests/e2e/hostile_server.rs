//! A server that sends more than any cluster has: the client's memory stays a small multiple of it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output};

/// Sends the same JSON to every request, except a list of one volume to a list of volumes if
/// `lists_one` is set.
fn serve(body: String, lists_one: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or_default();
            let is_list = request[..read].starts_with(b"GET /v1/volumes");
            let body =
                if lists_one && is_list { r#"[{"ID":"db","Namespace":"default"}]"# } else { &body };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            // The client may end before it has read everything.
            let _written = stream.write_all(head.as_bytes());
            let _written = stream.write_all(body.as_bytes());
        }
    });
    address
}

/// Runs a command whose data segment may have `memory` bytes.
fn run(address: &str, memory: usize, arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let limits = format!("ulimit -c 0; ulimit -d {}", allowance(memory) >> 10);
    Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_nomad-csi"))
        .args(arguments)
        .args(["--address", address])
        .env_clear()
        .env("HOME", home.path())
        .output()
        .unwrap()
}

/// Returns what the kernel may count for this much memory: the allocator of packages reserves address space in
/// advance, which counts too.
const fn allowance(memory: usize) -> usize {
    if cfg!(feature = "jemalloc") { 2 * memory } else { memory }
}

const SIZE: usize = 14 << 20;

#[test]
fn a_list_of_14_mb_costs_less_than_ten_times_its_size() {
    let volume = |at: usize| {
        let text = "x".repeat(400);
        format!(r#"{{"ID":"volume-{at}","Namespace":"default","Name":"{text}","PluginID":"p"}}"#)
    };
    let volumes: Vec<_> = (0..SIZE / volume(10_000).len()).map(volume).collect();
    let address = serve(format!("[{}]", volumes.join(",")), false);
    let listed = run(&address, 140 << 20, &["volume", "status", "-o", "name"]);
    let errors = String::from_utf8_lossy(&listed.stderr);
    assert_eq!(listed.status.code(), Some(0), "{}: {errors}", listed.status);
    let lines = String::from_utf8_lossy(&listed.stdout).lines().count();
    assert_eq!(lines, volumes.len());
}

#[test]
fn a_list_of_14_mb_of_nothing_is_refused_with_less_than_ten_times_its_size() {
    let address = serve(format!("[{}{{}}]", "{},".repeat(SIZE / 3)), false);
    let listed = run(&address, 140 << 20, &["volume", "status"]);
    let errors = String::from_utf8_lossy(&listed.stderr);
    assert_eq!(listed.status.code(), Some(1), "{}: {errors}", listed.status);
    assert!(errors.contains("(limit `list-items`)"), "{errors}");
}

#[test]
fn a_document_of_14_mb_of_numbers_is_refused_with_less_than_ten_times_its_size() {
    let address = serve(format!(r#"{{"ID":"db","X":[{}0]}}"#, "0,".repeat(SIZE / 2)), true);
    let read = run(&address, 140 << 20, &["volume", "status", "db"]);
    let errors = String::from_utf8_lossy(&read.stderr);
    assert_eq!(read.status.code(), Some(1), "{}: {errors}", read.status);
    assert!(errors.contains("(limit `json-values`)"), "{errors}");
}
