//! `agent key rotate` on the data directory of a real agent.

use std::path::Path;
use std::process::Output;

use serde_json::json;

use crate::agent_process::{AgentProcess, program};
use crate::volumes::{create, list};

fn rotate(data: &Path) -> Output {
    let mut command = program(["agent", "key", "rotate", "--data-dir"]);
    command.arg(data).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn secrets_are_read_after_the_key_was_rotated() {
    let data = tempfile::tempdir().unwrap();
    let key = || std::fs::read_to_string(data.path().join("secrets.key")).unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    let variable = json!({"Path": "app/db", "Items": {"password": "hunter2"}});
    let put = agent.address.ask("PUT", "/v1/var/app/db", Some(&variable)).unwrap();
    assert_eq!(put.status, 200, "{put:?}");
    let refused = rotate(data.path());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let message = text(&refused.stderr);
    assert!(message.contains("holds the lock of the data directory"), "{message}");
    assert!(agent.stop().success());
    let before = key();
    let rotated = rotate(data.path());
    assert!(rotated.status.success(), "{}", text(&rotated.stderr));
    // The settings of the job that runs the plugin are sealed as well.
    let secrets = match rustix::process::geteuid().is_root() {
        true => "2 secrets",
        false => "1 secret",
    };
    let expected = format!(
        "Rotated the key of {}: {secrets} sealed with the new key\n",
        data.path().display()
    );
    assert_eq!(text(&rotated.stdout), expected);
    assert_ne!(key(), before);
    let agent = AgentProcess::start(data.path());
    let read = agent.address.ask("GET", "/v1/var/app/db", None).unwrap();
    assert_eq!(read.json()["Items"]["password"], "hunter2");
    assert_eq!(list(&agent.address).len(), 1);
    assert!(agent.stop().success());
    std::fs::write(data.path().join("secrets.key"), before).unwrap();
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0", "--data-dir"]);
    let old = command.arg(data.path()).output().unwrap();
    let message = text(&old.stderr);
    assert!(message.contains("error[key/wrong]"), "{message}");
}
