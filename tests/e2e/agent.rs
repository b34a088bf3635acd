//! Starting an agent: it serves, or reports why it cannot.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;

use crate::agent_process::{AgentProcess, program};
use crate::http::Address;
use crate::volumes::{assert_volumes, create, list};

fn output(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_volume_is_created_by_the_real_plugin_and_survives_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let answer = create(&agent.address, "db").unwrap().json();
    assert_eq!(answer["Volumes"][0]["ID"], "db");
    let before = list(&agent.address);
    assert!(agent.stop().success());

    let agent = AgentProcess::start(data.path());
    assert_eq!(list(&agent.address), before);
    let deleted = agent.address.ask("DELETE", "/v1/volume/csi/db/delete", None).unwrap();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_volumes(&agent.address, &BTreeSet::new());
}

#[test]
fn the_unix_socket_serves_the_same_api() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    assert_eq!(list(&Address::Unix(agent.socket.clone())), list(&agent.address));
}

#[test]
fn a_second_agent_on_the_directory_reports_the_first() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let mut second = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    second.arg("--data-dir").arg(data.path());
    let (code, stderr) = output(second);
    assert_eq!(code, Some(1), "{stderr}");
    for expected in
        [format!("process {}", agent.pid()), format!("unix://{}", agent.socket.display())]
    {
        assert!(stderr.contains(&expected), "{expected:?} is not in: {stderr}");
    }
    create(&agent.address, "still-served").unwrap().json();
}

#[test]
fn a_port_in_use_is_reported_and_the_directory_is_released() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut agent = program(["agent", "--dev", "--http", &address.to_string()]);
    agent.arg("--data-dir").arg(data.path());
    let (code, stderr) = output(agent);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(&format!("cannot listen on `{address}`")), "{stderr}");
    assert!(stderr.contains("--http ADDR:PORT"), "{stderr}");
    assert!(AgentProcess::start(data.path()).stop().success());
}

#[test]
fn a_public_address_requires_a_flag() {
    let (code, stderr) = output(program(["agent", "--dev", "--http", "0.0.0.0:0"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("--allow-unauthenticated"), "{stderr}");
}

#[test]
fn a_data_directory_with_a_long_path_is_served() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("d".repeat(120)).join("e".repeat(120));
    let agent = AgentProcess::start(&data);
    create(&agent.address, "db").unwrap().json();
    let socket = agent.socket.clone();
    assert!(agent.stop().success());
    assert!(!socket.parent().unwrap().exists());
}

/// W50: mount flags may contain passwords (CIFS). Like secrets, they are in no file of the agent in the
/// clear, and are still compared.
#[test]
fn no_file_contains_a_secret_or_a_mount_flag() {
    // A combination of valid flags that nothing else writes.
    const FLAG: &str = "relatime,bind,nodiratime,dev";
    const TOKEN: &str = "canary-91c2e7";
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    let external_id = list(&agent.address)[0].1.clone();
    let register = |agent: &AgentProcess| {
        let volume = json!({
            "ID": "sealed",
            "Name": "sealed",
            "PluginID": "hostpath",
            "ExternalID": external_id,
            "Secrets": {"token": TOKEN},
            "MountOptions": {"FSType": "", "MountFlags": [FLAG]},
            "RequestedCapabilities": [
                {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
            ],
        });
        let body = json!({ "Volumes": [volume] });
        let put = agent.address.ask("PUT", "/v1/volume/csi/sealed?share=true", Some(&body));
        let volume = put.unwrap().json()["Volumes"][0].clone();
        assert_eq!(volume["MountOptions"]["MountFlags"], json!(["[REDACTED]"]));
        volume["ModifyIndex"].clone()
    };
    let first = register(&agent);
    assert_eq!(register(&agent), first, "an identical request changes nothing");
    agent.kill();
    let agent = AgentProcess::start(data.path());
    assert_eq!(register(&agent), first, "an identical request changes nothing after a restart");
    assert!(agent.stop().success());
    let files = files_below(data.path());
    assert!(files.iter().any(|file| file.ends_with("journal.redb")));
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        for canary in [FLAG, TOKEN] {
            let found = bytes.windows(canary.len()).any(|bytes| bytes == canary.as_bytes());
            assert!(!found, "{canary} is in {}", file.display());
        }
    }
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(files_below(&entry.path()));
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files
}
