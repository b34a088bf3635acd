//! What a web page of a stranger makes a browser send: it is refused before anything happens.

use std::collections::BTreeSet;

use serde_json::json;

use crate::agent_process::{AgentProcess, program};
use crate::http::{Address, Answer};
use crate::volumes::{assert_volumes, create};

fn send(agent: &Address, line: &str, headers: &[&str], body: &str) -> Answer {
    let length = body.len();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!(
        "{line} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    agent.send(&[head.as_bytes(), body.as_bytes()]).unwrap()
}

/// Every kind of route, also paths that do not exist.
const ROUTES: &[&str] = &[
    "GET /v1/volumes?type=csi",
    "GET /v1/volume/csi/db",
    "PUT /v1/volumes",
    "POST /v1/volumes",
    "PUT /v1/volume/csi/x",
    "PUT /v1/volume/csi/x/create",
    "DELETE /v1/volume/csi/db",
    "DELETE /v1/volume/csi/db/delete",
    "DELETE /v1/volume/csi/db/detach?node=x",
    "GET /v1/volumes/external?plugin_id=hostpath",
    "GET /v1/volumes/snapshot?plugin_id=hostpath",
    "PUT /v1/volumes/snapshot",
    "DELETE /v1/volumes/snapshot?plugin_id=hostpath&snapshot_id=x",
    "GET /v1/plugins?type=csi",
    "GET /v1/plugin/csi/hostpath",
    "GET /v1/nodes",
    "POST /v1/search",
    "GET /v1/agent/self",
    "GET /v1/agent/health",
    "GET /v1/status/leader",
    "GET /v1/status/peers",
    "GET /v1/regions",
    "GET /v1/namespaces",
    "GET /v1/namespace/default",
    "PUT /v1/namespace",
    "DELETE /v1/namespace/x",
    "GET /v1/event/stream?index=x",
    "PUT /v1/job/x/placement",
    "GET /v1/vars",
    "GET /v1/var/app",
    "PUT /v1/var/app",
    "POST /v1/var/app",
    "DELETE /v1/var/app",
    "GET /",
    "GET /ui/",
    "GET /metrics",
    "GET /v1/metrics",
    "OPTIONS /v1/volumes",
    "HEAD /v1/volumes",
];

fn is_write(line: &str) -> bool {
    !line.starts_with("GET") && !line.starts_with("HEAD")
}

#[test]
fn a_page_of_a_stranger_reaches_no_route_over_tcp_or_the_socket() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    let variable = json!({"Namespace": "default", "Path": "app", "Items": {"password": "hunter2"}});
    let put = agent.address.ask("PUT", "/v1/var/app", Some(&variable));
    assert_eq!(put.unwrap().status, 200);
    let body = json!({"Volumes": [{"ID": "planted"}]}).to_string();
    let local = "host: 127.0.0.1:4646";
    for address in [&agent.address, &Address::Unix(agent.socket.clone())] {
        for line in ROUTES {
            // DNS rebinding, and a page of another origin.
            for headers in [
                vec!["host: evil.example"],
                vec!["host: evil.example:4646", "origin: http://evil.example:4646"],
                vec![local, "origin: http://evil.example"],
                vec![local, "origin: null"],
                vec![local, "origin: http://localhost:3000"],
            ] {
                let answer = send(address, line, &headers, &body);
                assert_eq!(answer.status, 403, "{line} {headers:?}: {}", answer.text());
                assert!(!answer.text().contains("hunter2"));
                if !line.starts_with("HEAD") {
                    assert!(answer.text().contains("--allow-host"), "{}", answer.text());
                }
                let head = answer.head.to_ascii_lowercase();
                assert!(!head.contains("access-control-"), "{head}");
            }
            // A form, which a page can send without asking. The browser adds where the page is from.
            for content_type in
                ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
            {
                let content_type = format!("content-type: {content_type}");
                let headers = [local, "sec-fetch-site: cross-site", &content_type];
                let answer = send(address, line, &headers, &body);
                assert_eq!(answer.status == 415, is_write(line), "{line}: {}", answer.text());
            }
        }
    }
    assert_volumes(&agent.address, &BTreeSet::from(["db".to_owned()]));
    let kept = agent.address.ask("GET", "/v1/var/app", None).unwrap().json();
    assert_eq!(kept["Items"]["password"], "hunter2");
}

#[test]
fn programs_of_this_machine_are_answered_under_every_own_name() {
    let data = tempfile::tempdir().unwrap();
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data.path());
    command.args(["--allow-host", "nas.lan", "--allow-host", "192.0.2.7"]);
    let agent = AgentProcess::run(command);
    let body = json!({"Items": {"a": "1"}}).to_string();
    for address in [&agent.address, &Address::Unix(agent.socket.clone())] {
        for host in [
            "127.0.0.1:4646",
            "127.0.0.1",
            "localhost:4646",
            "localhost",
            "[::1]:4646",
            "nas.lan:80",
            "192.0.2.7",
        ] {
            let host = format!("host: {host}");
            let answer = send(address, "GET /v1/volumes?type=csi", &[&host], "");
            assert_eq!((answer.status, answer.text().as_str()), (200, "[]"), "{host}");
            for content_type in [
                "",
                "content-type: application/json",
                "Content-Type: application/json; charset=utf-8",
                // As curl declares it.
                "Content-Type: application/x-www-form-urlencoded",
            ] {
                let headers = [host.as_str(), content_type];
                let headers = &headers[..if content_type.is_empty() { 1 } else { 2 }];
                let answer = send(address, "PUT /v1/var/app", headers, &body);
                assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
            }
        }
        let page = ["host: nas.lan", "origin: https://nas.lan"];
        assert_eq!(send(address, "GET /v1/volumes", &page, "").status, 200);
    }
}

#[test]
fn a_name_that_is_no_host_is_refused_at_the_start() {
    let mut command = program(["agent", "--dev", "--allow-host", "http://nas"]);
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot allow the host `http://nas`"), "{message}");
}
